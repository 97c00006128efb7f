//! The command line: parses, loads the settings, calls one command, and turns its
//! answer into output and an exit code.

mod bench;
mod cli;
mod cmd;
mod config;
mod exit;
mod output;
mod screen;
mod signals;
mod stores;
mod table;
mod view;
mod when;
mod wiring;
mod world;
mod zone;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Threads};
use crate::cmd::Context;
use crate::exit::{Exit, OutputClosed, Report};
use crate::output::{Format, note};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let context = match Context::new(&cli) {
        Ok(context) => context,
        Err(error) => return report(&error, Format::Table).into(),
    };
    let format = context.out.format;
    match run(cli, context) {
        Ok(exit) => exit.into(),
        Err(error) => report(&error, format).into(),
    }
}

fn run(cli: Cli, context: Context) -> anyhow::Result<Exit> {
    let mut builder = match cli.command.threads() {
        Threads::One => tokio::runtime::Builder::new_current_thread(),
        Threads::Many => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build()?;
    if !cli.command.minds_signals() {
        context.log_requests()?;
    }
    let result = runtime.block_on(async {
        if cli.command.minds_signals() {
            return cmd::dispatch(cli.command, &context).await;
        }
        tokio::select! {
            result = cmd::dispatch(cli.command, &context) => result,
            _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
        }
    });
    // A thread may still wait for input that never comes.
    runtime.shutdown_background();
    result
}

fn report(error: &anyhow::Error, format: Format) -> Exit {
    if error.is::<OutputClosed>() {
        return Exit::Ok;
    }
    let report = Report::new(error);
    match format {
        Format::Json | Format::Jsonl => {
            let envelope = serde_json::json!({ "error": report });
            note(&envelope.to_string());
        }
        Format::Table | Format::Name => note(&format!("error: {}", report.sentence())),
    }
    let exit = Exit::ALL.iter().find(|exit| exit.code() == report.exit_code);
    *exit.expect("every report is made from an exit of the table")
}
