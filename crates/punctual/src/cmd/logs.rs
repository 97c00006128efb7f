//! `punctual logs`.

use clap::Args;
use futures_util::StreamExt;
use punctual_api::{ErrorKind, Job, LogLine};
use punctual_client::{Client, ClientError, LogChunk, LogEvent, LogFormat, LogPlace, Logs};
use punctual_core::{JobId, JobState};
use serde_json::json;

use super::Context;
use crate::clean;
use crate::exit::{Exit, Refusal};
use crate::output::{Format, Raw};
use crate::reconnection::{RECONNECT_PAUSE, Reconnection};
use crate::wait_hints::{DueTime, tell_why_they_wait};
use crate::when::whole;

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The job's id, as `punctual run` and `punctual ps` print it
    #[arg(value_name = "ID")]
    id: JobId,
    /// Go on from attempt to attempt until the job has finished
    #[arg(short, long)]
    follow: bool,
    /// Only this attempt, from 1 [default: the latest]
    #[arg(long, value_name = "N", value_parser = whole::<u32, 1, 4_294_967_295>)]
    attempt: Option<u32>,
    /// Begin with the last N lines
    #[arg(short = 'n', long, value_name = "N", value_parser = whole::<usize, 0, 4_294_967_295>)]
    tail: Option<usize>,
    /// Only these bytes: 0-99, 100- or -100 for the last hundred
    #[arg(long, value_name = "RANGE", value_parser = parse_range, allow_hyphen_values = true, conflicts_with_all = ["follow", "tail"])]
    range: Option<String>,
    /// Show whole lines, each with the time and the stream that it was written to
    #[arg(short, long, conflicts_with = "range")]
    timestamps: bool,
    /// Pass control sequences to the terminal; without it they are shown as codes, such as ^[[31m. A pipe gets them in any case
    #[arg(long)]
    raw: bool,
}

fn parse_range(text: &str) -> Result<String, String> {
    let is_number = |text: &str| text.parse::<u64>().is_ok() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_range = match text.split_once('-') {
        Some((first, "")) => is_number(first),
        Some(("", count)) => is_number(count),
        Some((first, last)) => {
            is_number(first) && is_number(last) && first.parse::<u64>().ok() <= last.parse::<u64>().ok()
        }
        None => false,
    };
    if is_range { Ok(text.to_owned()) } else { Err("must be 0-99, 100- or -100".to_owned()) }
}

pub(crate) async fn run(args: LogsArgs, context: &Context) -> anyhow::Result<Exit> {
    let client = context.client()?;
    if let Some(range) = &args.range {
        let chunk = client.log_range(args.id, args.attempt, range).await.map_err(|error| no_attempt(error, args.id))?;
        show(&chunk, args.raw.into(), context)?;
        return Ok(Exit::Ok);
    }
    let format = if args.timestamps { LogFormat::Lines } else { LogFormat::Text };
    let logs = Logs { attempt: args.attempt, offset: 0, format };
    let mut after = None;
    if let Some(lines) = args.tail {
        let log = read_all(&client, args.id, logs).await?;
        if !log.is_empty() {
            let last = LogChunk {
                text: last_lines(&log.text, lines).to_owned(),
                lines: log.lines[log.lines.len().saturating_sub(lines)..].to_vec(),
                ..log
            };
            show(&last, args.raw.into(), context)?;
        }
        after = (log.attempt > 0).then(|| log.end());
    }
    if args.follow {
        let reconnection = Reconnection::new(None, &context.out);
        let ids = [args.id];
        let telling = tell_why_they_wait(&client, &ids, &[], DueTime::Untold, &context.out);
        tokio::select! {
            job = follow(&client, args.id, logs, after, args.raw.into(), &reconnection, context) => job?,
            never = telling => match never {},
        };
    } else if args.tail.is_none() {
        read(&client, args.id, logs, args.raw.into(), context).await?;
    }
    Ok(Exit::Ok)
}

async fn read(client: &Client, id: JobId, logs: Logs, raw: Raw, context: &Context) -> anyhow::Result<()> {
    let log = read_all(client, id, logs).await?;
    if !log.is_empty() {
        return show(&log, raw, context);
    }
    let job = client.job(id).await?;
    if is_over(&job, logs.attempt) {
        context.out.hint(&format!("It wrote nothing. See how it went: punctual job get {id}"));
    } else {
        context.out.hint(&format!("Nothing was written so far. See how it stands: punctual explain {id}"));
    }
    Ok(())
}

/// What there is of one attempt's log, which is at most 16 megabytes.
async fn read_all(client: &Client, id: JobId, mut logs: Logs) -> anyhow::Result<LogChunk> {
    let mut log = LogChunk { text: String::new(), lines: Vec::new(), attempt: 0, next_offset: 0 };
    loop {
        let chunk = client.logs(id, logs).await.map_err(|error| no_attempt(error, id))?;
        log.attempt = chunk.attempt;
        if chunk.next_offset <= logs.offset {
            return Ok(log);
        }
        log.text += &chunk.text;
        log.lines.extend(chunk.lines);
        log.next_offset = chunk.next_offset;
        // The same attempt to its end, also when the next has begun.
        logs = Logs { attempt: Some(chunk.attempt), offset: chunk.next_offset, ..logs };
    }
}

fn last_lines(text: &str, count: usize) -> &str {
    if count == 0 {
        return "";
    }
    let whole = text.strip_suffix('\n').unwrap_or(text);
    let begin = whole.rmatch_indices('\n').nth(count - 1).map_or(0, |(place, _)| place + 1);
    &text[begin..]
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
    logs: Logs,
    mut after: Option<LogPlace>,
    raw: Raw,
    reconnection: &Reconnection<'_>,
    context: &Context,
) -> anyhow::Result<Job> {
    loop {
        // A stream that breaks off leaves the last words unsaid, also of a job that has finished.
        let mut is_at_end = false;
        let opened = client.follow_logs(id, logs, after).await;
        let broken = match opened {
            Ok(events) => {
                reconnection.found();
                let mut events = std::pin::pin!(events);
                loop {
                    match events.next().await {
                        Some(Ok(LogEvent::Text(chunk))) => {
                            // Or a reader takes the second try for more of the first.
                            if after.is_some_and(|place| place.attempt != chunk.attempt) {
                                context.out.hint(&format!("Attempt {}:", chunk.attempt));
                            }
                            after = Some(chunk.end());
                            show(&chunk, raw, context)?;
                        }
                        Some(Ok(LogEvent::End)) => {
                            is_at_end = true;
                            break None;
                        }
                        None => break None,
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
            Ok(job) if is_at_end && is_over(&job, logs.attempt) => return Ok(job),
            Ok(_) => tokio::time::sleep(RECONNECT_PAUSE).await,
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => return Err(no_attempt(error, id)),
            Err(error) => reconnection.lost(error, id).await?,
        }
    }
}

fn show(chunk: &LogChunk, raw: Raw, context: &Context) -> anyhow::Result<()> {
    match context.out.format {
        Format::Table | Format::Name if !chunk.lines.is_empty() => {
            context.out.write_output_of_program(&with_times(&chunk.lines), raw)
        }
        Format::Table | Format::Name => context.out.write_output_of_program(&chunk.text, raw),
        Format::Json | Format::Jsonl if !chunk.lines.is_empty() => {
            chunk.lines.iter().try_for_each(|line| context.out.line(&clean::json(&json!(line).to_string())))
        }
        Format::Json | Format::Jsonl => {
            let line = json!({ "text": chunk.text, "attempt": chunk.attempt, "next_offset": chunk.next_offset });
            context.out.line(&clean::json(&line.to_string()))
        }
    }
}

/// Such as `2026-12-24T18:00:00.123Z stderr cannot open it`. In UTC, as logs of other programs are.
fn with_times(lines: &[LogLine]) -> String {
    let shown = |line: &LogLine| {
        let time = line.time.map_or_else(|| "-".to_owned(), |time| milliseconds(&time.to_string()));
        format!("{time} {} {}\n", line.stream.as_deref().unwrap_or("-"), line.text)
    };
    lines.iter().map(shown).collect()
}

/// Times of lines are no finer.
fn milliseconds(time: &str) -> String {
    match time.split_once('.') {
        Some((seconds, fraction)) => format!("{seconds}.{}Z", &fraction[..fraction.len().min(3)]),
        None => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_whole_lines() {
        for (text, count, expected) in [
            ("", 3, ""),
            ("one\ntwo\nthree\n", 0, ""),
            ("one\ntwo\nthree\n", 1, "three\n"),
            ("one\ntwo\nthree", 1, "three"),
            ("one\ntwo\nthree\n", 2, "two\nthree\n"),
            ("one\ntwo\n", 9, "one\ntwo\n"),
            ("one\n\n\n", 2, "\n\n"),
        ] {
            assert_eq!(last_lines(text, count), expected, "{count} of {text:?}");
        }
    }

    #[test]
    fn a_range_is_one_that_the_server_grants() {
        for good in ["0-99", "100-", "-100", "5-5"] {
            assert_eq!(parse_range(good).as_deref(), Ok(good));
        }
        for bad in ["", "-", "x", "5", "9-5", "+1-2", "0-1,3-4", "--5"] {
            assert!(parse_range(bad).is_err(), "{bad}");
        }
    }
}
