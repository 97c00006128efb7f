//! How far a sweep has come.

use crate::id::{JobId, TaskId};
use crate::job::JobKey;
use crate::shard::event::Load;
use crate::shard::sweeps::reads::ReadNo;
use crate::time::Timestamp;

#[derive(Default)]
pub(super) struct Cursor {
    /// Everything up to here was read.
    pub(super) at: Option<JobKey>,
    pub(super) in_flight: Option<ReadNo>,
    /// Whether the read leaves out parked jobs.
    skips: bool,
    /// The cursor was set back while a read was in flight.
    rewound: Option<JobKey>,
    /// The next page must not be read before this time.
    pub(super) next_at: Timestamp,
}

/// Moves on so that `key` is the next row, exactly: a thousand jobs may be due at one moment, and pages that began with
/// the first of them again and again would never reach the last.
pub(super) fn before(key: JobKey) -> JobKey {
    JobKey { id: key.id.predecessor(), ..key }
}

/// Before this, `key` is the last.
pub(super) fn after(key: JobKey) -> JobKey {
    JobKey { id: key.id.successor(), ..key }
}

/// The last key that a load can come to.
pub(super) fn end_of(load: &Load) -> JobKey {
    JobKey { due_at: load.until, id: JobId::last_at(Timestamp::MAX) }
}

impl Cursor {
    /// When it is to be read on; never by itself while a read is under way.
    pub(super) fn next_read(&self) -> Option<Timestamp> {
        self.in_flight.is_none().then_some(self.next_at)
    }

    /// Adjusts the cursor after the clock went back: rows that were read ahead may be beyond the look-ahead now.
    pub(super) fn clock_went_back(&mut self, horizon: Timestamp) {
        self.next_at = Timestamp::EPOCH;
        let limit = JobKey { due_at: horizon, id: JobId::last_at(Timestamp::MAX) };
        if self.in_flight.is_some() {
            self.rewound = Some(self.rewound.map_or(limit, |earlier| earlier.min(limit)));
        } else if self.at > Some(limit) {
            self.at = Some(limit);
        }
    }

    /// Moves on to where the read has come. True when there is more right behind it.
    pub(super) fn reached(&mut self, load: &Load, stopped_at: Option<JobKey>) -> bool {
        let reached = stopped_at.unwrap_or(end_of(load));
        let rewound = self.rewound.take();
        self.skips = false;
        self.at = Some(rewound.map_or(reached, |rewound| rewound.min(reached)));
        stopped_at.is_some() || rewound.is_some()
    }

    pub(super) fn begin(&mut self, read: ReadNo, skip: &[TaskId]) {
        self.in_flight = Some(read);
        self.skips = !skip.is_empty();
    }

    /// What the read under way left out may not be read by another: it begins again.
    pub(super) fn skipped_too_much(&mut self) {
        if self.skips {
            self.rewound = self.rewound.into_iter().chain(self.at).min();
        }
    }

    /// Sets the cursor back so that the next read shows `key` again.
    pub(super) fn rewind(&mut self, key: JobKey) {
        let before = before(key);
        if self.in_flight.is_some() {
            self.rewound = Some(self.rewound.map_or(before, |earlier| earlier.min(before)));
        } else if self.at > Some(before) {
            self.at = Some(before);
            self.next_at = Timestamp::EPOCH;
        }
    }

    /// The read under way may have passed a row that it has to come to again.
    pub(super) fn rewind_read(&mut self, key: JobKey) {
        self.rewound = Some(self.rewound.map_or(key, |earlier| earlier.min(key)));
    }

    /// The row from which to read again, because rows were passed that the sweep should have read.
    pub(super) fn take_rewound(&mut self) -> Option<JobKey> {
        self.rewound.take()
    }
}
