//! Asks for the rows that come next, and takes in what was read; see [`super::sweeps`] for what to read when.

use crate::id::{ShardId, TaskId};
use crate::job::JobKey;
use crate::shard::event::{Load, Loaded, Sweep};
use crate::shard::fleet::PoolId;
use crate::shard::sweeps::ReadNo;
use crate::shard::{Owner, planted};
use crate::task::{Priority, Task};
use crate::time::Span;

/// The pace of a sweep through rows that find no room: fast enough to find what is behind a long backlog, slow enough
/// to leave the store to the workers that drain it.
const PASSING_EVERY: Span = Span::from_millis(50);

impl Owner {
    /// Asks for the rows that come next.
    pub(super) fn request_loads(&mut self) {
        for shard in self.shards.iter_mut().filter(|shard| !shard.is_retiring) {
            self.effects.loads.extend(shard.sweeps.next_loads(self.now, &self.config));
        }
        self.request_parked();
    }

    /// The answer to a load.
    pub(super) fn page(&mut self, load: &Load, jobs: Vec<Loaded>, stopped_at: Option<JobKey>) {
        let Some(shard) = self.shard_mut(load.shard).filter(|shard| shard.epoch == load.epoch) else { return };
        let Some(read) = shard.sweeps.answered(load.sweep) else { return };
        let jobs = self.without_outdated(load.shard, read, jobs);
        match load.sweep {
            Sweep::All => self.sweep_page(load, jobs, stopped_at),
            Sweep::Urgent => self.urgent_page(load, jobs, stopped_at),
            Sweep::Floor => self.floor_page(load, jobs, stopped_at),
            Sweep::Parked => self.parked_page(load, jobs, stopped_at),
        }
        if let Some(shard) = self.shard_mut(load.shard) {
            shard.sweeps.end_read(read);
        }
    }

    fn sweep_page(&mut self, load: &Load, jobs: Vec<Loaded>, stopped_at: Option<JobKey>) {
        let (now, window_len) = (self.now, self.window.len());
        let sweeps = &mut self.shard_mut(load.shard).expect("checked by the caller").sweeps;
        let has_more = sweeps.all_reached(load, stopped_at);
        for job in jobs {
            self.admit(job);
        }
        let found_room = self.window.len() > window_len;
        if has_more {
            let sweeps = &mut self.shard_mut(load.shard).expect("checked by the caller").sweeps;
            sweeps.read_on_at(if found_room { now } else { now + PASSING_EVERY });
        }
    }

    fn urgent_page(&mut self, load: &Load, jobs: Vec<Loaded>, stopped_at: Option<JobKey>) {
        let now = self.now;
        let sweeps = &mut self.shard_mut(load.shard).expect("checked by the caller").sweeps;
        sweeps.urgent_reached(load, stopped_at, now);
        for job in jobs {
            let key = job.row.key;
            let pool = self.fleet.pool_of(&job.task);
            if !self.take_in(job, pool) {
                let sweeps = &mut self.shard_mut(load.shard).expect("checked by the caller").sweeps;
                sweeps.retry_urgent(key, now + PASSING_EVERY);
                return;
            }
        }
    }

    fn floor_page(&mut self, load: &Load, jobs: Vec<Loaded>, stopped_at: Option<JobKey>) {
        let (now, pause_max) = (self.now, self.config.floor_sweep_every);
        let sweeps = &mut self.shard_mut(load.shard).expect("checked by the caller").sweeps;
        sweeps.floor_reached(load, stopped_at, now, pause_max);
        for job in jobs {
            self.admit(job);
        }
    }

    /// Admits the jobs of the requested pool until there is no room.
    fn parked_page(&mut self, load: &Load, jobs: Vec<Loaded>, stopped_at: Option<JobKey>) {
        let sweeps = &mut self.shard_mut(load.shard).expect("checked by the caller").sweeps;
        let Some(read) = sweeps.parked_answered() else { return };
        let mut refused = None;
        for job in jobs {
            let key = job.row.key;
            if self.fleet.pool_of(&job.task) == read.pool && !self.take_in(job, read.pool) {
                refused = Some(key);
                break;
            }
        }
        let sweeps = &mut self.shard_mut(load.shard).expect("checked by the caller").sweeps;
        sweeps.parked_reached(load, read, refused, stopped_at);
    }

    /// Leaves out rows of jobs that have ended or moved since the read began.
    fn without_outdated(&self, shard: ShardId, read: ReadNo, jobs: Vec<Loaded>) -> Vec<Loaded> {
        let ghosts = planted!(self.config, GhostRows);
        let sweeps = &self.shard(shard).expect("checked by the caller").sweeps;
        let fresh = jobs.into_iter().filter(|job| ghosts || !sweeps.is_outdated(read, job.row.key.id));
        fresh.map(|job| self.window.with_newest_task(job)).collect()
    }

    /// A row that was just written is to be read at the next opportunity.
    pub(super) fn read_again(&mut self, key: JobKey) {
        self.shard_mut(key.shard()).expect("the key is of an owned shard").sweeps.read_again(key);
    }

    /// Whether this job has to wait for earlier ones of its pool to be read.
    pub(super) fn is_parked(&self, pool: PoolId, key: JobKey, priority: Priority) -> bool {
        let Some(shard) = self.shard(key.shard()) else { return false };
        // Urgent jobs do not queue behind a backlog.
        shard.sweeps.is_behind(pool, key) && priority <= Priority::default() && !shard.jobs.contains_key(&key.id)
    }

    /// Remembers to read this job later.
    pub(super) fn park(&mut self, pool: PoolId, key: JobKey, task: TaskId) {
        let forgets = planted!(self.config, FullWindowForgets);
        if let Some(shard) = self.shard_mut(key.shard()).filter(|_| !forgets) {
            shard.sweeps.park(pool, key, task);
        }
    }

    /// The task may be of another pool now.
    pub(super) fn park_anew(&mut self, task: &Task, pool: PoolId) {
        for shard in self.shards.iter_mut() {
            shard.sweeps.park_anew(task.id, pool);
        }
    }

    /// Asks for parked jobs of pools that have room for them, the longest due first.
    fn request_parked(&mut self) {
        while let Some((shard, pool, from, limit)) = self.next_parked() {
            let until = self.now + self.config.look_ahead;
            let shard = self.shards.get_mut(shard).expect("it was found there");
            self.effects.loads.push(shard.sweeps.load_parked(pool, from, limit, until));
        }
    }

    /// The next parked jobs to read: their shard, their pool, the first row, and how many.
    fn next_parked(&self) -> Option<(ShardId, PoolId, JobKey, usize)> {
        let mut next: Option<(ShardId, PoolId, JobKey, usize)> = None;
        for shard in self.shards.iter().filter(|shard| !shard.is_retiring) {
            for (pool, from) in shard.sweeps.parked() {
                if next.is_some_and(|(_, _, earlier, _)| earlier <= from) {
                    continue;
                }
                let limit = self.worth_reading(pool, from);
                if limit > 0 {
                    next = Some((shard.id, pool, from, limit));
                }
            }
        }
        next
    }

    /// How many parked jobs of the pool to read now. A few free places are not worth a read:
    /// there must be room for as many as there are, unless jobs that are due later can give way.
    fn worth_reading(&self, pool: PoolId, from: JobKey) -> usize {
        let page = self.config.page_len;
        if self.window.last_waiting(pool).is_some_and(|last| last > from) {
            return page;
        }
        let room = self.window.room_for(pool, Priority::default());
        if room == 0 || room < self.window.len_of(pool) {
            return 0;
        }
        let promised: usize = self.owned().map(|shard| shard.sweeps.being_read(pool)).sum();
        // Each job that is taken in takes one place from what is free, and one from the pool.
        let fits = room.div_ceil(2).saturating_sub(promised);
        if promised > 0 && fits < page / 4 { 0 } else { fits.min(page) }
    }
}
