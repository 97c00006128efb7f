//! Runs that start late. A planned time is marked by the first start of its run, however the run came about: at its time,
//! after the run before it, or after it had been missed.

use crate::id::JobId;
use crate::schedule::{Marks, Source};
use crate::shard::schedules::{Planner, Schedules};
use crate::shard::write::{LateStart, ScheduleWrite};
use crate::time::{Span, Timestamp};

/// A run that starts within this of its time is on time, and costs no write.
const ON_TIME: Span = Span::from_secs(1);

/// Starts that are remembered while schedules are read after a takeover. Further ones are not marked.
const STARTED_EARLY_MAX: usize = 10_000;

impl Planner<'_> {
    /// The run of a planned time starts now, for the first time.
    pub(super) fn run_starts(&mut self, source: Source, job: JobId) {
        let started_at = self.now;
        // Jitter makes it later still.
        if started_at.since(source.at) <= ON_TIME {
            return;
        }
        let grace = self.config.schedule_grace;
        if !self.schedules.is_loaded {
            if self.schedules.started_early.len() < STARTED_EARLY_MAX {
                self.schedules.started_early.push((source, job, started_at));
            }
            return;
        }
        if let Some(late) = self.schedules.late_start(&source, job, started_at, grace) {
            self.push(ScheduleWrite::StartedLate(late));
        }
    }

    /// All schedules of the shard are in memory.
    pub(super) fn mark_started_early(&mut self) {
        let grace = self.config.schedule_grace;
        for (source, job, started_at) in std::mem::take(&mut self.schedules.started_early) {
            if let Some(late) = self.schedules.late_start(&source, job, started_at, grace) {
                self.push(ScheduleWrite::StartedLate(late));
            }
        }
    }
}

impl Schedules {
    /// `None` if it is on time, or the schedule is gone.
    fn late_start(&self, source: &Source, job: JobId, started_at: Timestamp, grace: Span) -> Option<LateStart> {
        let (slot, late_after) = self.promised(source)?;
        let lateness = started_at.since(slot);
        let marks = Marks::NONE.with_if(Marks::LATE, lateness > late_after.unwrap_or(grace));
        let is_told = lateness > ON_TIME || marks.has(Marks::LATE);
        is_told.then_some(LateStart { schedule: source.schedule, at: source.at, job, started_at, marks })
    }
}
