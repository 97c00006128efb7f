//! How attempts and jobs ended, on record and in truth.

use std::collections::BTreeSet;

use punctual_core::JobState;
use punctual_core::attempt::{Ending, Outcome, Ran};
use punctual_core::task::{DeliveryMode, OnLost};

use crate::{AtEnd, Command, JobHistory, RecordedEnd, Reply, Reports, Reread, RunHistory};

/// Every acknowledged job has ended, in a way that what happened to it explains. A job that was not acknowledged may exist
/// or not; if it does, the same holds.
pub(crate) fn no_acknowledged_job_is_lost(job: &JobHistory, _: &RunHistory) -> Option<String> {
    if let Some(acknowledged) = job.submission.acknowledged {
        let asked_later = job.orders.iter().filter(|order| order.asked_at > acknowledged.at);
        if asked_later.into_iter().any(|order| matches!(order.reply, Some((_, Reply::NotFound)))) {
            return Some("it was acknowledged, and a server did not know it".to_owned());
        }
    }
    match job.at_end {
        AtEnd::NotRead => None,
        AtEnd::Absent => job.submission.acknowledged.map(|_| "it was acknowledged and does not exist".to_owned()),
        AtEnd::Open { state, is_overdue } => is_overdue.then(|| format!("it has not ended: {state}")),
        AtEnd::Finished { state: state @ (JobState::Lost | JobState::Quarantined), has_reason: Some(false) } => {
            Some(format!("it is {state} without a reason"))
        }
        AtEnd::Finished { state, .. } => unexplained(job, state),
    }
}

/// Says if nothing that is known of the job explains its final state.
fn unexplained(job: &JobHistory, state: JobState) -> Option<String> {
    let rules = &job.rules;
    let rerun = job.ends.iter().map(|end| end.rerun).max();
    let ends: Vec<&RecordedEnd> = job.ends.iter().filter(|end| Some(end.rerun) == rerun).collect();
    let last = ends.last().copied();
    let is_in_doubt = |end: &RecordedEnd| match end.ending {
        Ending::WorkerLost | Ending::TimedOut => true,
        Ending::Failed => end.failure.as_ref().is_some_and(|failure| failure.ran == Ran::Unknown),
        Ending::Succeeded | Ending::Cancelled | Ending::NotStarted => false,
    };
    let is_explained = match state {
        JobState::Scheduled | JobState::Running => false,
        JobState::Succeeded => last.is_some_and(|end| end.ending == Ending::Succeeded),
        JobState::Failed => {
            let is_failure = |end: &RecordedEnd| match end.ending {
                Ending::Failed | Ending::TimedOut => true,
                Ending::WorkerLost => {
                    let losses = ends.iter().filter(|end| end.ending == Ending::WorkerLost).count();
                    match rules.delivery {
                        DeliveryMode::AtLeastOnce => losses > usize::from(rules.node_retry.max),
                        DeliveryMode::ExactlyOnce => rules.on_lost == OnLost::Fail,
                        DeliveryMode::AtMostOnce => false,
                    }
                }
                Ending::NotStarted => end.not_started.is_some(),
                Ending::Succeeded | Ending::Cancelled => false,
            };
            let could_not_start = rules.start_timeout.is_some() && ends.is_empty();
            rules.queue_timeout.is_some() || could_not_start || last.is_some_and(is_failure)
        }
        JobState::Deleted => ends.iter().all(|end| end.ending == Ending::NotStarted) && job.was_asked(Command::Delete),
        JobState::Cancelled => job.was_asked(Command::Cancel) || job.submission.by_schedule,
        JobState::Lost => rules.is_strict() && last.is_some_and(is_in_doubt),
        JobState::Quarantined => {
            let is_rerun = rules.is_strict() && rules.on_lost == OnLost::Rerun;
            last.is_some_and(|end| end.ending == Ending::WorkerLost || is_rerun && is_in_doubt(end))
        }
    };
    let last = last.map_or("none", |end| end.ending.as_str());
    (!is_explained).then(|| format!("it is {state} and its last attempt is {last}"))
}

/// An attempt has one end, and an attempt that ends its job is the last until an operator asks for another.
pub(crate) fn an_attempt_ends_once(job: &JobHistory, _: &RunHistory) -> Option<String> {
    let mut ended = BTreeSet::new();
    if let Some(twice) = job.first_ends().find(|end| !ended.insert(end.attempt)) {
        return Some(format!("attempt {} has two ends", twice.attempt));
    }
    let open = job.starts.iter().find(|start| !ended.contains(&start.attempt));
    if let (Some(open), AtEnd::Finished { .. }) = (open, job.at_end) {
        return Some(format!("it has ended and attempt {} has not", open.attempt));
    }
    let ends_job = |end: &&RecordedEnd| matches!(end.ending, Ending::Succeeded | Ending::Cancelled);
    job.first_ends().filter(ends_job).find_map(|end| {
        let next = job.first_ends().find(|other| other.rerun == end.rerun && other.attempt > end.attempt)?;
        Some(format!("attempt {} is {} and attempt {} followed", end.attempt, end.ending.as_str(), next.attempt))
    })
}

/// What is on record as reported was reported, by that very attempt, before. A source that sees the reports of executions
/// only cannot judge attempts that were cancelled before they began; one that knows no timeouts cannot judge those that
/// timed out.
pub(crate) fn endings_are_true(job: &JobHistory, run: &RunHistory) -> Option<String> {
    let may_be_cancelled = job.was_asked(Command::Cancel) || job.submission.by_schedule;
    job.ends.iter().find_map(|end| {
        let report = job.report(end.attempt);
        let is_before = |at| end.committed_at.is_none_or(|committed_at| at <= committed_at);
        let said = report.filter(|report| is_before(report.at.wall)).map(|report| &report.outcome);
        let is_true = match end.ending {
            Ending::Succeeded => matches!(said, Some(Outcome::Succeeded { .. })),
            // A worker that ends an attempt as cancelled though nobody asked for it has failed.
            Ending::Failed => matches!(said, Some(Outcome::Failed(_) | Outcome::Cancelled)),
            Ending::Cancelled => match said {
                Some(outcome) => *outcome == Outcome::Cancelled && may_be_cancelled,
                None => run.limits.reports == Reports::OfExecutions,
            },
            Ending::TimedOut => {
                let lasted = end.finished_at.since(end.started_at);
                said.is_some() || job.rules.timeout.is_none_or(|timeout| lasted > timeout)
            }
            Ending::WorkerLost | Ending::NotStarted => true,
        };
        let (attempt, ending) = (end.attempt, end.ending.as_str());
        (!is_true).then(|| format!("attempt {attempt} is {ending} on record, and its worker said {said:?}"))
    })
}

/// An attempt is given up only if its worker died or was out of reach. Not judged if the source does not say which were.
pub(crate) fn no_worker_is_given_up_without_cause(job: &JobHistory, run: &RunHistory) -> Option<String> {
    let faults = run.faults.as_ref()?;
    job.first_ends().filter(|end| end.ending == Ending::WorkerLost).find_map(|end| {
        let ran_by = job.execution(end.attempt).map(|execution| &execution.worker);
        // A worker that never began anything is not known, and is one that died early.
        let worker = ran_by.or(end.worker.as_ref())?;
        let since = [faults.died.get(worker), faults.unreachable.get(worker)].into_iter().flatten().min();
        let has_cause = since.is_some_and(|since| end.finished_at >= since.wall);
        let text =
            || format!("attempt {} was given up, and its worker {} was there all the time", end.attempt, worker.0);
        (!has_cause).then(text)
    })
}

/// Two servers say the same of a job that has ended. A lost job may be settled by its late result in between.
pub(crate) fn what_has_ended_stays_as_it_is(job: &JobHistory, _: &RunHistory) -> Option<String> {
    let AtEnd::Finished { state, .. } = job.at_end else { return None };
    if state == JobState::Lost {
        return None;
    }
    match job.reread? {
        Reread::Same => None,
        Reread::Absent => Some("the other server does not know it".to_owned()),
        Reread::Different { state: other } => Some(format!("it is {state} and, by the other server, {other}")),
    }
}
