//! What people were told about their deletes and cancels.

use punctual_core::JobState;
use punctual_core::attempt::Ending;

use crate::{AtEnd, Command, JobHistory, Moment, Reply, RunHistory};

/// A job whose delete was confirmed never begins, and stays deleted.
pub(crate) fn deleted_means_never(job: &JobHistory, _: &RunHistory) -> Option<String> {
    job.replies(Command::Delete).find(|(_, reply)| *reply == Reply::Done(JobState::Deleted))?;
    if let Some(execution) = job.executions.first() {
        return Some(format!("the delete was confirmed, and attempt {} began", execution.attempt));
    }
    differs(job, JobState::Deleted).map(|state| format!("the delete was confirmed, and it is {state}"))
}

/// A job whose cancel was confirmed begins no further attempt. A worker that was given up may still begin what it had been given, because nobody can tell it. Not judged if somebody
/// asked for a rerun.
pub(crate) fn cancelled_means_no_more(job: &JobHistory, _: &RunHistory) -> Option<String> {
    let is_given_up = |attempt| {
        let ending = job.end(attempt).map(|end| end.ending);
        matches!(ending, Some(Ending::WorkerLost | Ending::TimedOut))
    };
    let confirmed_at = cancels(job).find(|(_, reply)| *reply == Reply::Done(JobState::Cancelled))?.0;
    if let Some(state) = differs(job, JobState::Cancelled) {
        return Some(format!("the cancel was confirmed, and it is {state}"));
    }
    let begun = job.executions.iter().filter(|execution| execution.begin > confirmed_at);
    let late = begun.into_iter().find(|execution| !is_given_up(execution.attempt))?;
    Some(format!("the cancel was confirmed, and attempt {} began", late.attempt))
}

/// A job whose running attempt was asked to end gets no further start. Not judged if somebody asked for a rerun.
pub(crate) fn a_cancel_request_is_kept(job: &JobHistory, run: &RunHistory) -> Option<String> {
    let (confirmed_at, _) = cancels(job).find(|(_, reply)| *reply == Reply::Requested)?;
    let late = job.starts.iter().find(|start| start.at > confirmed_at.wall + run.limits.start_error)?;
    Some(format!("the cancel request was confirmed, and attempt {} was started", late.attempt))
}

/// The answers to cancels, unless somebody asked for a rerun.
fn cancels(job: &JobHistory) -> impl Iterator<Item = (Moment, Reply)> {
    let asked_rerun = job.orders.iter().any(|order| order.command == Command::Rerun);
    job.replies(Command::Cancel).filter(move |_| !asked_rerun)
}

/// The state of the job at the end of the run, if it is known and not this one.
fn differs(job: &JobHistory, expected: JobState) -> Option<&'static str> {
    match job.at_end {
        AtEnd::NotRead => None,
        AtEnd::Absent => Some("absent"),
        AtEnd::Open { state, .. } | AtEnd::Finished { state, .. } => (state != expected).then(|| state.as_str()),
    }
}
