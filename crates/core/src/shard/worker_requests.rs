//! What this server's jobs need and its connected workers cannot give, and which of its workers another server could use.
//!
//! A worker connects to a few servers only, so an owner may have no worker for a pool, or too few, although the fleet has
//! some. It then asks other servers, which tell workers of theirs to connect to it as well. Decides what to ask for and whom
//! to tell; does not start anything: that is the owner's alone, on workers that are connected to it.

use crate::id::WorkerId;
use crate::shard::event::StreamId;
use crate::shard::fleet::{Who, WorkerNeeds};
use crate::shard::window::PressingPool;
use crate::shard::{Owner, planted};
use crate::time::Span;

/// Workers are asked for so long before the first job of a pool is due: enough to ask a few servers and to connect.
const ASKED_AHEAD: Span = Span::from_secs(5);

/// A pool whose workers are busy has too few when its first job has waited for this long. Before that, credit that moves
/// between the servers of a worker is enough.
const BUSY_FOR: Span = Span::from_secs(1);

/// After this, workers without a free slot are asked for as well: their slots are shared with this server then.
const BUSY_FOR_LONG: Span = Span::from_secs(10);

/// How many workers are asked for where there are none. If they turn out to be too few, more are asked for.
const FIRST_WORKERS: usize = 4;
/// How many more are asked for at a time. A longer list would bring a whole fleet here for a backlog of a moment.
const MORE_WORKERS_MAX: usize = 64;
/// Workers that are asked for by their id at a time: those that run jobs whose shard this server has taken over.
const AWAITED_MAX: usize = 256;

/// Workers that an owner needs and is not connected to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkersWanted {
    pub pools: Vec<PoolWanted>,
    /// These run its jobs.
    pub workers: Vec<WorkerId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolWanted {
    pub needs: WorkerNeeds,
    pub who: Who,
    /// How many are enough for now.
    pub count: usize,
}

impl WorkersWanted {
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty() && self.workers.is_empty()
    }
}

/// Connected workers that another server wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FittingWorkers {
    /// For each pool that was asked about, in order.
    pub pools: Vec<Vec<(WorkerId, StreamId)>>,
    pub workers: Vec<(WorkerId, StreamId)>,
}

impl Owner {
    /// What the jobs of this server lack.
    pub fn workers_wanted(&self) -> WorkersWanted {
        let mut pressing = self.window.pressing(self.now + ASKED_AHEAD);
        pressing.retain(|PressingPool { pool, .. }| {
            !self.fleet.has_idle(*pool) && !self.fleet.awaits_arrival(*pool) && !self.is_paused(*pool)
        });
        let workers = self.fleet.awaited(AWAITED_MAX);
        if pressing.is_empty() || planted!(self.config, WorkersNotRequested) {
            return WorkersWanted { pools: Vec::new(), workers };
        }
        let served = self.fleet.served_pools();
        let wanted = |pool: PressingPool| {
            let (who, count) = self.lack_of(&pool, served.contains(&pool.pool))?;
            Some(PoolWanted { needs: self.fleet.needs_of(pool.pool)?.clone(), who, count })
        };
        WorkersWanted { pools: pressing.into_iter().filter_map(wanted).collect(), workers }
    }

    fn lack_of(&self, pool: &PressingPool, is_served: bool) -> Option<(Who, usize)> {
        if !is_served {
            return Some((Who::Anyone, FIRST_WORKERS));
        }
        let waited = self.now.since(pool.due_since?);
        let who = if waited >= BUSY_FOR_LONG { Who::Anyone } else { Who::Idle };
        (waited >= BUSY_FOR).then_some((who, pool.ready.min(MORE_WORKERS_MAX)))
    }

    /// Which workers of this server the server could use that wants these. `turn` counts its requests.
    pub fn fitting_workers(&self, wanted: &WorkersWanted, turn: usize) -> FittingWorkers {
        let connected = |id: WorkerId| self.fleet.with_stream(id);
        let of_pool = |pool: &PoolWanted| {
            let count = pool.count.min(MORE_WORKERS_MAX);
            self.fleet.fitting(&pool.needs, pool.who, count, turn).into_iter().filter_map(connected).collect()
        };
        let pools = wanted.pools.iter().map(of_pool).collect();
        FittingWorkers { pools, workers: wanted.workers.iter().copied().filter_map(connected).collect() }
    }
}
