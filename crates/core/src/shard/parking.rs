//! Classes of jobs that the window has no room for.
//!
//! What is left out is not forgotten: of each class it is known from which row on its
//! jobs are not in memory, and when the class has room again it is read on from there,
//! in order. So the sweep can pass the backlog of one queue and find what is due in others.

use std::collections::BTreeMap;

use crate::job::JobKey;
use crate::shard::event::{Lane, Load, Loaded};
use crate::shard::live::{LaneState, Shard};
use crate::shard::loads::before;
use crate::shard::reads::ReadNo;
use crate::shard::ready::ClassId;
use crate::shard::{Bug, Owner};
use crate::task::Priority;

#[derive(Default)]
pub(super) struct Parking {
    /// From here on, jobs of the class are not in memory.
    from: BTreeMap<ClassId, JobKey>,
    /// The read under way, and for which class.
    reading: Option<ClassId>,
    pub(super) lane: LaneState,
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
    pub(super) fn park(&mut self, class: ClassId, key: JobKey) {
        let forgets = self.config.has(Bug::FullWindowForgets);
        let Some(shard) = self.shard_mut(key.shard()).filter(|_| !forgets) else { return };
        let parking = &mut shard.parking;
        let from = parking.from.entry(class).or_insert(key);
        *from = key.min(*from);
        // The read may have passed it already.
        if parking.reading == Some(class) {
            parking.lane.rewound = Some(parking.lane.rewound.map_or(key, |earlier| earlier.min(key)));
        }
    }

    /// Asks for parked jobs of a class that has room for them.
    pub(super) fn request_parked(&mut self, place: usize) {
        let until = self.now + self.config.look_ahead;
        let limit = self.config.page_len;
        let may_read = |shard: &&Shard| shard.parking.reading.is_none() && !shard.is_retiring;
        let Some(shard) = self.shards[place].as_deref().filter(may_read) else { return };
        // A few free places are not worth a read: there must be room for as many as there are,
        // unless jobs that are due later can give way.
        let is_worth = |class: ClassId, from: JobKey| {
            let room = self.room_for(class, Priority::default());
            let gives_way = self.ready.last_waiting(class).is_some_and(|last| last > from);
            (room > 0 && room >= self.ready.in_window(class)) || gives_way
        };
        let candidates = shard.parking.from.iter().filter(|(class, from)| is_worth(**class, **from));
        let Some((&class, &from)) = candidates.min_by_key(|(_, from)| **from) else { return };
        let shard = self.shards[place].as_deref_mut().expect("it was found above");
        shard.parking.reading = Some(class);
        shard.parking.lane.in_flight = Some(shard.reads.begin());
        let (id, epoch, after) = (shard.id, shard.epoch, Some(before(from)));
        self.effects.loads.push(Load { shard: id, epoch, lane: Lane::Parked, after, until, limit });
    }

    /// Takes in what is of the class that was asked for, until there is no room.
    pub(super) fn parked_page(&mut self, load: Load, read: ReadNo, jobs: Vec<Loaded>) {
        let is_full = jobs.len() >= load.limit;
        let last = jobs.last().map(|job| job.row.key);
        let shard = self.shard_mut(load.shard).expect("checked by the caller");
        let Some(class) = shard.parking.reading.take() else { return };
        let rewound = shard.parking.lane.rewound.take();
        let mut next = last.filter(|_| is_full);
        for job in self.without_outdated(load.shard, read, jobs) {
            let key = job.row.key;
            if self.ready.class_of(&job.task, &mut self.workers) == class && !self.take_in(job, class) {
                next = Some(key);
                break;
            }
        }
        let parking = &mut self.shard_mut(load.shard).expect("checked by the caller").parking;
        let next = [next, rewound].into_iter().flatten().min();
        match next {
            Some(next) => parking.from.insert(class, next),
            None => parking.from.remove(&class),
        };
    }
}
