//! Classes of jobs that the window has no room for.
//!
//! What is left out is not forgotten: of each class it is known from which row on its
//! jobs are not in memory, and when the class has room again it is read on from there,
//! in order. So the sweep can pass the backlog of one queue and find what is due in others.

use std::collections::BTreeMap;

use crate::id::{ShardId, TaskId};
use crate::job::JobKey;
use crate::shard::event::{Lane, Load, Loaded};
use crate::shard::fleet::ClassId;
use crate::shard::live::LaneState;
use crate::shard::loads::{after, before, end_of};
use crate::shard::reads::ReadNo;
use crate::shard::{Owner, planted};
use crate::task::{Priority, Task};

/// Tasks that the sweeps of a shard leave out, at most: each row is compared with all of them.
/// Jobs of further tasks are read, and parked once more.
const PASSED_TASKS_MAX: usize = 32;

#[derive(Default)]
pub(super) struct Parking {
    /// From here on, jobs of the class are not in memory.
    from: BTreeMap<ClassId, JobKey>,
    /// Some tasks of these classes.
    tasks: BTreeMap<TaskId, ClassId>,
    reading: Option<Reading>,
    pub(super) lane: LaneState,
}

/// The read under way.
struct Reading {
    class: ClassId,
    limit: usize,
}

impl Parking {
    /// Tasks whose jobs after a row are all parked.
    pub(super) fn passed_from(&self, after: Option<JobKey>) -> Vec<TaskId> {
        let Some(after) = after else { return Vec::new() };
        let is_passed = |class: &ClassId| self.from.get(class).is_some_and(|from| *from <= after);
        self.tasks.iter().filter(|(_, class)| is_passed(class)).map(|(task, _)| *task).collect()
    }
}

impl Owner {
    /// Whether this job has to wait for earlier ones of its class to be read.
    pub(super) fn is_parked(&self, class: ClassId, key: JobKey, priority: Priority) -> bool {
        let Some(shard) = self.shard(key.shard()) else { return false };
        let is_behind = shard.parking.from.get(&class).is_some_and(|from| *from <= key);
        // Urgent jobs do not queue behind a backlog.
        is_behind && priority <= Priority::default() && !shard.jobs.contains_key(&key.id)
    }

    /// Remembers to read this job later.
    pub(super) fn park(&mut self, class: ClassId, key: JobKey, task: TaskId) {
        let forgets = planted!(self.config, FullWindowForgets);
        let Some(shard) = self.shard_mut(key.shard()).filter(|_| !forgets) else { return };
        let parking = &mut shard.parking;
        let from = parking.from.entry(class).or_insert(key);
        *from = key.min(*from);
        if parking.tasks.len() < PASSED_TASKS_MAX {
            parking.tasks.insert(task, class);
        }
        // The read may have passed it already.
        if parking.reading.as_ref().is_some_and(|reading| reading.class == class) {
            parking.lane.rewound = Some(parking.lane.rewound.map_or(key, |earlier| earlier.min(key)));
        }
    }

    /// The task may be of another class now. Its jobs are parked in that one, as far as they
    /// may have been in the former.
    pub(super) fn park_anew(&mut self, task: &Task, class: ClassId) {
        for id in self.shards.ids() {
            let Some(shard) = self.shards.get_mut(id) else { continue };
            if shard.parking.from.contains_key(&class) && shard.parking.tasks.get(&task.id) == Some(&class) {
                continue;
            }
            if let Some(&first) = shard.parking.from.values().min() {
                shard.parking.tasks.remove(&task.id);
                self.park(class, first, task.id);
            }
        }
    }

    /// Asks for parked jobs of classes that have room for them, the longest due first.
    pub(super) fn request_parked(&mut self) {
        while let Some((id, class, from, limit)) = self.next_parked() {
            let until = self.now + self.config.look_ahead;
            let shard = self.shards.get_mut(id).expect("it was found there");
            shard.parking.reading = Some(Reading { class, limit });
            shard.parking.lane.in_flight = Some(shard.reads.begin());
            let (epoch, after) = (shard.epoch, Some(before(from)));
            let skip = Vec::new();
            self.effects.loads.push(Load { shard: id, epoch, lane: Lane::Parked, after, until, limit, skip });
        }
    }

    /// In which shard, of which class, from which row on, and how many.
    fn next_parked(&self) -> Option<(ShardId, ClassId, JobKey, usize)> {
        let mut next: Option<(ShardId, ClassId, JobKey, usize)> = None;
        for shard in self.shards.iter().filter(|shard| !shard.is_retiring) {
            if shard.parking.reading.is_some() {
                continue;
            }
            for (&class, &from) in &shard.parking.from {
                if next.is_some_and(|(_, _, earlier, _)| earlier <= from) {
                    continue;
                }
                let limit = self.worth_reading(class, from);
                if limit > 0 {
                    next = Some((shard.id, class, from, limit));
                }
            }
        }
        next
    }

    /// How many parked jobs of the class to read now. A few free places are not worth a read:
    /// there must be room for as many as there are, unless jobs that are due later can give way.
    fn worth_reading(&self, class: ClassId, from: JobKey) -> usize {
        let page = self.config.page_len;
        if self.window.last_waiting(class).is_some_and(|last| last > from) {
            return page;
        }
        let room = self.window.room_for(class, Priority::default());
        if room == 0 || room < self.window.len_of(class) {
            return 0;
        }
        let readings = self.owned().filter_map(|shard| shard.parking.reading.as_ref());
        let promised: usize = readings.filter(|reading| reading.class == class).map(|reading| reading.limit).sum();
        // Each job that is taken in takes one place from what is free, and one from the class.
        let fits = room.div_ceil(2).saturating_sub(promised);
        if promised > 0 && fits < page / 4 { 0 } else { fits.min(page) }
    }

    /// Takes in what is of the class that was asked for, until there is no room.
    pub(super) fn parked_page(&mut self, load: &Load, read: ReadNo, jobs: Vec<Loaded>, stopped_at: Option<JobKey>) {
        let shard = self.shard_mut(load.shard).expect("checked by the caller");
        let Some(Reading { class, .. }) = shard.parking.reading.take() else { return };
        let rewound = shard.parking.lane.rewound.take();
        let mut next = stopped_at.map(after);
        for job in self.without_outdated(load.shard, read, jobs) {
            let key = job.row.key;
            if self.fleet.class_of(&job.task) == class && !self.take_in(job, class) {
                next = Some(key);
                break;
            }
        }
        let shard = self.shard_mut(load.shard).expect("checked by the caller");
        // A sweep may have looked farther ahead meanwhile, and have passed the rest.
        let end = end_of(load);
        let passed = shard.all.cursor.filter(|cursor| *cursor > end).map(|_| end);
        match [next.or(passed), rewound].into_iter().flatten().min() {
            Some(next) => _ = shard.parking.from.insert(class, next),
            None => {
                shard.parking.from.remove(&class);
                shard.parking.tasks.retain(|_, of| *of != class);
                // And one that is under way may do so.
                shard.all.skipped_too_much();
                shard.floor.skipped_too_much();
            }
        }
    }
}
