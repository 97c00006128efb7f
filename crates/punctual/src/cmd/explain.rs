//! `punctual explain`: a job, a state, a verdict, an error code or an exit code in words.

use clap::Args;
use punctual_api::occurrence::MARKS;
use punctual_api::{ErrorKind, Job, JobNotification, LateOutcome, NodeView, RetryCount, TaskDefinition};
use punctual_core::schedule::{Marks, Verdict};
use punctual_core::{JobId, JobState, RunId, Timestamp};
use serde::Serialize;
use serde_json::json;

use super::Context;
use crate::exit::{Exit, usage, what_to_do};
use crate::output::{Format, Output};
use crate::view;

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The id of a job or of a run of a workflow, a state, a verdict or a mark of a planned time, an error code or an exit code
    #[arg(value_name = "ID|WORD")]
    what: String,
}

/// A word with what it means.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Meaning {
    word: String,
    /// What kind of word it is.
    kind: &'static str,
    meaning: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    http_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    what_to_do: Option<String>,
}

impl Meaning {
    fn text(&self) -> String {
        let text = match (self.http_status, self.exit_code) {
            (Some(status), Some(code)) => format!("{} (HTTP status {status}, exit code {code})", self.meaning),
            _ => self.meaning.clone(),
        };
        match &self.what_to_do {
            Some(to_do) => format!("{text}\nWhat to do: {to_do}."),
            None => text,
        }
    }
}

/// What explains a job.
#[derive(Serialize)]
struct Explained<'a> {
    id: JobId,
    title: &'a str,
    state: &'a str,
    scheduled_at: Timestamp,
    due_at: Timestamp,
    explanation: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_for: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    definition: Option<&'a TaskDefinition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retries: Option<RetryCount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_retries: Option<RetryCount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notification: Option<&'a JobNotification>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    late_outcomes: &'a [LateOutcome],
}

/// What a job runs, and what else there is to know.
fn more(job: &Job, out: &Output) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(notification) = &job.notification {
        lines.push(format!("It delivers a notification {}.", view::notification_line(notification)));
    }
    if let Some(definition) = &job.definition {
        let spec = &definition.spec;
        let mut what = view::one_line(&view::run_summary(&spec.run));
        // A one-off program that no schedule runs is called by its file.
        if let (Some(id), None, None, false) =
            (spec.run.artifact(), &job.task.name, &job.schedule, job.title.is_empty())
        {
            what = what.replacen(&id.to_string(), &format!("{} ({id})", view::one_line(&job.title)), 1);
        }
        lines.push(format!("Definition: {} {what}, timeout {}.", spec.run.kind(), spec.timeout));
    }
    if let Some(RetryCount { used, max }) = job.retries {
        let lost = match job.node_retries {
            Some(lost @ RetryCount { used, .. }) if used > 0 => {
                let delivery = job.definition.as_ref().map(|definition| definition.spec.delivery).unwrap_or_default();
                format!("; worker lost: {}", view::lost_words(lost, delivery))
            }
            _ => String::new(),
        };
        lines.push(format!("Retries: {used} of {max} used{lost}."));
    }
    let late = |late: &LateOutcome| format!("Attempt {}: {}.", late.attempt, view::late_line(out, late));
    lines.extend(job.late_outcomes.iter().map(late));
    lines
}

pub(crate) async fn run(args: ExplainArgs, context: &Context) -> anyhow::Result<Exit> {
    if let Ok(id) = args.what.parse::<JobId>() {
        let job = context.client()?.job(id).await?;
        match context.out.format {
            Format::Json | Format::Jsonl => {
                context.out.json(&Explained {
                    id: job.id,
                    title: &job.title,
                    state: &job.state,
                    scheduled_at: job.scheduled_at,
                    due_at: job.due_at,
                    explanation: &job.explanation,
                    waiting_for: job.waiting_for.as_deref(),
                    definition: job.definition.as_ref(),
                    retries: job.retries,
                    node_retries: job.node_retries,
                    notification: job.notification.as_ref(),
                    late_outcomes: &job.late_outcomes,
                })?;
            }
            Format::Table | Format::Name => {
                let why = context.out.zone.localize(&job.explanation);
                context.out.line(&format!("{}: {why}", context.out.state_text(&job.state)))?;
                for line in more(&job, &context.out) {
                    context.out.line(&line)?;
                }
            }
        }
        return Ok(Exit::Ok);
    }
    if let Ok(id) = args.what.parse::<RunId>() {
        let run = context.client()?.workflow_run(id).await?;
        match context.out.format {
            Format::Json | Format::Jsonl => {
                context.out.json(&json!({ "id": run.id, "state": run.state, "explanation": run.explanation }))?;
            }
            Format::Table | Format::Name => {
                let why = context.out.zone.localize(&run.explanation);
                context.out.line(&format!("{}: {why}", context.out.state_text(&run.state)))?;
                let waits = |node: &NodeView| {
                    let note = node.note.as_deref().filter(|_| node.state == "open");
                    let note = note.map(|note| format!(": {}", view::one_line(note))).unwrap_or_default();
                    let what = context.out.zone.localize(&view::workflow::waits(node)?);
                    Some(format!("  {} {what}{note}", view::one_line(&node.name)))
                };
                run.nodes.iter().filter_map(waits).try_for_each(|line| context.out.line(&line))?;
            }
        }
        return Ok(Exit::Ok);
    }
    let meaning = word(&args.what).ok_or_else(|| {
        usage(
            format!("nothing is called `{}`", args.what),
            "name the id of a job or of a run, a state, a verdict or a mark of a planned time, an error code or an exit code",
        )
    })?;
    match context.out.format {
        Format::Json | Format::Jsonl => context.out.json(&meaning)?,
        Format::Table | Format::Name => context.out.line(&meaning.text())?,
    }
    Ok(Exit::Ok)
}

/// `punctual exit-codes`.
pub(crate) fn exit_codes(context: &Context) -> anyhow::Result<Exit> {
    let out = &context.out;
    let codes = Exit::ALL.iter().map(|exit| json!({ "code": exit.code(), "meaning": exit.meaning() }));
    match out.format {
        Format::Table => out.write(&Exit::table())?,
        Format::Json => out.json(&codes.collect::<Vec<_>>())?,
        Format::Jsonl => codes.into_iter().try_for_each(|code| out.json(&code))?,
        Format::Name => Exit::ALL.iter().try_for_each(|exit| out.line(&exit.code().to_string()))?,
    }
    Ok(Exit::Ok)
}

fn word(word: &str) -> Option<Meaning> {
    let meaning = |kind, meaning: &str| {
        let (word, meaning) = (word.to_owned(), meaning.to_owned());
        Meaning { word, kind, meaning, http_status: None, exit_code: None, what_to_do: None }
    };
    if let Some(state) = JobState::parse(word) {
        return Some(meaning("state", of_state(state)));
    }
    if let Some(verdict) = Verdict::ALL.into_iter().find(|verdict| verdict.as_str() == word) {
        return Some(meaning("verdict", of_verdict(verdict)));
    }
    if let Some((mark, _)) = MARKS.into_iter().find(|(_, name)| *name == word) {
        return Some(meaning("mark", of_mark(mark)?));
    }
    if let Some(kind) = ErrorKind::from_code(word) {
        let (http_status, exit_code) = (Some(kind.http_status()), Some(kind.exit_code()));
        let to_do = what_to_do(kind);
        let what_to_do = Some(match detail_of(kind) {
            Some(more) => format!("{to_do}. {more}"),
            None => to_do.to_owned(),
        });
        return Some(Meaning { http_status, exit_code, what_to_do, ..meaning("error", kind.title()) });
    }
    let code: u8 = word.parse().ok()?;
    let exit = Exit::ALL.iter().find(|exit| exit.code() == code)?;
    let errors: Vec<&str> =
        ErrorKind::ALL.iter().filter(|kind| kind.exit_code() == code).map(|kind| kind.code()).collect();
    let what_to_do = (!errors.is_empty()).then(|| {
        format!("read the error that the command printed, or its code with `-o json`; `punctual explain CODE` explains each of {}", errors.join(", "))
    });
    Some(Meaning { what_to_do, ..meaning("exit code", exit.meaning()) })
}

/// What else to know about errors whose reason differs from case to case.
fn detail_of(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::RunRefused => Some(
            "The detail of the error says which: a gate can be decided while it is open, a node skipped before it starts, and a run \
             resumed after it failed or was cancelled",
        ),
        ErrorKind::ScheduleRefused => Some("The detail of the error says what the schedule cannot do in its state"),
        ErrorKind::QuotaExceeded => Some("The detail of the error names the quota and its figures"),
        ErrorKind::TooManyRequests => {
            Some("The detail of the error says whose limit it is, and the header Retry-After when to try again")
        }
        _ => None,
    }
}

fn of_state(state: JobState) -> &'static str {
    match state {
        JobState::Scheduled => "It waits for its time, for a worker, or for its next try.",
        JobState::Running => "A worker executes it.",
        JobState::Succeeded => "It did what it should.",
        JobState::Failed => "It failed permanently: no retry is left, or none is allowed.",
        JobState::Cancelled => "It was ended on request.",
        JobState::Lost => {
            "Nobody can know whether it ran, and its delivery mode forbids another start. Its late result \
             still settles it; `punctual job retry` runs it again."
        }
        JobState::Quarantined => {
            "Its workers died too often while they ran it. Only `punctual job retry` starts it again."
        }
        JobState::Deleted => "It was removed before it started, and never will.",
    }
}

fn of_verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Fired => "A job was made for the planned time.",
        Verdict::Queued => {
            "It waits until the run before it has ended (--overlap queue_one, queue_all or cancel_previous)."
        }
        Verdict::SkippedOverlap => "It did not run: a run before it had not ended, and --overlap says to skip it.",
        Verdict::SkippedPaused => "It did not run: the schedule was paused.",
        Verdict::SkippedCalendar => "It did not run: a calendar closes its date.",
        Verdict::SkippedGap => "It did not run: the clocks left its time out, and --gap says to skip such times.",
        Verdict::SkippedByRequest => {
            "It did not run: somebody asked to skip it, or cleared the queue or deleted the schedule while it waited."
        }
        Verdict::SkippedMaxRuns => {
            "It did not run: it waited for the run before it, and then the schedule had run as often as --max-runs allows."
        }
        Verdict::Missed => {
            "It did not run: no server handled it within --missed-after, and --catch-up does not run it afterwards."
        }
    }
}

fn of_mark(mark: Marks) -> Option<&'static str> {
    const MEANINGS: [(Marks, &str); MARKS.len()] = [
        (Marks::SHIFTED, "The clocks skipped its time, so it ran right after the gap (--gap shift)."),
        (Marks::FIRST_OF_FOLD, "The clocks showed its time twice; this is the first of the two (--fold)."),
        (Marks::SECOND_OF_FOLD, "The clocks showed its time twice; this is the second of the two (--fold)."),
        (Marks::MOVED, "A calendar moved it to a business day (--on-closed-day)."),
        (Marks::REPLAYED, "It had been missed, and ran afterwards (--catch-up)."),
        (Marks::MANUAL, "It was not planned: somebody started it with `punctual schedule run`."),
        (
            Marks::LATE,
            "Its run started later than --late-after allows; `punctual schedule history` says by how much, and why.",
        ),
        (Marks::STRETCH, "One line for many planned times in a row with the same verdict."),
        (Marks::CANCELS_PREVIOUS, "It was started with the request to cancel the run before it."),
    ];
    MEANINGS.into_iter().find(|(known, _)| *known == mark).map(|(_, meaning)| meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_that_we_print_can_be_explained() {
        for state in JobState::ALL {
            assert!(word(state.as_str()).is_some());
        }
        for verdict in Verdict::ALL {
            assert!(word(verdict.as_str()).is_some_and(|meaning| meaning.kind == "verdict"));
        }
        for (_, mark) in MARKS {
            assert!(word(mark).is_some_and(|meaning| meaning.kind == "mark"), "{mark}");
        }
        for kind in ErrorKind::ALL {
            assert!(word(kind.code()).is_some_and(|meaning| meaning.text().contains("What to do: ")), "{kind:?}");
        }
        for exit in Exit::ALL {
            assert!(word(&exit.code().to_string()).is_some());
        }
        assert_eq!(word("nonsense"), None);
    }
}
