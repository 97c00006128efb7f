//! Which windows a moment really fell into: what was under way when the fault came.

use std::fmt;

use super::story::stories;
use crate::clock::Moment;
use crate::history::{Asked, History};

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

/// Of all workers, or of one.
pub fn hits(history: &History, at: Moment, of: Option<u32>) -> Hits {
    let mut hits = Hits::default();
    for story in stories(history) {
        for execution in story.executions.iter().filter(|execution| of.is_none_or(|pid| execution.pid == pid)) {
            let record = story.record(execution.attempt);
            let ended = execution.end.map(|(ended, _)| ended);
            if execution.begin <= at && ended.is_none_or(|ended| ended > at) {
                hits.running += 1;
            }
            let settled_us = record.and_then(|record| record.finished_us);
            if ended.is_some_and(|ended| ended <= at) && settled_us.is_none_or(|us| us > at.real_us) {
                hits.unsettled += 1;
            }
            if execution.begin > at && record.is_some_and(|record| record.started_us <= at.real_us) {
                hits.starting += 1;
            }
        }
    }
    for call in &history.calls {
        if call.invoked <= at && call.returned.is_none_or(|returned| returned > at) {
            match call.asked {
                Asked::Submit { .. } => hits.submitting += 1,
                Asked::Delete { .. } | Asked::Cancel { .. } => hits.ordering += 1,
            }
        }
    }
    hits
}
