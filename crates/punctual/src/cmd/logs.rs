//! `punctual logs`.

use std::time::Duration;

use clap::Args;
use futures_util::StreamExt;
use punctual_client::{Client, ClientError, LogChunk, LogEvent, Logs};
use punctual_core::JobId;
use serde_json::json;

use super::Context;
use crate::exit::Exit;
use crate::output::Format;

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    #[arg(value_name = "ID")]
    id: JobId,
    /// Go on until the job has finished
    #[arg(short, long)]
    follow: bool,
    /// Which attempt, from 1; the latest unless told
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
}

/// Between attempts to find the server again; it may be restarting.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
const RECONNECTS_MAX: u32 = 60;

pub(crate) async fn run(args: LogsArgs, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let logs = Logs { attempt: args.attempt, offset: 0 };
    if args.follow {
        follow(&client, args.id, logs, context).await?;
    } else {
        read(&client, args.id, logs, context).await?;
    }
    Ok(Exit::Ok)
}

async fn read(client: &Client, id: JobId, mut logs: Logs, context: &Context) -> anyhow::Result<()> {
    loop {
        let chunk = client.logs(id, logs).await?;
        if chunk.next_offset <= logs.offset {
            break;
        }
        logs.offset = chunk.next_offset;
        show(&chunk, context)?;
    }
    if logs.offset == 0 {
        context.out.hint(&format!("Nothing was written so far. See how it stands: punctual explain {id}"));
    }
    Ok(())
}

/// Prints the log until the job has finished, over restarts of the server.
pub(crate) async fn follow(client: &Client, id: JobId, mut logs: Logs, context: &Context) -> anyhow::Result<()> {
    let mut lost = 0;
    loop {
        let broken = match client.follow_logs(id, logs).await {
            Ok(events) => {
                let mut events = std::pin::pin!(events);
                loop {
                    match events.next().await {
                        Some(Ok(LogEvent::Text(chunk))) => {
                            lost = 0;
                            logs.offset = chunk.next_offset;
                            show(&chunk, context)?;
                        }
                        Some(Ok(LogEvent::End)) => return Ok(()),
                        Some(Err(error)) => break Some(error),
                        None => break None,
                    }
                }
            }
            Err(error @ ClientError::Unreachable { .. }) if lost > 0 => Some(error),
            Err(error) => return Err(error.into()),
        };
        lost += 1;
        match broken {
            Some(error @ ClientError::BadAnswer { .. }) => return Err(error.into()),
            Some(error) if lost > RECONNECTS_MAX => return Err(error.into()),
            _ => tokio::time::sleep(RECONNECT_PAUSE).await,
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
