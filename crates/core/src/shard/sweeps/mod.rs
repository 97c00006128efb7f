//! What to read next of a shard, and which rows that were read say nothing any more.
//!
//! The sweep reads all rows up to the look-ahead, once. The urgent sweep runs ahead of it
//! for jobs with a priority. The floor sweep reads again what is due since a while ago, for
//! what a hint missed or what became visible after the sweep had passed. Parked jobs are
//! passed by both, and read when their pool has room; see [`parked`].
//!
//! Knows rows by their keys only, and not what is in memory.

mod cursor;
mod parked;
mod reads;

use crate::id::{JobId, ShardId, TaskId};
use crate::job::JobKey;
use crate::shard::Config;
use crate::shard::event::{Load, Sweep};
use crate::shard::fleet::PoolId;
use crate::shard::sweeps::cursor::{Cursor, after, before, end_of};
use crate::shard::sweeps::parked::{OpenParkedRead, ParkedPools};
use crate::shard::sweeps::reads::Reads;
use crate::shard::write::Epoch;
use crate::time::{Span, Timestamp};

pub(super) use reads::ReadNo;

/// The floor sweep is a safety net and may take its time.
const FLOOR_PAGE_EVERY: Span = Span::from_millis(100);

/// How far back a floor sweep begins. No job is submitted for a time in the past, so a row that
/// appears behind the sweep is about as old as its submission was under way: seconds.
const FLOOR_REACH: Span = Span::from_secs(300);

/// One in so many floor sweeps begins at the first row, in case a clock was wrong.
const WHOLE_FLOOR_EVERY: u32 = 60;

/// The first pause of the floor sweep. A job that was stored while its shard changed owners may have been announced to
/// the former one, so the new owner sweeps soon, and then less and less often.
const FIRST_FLOOR_PAUSE: Span = Span::from_millis(500);

pub(super) struct Sweeps {
    shard: ShardId,
    epoch: Epoch,
    all: Cursor,
    urgent: Cursor,
    floor: Cursor,
    /// The pause after the floor sweep that comes next.
    floor_pause: Span,
    floor_sweeps: u32,
    parked: ParkedPools,
    reads: Reads,
}

/// What the answer to a read of parked jobs is about.
pub(super) struct ParkedRead {
    pub(super) pool: PoolId,
    /// A row that was parked meanwhile, and may have been passed.
    rewound: Option<JobKey>,
}

impl Sweeps {
    pub(super) fn new(shard: ShardId, epoch: Epoch) -> Self {
        Self {
            shard,
            epoch,
            all: Cursor::default(),
            urgent: Cursor::default(),
            floor: Cursor::default(),
            floor_pause: FIRST_FLOOR_PAUSE,
            floor_sweeps: 0,
            parked: ParkedPools::default(),
            reads: Reads::default(),
        }
    }

    /// When something is to be read on. The floor sweep follows the first page of the sweep.
    pub(super) fn next_reads(&self) -> impl Iterator<Item = Timestamp> + use<> {
        let floor = self.all.at.and_then(|_| self.floor.next_read());
        [self.all.next_read(), self.urgent.next_read(), floor].into_iter().flatten()
    }

    /// Adjusts the cursors after the clock went back: rows that were read ahead may be beyond the look-ahead now.
    pub(super) fn clock_went_back(&mut self, horizon: Timestamp) {
        for cursor in [&mut self.all, &mut self.urgent, &mut self.floor] {
            cursor.clock_went_back(horizon);
        }
    }

    /// A row that was just written is to be read at the next opportunity.
    pub(super) fn read_again(&mut self, key: JobKey) {
        for cursor in [&mut self.all, &mut self.urgent] {
            cursor.rewind(key);
        }
    }

    /// A read of a single row begins.
    pub(super) fn begin_read(&mut self) -> ReadNo {
        self.reads.begin()
    }

    pub(super) fn end_read(&mut self, read: ReadNo) {
        self.reads.end(read);
    }

    /// The job has ended or moved: reads under way may show a row that it does not have any more.
    pub(super) fn left(&mut self, id: JobId) {
        self.reads.left(id);
    }

    /// Whether this read may show an old row of the job.
    pub(super) fn is_outdated(&self, read: ReadNo, id: JobId) -> bool {
        self.reads.is_outdated(read, id)
    }

    /// The rows that come next, but for parked ones.
    pub(super) fn next_loads(&mut self, now: Timestamp, config: &Config) -> impl Iterator<Item = Load> + use<> {
        let all = self.next_sweep(Sweep::All, now, config);
        let urgent = self.next_sweep(Sweep::Urgent, now, config);
        let floor = self.next_floor_sweep(now, config);
        [all, urgent, floor].into_iter().flatten()
    }

    fn next_sweep(&mut self, sweep: Sweep, now: Timestamp, config: &Config) -> Option<Load> {
        let cursor = if sweep == Sweep::All { &mut self.all } else { &mut self.urgent };
        if cursor.in_flight.is_some() || now < cursor.next_at {
            return None;
        }
        cursor.next_at = now + config.sweep_every;
        let skip = if sweep == Sweep::All { self.parked.passed_from(cursor.at) } else { Vec::new() };
        cursor.begin(self.reads.begin(), &skip);
        let after = cursor.at;
        Some(self.load(sweep, after, now + config.look_ahead, config.page_len, skip))
    }

    fn next_floor_sweep(&mut self, now: Timestamp, config: &Config) -> Option<Load> {
        let swept = self.all.at?;
        let floor = &mut self.floor;
        if floor.in_flight.is_some() || now < floor.next_at {
            return None;
        }
        if floor.at.is_none() {
            self.floor_sweeps += 1;
            let first = JobKey { due_at: now - FLOOR_REACH, id: JobId::first_at(Timestamp::EPOCH) };
            floor.at = (!self.floor_sweeps.is_multiple_of(WHOLE_FLOOR_EVERY)).then_some(first);
        }
        let skip = self.parked.passed_from(floor.at);
        floor.begin(self.reads.begin(), &skip);
        let after = floor.at;
        let until = swept.due_at.min(now + config.look_ahead);
        Some(self.load(Sweep::Floor, after, until, config.page_len, skip))
    }

    fn load(&self, sweep: Sweep, after: Option<JobKey>, until: Timestamp, limit: usize, skip: Vec<TaskId>) -> Load {
        Load { shard: self.shard, epoch: self.epoch, sweep, after, until, limit, skip }
    }

    /// Records that a load was answered. `None` if no load was pending.
    pub(super) fn answered(&mut self, sweep: Sweep) -> Option<ReadNo> {
        let cursor = match sweep {
            Sweep::All => &mut self.all,
            Sweep::Urgent => &mut self.urgent,
            Sweep::Floor => &mut self.floor,
            Sweep::Parked => &mut self.parked.cursor,
        };
        cursor.in_flight.take()
    }

    /// How far the sweep has come. True when there is more right behind it.
    pub(super) fn all_reached(&mut self, load: &Load, stopped_at: Option<JobKey>) -> bool {
        self.all.reached(load, stopped_at)
    }

    /// The sweep goes on at this moment.
    pub(super) fn read_on_at(&mut self, at: Timestamp) {
        self.all.next_at = at;
    }

    /// How far the urgent sweep has come.
    pub(super) fn urgent_reached(&mut self, load: &Load, stopped_at: Option<JobKey>, now: Timestamp) {
        if self.urgent.reached(load, stopped_at) {
            self.urgent.next_at = now;
        }
    }

    /// The urgent sweep found no room for a row, and begins with it at this moment.
    pub(super) fn retry_urgent(&mut self, key: JobKey, at: Timestamp) {
        self.urgent.at = Some(before(key));
        self.urgent.next_at = at;
    }

    /// How far the floor sweep has come.
    pub(super) fn floor_reached(&mut self, load: &Load, stopped_at: Option<JobKey>, now: Timestamp, pause_max: Span) {
        if self.floor.reached(load, stopped_at) {
            self.floor.next_at = now + FLOOR_PAGE_EVERY;
        } else {
            self.floor.at = None;
            self.floor.next_at = now + self.floor_pause.min(pause_max);
            self.floor_pause = Span::from_micros(self.floor_pause.as_micros() * 4).min(pause_max);
        }
    }

    /// Whether jobs of the pool are parked before this one, or from it on.
    pub(super) fn is_behind(&self, pool: PoolId, key: JobKey) -> bool {
        self.parked.from.get(&pool).is_some_and(|from| *from <= key)
    }

    /// Remembers to read this job later.
    pub(super) fn park(&mut self, pool: PoolId, key: JobKey, task: TaskId) {
        self.parked.park(pool, key, task);
    }

    /// The task may be of another pool now.
    pub(super) fn park_anew(&mut self, task: TaskId, pool: PoolId) {
        self.parked.park_anew(task, pool);
    }

    /// Pools with parked jobs, and the first row of each. None while parked jobs are being read.
    pub(super) fn parked(&self) -> impl Iterator<Item = (PoolId, JobKey)> {
        let is_reading = self.parked.reading.is_some();
        self.parked.from.iter().filter(move |_| !is_reading).map(|(pool, from)| (*pool, *from))
    }

    /// Pools of which rows are left in the store.
    pub(super) fn parked_pools(&self) -> impl Iterator<Item = PoolId> {
        self.parked.from.keys().copied()
    }

    /// How many rows of the pool are being read.
    pub(super) fn being_read(&self, pool: PoolId) -> usize {
        self.parked.reading.as_ref().filter(|reading| reading.pool == pool).map_or(0, |reading| reading.limit)
    }

    /// Reads parked jobs of a pool.
    pub(super) fn load_parked(&mut self, pool: PoolId, from: JobKey, limit: usize, until: Timestamp) -> Load {
        self.parked.reading = Some(OpenParkedRead { pool, limit });
        self.parked.cursor.in_flight = Some(self.reads.begin());
        self.load(Sweep::Parked, Some(before(from)), until, limit, Vec::new())
    }

    /// The read of parked jobs is answered.
    pub(super) fn parked_answered(&mut self) -> Option<ParkedRead> {
        let OpenParkedRead { pool, .. } = self.parked.reading.take()?;
        Some(ParkedRead { pool, rewound: self.parked.cursor.take_rewound() })
    }

    /// Parked jobs were taken in up to `refused`, for which there was no room, or up to where the read stopped.
    pub(super) fn parked_reached(
        &mut self,
        load: &Load,
        read: ParkedRead,
        refused: Option<JobKey>,
        stopped_at: Option<JobKey>,
    ) {
        let ParkedRead { pool, rewound } = read;
        let next = refused.or(stopped_at.map(after));
        // A sweep may have looked farther ahead meanwhile, and have passed the rest.
        let end = end_of(load);
        let passed = self.all.at.filter(|cursor| *cursor > end).map(|_| end);
        match [next.or(passed), rewound].into_iter().flatten().min() {
            Some(next) => _ = self.parked.from.insert(pool, next),
            None => {
                self.parked.remove(pool);
                // A sweep that is under way may pass what was parked.
                self.all.skipped_too_much();
                self.floor.skipped_too_much();
            }
        }
    }
}
