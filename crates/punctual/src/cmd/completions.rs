//! `punctual completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Context;
use crate::cli::Cli;
use crate::exit::Exit;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual completions bash > ~/.local/share/bash-completion/completions/punctual\n  \
    punctual completions fish > ~/.config/fish/completions/punctual.fish")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

pub(crate) fn run(args: CompletionsArgs, context: &Context) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "punctual", &mut script);
    context.out.write(&String::from_utf8(script)?)?;
    Ok(Exit::Ok)
}
