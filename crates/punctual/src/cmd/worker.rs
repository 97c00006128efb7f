//! `punctual worker`.

use clap::{Args, Subcommand};
use punctual_api::{WorkerQuery, WorkerView, limits};
use punctual_core::{EnrolmentId, characters};
use punctual_exec::Account;

use super::Context;
use super::worker_tokens::{self, EnrolmentArgs, TokenVerb};
use crate::access::TrustedUsers;
use crate::config::{Origin, WorkerFlags, WorkerSettings};
use crate::exit::{Exit, usage};
use crate::folders::make_data_dir;
use crate::join;
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
    /// Manage the tokens with which workers on other hosts join
    #[command(subcommand)]
    Token(TokenVerb),
    /// List the workers that joined with a token, and what they may do
    Enrolments(EnrolmentArgs),
    /// Change the namespaces whose jobs workers that joined run; it counts within 5 seconds, and what they run goes on
    Edit {
        /// The ids of their enrolments, as `punctual worker enrolments` lists them
        #[arg(required = true, value_name = "ID")]
        ids: Vec<EnrolmentId>,
        /// The namespaces whose jobs they run from now on, separated by commas
        #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
        namespaces: Vec<String>,
    },
    /// Cut workers that joined off: within seconds they are nobody, and what they run is lost
    Revoke {
        /// The ids of their enrolments, as `punctual worker enrolments` lists them
        #[arg(required = true, value_name = "ID")]
        ids: Vec<EnrolmentId>,
    },
}

/// The name of this machine, for people; nothing depends on it.
pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "worker".to_owned() } else { name.to_owned() }
}

pub(crate) async fn run(args: WorkerArgs, context: &Context) -> anyhow::Result<Exit> {
    match args.verb {
        Some(WorkerVerb::List { all }) => return list(all, context).await,
        Some(WorkerVerb::Token(verb)) => return worker_tokens::run(verb, context).await,
        Some(WorkerVerb::Enrolments(args)) => return worker_tokens::enrolments(args, context).await,
        Some(WorkerVerb::Edit { ids, namespaces }) => return worker_tokens::edit(ids, namespaces, context).await,
        Some(WorkerVerb::Revoke { ids }) => return worker_tokens::revoke(ids, context).await,
        None => {}
    }
    args.name.as_deref().map_or(Ok(()), check_name)?;
    context.start_logging("info")?;
    // A wrong address is told at once; a server that is not there yet is waited for.
    let client = context.client()?;
    let servers: Vec<String> = client.urls().map(str::to_owned).collect();
    let authorities = context.trusted_authorities(&client)?;
    let mut settings = WorkerSettings::new(&context.config)?;
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
    let join = join::options(&context.config, &settings, &servers)?;
    // One that joined serves all queues that it may, unless somebody names some of them.
    if join.is_some() && context.config.value("queues").origin == Origin::Default {
        settings.queues.clear();
    }
    let (token, plain_http) = (context.token_source()?, context.plain_http()?);
    let name = args.name.clone().unwrap_or_else(host_name);
    let trusted_users = TrustedUsers::new(&context.config)?;
    let options = WorkerOptions { servers, name, settings, token, trusted_users, plain_http, authorities, join };
    wiring::run_worker(options, stop.requested()).await?;
    Ok(Exit::Ok)
}

/// Servers refuse such a name, and a worker would go on to ask them for ever.
fn check_name(name: &str) -> anyhow::Result<()> {
    let hint = "give it a short name, such as build-7";
    if name.chars().count() > limits::LABEL_CHARS_MAX {
        return Err(usage(format!("--name must be at most {} characters", limits::LABEL_CHARS_MAX), hint));
    }
    match characters::misleading(name) {
        Some(character) => Err(usage(format!("--name must not contain {}", characters::named(character)), hint)),
        None => Ok(()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_servers_refuse_is_refused_at_once() {
        assert!(check_name("build-7").is_ok());
        let said = |name: &str| check_name(name).unwrap_err().to_string();
        assert!(said("w\u{202e}").contains("must not contain U+202E"), "{}", said("w\u{202e}"));
        assert!(said(&"w".repeat(300)).contains("at most 256 characters"), "{}", said(&"w".repeat(300)));
    }
}
