//! The command line: parses, loads the settings, calls one command, and turns its
//! answer into output and an exit code.

mod access;
mod address;
mod agents;
mod bench;
mod clean;
mod cli;
mod clock;
mod cmd;
mod config;
mod context;
mod exit;
mod field_flags;
mod folders;
mod input;
mod join;
mod memory;
mod openid;
mod output;
mod password;
mod program_users;
mod quota_args;
mod random;
mod reconnection;
mod root_key;
mod saved_contexts;
mod screen;
mod secret_files;
mod signals;
mod stores;
mod table;
mod task_flags;
mod tips;
mod tls;
mod trust;
mod upload;
mod view;
mod wait_hints;
mod when;
mod wiring;
mod zone;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command, Failure, Threads};
use crate::context::Context;
use crate::exit::{Exit, OutputClosed, Report};
use crate::output::{Format, note};

fn main() -> ExitCode {
    // While there is one thread: what it forks must not depend on others.
    if std::env::args_os().nth(1).is_some_and(|first| first == wiring::SANDBOX_LAUNCHER) {
        punctual_sandbox::launcher_main();
    }
    punctual_sandbox::keep_files_private();
    memory::give_back_what_is_freed();
    let cli = Cli::try_parse().map_err(tips::with_tip).unwrap_or_else(|error| {
        let _ = error.print();
        let code = if error.use_stderr() && cli::runs_a_file(std::env::args_os()) {
            Exit::NotRun.code().into()
        } else {
            error.exit_code()
        };
        std::process::exit(code);
    });
    let failure = cli.command.failure();
    if let Command::Agent(args) = &cli.command
        && let Err(error) = punctual_agent::guard_this_process(args.tie())
    {
        note(&format!("error: an agent cannot guard itself: {error}"));
        return Exit::Error.into();
    }
    let context = match Context::new(&cli) {
        Ok(context) => context,
        Err(error) => return report(&error, Format::Table, failure).into(),
    };
    let format = context.out.format;
    match run(cli, context) {
        Ok(exit) => exit.into(),
        Err(error) => report(&error, format, failure).into(),
    }
}

fn run(cli: Cli, context: Context) -> anyhow::Result<Exit> {
    let mut builder = match cli.command.threads() {
        Threads::One => tokio::runtime::Builder::new_current_thread(),
        Threads::Many => many_threads(),
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
            // A command may have something to say about Ctrl-C.
            biased;
            result = cmd::dispatch(cli.command, &context) => result,
            _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
        }
    });
    // A thread may still wait for input that never comes.
    runtime.shutdown_background();
    result
}

/// Half as many threads as cores: what a request waits for is a commit, and a hand-over from thread to thread
/// costs more than it gains. The engine, the database and what jobs run need the other half.
fn many_threads() -> tokio::runtime::Builder {
    const ASKED_FOR: &str = "TOKIO_WORKER_THREADS";
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if std::env::var_os(ASKED_FOR).is_none() {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        builder.worker_threads(cores.div_ceil(2));
    }
    builder
}

fn report(error: &anyhow::Error, format: Format, failure: Failure) -> Exit {
    if error.is::<OutputClosed>() {
        return Exit::Ok;
    }
    let report = match failure {
        Failure::HasItsCode => Report::new(error),
        Failure::BesideAProgram => Report::new(error).beside_a_program(),
    };
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
