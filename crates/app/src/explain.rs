//! Says in one line why a job is in its state and what happens next.

use punctual_core::attempt::AttemptRecord;
use punctual_core::shard::LiveView;
use punctual_core::task::Task;
use punctual_core::{Counters, JobState, Timestamp};
use punctual_store::{FinishedJob, HotJob};

pub(crate) fn hot(
    job: &HotJob,
    running: Option<&LiveView>,
    attempts: &[AttemptRecord],
    task: Option<&Task>,
    now: Timestamp,
) -> String {
    if let Some(view) = running {
        let mut text = format!("Attempt {} has run since {} on {}.", view.attempt, view.started_at, view.worker);
        if view.cancel_requested {
            text += " It was asked to end.";
        }
        return text;
    }
    let mut text = match attempts.last() {
        Some(last) => {
            let reason = last.reason.as_deref().unwrap_or("no reason was given");
            format!("Attempt {} ended as {}: {reason}. ", last.attempt, last.ending.as_str())
        }
        None => String::new(),
    };
    if job.key.due_at > now {
        text += &format!("It starts at {}, in {}.", job.key.due_at, rounded(job.key.due_at, now));
    } else {
        let queue = task.map_or("its queue", |task| task.spec.queue.as_str());
        text +=
            &format!("It has been due for {} and waits for a worker of queue {queue}.", rounded(now, job.key.due_at));
    }
    text
}

pub(crate) fn finished(job: &FinishedJob) -> String {
    let starts = starts(job.counters);
    let at = job.finished_at;
    let because = job.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    match job.state {
        JobState::Succeeded => format!("It succeeded at {at} after {starts}."),
        JobState::Failed => format!("It failed for good at {at} after {starts}{because}."),
        JobState::Cancelled => format!("It was cancelled at {at} after {starts}."),
        JobState::Deleted => format!("It was deleted at {at} and never started."),
        JobState::Lost => format!(
            "Nobody knows whether it ran{because}. Its delivery mode forbids another start; a late result still \
             settles it, or retry it yourself."
        ),
        JobState::Quarantined => format!(
            "It was set aside at {at}: {} workers died while they ran it. Retry it when that is understood.",
            job.counters.node_failures
        ),
        JobState::Scheduled | JobState::Running => format!("It has been in history since {at}."),
    }
}

fn starts(counters: Counters) -> String {
    match counters.next_attempt.0.saturating_sub(1) {
        0 => "no attempt".to_owned(),
        1 => "1 attempt".to_owned(),
        more => format!("{more} attempts"),
    }
}

/// To the second above a minute, to the millisecond below: people read this.
fn rounded(later: Timestamp, earlier: Timestamp) -> punctual_core::Span {
    let micros = later.since(earlier).as_micros();
    let unit = if micros >= 60_000_000 { 1_000_000 } else { 1000 };
    punctual_core::Span::from_micros(micros / unit * unit)
}
