//! `punctual job …`: the verbs in full, of which some have shortcuts.

mod command;

pub(crate) use command::{JobCommand, JobIds, command};

use clap::Subcommand;
use punctual_core::JobId;

use super::{Context, logs, ps, run, wait};
use crate::exit::Exit;
use crate::view;

#[derive(Debug, Subcommand)]
pub(crate) enum JobVerb {
    /// List jobs, the latest scheduled first
    #[command(aliases = ["ls"])]
    List(ps::Filter),
    /// Show a job with all its attempts
    #[command(aliases = ["show"])]
    Get {
        /// The job's id, as `punctual run` and `punctual ps` print it
        #[arg(value_name = "ID")]
        id: JobId,
    },
    /// Create a job: now, later, or at a given time (same as `punctual run`)
    #[command(aliases = ["submit", "run", "add"])]
    Create(Box<run::RunArgs>),
    /// End jobs (same as `punctual cancel`)
    Cancel(JobIds),
    /// Delete jobs that have not started
    #[command(aliases = ["remove", "rm"])]
    Delete(JobIds),
    /// Run finished jobs again
    Retry(JobIds),
    /// Start waiting jobs now
    RunNow(JobIds),
    /// Show what a job wrote (same as `punctual logs`)
    Logs(logs::LogsArgs),
    /// Wait until jobs have finished (same as `punctual wait`)
    Wait(wait::WaitArgs),
}

pub(crate) async fn run(verb: JobVerb, context: &Context) -> anyhow::Result<Exit> {
    match verb {
        JobVerb::List(filter) => ps::list(&filter, context).await,
        JobVerb::Get { id } => {
            view::job(&context.out, &context.client()?.job(id).await?)?;
            Ok(Exit::Ok)
        }
        JobVerb::Create(args) => run::run(*args, context).await,
        JobVerb::Cancel(ids) => command(JobCommand::Cancel, ids, context).await,
        JobVerb::Delete(ids) => command(JobCommand::Delete, ids, context).await,
        JobVerb::Retry(ids) => command(JobCommand::Retry, ids, context).await,
        JobVerb::RunNow(ids) => command(JobCommand::RunNow, ids, context).await,
        JobVerb::Logs(args) => logs::run(args, context).await,
        JobVerb::Wait(args) => wait::run(args, context).await,
    }
}
