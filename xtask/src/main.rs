//! The project's own commands: `cargo xtask test | verify <name> | bench | lint`.
//! People and CI run the same ones. Each says what it does, and what it skips and why.

mod browser;
mod containers;
mod dependencies;
mod layers;
mod links;
mod packages;
mod requirements;
mod shell;
mod test;
mod verify;
mod words;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Builds, tests and measures Punctual")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything that must hold before a change lands
    Test,
    /// Formatting, lints, the direction of dependencies and the words of the glossary
    Lint,
    /// Long acceptance runs
    Verify {
        #[command(subcommand)]
        what: verify::Verify,
    },
    /// Figures of the build that is shipped (profile `dist`): `punctual bench`, with its arguments; or `compare`, with other job systems
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Test => test::run(),
        Command::Lint => test::lint(),
        Command::Verify { what } => verify::run(what),
        Command::Bench { args } => bench(&args),
    }
}

fn bench(args: &[String]) -> anyhow::Result<()> {
    if let [first, rest @ ..] = args
        && first == "compare"
    {
        shell::run(&mut shell::cargo(["build", "--profile", "dist", "--package", "punctual"]))?;
        let mut command = shell::cargo(["run", "--profile", "dist", "--package", "punctual-comparison", "--"]);
        return shell::run(command.args(rest));
    }
    let mut command = shell::cargo(["run", "--profile", "dist", "--package", "punctual", "--", "bench"]);
    command.args(args);
    shell::run(&mut command)
}
