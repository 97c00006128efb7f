//! How often and how soon a job is tried again.

use punctual_core::attempt::{Ending, FailureClass, Ran};
use punctual_core::retry::RetryPolicy;
use punctual_core::task::DeliveryMode;
use punctual_core::{JobState, Span};

use crate::{Consequence, Failures, JobHistory, NotStarted, RecordedEnd, RunHistory};

/// Which budget an ended attempt counts against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Budget {
    /// The task failed.
    Retry,
    /// Its worker was lost, or nobody can know whether it ran.
    NodeRetry,
    /// A worker gave it back before anything ran.
    StartRetry,
    /// It ended well, or its worker never received it. Also what was not started if the source does not see why.
    None,
}

/// An ended attempt with its place among those that count against the same budget.
struct Counted<'a> {
    end: &'a RecordedEnd,
    budget: Budget,
    number: u16,
}

fn budget_of(job: &JobHistory, end: &RecordedEnd) -> Budget {
    match end.ending {
        Ending::NotStarted if end.not_started == Some(NotStarted::GivenBack) => Budget::StartRetry,
        Ending::Succeeded | Ending::Cancelled | Ending::NotStarted => Budget::None,
        Ending::WorkerLost => Budget::NodeRetry,
        Ending::Failed | Ending::TimedOut => {
            let ran = end.failure.as_ref().map_or(Ran::Unknown, |failure| failure.ran);
            if job.rules.is_strict() && ran == Ran::Unknown { Budget::NodeRetry } else { Budget::Retry }
        }
    }
}

/// Every ended attempt. The numbers begin anew each time that an operator runs the job again.
fn counted(job: &JobHistory) -> Vec<Counted<'_>> {
    let mut counted: Vec<Counted<'_>> = Vec::new();
    for end in job.first_ends() {
        let budget = budget_of(job, end);
        let is_before = |other: &&Counted<'_>| other.end.rerun == end.rerun && other.budget == budget;
        let before = counted.iter().filter(is_before).count();
        counted.push(Counted { end, budget, number: before as u16 + 1 });
    }
    counted
}

/// No retry too many, and no failure too few. A task that also fails in ways that are not retried may fail sooner.
pub(crate) fn retries_are_counted(job: &JobHistory, _: &RunHistory) -> Option<String> {
    let rules = &job.rules;
    let failures: Vec<Counted<'_>> =
        counted(job).into_iter().filter(|counted| counted.budget == Budget::Retry).collect();
    for Counted { end, number, .. } in &failures {
        let is_proven = end.failure.as_ref().is_some_and(|failure| failure.ran == Ran::No);
        let granted = if rules.delivery == DeliveryMode::AtMostOnce { 1 } else { rules.retry.max + 1 };
        if *number > granted {
            return Some(format!("attempt {} is failure {number} of a job that may fail {granted} times", end.attempt));
        }
        let may_be_retried = rules.delivery == DeliveryMode::AtLeastOnce || is_proven;
        if let Some(next) = failures.iter().find(|next| next.end.rerun == end.rerun && next.number > *number)
            && !may_be_retried
        {
            return Some(format!("attempt {} ran and failed, and attempt {} followed", end.attempt, next.end.attempt));
        }
    }
    let Failures::FirstAttempts(planned) = rules.failures else { return None };
    let needed = if rules.delivery == DeliveryMode::AtLeastOnce { usize::from(rules.retry.max) + 1 } else { 1 };
    match job.state()? {
        JobState::Failed if failures.len() < needed => {
            Some(format!("it failed permanently after {} of {needed} failures", failures.len()))
        }
        JobState::Succeeded if failures.len() > planned as usize => {
            Some(format!("{} failures are on record, and its work fails {planned} times", failures.len()))
        }
        _ => None,
    }
}

pub(crate) fn losses_are_counted(job: &JobHistory, _: &RunHistory) -> Option<String> {
    let granted = (job.rules.node_retry.max + 1).min(job.rules.quarantine_after);
    let too_many = |counted: &Counted<'_>| counted.budget == Budget::NodeRetry && counted.number > granted;
    let Counted { end, number, .. } = counted(job).into_iter().find(too_many)?;
    Some(format!("attempt {} is loss {number} of a job that may be lost {granted} times", end.attempt))
}

/// A job that cannot be started is not tried for ever, and does not end before its budget is used up. Not judged if the
/// source does not see why attempts were not started.
pub(crate) fn give_backs_are_counted(job: &JobHistory, _: &RunHistory) -> Option<String> {
    let granted = job.rules.start_retry?.max + 1;
    let given_back = counted(job).into_iter().filter(|counted| counted.budget == Budget::StartRetry);
    given_back.into_iter().find_map(|Counted { end, number, .. }| {
        let is_failed = end.consequence == Some(Consequence::Settled(JobState::Failed));
        if number > granted {
            Some(format!("attempt {} is the {number}th that was given back, of {granted}", end.attempt))
        } else if is_failed && number < granted && job.rules.queue_timeout.is_none() {
            Some(format!("attempt {} ended the job after {number} of {granted} give-backs", end.attempt))
        } else {
            None
        }
    })
}

/// The wait before an attempt is as long as the policy says, no shorter and no longer. Judged by the due time of the next attempt. If the source does not see that, the witness decides: from the end of the
/// attempt to the begin of the next. Losses are then not judged, because nobody saw when the worker was given up.
pub(crate) fn waits_are_kept(job: &JobHistory, run: &RunHistory) -> Option<String> {
    let rules = &job.rules;
    counted(job).into_iter().find_map(|Counted { end, budget, number }| {
        let retry_after = end.failure.as_ref().and_then(|failure| failure.retry_after).unwrap_or_default();
        let shortest = match budget {
            Budget::Retry => shortest_wait(&rules.retry, number).max(retry_after),
            Budget::NodeRetry => shortest_wait(&rules.node_retry, number),
            // A wait is cut where the queue timeout is over.
            Budget::StartRetry if rules.queue_timeout.is_none() => shortest_wait(&rules.start_retry?, number),
            Budget::StartRetry | Budget::None => return None,
        };
        let (from, to) = match end.consequence {
            Some(Consequence::Again { due_at }) => (end.finished_at, due_at),
            Some(Consequence::Settled(_)) => return None,
            None if end.ending == Ending::Failed => {
                let next = job.executions.iter().find(|execution| execution.attempt > end.attempt)?;
                (job.execution(end.attempt)?.end?.steady, next.begin.steady)
            }
            None => return None,
        };
        (to < (from + shortest) - run.limits.clock_lag)
            .then(|| format!("after attempt {} it waited {} and not {shortest}", end.attempt, to.since(from)))
    })
}

/// A failure of a class that the task excepts is the last one of its job. A loss is not a failure. Not judged if the source
/// does not see whether a retry followed.
pub(crate) fn what_is_excepted_is_final(job: &JobHistory, _: &RunHistory) -> Option<String> {
    counted(job).into_iter().find_map(|Counted { end, budget, .. }| {
        let is_again = matches!(end.consequence, Some(Consequence::Again { .. }));
        // A failure that nobody reported is an attempt that did not end in time.
        let class = end.failure.as_ref().map_or(FailureClass::Timeout, |failure| failure.class);
        let is_excepted = budget == Budget::Retry && job.rules.retry.except.contains(class);
        (is_again && is_excepted)
            .then(|| format!("attempt {} failed by {}, and the job was tried again", end.attempt, class.as_str()))
    })
}

/// The wait before this retry, counted from 1, without the part that is left to chance.
fn shortest_wait(policy: &RetryPolicy, retry: u16) -> Span {
    let capped = longest_wait(policy, retry).as_micros() as f64;
    Span::from_micros((capped * (1.0 - policy.jitter)) as i64)
}

/// The wait before this retry, counted from 1, with all of the part that is left to chance.
pub(crate) fn longest_wait(policy: &RetryPolicy, retry: u16) -> Span {
    let full = policy.initial.as_micros() as f64 * policy.factor.powi(i32::from(retry) - 1);
    Span::from_micros(full.min(policy.cap.as_micros() as f64) as i64)
}
