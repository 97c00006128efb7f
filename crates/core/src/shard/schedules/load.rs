//! Taking over the schedules of a shard.

use crate::id::ScheduleId;
use crate::shard::event::{LoadedSchedule, TakenSchedules};
use crate::shard::planted;
use crate::shard::schedules::progress::Progress;
use crate::shard::schedules::{Planner, Schedules};
use crate::time::Timestamp;

/// Whether more of a shard's schedules are to be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadPart {
    NotLast,
    Last,
}

impl Schedules {
    pub(in crate::shard) fn taken(taken: TakenSchedules, taken_at: Timestamp) -> Self {
        let TakenSchedules { watermark, queued, tracked } = taken;
        let mut schedules = Self { progress: Progress::new(watermark), taken_at, ..Self::default() };
        for (source, job) in tracked {
            schedules.decided_before.insert((source.schedule, source.at));
            schedules.track(source.schedule).begin(job);
        }
        for occurrence in queued {
            schedules.decided_before.insert((occurrence.schedule, occurrence.at));
            schedules.track(occurrence.schedule).queued.push_back(occurrence);
        }
        schedules
    }
}

impl Planner<'_> {
    /// Takes in stored schedules, a part of them or the last.
    pub(super) fn take_in(&mut self, rows: Vec<LoadedSchedule>, part: LoadPart) {
        for row in rows {
            // Created since, and in memory already.
            if self.schedules.table.place(row.id).is_some() {
                continue;
            }
            let from = if planted!(self.config, WatermarkIgnored) { self.now } else { Timestamp::EPOCH };
            let from = from.max(self.schedules.progress.taken_over).max(row.state.since);
            self.schedules.table.insert(row, from);
        }
        self.schedules.is_loaded = part == LoadPart::Last;
        if self.schedules.is_loaded {
            self.loaded();
        }
    }

    /// All are in memory: what waited for that happens.
    fn loaded(&mut self) {
        for (schedule, state) in std::mem::take(&mut self.schedules.ended_early) {
            self.count_failures(schedule, state);
        }
        self.mark_started_early();
        let tracked: Vec<ScheduleId> = self.schedules.tracks.keys().copied().collect();
        for schedule in tracked {
            self.release_next(schedule);
        }
    }
}
