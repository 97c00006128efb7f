//! Which windows a moment really fell into: what was under way when the fault came.

use std::fmt;

use punctual_promises::{Execution, RecordedStart};

use super::translate::{moment, run_history, worker};
use crate::clock::Moment;
use crate::history::{CallKind, History};

/// What was under way at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hits {
    /// Executions that had begun and not ended.
    pub running: usize,
    /// Executions that had ended, and whose end was not on record yet.
    pub unsettled: usize,
    /// Starts that were on record, and whose execution had not begun.
    pub starting: usize,
    /// Submissions without an answer.
    pub submitting: usize,
    /// Deletes and cancels without an answer.
    pub ordering: usize,
}

impl Hits {
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

impl fmt::Display for Hits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.running, "running"),
            (self.starting, "starting"),
            (self.unsettled, "unsettled outcomes"),
            (self.submitting, "submits in flight"),
            (self.ordering, "deletes and cancels in flight"),
        ];
        let parts: Vec<_> = parts.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
        if parts.is_empty() { f.write_str("nothing under way") } else { f.write_str(&parts.join(", ")) }
    }
}

/// Counts what was under way at a moment, on all workers or on the one with this process id.
pub fn hits(history: &History, at: Moment, of: Option<u32>) -> Hits {
    let mut hits = Hits::default();
    let worker = of.map(worker);
    let now = moment(at);
    for job in run_history(history).jobs {
        let is_of_worker = |execution: &&Execution| worker.as_ref().is_none_or(|worker| execution.worker == *worker);
        for execution in job.executions.iter().filter(is_of_worker) {
            if execution.begin <= now && execution.end.is_none_or(|end| end > now) {
                hits.running += 1;
            }
            let settled_at = job.end(execution.attempt).map(|end| end.finished_at);
            if execution.end.is_some_and(|end| end <= now) && settled_at.is_none_or(|at| at > now.wall) {
                hits.unsettled += 1;
            }
            let is_started = |start: &RecordedStart| start.attempt == execution.attempt && start.at <= now.wall;
            if execution.begin > now && job.starts.iter().any(is_started) {
                hits.starting += 1;
            }
        }
    }
    for call in &history.calls {
        if call.invoked <= at && call.returned.is_none_or(|returned| returned > at) {
            match call.asked {
                CallKind::Submit { .. } => hits.submitting += 1,
                CallKind::Delete { .. } | CallKind::Cancel { .. } => hits.ordering += 1,
            }
        }
    }
    hits
}
