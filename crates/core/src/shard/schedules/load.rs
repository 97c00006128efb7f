//! Taking over the schedules of a shard.

use crate::id::{ScheduleId, ShardId};
use crate::shard::event::{LoadedSchedule, ScheduleLoad, TakenSchedules};
use crate::shard::schedules::Schedules;
use crate::shard::schedules::progress::Progress;
use crate::shard::{Owner, planted};
use crate::time::Timestamp;

/// Schedules of one read.
const PAGE_LEN: usize = 2000;

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

impl Owner {
    pub(in crate::shard) fn request_schedules(&mut self, shard: ShardId, after: Option<ScheduleId>) {
        let Some(epoch) = self.shard(shard).map(|shard| shard.epoch) else { return };
        self.effects.schedule_loads.push(ScheduleLoad { shard, epoch, after, limit: PAGE_LEN });
    }

    /// The answer to a load. A short page is the last.
    pub(in crate::shard) fn schedules_page(
        &mut self,
        load: &ScheduleLoad,
        rows: Vec<LoadedSchedule>,
        next: Option<ScheduleId>,
    ) {
        let id = load.shard;
        if self.shard(id).is_none_or(|shard| shard.epoch != load.epoch) {
            return;
        }
        let mut schedules = self.take_schedules(id);
        for row in rows {
            // Created since, and in memory already.
            if schedules.table.place(row.id).is_some() {
                continue;
            }
            let from = if planted!(self.config, WatermarkIgnored) { self.now } else { Timestamp::EPOCH };
            let from = from.max(schedules.progress.taken_over).max(row.state.since);
            schedules.table.insert(row, from);
        }
        schedules.is_loaded = next.is_none();
        self.put_schedules(id, schedules);
        match next {
            Some(next) => self.request_schedules(id, Some(next)),
            None => self.schedules_loaded(id),
        }
    }

    /// All are in memory: what waited for that happens.
    fn schedules_loaded(&mut self, id: ShardId) {
        let mut schedules = self.take_schedules(id);
        for (schedule, state) in std::mem::take(&mut schedules.ended_early) {
            self.count_failures(&mut schedules, schedule, state);
        }
        self.mark_started_early(&mut schedules, id);
        let tracked: Vec<ScheduleId> = schedules.tracks.keys().copied().collect();
        for schedule in &tracked {
            self.release_next(&mut schedules, *schedule);
        }
        self.put_schedules(id, schedules);
        for schedule in tracked {
            self.make_way(schedule);
        }
    }

    /// How many schedules are in memory, and of how many shards they are still being read.
    pub fn schedule_counts(&self) -> (usize, usize) {
        let held = self.owned().map(|shard| shard.schedules.len()).sum();
        (held, self.owned().filter(|shard| !shard.schedules.is_loaded).count())
    }
}
