//! `punctual logs`.

use clap::Args;
use futures_util::StreamExt;
use punctual_api::{ErrorKind, Job};
use punctual_client::{Client, ClientError, LogChunk, LogEvent, Logs};
use punctual_core::{JobId, JobState};
use serde_json::json;

use super::Context;
use super::patience::{Patience, RECONNECT_PAUSE};
use crate::exit::{Exit, Refusal};
use crate::output::Format;

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The job's id, as `punctual run` and `punctual ps` print it
    #[arg(value_name = "ID")]
    id: JobId,
    /// Go on until the job has finished
    #[arg(short, long)]
    follow: bool,
    /// Which attempt, from 1; the latest unless told
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
}

pub(crate) async fn run(args: LogsArgs, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let logs = Logs { attempt: args.attempt, offset: 0 };
    if args.follow {
        let patience = Patience::new(None, &context.out);
        follow(&client, args.id, logs, &patience, context).await?;
    } else {
        read(&client, args.id, logs, context).await?;
    }
    Ok(Exit::Ok)
}

async fn read(client: &Client, id: JobId, mut logs: Logs, context: &Context) -> anyhow::Result<()> {
    loop {
        let chunk = client.logs(id, logs).await.map_err(|error| no_attempt(error, id))?;
        if chunk.next_offset <= logs.offset {
            break;
        }
        logs.offset = chunk.next_offset;
        show(&chunk, context)?;
    }
    if logs.offset == 0 {
        let job = client.job(id).await?;
        if is_over(&job, logs.attempt) {
            context.out.hint(&format!("It wrote nothing. See how it went: punctual job get {id}"));
        } else {
            context.out.hint(&format!("Nothing was written so far. See how it stands: punctual explain {id}"));
        }
    }
    Ok(())
}

/// The server means by "not found" that the job has no such attempt.
fn no_attempt(error: ClientError, id: JobId) -> anyhow::Error {
    if error.kind() != Some(ErrorKind::NotFound) {
        return error.into();
    }
    let hint = format!("see its attempts with `punctual job get {id}`");
    Refusal { exit: Exit::NotFound, message: error.to_string(), hint }.into()
}

/// Whether nothing will be written any more.
fn is_over(job: &Job, attempt: Option<u32>) -> bool {
    let has_ended = |number| {
        let running = JobState::Running.as_str();
        job.attempts.iter().any(|attempt| attempt.attempt == number && attempt.state != running)
    };
    JobState::parse(&job.state).is_some_and(JobState::is_final) || attempt.is_some_and(has_ended)
}

/// Prints the log until the job has finished, over restarts of the server.
pub(crate) async fn follow(
    client: &Client,
    id: JobId,
    mut logs: Logs,
    patience: &Patience<'_>,
    context: &Context,
) -> anyhow::Result<Job> {
    loop {
        let opened = client.follow_logs(id, logs).await;
        let broken = match opened {
            Ok(events) => {
                patience.found();
                let mut events = std::pin::pin!(events);
                loop {
                    match events.next().await {
                        Some(Ok(LogEvent::Text(chunk))) => {
                            logs.offset = chunk.next_offset;
                            show(&chunk, context)?;
                        }
                        Some(Ok(LogEvent::End)) | None => break None,
                        Some(Err(error)) => break Some(error),
                    }
                }
            }
            Err(error) => Some(error),
        };
        // A server that stops ends its streams, too. Only the job tells.
        let looked = match broken {
            None => client.job(id).await,
            Some(error) => Err(error),
        };
        match looked {
            Ok(job) if is_over(&job, logs.attempt) => return Ok(job),
            Ok(_) => tokio::time::sleep(RECONNECT_PAUSE).await,
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => return Err(no_attempt(error, id)),
            Err(error) => patience.lost(error, id).await?,
        }
    }
}

fn show(chunk: &LogChunk, context: &Context) -> anyhow::Result<()> {
    match context.out.format {
        Format::Table | Format::Name => context.out.write(&chunk.text),
        Format::Json | Format::Jsonl => {
            let line = json!({ "text": chunk.text, "next_offset": chunk.next_offset });
            context.out.line(&line.to_string())
        }
    }
}
