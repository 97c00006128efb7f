//! How far looks for jobs that wait too long have come, for one limit, and whether they told of a job.
//!
//! A look that tells is written down together with what it tells. So whoever goes on from what is stored knows which jobs
//! were told, whoever told them: those that a look had passed when they started, as they still waited then.

use punctual_core::{JobId, JobKey, Span, Timestamp};
use serde::{Deserialize, Serialize};

use super::event::Event;

/// Looks that are remembered: those that told of something, the latest ones. A late start of which an owner tells only
/// after so many more may be told again.
const LOOKS_MAX: usize = 16;
/// Of those that told of nothing, as many of the latest: with them it is known of many jobs at once that all were told.
const LOOKS_IDLE: usize = 4;
/// The clocks of servers follow that of the store this closely.
const CLOCKS_APART: Span = Span::from_millis(200);
/// Late starts are counted for this long and then told as one.
const COUNTED_FOR: Span = Span::from_secs(1);
/// Owners count those together that waited for this much longer than a limit. By then a look has seen them.
const SEEN_WITHIN: Span = Span::from_secs(5);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ScanProgress {
    /// Jobs due before this are not told while they wait. Earlier versions read and write a later moment by this name,
    /// which is as good.
    #[serde(rename = "since")]
    from: Timestamp,
    #[serde(flatten)]
    end: End,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    looks: Vec<Look>,
}

/// Jobs due before `upto` were looked at; of those due at it, the ones up to `job`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct End {
    pub(super) upto: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) job: Option<JobId>,
}

impl End {
    pub(super) fn has_passed(self, key: JobKey) -> bool {
        match self.job {
            Some(job) => (key.due_at, key.id) <= (self.upto, job),
            None => key.due_at < self.upto,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Look {
    at: Timestamp,
    #[serde(flatten)]
    end: End,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_told: bool,
}

impl ScanProgress {
    pub(super) fn begin(upto: Timestamp) -> Self {
        Self { from: upto, end: End { upto, job: None }, looks: Vec::new() }
    }

    /// Looks again for what comes after the earlier of the two, and tells of all of that.
    #[must_use]
    pub(super) fn begin_again(&self, upto: Timestamp) -> Self {
        let end = self.end.min(End { upto, job: None });
        Self { from: end.upto, end, looks: Vec::new() }
    }

    pub(super) fn end(&self) -> End {
        self.end
    }

    /// A look that was over at this time has come to `end`, if that is farther than before.
    pub(super) fn look(&mut self, end: End, at: Timestamp, has_told: bool) {
        self.end = self.end.max(end);
        self.looks.push(Look { at, end: self.end, has_told });
        let idle_from = self.looks.len().saturating_sub(LOOKS_IDLE);
        let mut place = 0;
        self.looks.retain(|look| {
            place += 1;
            look.has_told || place > idle_from
        });
        if self.looks.len() > LOOKS_MAX {
            self.looks.remove(0);
        }
    }

    /// Whether jobs that started late were told while they waited for longer than `limit`.
    pub(super) fn was_told(&self, started: &Event, limit: Span) -> bool {
        let due = started.waited_from();
        if started.count == 1 {
            let seen_by = started.at - CLOCKS_APART;
            return due >= self.from && self.end_at(seen_by).is_some_and(|end| passed(end, due, started.job));
        }
        // The event is that of the latest of them; all waited for long if that one did.
        if started.at < due + limit + SEEN_WITHIN {
            return false;
        }
        let (first_due, last_due) = (due - COUNTED_FOR, started.at + COUNTED_FOR - limit - SEEN_WITHIN);
        let seen_by = started.at - COUNTED_FOR - CLOCKS_APART;
        first_due >= self.from && self.end_at(seen_by).is_some_and(|end| passed(end, last_due, None))
    }

    /// How far looks had come by then. `None`: it is too long ago.
    fn end_at(&self, time: Timestamp) -> Option<End> {
        self.looks.iter().rev().find(|look| look.at <= time).map(|look| look.end)
    }
}

fn passed(end: End, due_at: Timestamp, job: Option<JobId>) -> bool {
    match job {
        Some(id) => end.has_passed(JobKey { due_at, id }),
        None => due_at < end.upto,
    }
}

#[cfg(test)]
#[path = "scan_progress_tests.rs"]
mod tests;
