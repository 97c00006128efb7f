//! How late attempts begin. Not judged without a limit in [`crate::Limits`], or without the faults of the run, which excuse.

use punctual_core::attempt::Ending;
use punctual_core::{JobState, Span, Timestamp};

use crate::retries::longest_wait;
use crate::{Command, JobHistory, RunHistory};

/// A job that was due this long before a fault has begun before it.
const BEGIN_WITHIN: Span = Span::from_secs(1);

/// A job that is due during a fault begins when the fault is over; any other job begins on time.
pub(crate) fn what_is_due_begins_in_time(job: &JobHistory, run: &RunHistory) -> Option<String> {
    run.limits.late_max?;
    if job.was_asked(Command::Delete) || job.was_asked(Command::Cancel) {
        return None;
    }
    let acknowledged = job.submission.acknowledged?;
    let Some(first) = job.executions.first() else {
        // A strict job whose worker died between its start and its begin is lost, and says so.
        return (job.state() != Some(JobState::Lost)).then(|| "it never began".to_owned());
    };
    let late = too_late(run, acknowledged.at.wall.max(acknowledged.due_at), first.begin.wall)?;
    Some(format!("it began {late} after it should have"))
}

/// A retry begins on time, like a first attempt.
pub(crate) fn retries_begin_in_time(job: &JobHistory, run: &RunHistory) -> Option<String> {
    let failed = job.first_ends().filter(|end| end.ending == Ending::Failed);
    (1..).zip(failed).find_map(|(failures, end)| {
        let ended_at = job.execution(end.attempt)?.end?.wall;
        let next = job.executions.iter().find(|execution| execution.attempt == end.attempt.next())?;
        let late = too_late(run, ended_at + longest_wait(&job.rules.retry, failures), next.begin.wall)?;
        Some(format!("attempt {} began {late} after it should have", next.attempt))
    })
}

/// By how much a begin is later than anything excuses.
fn too_late(run: &RunHistory, expected_at: Timestamp, began_at: Timestamp) -> Option<Span> {
    let (faults, late_max) = (run.faults.as_ref()?, run.limits.late_max?);
    let due_at = match (faults.first, faults.recovered) {
        (Some(first), Some(recovered)) => {
            let broken = first.wall - BEGIN_WITHIN..recovered.wall;
            if broken.contains(&expected_at) { broken.end } else { expected_at }
        }
        // Nobody said until when it is broken.
        (Some(_), None) => return None,
        (None, _) => expected_at,
    };
    let late = began_at.since(due_at);
    (late > late_max).then_some(late)
}
