//! The fleet: the workers that this server knows, what each of them runs, its free slots, and when it was last heard
//! of.
//!
//! Knows which worker can run which pool of jobs. Does not know the jobs themselves, nor what becomes of them.

mod credit_demand;
mod fitting;
mod placing;
mod pools;
mod worker;

use std::collections::{BTreeMap, BTreeSet};

pub use fitting::Who;
pub(super) use placing::{FreeSlots, Placing, SlotNeeds};
pub(super) use pools::PoolId;
pub use pools::WorkerNeeds;

use crate::attempt::AttemptNo;
use crate::id::{JobId, WorkerId};
use crate::shard::event::{CreditKept, Demand, StreamId, WorkerSpec};
use crate::shard::fleet::credit_demand::DemandRound;
use crate::shard::fleet::pools::WorkerPools;
use crate::shard::fleet::worker::Worker;
use crate::shard::{AGENT, Config, WorkerStatus};
use crate::task::Task;
use crate::time::{Span, Timestamp};

pub(super) struct Fleet {
    workers: BTreeMap<WorkerId, Worker>,
    pools: WorkerPools,
    /// Workers that must be told their credit, because it changed or is honoured at last.
    credit_untold: BTreeSet<WorkerId>,
    demands: DemandRound,
    /// Pools of a gang that makes others hold back.
    held: BTreeSet<PoolId>,
}

/// A worker with free slots, among others that could serve the same pool.
pub(super) struct IdleWorker {
    pub(super) id: WorkerId,
    pub(super) free: usize,
    /// How many workers of the pool have free slots, this one included.
    pub(super) idle: usize,
}

/// A worker that was not heard of for too long, and is not known any more.
pub(super) struct SilentWorker {
    pub(super) id: WorkerId,
    pub(super) was_connected: bool,
    pub(super) seen_at: Timestamp,
    /// What it ran for us, in order.
    pub(super) jobs: Vec<JobId>,
}

impl Fleet {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            workers: BTreeMap::new(),
            pools: WorkerPools::new(config),
            credit_untold: BTreeSet::new(),
            demands: DemandRound::default(),
            held: BTreeSet::new(),
        }
    }

    /// The pool of a task's jobs.
    pub(super) fn pool_of(&mut self, task: &Task) -> PoolId {
        let workers = &mut self.workers;
        self.pools.of(task, |pool, needs| {
            let mut idle = BTreeSet::new();
            for (id, worker) in workers.iter_mut().filter(|(_, worker)| needs.are_met_by(&worker.spec)) {
                worker.pools.push(pool);
                if worker.free() > 0 {
                    idle.insert(*id);
                }
            }
            idle
        })
    }

    /// Whether jobs of this pool wait for a file.
    pub(super) fn awaits_arrival(&self, pool: PoolId) -> bool {
        self.pools.awaits_arrival(pool)
    }

    pub(super) fn has_idle(&self, pool: PoolId) -> bool {
        if self.held.is_empty() {
            return self.pools.idle(pool) > 0;
        }
        self.pools.idle_in(pool).any(|worker| !self.is_held(*worker))
    }

    /// The worker whose turn it is to run jobs of this pool.
    pub(super) fn next_idle(&mut self, pool: PoolId) -> Option<IdleWorker> {
        let mut id = self.pools.next_worker(pool)?;
        for _ in 0..self.pools.idle(pool) {
            if !self.is_held(id) {
                break;
            }
            id = self.pools.next_worker(pool)?;
        }
        if self.is_held(id) {
            return None;
        }
        let worker = self.workers.get(&id).expect("an idle worker is known");
        Some(IdleWorker { id, free: worker.free(), idle: self.pools.idle(pool) })
    }

    /// Pools that connected workers serve.
    pub(super) fn served_pools(&self) -> BTreeSet<PoolId> {
        let connected = self.workers.values().filter(|worker| worker.stream.is_some());
        connected.flat_map(|worker| worker.pools.iter().copied()).collect()
    }

    /// The present connection of a worker.
    pub(super) fn stream(&self, id: WorkerId) -> Option<StreamId> {
        self.workers.get(&id).and_then(|worker| worker.stream)
    }

    pub(super) fn is_connected(&self, id: WorkerId) -> bool {
        self.stream(id).is_some()
    }

    /// Whether the worker said hello on a later connection.
    pub(super) fn heard_later(&self, id: WorkerId, stream: StreamId) -> bool {
        self.workers.get(&id).is_some_and(|worker| worker.newest > Some(stream))
    }

    /// Whether the worker was given this job, and it has not been released.
    pub(super) fn has_job(&self, id: WorkerId, job: JobId) -> bool {
        self.workers.get(&id).is_some_and(|worker| worker.jobs.contains(&job))
    }

    /// Whether the worker is connected and still expects to run this job. A worker that was given up and came back does
    /// not.
    pub(super) fn awaits(&self, id: WorkerId, job: JobId) -> bool {
        self.is_connected(id) && self.has_job(id, job)
    }

    /// What a worker runs for us, in order.
    pub(super) fn jobs_of(&self, id: WorkerId) -> Vec<JobId> {
        let mut jobs: Vec<JobId> =
            self.workers.get(&id).map(|worker| worker.jobs.iter().copied().collect()).unwrap_or_default();
        jobs.sort_unstable();
        jobs
    }

    /// Whether any worker runs binaries by agents.
    pub(super) fn has_agents(&self) -> bool {
        self.workers.values().any(|worker| worker.spec.capabilities.iter().any(|can| can == AGENT))
    }

    /// Whether this worker runs binaries by agents.
    pub(super) fn makes_agents(&self, id: WorkerId) -> bool {
        self.workers.get(&id).is_some_and(|worker| worker.spec.capabilities.iter().any(|can| can == AGENT))
    }

    pub(super) fn status(&self) -> Vec<WorkerStatus> {
        let status = |(id, worker): (&WorkerId, &Worker)| WorkerStatus {
            id: *id,
            is_connected: worker.stream.is_some(),
            credit: worker.spec.credit,
            running: worker.jobs.len() as u32,
            seen_at: worker.seen_at,
        };
        self.workers.iter().filter(|(id, _)| **id != WorkerId::WORKFLOWS).map(status).collect()
    }

    /// How many workers are connected.
    pub(super) fn connected(&self) -> u64 {
        let workers = self.workers.iter().filter(|(id, _)| **id != WorkerId::WORKFLOWS);
        workers.map(|(_, worker)| u64::from(worker.stream.is_some())).sum()
    }

    /// How many jobs run on all of them, or are being started.
    pub(super) fn running(&self) -> u64 {
        self.workers.values().map(|worker| worker.jobs.len() as u64).sum()
    }

    /// A start names this worker; it may or may not come back.
    pub(super) fn expect(&mut self, id: WorkerId, job: JobId, now: Timestamp) {
        let worker = self.workers.entry(id).or_insert_with(|| Worker::absent(now));
        worker.jobs.insert(job);
        if worker.free() == 0 {
            self.pools.set_busy(id, &worker.pools);
        }
    }

    pub(super) fn connect(&mut self, id: WorkerId, stream: StreamId, spec: WorkerSpec, now: Timestamp) {
        let worker = self.workers.entry(id).or_insert_with(|| Worker::absent(now));
        self.pools.set_busy(id, &worker.pools);
        worker.spec = spec;
        worker.left_over.clear();
        worker.stream = Some(stream);
        worker.newest = Some(stream);
        worker.seen_at = now;
        worker.demand_told = Demand::default();
        worker.pools = self.pools.served_by(&worker.spec);
        if worker.free() > 0 {
            self.pools.set_idle(id, &worker.pools);
        }
        self.credit_untold.insert(id);
    }

    pub(super) fn disconnect(&mut self, id: WorkerId, stream: StreamId) {
        let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.stream == Some(stream)) else { return };
        worker.stream = None;
        self.pools.set_busy(id, &worker.pools);
        if worker.jobs.is_empty() {
            self.workers.remove(&id);
        }
    }

    pub(super) fn set_credit(&mut self, id: WorkerId, stream: StreamId, credit: u32) {
        let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.stream == Some(stream)) else { return };
        worker.spec.credit = credit;
        if worker.free() > 0 {
            self.pools.set_idle(id, &worker.pools);
        } else {
            self.pools.set_busy(id, &worker.pools);
        }
        self.credit_untold.insert(id);
    }

    pub(super) fn seen(&mut self, id: WorkerId, now: Timestamp) {
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.seen_at = worker.seen_at.max(now);
        }
    }

    pub(super) fn occupy(&mut self, id: WorkerId, job: JobId) {
        let worker = self.workers.get_mut(&id).expect("jobs are given to known workers");
        worker.jobs.insert(job);
        if worker.free() == 0 {
            self.pools.set_busy(id, &worker.pools);
        }
    }

    pub(super) fn release(&mut self, id: WorkerId, job: JobId) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let was_full = worker.free() == 0;
        if worker.is_overdrawn() {
            self.credit_untold.insert(id);
        }
        worker.jobs.remove(&job);
        if was_full && worker.free() > 0 {
            self.pools.set_idle(id, &worker.pools);
        }
        if worker.stream.is_none() && worker.jobs.is_empty() {
            self.workers.remove(&id);
        }
    }

    /// Records that a worker reported an attempt that was not counted as running on it.
    pub(super) fn reported(&mut self, id: WorkerId, attempt: (JobId, AttemptNo)) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let was_overdrawn = worker.is_overdrawn();
        if worker.left_over.remove(&attempt) {
            if was_overdrawn {
                self.credit_untold.insert(id);
            }
            if worker.free() > 0 {
                self.pools.set_idle(id, &worker.pools);
            }
        }
    }

    /// Attempts that the worker holds and that are not counted as running on it. They fill its slots until then.
    pub(super) fn set_left_over(&mut self, id: WorkerId, left_over: BTreeSet<(JobId, AttemptNo)>, until: Timestamp) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        worker.left_over = left_over;
        worker.left_over_until = until;
        if worker.free() == 0 {
            self.pools.set_busy(id, &worker.pools);
        }
    }

    /// Counts slots as free again whose attempts were not reported in time. A worker that still has no room gives back
    /// what it is sent.
    pub(super) fn forget_left_over(&mut self, now: Timestamp) {
        for (id, worker) in &mut self.workers {
            if !worker.left_over.is_empty() && now > worker.left_over_until {
                if worker.is_overdrawn() {
                    self.credit_untold.insert(*id);
                }
                worker.left_over.clear();
                if worker.free() > 0 {
                    self.pools.set_idle(*id, &worker.pools);
                }
            }
        }
    }

    /// Workers were not heard of for so long because this server stood still.
    pub(super) fn forgive(&mut self, gap: Span, now: Timestamp) {
        for worker in self.workers.values_mut() {
            worker.seen_at = (worker.seen_at + gap).min(now);
        }
    }

    /// Corrects the times at which workers were last seen after the clock went back: none may be in the future.
    pub(super) fn clamp_seen(&mut self, now: Timestamp) {
        for worker in self.workers.values_mut() {
            worker.seen_at = worker.seen_at.min(now);
        }
    }

    /// Forgets the workers that were not heard of since `before`, and answers which they were. What servers start
    /// themselves is never given up: it is in the store.
    pub(super) fn take_silent(&mut self, before: Timestamp) -> Vec<SilentWorker> {
        let is_silent = |(id, worker): &(&WorkerId, &Worker)| worker.seen_at < before && **id != WorkerId::WORKFLOWS;
        let silent: Vec<WorkerId> = self.workers.iter().filter(is_silent).map(|(id, _)| *id).collect();
        silent.into_iter().filter_map(|id| self.take(id)).collect()
    }

    /// Forgets a worker; `None` if it is not known.
    pub(super) fn take(&mut self, id: WorkerId) -> Option<SilentWorker> {
        let jobs = self.jobs_of(id);
        let worker = self.workers.remove(&id)?;
        self.pools.set_busy(id, &worker.pools);
        Some(SilentWorker { id, was_connected: worker.stream.is_some(), seen_at: worker.seen_at, jobs })
    }

    /// The answers to changes of credits, so that a worker knows when it may promise the same slots to another server.
    pub(super) fn take_credits(&mut self) -> Vec<(WorkerId, CreditKept)> {
        let untold = std::mem::take(&mut self.credit_untold);
        untold.into_iter().filter_map(|id| Some((id, self.workers.get(&id)?.credit_kept()))).collect()
    }
}
