//! `punctual batch …`.

use std::time::Duration;

use clap::{Args, Subcommand};
use punctual_api::{BatchQuery, BatchView, MemberQuery, limits};
use punctual_client::{Client, IdempotencyKey};
use punctual_core::{BatchId, Span};
use tokio::time::Instant;

use super::Context;
use super::workflow::yaml;
use crate::exit::{Exit, Refusal, Report, usage};
use crate::input::read_file;
use crate::output::{Format, Output};
use crate::reconnection::RECONNECT_PAUSE;
use crate::view;
use crate::when::{parse_span, whole};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// A restart is over by then; what takes longer needs a person.
const RECONNECT_FOR: Duration = Duration::from_secs(30);

#[derive(Debug, Subcommand)]
pub(crate) enum BatchVerb {
    /// Create a batch from a YAML or JSON file: all members are stored, or none
    #[command(alias = "submit")]
    Create(CreateArgs),
    /// List batches, the latest first
    #[command(aliases = ["ls"])]
    List {
        /// Only batches in this state, such as active or failed
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
        /// How many, at most; 1 to 1000
        #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = whole::<u16, 1, 1000>)]
        limit: u16,
        /// Go on where another list ended
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
    },
    /// Show a batch, with how many of its members are in which state
    #[command(aliases = ["show"])]
    Get {
        /// The batch's id
        #[arg(value_name = "BATCH")]
        batch: BatchId,
    },
    /// List the members of a batch, with their jobs
    Members {
        /// The batch's id
        #[arg(value_name = "BATCH")]
        batch: BatchId,
        /// Only members in this state, such as failed
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
        /// How many, at most; 1 to 1000
        #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = whole::<u16, 1, 1000>)]
        limit: u16,
        /// Go on where another list ended
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
    },
    /// Explain a batch's state: what it waits for, and what happens next
    Explain {
        /// The batch's id
        #[arg(value_name = "BATCH")]
        batch: BatchId,
    },
    /// Wait until a batch has ended; exit with code 3 unless it succeeds
    Wait {
        /// The batch's id
        #[arg(value_name = "BATCH")]
        batch: BatchId,
        /// Stop waiting after this long, with exit code 124
        #[arg(long, value_name = "TIME", value_parser = parse_span)]
        timeout: Option<Span>,
    },
    /// Cancel a batch and its jobs; what succeeded of one that is all or nothing is undone
    Cancel {
        /// The batch's id
        #[arg(value_name = "BATCH")]
        batch: BatchId,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    punctual batch create transfer.yaml\n  \
    punctual batch create transfer.yaml --wait")]
pub(crate) struct CreateArgs {
    /// The members and what is declared about them; - for stdin
    #[arg(value_name = "FILE")]
    file: String,
    /// A key of your own: with it, the same request creates the batch once
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Wait until the batch has ended; exit with code 3 unless it succeeds
    #[arg(short, long)]
    wait: bool,
}

pub(crate) async fn run(verb: BatchVerb, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    let out = &context.out;
    match verb {
        BatchVerb::Create(args) => return create(args, &client, out).await,
        BatchVerb::List { state, limit, cursor } => {
            let page = client.batches(&BatchQuery { state, limit: Some(limit.to_string()), cursor }).await?;
            out.rows(&page.batches, &page)?;
            match &page.next_cursor {
                Some(cursor) => out.hint_more(page.batches.len(), "batch", cursor),
                None if page.batches.is_empty() && out.format == Format::Table => {
                    out.hint("No batches. Create one: punctual batch create FILE");
                }
                None => {}
            }
        }
        BatchVerb::Get { batch } => view::batch::batch(&client.batch(batch).await?, out)?,
        BatchVerb::Members { batch, state, limit, cursor } => {
            let query = MemberQuery { state, limit: Some(limit.to_string()), cursor };
            let page = client.batch_members(batch, &query).await?;
            out.rows(&page.members, &page)?;
            if let Some(cursor) = &page.next_cursor {
                out.hint_more(page.members.len(), "member", cursor);
            }
        }
        BatchVerb::Explain { batch } => {
            let batch = client.batch(batch).await?;
            match out.format {
                Format::Json | Format::Jsonl => out.json(&batch)?,
                Format::Name | Format::Table => out.line(&batch.explanation)?,
            }
        }
        BatchVerb::Wait { batch, timeout } => {
            let batch = client.batch(batch).await?;
            return wait(batch, timeout, &client, out).await;
        }
        BatchVerb::Cancel { batch } => told(&client.cancel_batch(batch).await?, out)?,
    }
    Ok(Exit::Ok)
}

async fn create(args: CreateArgs, client: &Client, out: &Output) -> anyhow::Result<Exit> {
    let CreateArgs { file, idempotency_key, wait: waits } = args;
    let text = read_file(&file)?;
    let request = yaml::read_up_to(&text, limits::BULK_BODY_BYTES_MAX).map_err(|error| {
        usage(format!("{file}: {}", error.0), "write the batch as plain YAML or JSON; see docs/batches.md")
    })?;
    let key = match idempotency_key {
        None => IdempotencyKey::random()?,
        Some(key) => IdempotencyKey::new(&key).ok_or_else(|| {
            usage("--idempotency-key is empty, too long, or not plain ASCII", "use up to 255 letters, digits and signs")
        })?,
    };
    let batch = client.create_batch(&request, &key).await?;
    for warning in &batch.warnings {
        out.hint(&warning.detail);
    }
    if waits {
        return wait(batch, None, client, out).await;
    }
    told(&batch, out)?;
    out.hint(&format!("{} Next: punctual batch wait {}", batch.explanation, batch.id));
    Ok(Exit::Ok)
}

/// What became of a batch, in one line.
fn told(batch: &BatchView, out: &Output) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => out.json(batch),
        Format::Name | Format::Table => out.line(&batch.id.to_string()),
    }
}

async fn wait(mut batch: BatchView, timeout: Option<Span>, client: &Client, out: &Output) -> anyhow::Result<Exit> {
    let id = batch.id;
    let until = timeout.map(|timeout| Instant::now() + timeout.to_std());
    let mut explained = String::new();
    let mut lost_at = None;
    while batch.ended_at.is_none() {
        if batch.explanation != explained {
            explained.clone_from(&batch.explanation);
            out.hint(&explained);
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            view::batch::batch(&batch, out)?;
            return Ok(Exit::Timeout);
        }
        tokio::time::sleep(LOOK_EVERY).await;
        match client.batch(id).await {
            Ok(now) => (batch, lost_at) = (now, None),
            Err(error) if error.may_pass() => {
                let lost_at = *lost_at.get_or_insert_with(Instant::now);
                if lost_at.elapsed() >= RECONNECT_FOR {
                    let message = Report::new(&error.into()).message;
                    let hint = format!("it goes on without us; when the server is back: `punctual batch wait {id}`");
                    return Err(Refusal { exit: Exit::Unreachable, message, hint }.into());
                }
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    view::batch::batch(&batch, out)?;
    Ok(if batch.state == "succeeded" { Exit::Ok } else { Exit::JobFailed })
}
