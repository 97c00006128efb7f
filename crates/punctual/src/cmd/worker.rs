//! `punctual worker`.

use clap::{Args, Subcommand};
use punctual_api::{WorkerQuery, WorkerView};
use punctual_exec::Account;

use super::Context;
use crate::access::TrustedUsers;
use crate::config::{WorkerFlags, WorkerSettings};
use crate::exit::Exit;
use crate::folders::make_data_dir;
use crate::signals::{Stop, Until};
use crate::wiring::{self, WorkerOptions};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct WorkerArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<WorkerVerb>,
    #[command(flatten)]
    pub(crate) settings: WorkerFlags,
    /// The name that people see [default: this machine's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// End when stdin does
    #[arg(long, hide = true)]
    exit_with_stdin: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkerVerb {
    /// List the workers of all servers with what they run, and those that were lost in the last day
    #[command(aliases = ["ls"])]
    List {
        /// Also workers that shut down normally in the last day
        #[arg(short, long)]
        all: bool,
    },
}

/// The name of this machine, for people; nothing depends on it.
pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "worker".to_owned() } else { name.to_owned() }
}

pub(crate) async fn run(args: WorkerArgs, context: &Context) -> anyhow::Result<Exit> {
    if let Some(WorkerVerb::List { all }) = args.verb {
        return list(all, context).await;
    }
    context.start_logging("info")?;
    // A wrong address is told at once; a server that is not there yet is waited for.
    let servers: Vec<String> = context.client()?.urls().map(str::to_owned).collect();
    let settings = WorkerSettings::new(&context.config)?;
    if let ("", Some(data_dir)) = (context.config.text("spool_dir"), settings.spool_dir.parent()) {
        make_data_dir(data_dir, "--spool-dir")?;
    }
    make_data_dir(&settings.spool_dir, "--spool-dir")?;
    let until = if args.exit_with_stdin { Until::StdinCloses } else { Until::Signal };
    let stop = Stop::listen(until, &context.out)?;
    if settings.allow_commands {
        context.out.hint(&commands_allowed(&Account::own().name));
    }
    context.out.hint(&format!("Connecting to {} with {} slots.", servers.join(" and "), settings.slots));
    let (token, plain_http) = (context.token_source()?, context.plain_http()?);
    let name = args.name.unwrap_or_else(host_name);
    let trusted_users = TrustedUsers::new(&context.config)?;
    let options = WorkerOptions { servers, name, settings, token, trusted_users, plain_http };
    wiring::run_worker(options, stop.requested()).await?;
    Ok(Exit::Ok)
}

/// What a worker says at its start.
pub(crate) fn commands_allowed(user: &str) -> String {
    format!("This worker runs commands on this machine as {user} (allow_commands): tasks can do all that {user} can.")
}

async fn list(all: bool, context: &Context) -> anyhow::Result<Exit> {
    let gone = if all { "all" } else { "lost" };
    let list = context.client()?.workers_and(&WorkerQuery { gone: Some(gone.to_owned()) }).await?;
    context.out.rows(&list.workers, &list)?;
    if list.workers.iter().all(WorkerView::is_gone) {
        context.out.hint("No worker is connected. Start one: punctual worker");
    }
    Ok(Exit::Ok)
}
