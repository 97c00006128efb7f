//! `punctual schedule run`.

use std::time::Duration;

use clap::Args;
use punctual_api::{OccurrenceQuery, RunAnswer, RunOutcome, RunRequest};
use punctual_client::Client;
use punctual_core::schedule::{Overlap, Verdict};
use punctual_core::{JobId, Span, Timestamp};

use super::named;
use crate::cmd::Context;
use crate::cmd::wait::{Late, wait_for};
use crate::exit::Exit;
use crate::output::{Format, Output};
use crate::reconnection::Reconnection;
use crate::task_flags::word;
use crate::wait_hints::warn;
use crate::when::parse_span;

/// How often a run that waits for the one before it is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The schedule's name
    #[arg(value_name = "NAME")]
    name: String,
    /// If a run has not ended: allow, skip, queue_one, queue_all or cancel_previous [default: the schedule's own policy]
    #[arg(long, value_name = "POLICY", value_parser = word::<Overlap>)]
    overlap: Option<Overlap>,
    /// Wait until the job has finished; exit with code 3 unless it succeeded
    #[arg(short, long)]
    wait: bool,
    /// With --wait: stop waiting after this time, with exit code 124
    #[arg(long, value_name = "TIME", value_parser = parse_span, requires = "wait")]
    wait_timeout: Option<Span>,
}

pub(super) async fn run(args: &RunArgs, client: &Client, context: &Context) -> anyhow::Result<Exit> {
    let out = &context.out;
    let reconnection = Reconnection::new(args.wait_timeout.map(Span::to_std), out);
    let answer = client.run_schedule(&args.name, &RunRequest { overlap: args.overlap }).await.map_err(named)?;
    warn(&answer.warnings);
    if !args.wait {
        return tell(&args.name, &answer, out);
    }
    let job = match (answer.job, answer.at) {
        (None, Some(at)) if answer.outcome != RunOutcome::Skipped => {
            out.hint(&sentence(&args.name, &answer));
            match released(&args.name, at, client, &reconnection).await? {
                Released::As(job) => Some(job),
                Released::Skipped(explanation) => {
                    out.hint(&explanation);
                    None
                }
                Released::NotYet => {
                    out.hint("--wait-timeout was reached; the run is still queued.");
                    return Ok(Exit::Timeout);
                }
            }
        }
        (job, _) => job,
    };
    let Some(job) = job else {
        return tell(&args.name, &answer, out);
    };
    out.hint(&format!("{job} submitted. The job continues if you stop waiting."));
    reconnection.found();
    wait_for(&[job], &answer.warnings, &reconnection, Late::TimedOut("--wait-timeout"), context).await
}

/// What became of a run that waited for the one before it.
enum Released {
    As(JobId),
    Skipped(String),
    NotYet,
}

async fn released(
    name: &str,
    at: Timestamp,
    client: &Client,
    reconnection: &Reconnection<'_>,
) -> anyhow::Result<Released> {
    let query = OccurrenceQuery {
        from: Some(at.to_string()),
        order: Some("asc".to_owned()),
        limit: Some("1".to_owned()),
        ..OccurrenceQuery::default()
    };
    loop {
        let page = client.occurrences(name, &query).await.map_err(named)?;
        let line = page.occurrences.into_iter().next().filter(|line| line.at == at);
        match line {
            Some(line) if line.verdict == Verdict::Queued.as_str() => {}
            Some(line) => return Ok(line.job.map_or(Released::Skipped(line.explanation), Released::As)),
            None => return Ok(Released::Skipped(format!("{name} has no record of it any more"))),
        }
        if reconnection.left() == Some(Duration::ZERO) {
            return Ok(Released::NotYet);
        }
        tokio::time::sleep(reconnection.left().unwrap_or(LOOK_EVERY).min(LOOK_EVERY)).await;
    }
}

fn tell(name: &str, answer: &RunAnswer, out: &Output) -> anyhow::Result<Exit> {
    match (out.format, answer.job) {
        (Format::Json | Format::Jsonl, _) => out.json(answer)?,
        (Format::Name | Format::Table, Some(job)) => out.line(&job.to_string())?,
        (Format::Name | Format::Table, None) => out.hint(&sentence(name, answer)),
    }
    if let (Format::Table, Some(job)) = (out.format, answer.job) {
        out.hint(&format!("Next: punctual logs -f {job}"));
    }
    Ok(if answer.outcome == RunOutcome::Skipped { Exit::Conflict } else { Exit::Ok })
}

fn sentence(name: &str, answer: &RunAnswer) -> String {
    match answer.outcome {
        RunOutcome::Started => format!("{name} runs."),
        RunOutcome::Queued => {
            format!("{name} waits for the run before it to end. Skip it: punctual schedule clear-queue {name}")
        }
        RunOutcome::CancelsPrevious => {
            format!("{name} runs when the run before it, which is being cancelled, has ended.")
        }
        RunOutcome::Skipped => {
            let reason = answer.reason.as_deref().unwrap_or("a run before it had not ended");
            format!("{name} was not run: {reason}. Run it anyway: punctual schedule run {name} --overlap allow")
        }
    }
}
