//! Says in one line why a job is in its state and what happens next.

use punctual_core::attempt::AttemptRecord;
use punctual_core::give_backs::GivenBack;
use punctual_core::shard::LiveView;
use punctual_core::task::Task;
use punctual_core::{ArtifactId, AttemptNo, Counters, JobState, Span, Timestamp};
use punctual_store::{Artifact, ArtifactState, FinishedJob, HotJob};

use crate::cluster::Place;
use crate::shard_workers::ShardWorkers;
use crate::{AppError, WorkerProgram};

pub(crate) fn running(job: &HotJob, task: Option<&Task>, view: &LiveView, dead_after: Span) -> String {
    let mut text = given_back(job, task).unwrap_or_default();
    text += &format!("Attempt {} has run since {} on {}.", view.attempt, view.started_at, view.worker);
    if !view.worker_is_connected {
        text += &format!(" That worker is away; the attempt is given up when it was silent for {dead_after}.");
    }
    if view.cancel_requested {
        text += " It was asked to end.";
    }
    text
}

/// A job that waits: for its time, or for one of these workers.
pub(crate) fn waiting(
    job: &HotJob,
    attempts: &[AttemptRecord],
    task: Option<&Task>,
    awaited: Option<&Artifact>,
    workers: &ShardWorkers,
    program: WorkerProgram,
    now: Timestamp,
) -> String {
    let mut text = match (given_back(job, task), attempts.last()) {
        (Some(text), _) => text,
        (None, Some(last)) => {
            let reason = last.reason.as_deref().unwrap_or("no reason was given");
            format!("Attempt {} ended as {}: {reason}. ", last.attempt, last.ending.as_str())
        }
        (None, None) => String::new(),
    };
    let arrival = task.and_then(|task| task.waits_for).map(|id| arrival(id, awaited));
    let scheduled_at = job.key.id.due_at();
    let was_moved = job.key.due_at != scheduled_at;
    if job.key.due_at > now {
        text += &format!("It starts at {}, in {}.", job.key.due_at, rounded(job.key.due_at, now));
        if was_moved {
            text += &format!(" It was scheduled for {scheduled_at}.");
        }
        if let Some(arrival) = arrival {
            text += &format!(" Now it {arrival}.");
        }
        if let Some(paused) = &workers.paused {
            text += &format!(" It starts no earlier than its queue is resumed: {paused}.");
        }
        return text;
    }
    let wanted = match (&workers.paused, arrival, task) {
        (Some(paused), _, _) => paused.clone(),
        (None, Some(arrival), _) => format!("it {arrival}"),
        (None, None, Some(task)) => workers.waits_for(task, program),
        (None, None, None) => "its task is gone".to_owned(),
    };
    text += &format!("It has been due for {}: {wanted}.", rounded(now, job.due_since()));
    if was_moved && job.given_back().is_none() {
        text += &format!(" It was scheduled for {scheduled_at}.");
    }
    text
}

/// That workers gave it back, why, and how often that may happen.
fn given_back(job: &HotJob, task: Option<&Task>) -> Option<String> {
    let count = job.give_backs.as_ref()?.count;
    let last = job.given_back().filter(|_| count > 0)?;
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let left = task.map(|task| task.spec.start_retry.max.saturating_sub(count));
    let left = match left {
        None => String::new(),
        Some(0) => " It fails if it is given back again.".to_owned(),
        Some(left) => format!(" It fails after {} more give-backs.", left + 1),
    };
    let GivenBack { since, reason, .. } = last;
    Some(format!("It was due at {since} and was given back {times} as not started, last because: {reason}.{left} "))
}

/// The worker or the agent says that nothing ran, and only it can know. What the attempt printed says otherwise.
pub(crate) fn printed_though_given_back(attempt: AttemptNo) -> String {
    format!(
        " Attempt {attempt} was given back as not started, but it has a log: a part of it may have run. See \
         punctual logs --attempt {attempt}."
    )
}

/// Why workers could not start a job that waits for its next start. The words stay the same while the reason does.
pub(crate) fn could_not_start(job: &HotJob) -> Option<String> {
    let is_counted = job.give_backs.as_ref().is_some_and(|all| all.count > 0);
    let last = job.given_back().filter(|_| is_counted)?;
    Some(format!("workers could not start it, last because: {}", last.reason))
}

/// What a job waits for whose file is not there.
fn arrival(id: ArtifactId, awaited: Option<&Artifact>) -> String {
    match awaited.map(|artifact| &artifact.state) {
        Some(ArtifactState::Refused { reason, .. }) => {
            format!("waits for {id} to arrive, and that was refused: {reason}. Change the task to use another one")
        }
        Some(ArtifactState::Pending { .. } | ArtifactState::Ready { .. }) | None => format!("waits for {id} to arrive"),
    }
}

/// A job of which only the row is known. `unwritable` is why nobody can own its shard, if that is known.
pub(crate) fn unknown(job: &HotJob, place: &Place, unwritable: Option<&AppError>, now: Timestamp) -> String {
    let due = if job.key.due_at > now {
        format!("It is due at {}, in {}.", job.key.due_at, rounded(job.key.due_at, now))
    } else {
        format!("It has been due for {}.", rounded(now, job.due_since()))
    };
    let given_back = given_back(job, None).unwrap_or_default();
    if let Some(AppError { detail, hint, .. }) = unwritable {
        let to_do = hint.as_ref().map(|hint| format!(" What to do: {hint}.")).unwrap_or_default();
        return format!("{given_back}{due} Whether it runs now is not known: {detail}.{to_do}");
    }
    let why = match place {
        Place::Nowhere => "its shard is being taken over, because no server owned it".to_owned(),
        Place::At(peer) => format!("{} at {} owns its shard and does not answer", peer.id, peer.address),
        Place::Here => "its shard has just been taken over by this server".to_owned(),
    };
    format!("{given_back}{due} Whether it runs now is not known: {why}. Ask again in a few seconds.")
}

pub(crate) fn finished(job: &FinishedJob) -> String {
    let starts = starts(job.counters);
    let at = job.finished_at;
    let because = job.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    match job.state {
        JobState::Succeeded => format!("It succeeded at {at} after {starts}."),
        JobState::Failed => format!("It failed permanently at {at} after {starts}{because}."),
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
fn rounded(later: Timestamp, earlier: Timestamp) -> Span {
    let micros = later.since(earlier).as_micros();
    let unit = if micros >= 60_000_000 { 1_000_000 } else { 1000 };
    Span::from_micros(micros / unit * unit)
}
