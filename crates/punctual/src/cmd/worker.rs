//! `punctual worker`.

use clap::{Args, Subcommand};
use punctual_api::{WorkerQuery, WorkerView};
use punctual_exec::Account;

use super::Context;
use crate::access::names_a_token;
use crate::cli::given;
use crate::config::WorkerSettings;
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
    flags: WorkerFlags,
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
    List {
        /// Also workers that shut down normally in the last day
        #[arg(short, long)]
        all: bool,
    },
}

/// Flags of workers, alone or with a server. Each is a setting; see `punctual config --help`.
#[derive(Debug, Args)]
pub(crate) struct WorkerFlags {
    /// Jobs that run at the same time [default: 64]
    #[arg(long, value_name = "N")]
    slots: Option<String>,
    /// The queues to serve, with commas [default: default]
    #[arg(long, value_name = "NAMES")]
    queues: Option<String>,
    /// What tasks may ask for, as key=value with commas
    #[arg(long, value_name = "LABELS")]
    labels: Option<String>,
    /// Where to keep what could not be reported yet [default: .punctual/spool]
    #[arg(long, value_name = "DIR")]
    spool_dir: Option<String>,
    /// Where to keep programs that were fetched [default: .punctual/programs]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<String>,
    /// Run each binary by an agent of its own: as a process, or in a container
    #[arg(long, value_name = "WHERE")]
    spawn: Option<String>,
    /// Limits of programs that must hold here: memory, cpu, pids, or none [default: all of them]
    #[arg(long, value_name = "LIMITS")]
    sandbox_require: Option<String>,
    /// Give programs that ask for it a network: what this machine's default route leads to, never loopback
    #[arg(long)]
    allow_network: bool,
    /// Where agents reach the servers [default: as the worker does]
    #[arg(long, value_name = "URLS")]
    agent_server: Option<String>,
    /// The image that agents run in
    #[arg(long, value_name = "IMAGE")]
    container_image: Option<String>,
    /// The network of their containers [default: bridge]
    #[arg(long, value_name = "NETWORK")]
    container_network: Option<String>,
    /// How long running jobs may take to end when the worker stops [default: 30s]
    #[arg(long, value_name = "TIME")]
    drain_timeout: Option<String>,
    /// The attempts to log: up to 100 lines a second, all or none [default: limited]
    #[arg(long, value_name = "limited|all|off")]
    log_attempts: Option<String>,
    /// What tasks may call besides the public internet: ranges and hosts with commas, such as
    /// 10.0.0.0/8,*.corp.example
    #[arg(long, value_name = "PLACES")]
    http_allow: Option<String>,
    /// What tasks may not call, whatever else is allowed
    #[arg(long, value_name = "PLACES")]
    http_deny: Option<String>,
    /// Run commands on this machine, outside the sandbox: whoever can create tasks can then do here what
    /// the worker's user can
    #[arg(long)]
    allow_commands: bool,
    /// Let probes write witness files and kill the worker, for tests
    #[arg(long)]
    probe_effects: bool,
}

impl WorkerFlags {
    pub(crate) fn flags(&self) -> Vec<(&'static str, String)> {
        given([
            ("slots", self.slots.clone()),
            ("queues", self.queues.clone()),
            ("labels", self.labels.clone()),
            ("spool_dir", self.spool_dir.clone()),
            ("cache_dir", self.cache_dir.clone()),
            ("spawn", self.spawn.clone()),
            ("sandbox_require", self.sandbox_require.clone()),
            ("allow_network", self.allow_network.then(|| "true".to_owned())),
            ("agent_server", self.agent_server.clone()),
            ("container_image", self.container_image.clone()),
            ("container_network", self.container_network.clone()),
            ("drain_timeout", self.drain_timeout.clone()),
            ("log_attempts", self.log_attempts.clone()),
            ("http_allow", self.http_allow.clone()),
            ("http_deny", self.http_deny.clone()),
            ("allow_commands", self.allow_commands.then(|| "true".to_owned())),
            ("probe_effects", self.probe_effects.then(|| "true".to_owned())),
        ])
    }
}

impl WorkerArgs {
    pub(crate) fn flags(&self) -> Vec<(&'static str, String)> {
        self.flags.flags()
    }
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
    let trusts_other_users = names_a_token(&context.config);
    let options = WorkerOptions { servers, name, settings, token, trusts_other_users, plain_http };
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
