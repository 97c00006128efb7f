//! How often and how soon a job is tried again.

use punctual_core::attempt::{AttemptRecord, Ending, Failure, FailureClass, Outcome, Ran};
use punctual_core::retry::RetryPolicy;
use punctual_core::shard::Config;
use punctual_core::task::Delivery;
use punctual_core::{JobState, Span, Timestamp};

use super::story::{Line, Story};
use crate::plan::CLOCK_LAG_MAX_MS;

/// What an ended attempt counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// The task failed.
    Failure,
    /// Its worker was lost, or nobody can know whether it ran.
    Loss,
    /// A worker gave it back before anything ran.
    GiveBack,
    /// Also what a worker never received, which has a budget of its own.
    Nothing,
}

fn counts_as(story: &Story<'_>, record: &AttemptRecord) -> Counts {
    let is_strict = story.task.spec.delivery != Delivery::AtLeastOnce;
    match record.ending {
        Ending::NotStarted if !is_never_received(record) => Counts::GiveBack,
        Ending::Succeeded | Ending::Cancelled | Ending::NotStarted => Counts::Nothing,
        Ending::WorkerLost => Counts::Loss,
        Ending::Failed | Ending::TimedOut => {
            let ran = recorded_failure(story, record).map_or(Ran::Unknown, |failure| failure.ran);
            if is_strict && ran == Ran::Unknown { Counts::Loss } else { Counts::Failure }
        }
    }
}

fn is_never_received(record: &AttemptRecord) -> bool {
    record.reason.as_ref().is_some_and(|reason| reason.contains("never received"))
}

/// The failure that the record is of. An attempt that did not end in time was ended by
/// the owner, whatever its worker said later.
fn recorded_failure<'a>(story: &'a Story<'_>, record: &AttemptRecord) -> Option<&'a Failure> {
    match story.reported(record.attempt) {
        Some((_, Outcome::Failed(failure), _)) if record.reason.as_ref() == Some(&failure.reason) => Some(failure),
        _ => None,
    }
}

const fn lag() -> Span {
    Span::from_millis(CLOCK_LAG_MAX_MS)
}

/// Every ended attempt since the job was submitted or run again, with its place
/// among those that count alike.
fn counted<'a>(story: &Story<'a>) -> Vec<(Line<'a>, &'a AttemptRecord, Counts, u16)> {
    let (mut failures, mut losses, mut give_backs) = (0, 0, 0);
    let mut counted = Vec::new();
    for (_, line) in &story.lines {
        if let Line::Rerun(_) = line {
            (failures, losses, give_backs) = (0, 0, 0);
        }
        let Some(record) = line.ended() else { continue };
        let counts = counts_as(story, record);
        let number = match counts {
            Counts::Failure => {
                failures += 1;
                failures
            }
            Counts::Loss => {
                losses += 1;
                losses
            }
            Counts::GiveBack => {
                give_backs += 1;
                give_backs
            }
            Counts::Nothing => 0,
        };
        counted.push((*line, record, counts, number));
    }
    counted
}

pub(super) fn retries_are_counted(story: &Story<'_>) -> Option<String> {
    let granted = story.task.spec.retry.max + 1;
    let too_many = |(_, _, counts, number): &(_, _, Counts, u16)| *counts == Counts::Failure && *number > granted;
    let (_, record, _, number) = counted(story).into_iter().find(too_many)?;
    Some(format!("attempt {} is failure {number} of a job that may fail {granted} times", record.attempt))
}

pub(super) fn losses_are_counted(story: &Story<'_>) -> Option<String> {
    let granted = (story.task.spec.node_retry.max + 1).min(Config::default().quarantine_after);
    let too_many = |(_, _, counts, number): &(_, _, Counts, u16)| *counts == Counts::Loss && *number > granted;
    let (_, record, _, number) = counted(story).into_iter().find(too_many)?;
    Some(format!("attempt {} is loss {number} of a job that may be lost {granted} times", record.attempt))
}

/// A job that cannot be started is not tried for ever, and does not end before its time either.
pub(super) fn give_backs_are_counted(story: &Story<'_>) -> Option<String> {
    let spec = &story.task.spec;
    let granted = spec.start_retry.max + 1;
    counted(story).into_iter().find_map(|(line, record, counts, number)| {
        let is_failed = matches!(line, Line::Settled(settle) if settle.state == JobState::Failed);
        match counts {
            Counts::GiveBack if number > granted => {
                Some(format!("attempt {} is the {number}th that was given back, of {granted}", record.attempt))
            }
            Counts::GiveBack if is_failed && number < granted && spec.queue_timeout.is_none() => {
                Some(format!("attempt {} ended the job after {number} of {granted} give-backs", record.attempt))
            }
            Counts::Failure | Counts::Loss | Counts::GiveBack | Counts::Nothing => None,
        }
    })
}

pub(super) fn waits_are_kept(story: &Story<'_>) -> Option<String> {
    for (line, record, counts, number) in counted(story) {
        let Line::Requeued(requeue) = line else { continue };
        let spec = &story.task.spec;
        let least = match counts {
            Counts::Failure => shortest(&spec.retry, number).max(asked_for(story, record)),
            Counts::Loss => shortest(&spec.node_retry, number),
            // Cut where the time to be started in is over.
            Counts::GiveBack if spec.queue_timeout.is_none() => shortest(&spec.start_retry, number),
            Counts::GiveBack | Counts::Nothing => Span::ZERO,
        };
        let earliest: Timestamp = (record.finished_at + least) - lag();
        if requeue.due_at < earliest {
            let gave = requeue.due_at.since(record.finished_at);
            return Some(format!("after attempt {} it waited {gave} and not {least}", record.attempt));
        }
    }
    None
}

/// A failure of a class that the task excepts is the last one of its job. A loss is not a failure.
pub(super) fn what_is_excepted_is_final(story: &Story<'_>) -> Option<String> {
    counted(story).into_iter().find_map(|(line, record, counts, _)| {
        let is_again = matches!(line, Line::Requeued(_));
        // One that nobody reported did not end in time.
        let class = recorded_failure(story, record).map_or(FailureClass::Timeout, |failure| failure.class);
        let is_excepted = counts == Counts::Failure && story.task.spec.retry.except.contains(class);
        (is_again && is_excepted)
            .then(|| format!("attempt {} failed by {}, and the job was tried again", record.attempt, class.as_str()))
    })
}

fn shortest(policy: &RetryPolicy, retry: u16) -> Span {
    let full = policy.initial.as_micros() as f64 * policy.factor.powi(i32::from(retry) - 1);
    let capped = full.min(policy.cap.as_micros() as f64);
    Span::from_micros((capped * (1.0 - policy.jitter)) as i64)
}

/// The receiver's `Retry-After`.
fn asked_for(story: &Story<'_>, record: &AttemptRecord) -> Span {
    recorded_failure(story, record).and_then(|failure| failure.retry_after).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use punctual_core::attempt::{Ending, FailureClass};
    use punctual_core::retry::Classes;
    use punctual_core::task::Delivery;
    use punctual_core::{JobState, Span};

    use super::super::test_history::{Tale, failed, failed_by, of_class, secs};

    fn fails(max: u16, times: u32) -> Tale {
        let tale = Tale::new(|spec| spec.retry.max = max);
        (1..=times).fold(tale, |tale, attempt| tale.fail_and_retry(attempt, secs(8)).pass(secs(8)))
    }

    #[test]
    fn a_retry_too_many_is_found() {
        fails(2, 3).holds();
        fails(2, 4).breaks("retries are counted");
        fails(0, 2).breaks("retries are counted");
    }

    #[test]
    fn a_rerun_gives_all_retries_again() {
        let spent = fails(1, 1).start(2).begin(2).end(2, failed()).settle(JobState::Failed, Some((2, Ending::Failed)));
        spent.rerun().fail_and_retry(3, secs(8)).holds();
    }

    #[test]
    fn a_loss_too_many_is_found() {
        let lost = |delivery, times: u32| {
            let tale = Tale::new(|spec| {
                spec.node_retry.max = 1;
                spec.delivery = delivery;
            });
            (1..=times).fold(tale, |tale, attempt| {
                let due_at = tale.now() + secs(8);
                tale.start(attempt).requeue(Some((attempt, Ending::WorkerLost)), due_at)
            })
        };
        lost(Delivery::AtLeastOnce, 2).holds();
        lost(Delivery::AtLeastOnce, 3).breaks("losses are counted");
        lost(Delivery::ExactlyOnce, 3).breaks("losses are counted");
    }

    #[test]
    fn a_job_that_is_given_back_for_ever_is_found() {
        let given_back = |times: u32| {
            let tale = Tale::new(|spec| spec.start_retry.max = 2);
            (1..=times).fold(tale, |tale, attempt| {
                let due_at = tale.now() + secs(8);
                tale.start(attempt).requeue(Some((attempt, Ending::NotStarted)), due_at).pass(secs(8))
            })
        };
        given_back(3).holds();
        given_back(4).breaks("give-backs are counted");
        let too_soon = given_back(1).start(2).knowing(of_class(FailureClass::Environment));
        too_soon.settle(JobState::Failed, Some((2, Ending::NotStarted))).breaks("give-backs are counted");
    }

    #[test]
    fn a_retry_of_what_is_excepted_is_found() {
        let invariant = "what is excepted is final";
        let excepting = |class| Tale::new(|spec| spec.retry.except = Classes::from(vec![class]));
        let retried = |except, class| {
            let tale = excepting(except).start(1).begin(1).end(1, failed_by(class)).knowing(of_class(class));
            let due_at = tale.now() + secs(8);
            tale.requeue(Some((1, Ending::Failed)), due_at)
        };
        retried(FailureClass::Limit, FailureClass::Network).holds();
        retried(FailureClass::Limit, FailureClass::Limit).breaks(invariant);
        let overdue = |except| {
            let tale = excepting(except).start(1).begin(1).pass(secs(3600)).knowing(of_class(FailureClass::Timeout));
            let due_at = tale.now() + secs(8);
            tale.requeue(Some((1, Ending::TimedOut)), due_at)
        };
        overdue(FailureClass::Timeout).breaks(invariant);
        let tale = excepting(FailureClass::Task).start(1);
        let due_at = tale.now() + secs(8);
        tale.requeue(Some((1, Ending::WorkerLost)), due_at).holds();
        let tale = excepting(FailureClass::Task).start(1).begin(1).end(1, failed());
        tale.settle(JobState::Failed, Some((1, Ending::Failed))).holds();
    }

    #[test]
    fn a_wait_cut_short_is_found() {
        let twice = |first, second| Tale::new(|_| {}).fail_and_retry(1, first).fail_and_retry(2, second);
        twice(secs(1), secs(2)).holds();
        twice(secs(0), secs(2)).breaks("waits are kept");
        twice(secs(1), secs(1)).breaks("waits are kept");
        twice(secs(1), Span::from_millis(1900)).breaks("waits are kept");
    }
}
