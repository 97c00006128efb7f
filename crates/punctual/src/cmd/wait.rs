//! `punctual wait`.

use clap::Args;
use futures_util::stream::{FuturesUnordered, StreamExt};
use punctual_api::{Job, Warning};
use punctual_client::{Client, Waited};
use punctual_core::{JobId, JobState, Span};

use super::Context;
use crate::exit::Exit;
use crate::output::{Format, note};
use crate::reconnection::Reconnection;
use crate::view;
use crate::wait_hints::{DueTime, tell_why_they_wait};
use crate::when::parse_span;

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// The jobs' ids, as `punctual run` and `punctual ps` print them
    #[arg(required = true, value_name = "ID")]
    ids: Vec<JobId>,
    /// Give up after this time, with exit code 124
    #[arg(long, visible_alias = "wait-timeout", value_name = "TIME", value_parser = parse_span)]
    timeout: Option<Span>,
    /// Only look; exit with code 8 if a job is still pending
    #[arg(long, conflicts_with = "timeout")]
    no_wait: bool,
}

/// What a job that has not finished means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Late {
    /// The time of this flag is over.
    TimedOut(&'static str),
    OnlyLooked,
}

pub(crate) async fn run(args: WaitArgs, context: &Context) -> anyhow::Result<Exit> {
    let (limit, late) = match args.no_wait {
        true => (Some(Span::ZERO), Late::OnlyLooked),
        false => (args.timeout, Late::TimedOut("--timeout")),
    };
    let reconnection = Reconnection::new(limit.map(Span::to_std), &context.out);
    wait_for(&args.ids, &[], &reconnection, late, context).await
}

/// Prints each job as it finishes. Failures count more than lateness. `warnings` were told already.
pub(crate) async fn wait_for(
    ids: &[JobId],
    warnings: &[Warning],
    reconnection: &Reconnection<'_>,
    late: Late,
    context: &Context,
) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let mut waiting: FuturesUnordered<_> = ids.iter().map(|&id| wait_one(&client, id, reconnection)).collect();
    let mut pending = None;
    let mut exit = Exit::Ok;
    let mut finished = Vec::new();
    let mut broken = None;
    let mut telling = std::pin::pin!(tell_why_they_wait(&client, ids, warnings, DueTime::Told, &context.out));
    loop {
        let waited = tokio::select! {
            waited = waiting.next() => waited,
            never = &mut telling => match never {},
        };
        let Some(waited) = waited else { break };
        match waited {
            Ok(Waited::Finished(job)) => {
                if of_state(&job.state) != Exit::Ok {
                    exit = Exit::JobFailed;
                }
                match context.out.format {
                    // Several jobs are one list, and so have to wait for the last.
                    Format::Json if ids.len() > 1 => finished.push(job),
                    Format::Table if ids.len() > 1 => {
                        context.out.line(&format!("{}  {}", job.id, context.out.state_text(&job.state)))?;
                    }
                    Format::Table | Format::Json | Format::Jsonl | Format::Name => view::job(&context.out, &job)?,
                }
            }
            Ok(Waited::Pending(job)) => {
                say_pending(&job, context);
                pending.get_or_insert(job.id);
            }
            Err(error) => {
                broken = Some(error);
                break;
            }
        }
    }
    if context.out.format == Format::Json && ids.len() > 1 {
        context.out.json(&finished)?;
    }
    match (broken, pending) {
        (Some(error), _) => Err(error),
        (None, Some(id)) if exit == Exit::Ok => Ok(gave_up(id, late, context)),
        (None, _) => Ok(exit),
    }
}

/// Waits for one job and prints nothing but why it waits.
pub(crate) async fn wait_finished(
    client: &Client,
    id: JobId,
    warnings: &[Warning],
    reconnection: &Reconnection<'_>,
    context: &Context,
) -> anyhow::Result<Waited> {
    let ids = [id];
    let telling = tell_why_they_wait(client, &ids, warnings, DueTime::Told, &context.out);
    tokio::select! {
        waited = wait_one(client, id, reconnection) => waited,
        never = telling => match never {},
    }
}

async fn wait_one(client: &Client, id: JobId, reconnection: &Reconnection<'_>) -> anyhow::Result<Waited> {
    loop {
        let waited = if reconnection.is_lost() {
            // A short question first: only an answer tells that the server is back.
            client.job(id).await.map(|_| None)
        } else {
            client.wait_finished(id, reconnection.left()).await.map(Some)
        };
        match waited {
            Ok(Some(waited)) => return Ok(waited),
            Ok(None) => reconnection.found(),
            Err(error) => reconnection.lost(error, id).await?,
        }
    }
}

pub(crate) fn say_pending(job: &Job, context: &Context) {
    note(&format!("{} is still {}: {}", job.id, job.state, context.out.zone.localize(&job.explanation)));
}

/// Says how to go on after a wait that was too short.
pub(crate) fn gave_up(id: JobId, late: Late, context: &Context) -> Exit {
    let (exit, longer) = match late {
        Late::TimedOut(flag) => (Exit::Timeout, format!(" (longer: {flag})")),
        Late::OnlyLooked => (Exit::Pending, String::new()),
    };
    context.out.hint(&format!("Wait for it with `punctual wait {id}`{longer}; see why with `punctual explain {id}`."));
    exit
}

/// What waiting for a job that ended like this exits with.
pub(crate) fn of_state(state: &str) -> Exit {
    if state == JobState::Succeeded.as_str() { Exit::Ok } else { Exit::JobFailed }
}
