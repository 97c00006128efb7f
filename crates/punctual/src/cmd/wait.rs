//! `punctual wait`.

use clap::Args;
use futures_util::stream::{FuturesUnordered, StreamExt};
use punctual_client::Waited;
use punctual_core::{JobId, JobState, Span};

use super::Context;
use crate::exit::Exit;
use crate::output::{Format, note};
use crate::view;
use crate::when::parse_span;

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    #[arg(required = true, value_name = "ID")]
    ids: Vec<JobId>,
    /// Give up after this time, with exit code 124
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    timeout: Option<Span>,
    /// Only look; exit with code 8 if a job is still pending
    #[arg(long, conflicts_with = "timeout")]
    no_wait: bool,
}

pub(crate) async fn run(args: WaitArgs, context: &Context) -> anyhow::Result<Exit> {
    let limit = if args.no_wait { Some(Span::ZERO) } else { args.timeout };
    let when_late = if args.no_wait { Exit::Pending } else { Exit::Timeout };
    wait_for(&args.ids, limit, when_late, context).await
}

/// Prints each job as it finishes. Failures count more than lateness.
pub(crate) async fn wait_for(
    ids: &[JobId],
    limit: Option<Span>,
    when_late: Exit,
    context: &Context,
) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let limit = limit.map(Span::to_std);
    let mut waiting: FuturesUnordered<_> = ids.iter().map(|&id| client.wait_finished(id, limit)).collect();
    let mut late = 0;
    let mut exit = Exit::Ok;
    while let Some(waited) = waiting.next().await {
        match waited? {
            Waited::Finished(job) => {
                if of_state(&job.state) != Exit::Ok {
                    exit = Exit::JobFailed;
                }
                match context.out.format {
                    Format::Table if ids.len() > 1 => {
                        context.out.line(&format!("{}  {}", job.id, context.out.state_text(&job.state)))?;
                    }
                    Format::Table | Format::Json | Format::Jsonl | Format::Name => view::job(&context.out, &job)?,
                }
            }
            Waited::Pending(job) => {
                late += 1;
                note(&format!("{} is still {}: {}", job.id, job.state, job.explanation));
            }
        }
    }
    if late > 0 && exit == Exit::Ok {
        context.out.hint("Wait longer with --timeout, or see why with `punctual explain ID`.");
        return Ok(when_late);
    }
    Ok(exit)
}

/// What waiting for a job that ended like this exits with.
pub(crate) fn of_state(state: &str) -> Exit {
    if state == JobState::Succeeded.as_str() { Exit::Ok } else { Exit::JobFailed }
}
