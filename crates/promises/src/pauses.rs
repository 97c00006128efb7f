//! What the pause of a queue keeps from starting.

use crate::{JobHistory, RunHistory};

/// Once a pause is confirmed, and until somebody resumes the queue. A start whose fate its owner did not know may still become
/// durable, and is taken back: what counts is that it began.
pub(crate) fn nothing_starts_while_its_queue_is_paused(job: &JobHistory, run: &RunHistory) -> Option<String> {
    let queue = job.queue.as_deref()?;
    let error = run.limits.start_error;
    let mut pauses = run.pauses.iter().filter(|pause| pause.queue == queue);
    pauses.find_map(|pause| {
        let is_within = |at| at > pause.from + error && pause.until.is_none_or(|until| at + error < until);
        let start = job.starts.iter().find(|start| is_within(start.at) && job.execution(start.attempt).is_some())?;
        Some(format!("attempt {} was started while {queue} was paused", start.attempt))
    })
}
