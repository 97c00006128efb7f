//! What to read next, and what to do with it.
//!
//! The sweep reads all rows up to the look-ahead, once. The urgent lane runs ahead of it
//! for jobs with a priority. The floor sweep reads again what is due since a while ago, for
//! what a hint missed or what became visible after the sweep had passed. Parked jobs are
//! passed by both, and read when their class has room; see [`super::parking`].

use crate::id::{JobId, ShardId, TaskId};
use crate::job::JobKey;
use crate::shard::event::{Lane, Load, Loaded};
use crate::shard::live::LaneState;
use crate::shard::reads::ReadNo;
use crate::shard::{Owner, planted};
use crate::time::{Span, Timestamp};

/// A sweep through rows that find no room goes on at this pace: quick enough to find what
/// lies behind a long backlog, slow enough to leave the store to those who drain it.
const PASSING_EVERY: Span = Span::from_millis(50);

/// The floor sweep is a safety net and may take its time.
const FLOOR_PAGE_EVERY: Span = Span::from_millis(100);

/// How far back a floor sweep begins. No job is submitted for a time in the past, so a row that
/// appears behind the sweep is about as old as its submission was under way: seconds.
const FLOOR_REACH: Span = Span::from_secs(300);

/// One in so many floor sweeps begins at the first row, in case a clock was wrong.
const WHOLE_FLOOR_EVERY: u32 = 60;

/// After this, `key` is the next. Exactly: a thousand jobs may be due at one moment, and a
/// page that began with the first of them again and again would never reach the last.
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

impl Owner {
    /// Asks for the rows that come next.
    pub(super) fn request_loads(&mut self) {
        for shard in self.shards.ids() {
            self.request_sweep(shard, Lane::All);
            self.request_sweep(shard, Lane::Urgent);
            self.request_floor_sweep(shard);
        }
        self.request_parked();
    }

    fn request_sweep(&mut self, id: ShardId, lane: Lane) {
        let (now, until, limit) = (self.now, self.now + self.config.look_ahead, self.config.page_len);
        let Some(shard) = self.shards.get_mut(id).filter(|shard| !shard.is_retiring) else { return };
        let state = if lane == Lane::All { &mut shard.all } else { &mut shard.urgent };
        if state.in_flight.is_some() || now < state.next_at {
            return;
        }
        state.next_at = now + self.config.sweep_every;
        let skip = if lane == Lane::All { shard.parking.passed_from(state.cursor) } else { Vec::new() };
        state.begin(shard.reads.begin(), &skip);
        let (epoch, after) = (shard.epoch, state.cursor);
        self.effects.loads.push(Load { shard: shard.id, epoch, lane, after, until, limit, skip });
    }

    fn request_floor_sweep(&mut self, id: ShardId) {
        let (now, limit) = (self.now, self.config.page_len);
        let Some(shard) = self.shards.get_mut(id).filter(|shard| !shard.is_retiring) else { return };
        let Some(swept) = shard.all.cursor else { return };
        let floor = &mut shard.floor;
        if floor.in_flight.is_some() || now < floor.next_at {
            return;
        }
        if floor.cursor.is_none() {
            shard.floor_sweeps += 1;
            let first = JobKey { due_at: now - FLOOR_REACH, id: JobId::first_at(Timestamp::EPOCH) };
            floor.cursor = (!shard.floor_sweeps.is_multiple_of(WHOLE_FLOOR_EVERY)).then_some(first);
        }
        let skip = shard.parking.passed_from(floor.cursor);
        floor.begin(shard.reads.begin(), &skip);
        let until = swept.due_at.min(now + self.config.look_ahead);
        let (epoch, after) = (shard.epoch, floor.cursor);
        self.effects.loads.push(Load { shard: shard.id, epoch, lane: Lane::Floor, after, until, limit, skip });
    }

    /// The answer to a load.
    pub(super) fn page(&mut self, load: &Load, jobs: Vec<Loaded>, stopped_at: Option<JobKey>) {
        let Some(shard) = self.shard_mut(load.shard).filter(|shard| shard.epoch == load.epoch) else { return };
        let lane = match load.lane {
            Lane::All => &mut shard.all,
            Lane::Urgent => &mut shard.urgent,
            Lane::Floor => &mut shard.floor,
            Lane::Parked => &mut shard.parking.lane,
        };
        let Some(read) = lane.in_flight.take() else { return };
        match load.lane {
            Lane::All => self.sweep_page(load, read, jobs, stopped_at),
            Lane::Urgent => self.urgent_page(load, read, jobs, stopped_at),
            Lane::Floor => self.floor_page(load, read, jobs, stopped_at),
            Lane::Parked => self.parked_page(load, read, jobs, stopped_at),
        }
        if let Some(shard) = self.shard_mut(load.shard) {
            shard.reads.end(read);
        }
    }

    fn sweep_page(&mut self, load: &Load, read: ReadNo, jobs: Vec<Loaded>, stopped_at: Option<JobKey>) {
        let (now, window_len) = (self.now, self.window.len());
        let lane = &mut self.shard_mut(load.shard).expect("checked by the caller").all;
        let has_more = lane.reached(load, stopped_at);
        for job in self.without_outdated(load.shard, read, jobs) {
            self.admit(job);
        }
        let found_room = self.window.len() > window_len;
        let lane = &mut self.shard_mut(load.shard).expect("checked by the caller").all;
        if has_more {
            lane.next_at = if found_room { now } else { now + PASSING_EVERY };
        }
    }

    fn urgent_page(&mut self, load: &Load, read: ReadNo, jobs: Vec<Loaded>, stopped_at: Option<JobKey>) {
        let now = self.now;
        let lane = &mut self.shard_mut(load.shard).expect("checked by the caller").urgent;
        if lane.reached(load, stopped_at) {
            lane.next_at = now;
        }
        for job in self.without_outdated(load.shard, read, jobs) {
            let key = job.row.key;
            let class = self.fleet.class_of(&job.task);
            if !self.take_in(job, class) {
                let lane = &mut self.shard_mut(load.shard).expect("checked by the caller").urgent;
                lane.cursor = Some(before(key));
                lane.next_at = now + PASSING_EVERY;
                return;
            }
        }
    }

    fn floor_page(&mut self, load: &Load, read: ReadNo, jobs: Vec<Loaded>, stopped_at: Option<JobKey>) {
        let (now, pause_max) = (self.now, self.config.floor_sweep_every);
        let shard = self.shard_mut(load.shard).expect("checked by the caller");
        let lane = &mut shard.floor;
        if lane.reached(load, stopped_at) {
            lane.next_at = now + FLOOR_PAGE_EVERY;
        } else {
            lane.cursor = None;
            lane.next_at = now + shard.floor_pause.min(pause_max);
            shard.floor_pause = Span::from_micros(shard.floor_pause.as_micros() * 4).min(pause_max);
        }
        for job in self.without_outdated(load.shard, read, jobs) {
            self.admit(job);
        }
    }

    /// Leaves out rows of jobs that have ended or moved since the read began.
    pub(super) fn without_outdated(&self, shard: ShardId, read: ReadNo, jobs: Vec<Loaded>) -> Vec<Loaded> {
        let ghosts = planted!(self.config, GhostRows);
        let reads = &self.shard(shard).expect("checked by the caller").reads;
        let fresh = jobs.into_iter().filter(|job| ghosts || !reads.is_outdated(read, job.row.key.id));
        fresh.map(|job| self.window.with_newest_task(job)).collect()
    }

    /// A row that was just written is to be read at the next opportunity.
    pub(super) fn read_again(&mut self, key: JobKey) {
        let shard = self.shard_mut(key.shard()).expect("the key is of an owned shard");
        for lane in [&mut shard.all, &mut shard.urgent] {
            lane.rewind(key);
        }
    }
}

impl LaneState {
    /// When it is to be read on; never by itself while a read is under way.
    pub(super) fn next_read(&self) -> Option<Timestamp> {
        self.in_flight.is_none().then_some(self.next_at)
    }

    /// The clock went back: what was read ahead may be farther away than the look-ahead now.
    pub(super) fn clock_went_back(&mut self, horizon: Timestamp) {
        self.next_at = Timestamp::EPOCH;
        let limit = JobKey { due_at: horizon, id: JobId::last_at(Timestamp::MAX) };
        if self.in_flight.is_some() {
            self.rewound = Some(self.rewound.map_or(limit, |earlier| earlier.min(limit)));
        } else if self.cursor > Some(limit) {
            self.cursor = Some(limit);
        }
    }

    /// Moves on to where the read has come. True when there is more right behind it.
    fn reached(&mut self, load: &Load, stopped_at: Option<JobKey>) -> bool {
        let reached = stopped_at.unwrap_or(end_of(load));
        let rewound = self.rewound.take();
        self.skips = false;
        self.cursor = Some(rewound.map_or(reached, |rewound| rewound.min(reached)));
        stopped_at.is_some() || rewound.is_some()
    }

    fn begin(&mut self, read: ReadNo, skip: &[TaskId]) {
        self.in_flight = Some(read);
        self.skips = !skip.is_empty();
    }

    /// What the read under way left out may not be read by another: it begins again.
    pub(super) fn skipped_too_much(&mut self) {
        if self.skips {
            self.rewound = self.rewound.into_iter().chain(self.cursor).min();
        }
    }

    /// Sets the cursor back so that the next read shows `key` again.
    fn rewind(&mut self, key: JobKey) {
        let before = before(key);
        if self.in_flight.is_some() {
            self.rewound = Some(self.rewound.map_or(before, |earlier| earlier.min(before)));
        } else if self.cursor > Some(before) {
            self.cursor = Some(before);
            self.next_at = Timestamp::EPOCH;
        }
    }
}
