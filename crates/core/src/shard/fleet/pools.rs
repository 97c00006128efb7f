//! Worker pools: the workers that can run the same jobs.
//!
//! A pool is a namespace, a queue, a capability and labels. Every task belongs to one pool, and a worker serves each pool whose
//! needs it meets. A task whose file has not arrived belongs to a pool that no worker serves.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use crate::id::{TaskId, WorkerId};
use crate::id_map::IdMap;
use crate::namespace::NamespaceId;
use crate::run::WORKFLOW;
use crate::shard::event::WorkerSpec;
use crate::shard::{Config, planted};
use crate::task::Task;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(in crate::shard) struct PoolId(usize);

impl PoolId {
    /// The index of the pool, counted from 0 in the order in which pools were first seen.
    pub(in crate::shard) fn place(self) -> usize {
        self.0
    }

    pub(in crate::shard) fn at(place: usize) -> Self {
        Self(place)
    }
}

/// What a worker must offer to run the jobs of a pool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerNeeds {
    pub namespace: NamespaceId,
    pub queue: String,
    pub capability: String,
    pub labels: BTreeMap<String, String>,
}

/// What a task asks for whose file has not arrived. No worker has it: what workers name has no
/// such character in it.
const ARRIVAL: &str = "\0arrival";

impl WorkerNeeds {
    fn of(task: &Task, rules: PoolRules) -> Self {
        let waits = task.waits_for.is_some() && rules.arrivals == Arrivals::Awaited;
        Self {
            namespace: if rules.tenants == Tenants::Ignored { NamespaceId::DEFAULT } else { task.namespace },
            queue: task.spec.queue.clone(),
            capability: if waits { ARRIVAL.to_owned() } else { task.spec.run.capability() },
            labels: task.spec.labels.clone(),
        }
    }

    pub fn are_met_by(&self, worker: &WorkerSpec) -> bool {
        // Servers run all workflows, whatever queue and labels their jobs name.
        if self.capability == WORKFLOW {
            return worker.capabilities.iter().any(|can| can == WORKFLOW);
        }
        self.capability != ARRIVAL
            && worker.namespaces.serves(self.namespace)
            && worker.queues.contains(&self.queue)
            && worker.capabilities.contains(&self.capability)
            && self.labels.iter().all(|(key, value)| worker.labels.get(key) == Some(value))
    }
}

/// Whether a job waits for its task's file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrivals {
    Awaited,
    /// A planted bug.
    Ignored,
}

/// Whether a job runs only where its namespace is served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tenants {
    Separate,
    /// A planted bug.
    Ignored,
}

/// What pools go by.
#[derive(Clone, Copy)]
struct PoolRules {
    arrivals: Arrivals,
    tenants: Tenants,
}

struct WorkerPool {
    needs: WorkerNeeds,
    /// Workers with a free slot.
    idle: BTreeSet<WorkerId>,
    /// The worker that was served last: the turn goes round.
    served: Option<WorkerId>,
}

/// All pools that were seen, and the workers of each that have a free slot.
pub(super) struct WorkerPools {
    all: Vec<WorkerPool>,
    by_needs: HashMap<WorkerNeeds, PoolId>,
    /// The pools of tasks seen lately, so that a job costs no comparison of texts.
    by_task: IdMap<(TaskId, u32), PoolId>,
    rules: PoolRules,
}

/// Beyond this the cache of tasks starts anew.
const TASK_CACHE_MAX: usize = 4096;

impl WorkerPools {
    pub(super) fn new(config: &Config) -> Self {
        let arrivals = if planted!(config, FileNotAwaited) { Arrivals::Ignored } else { Arrivals::Awaited };
        let tenants = if planted!(config, NamespaceIgnored) { Tenants::Ignored } else { Tenants::Separate };
        let rules = PoolRules { arrivals, tenants };
        Self { all: Vec::new(), by_needs: HashMap::new(), by_task: IdMap::default(), rules }
    }

    /// The pool of a task. A pool that was not seen before is added with the workers that `add` returns.
    pub(super) fn of(&mut self, task: &Task, add: impl FnOnce(PoolId, &WorkerNeeds) -> BTreeSet<WorkerId>) -> PoolId {
        if let Some(&pool) = self.by_task.get(&(task.id, task.revision)) {
            return pool;
        }
        let needs = WorkerNeeds::of(task, self.rules);
        let pool = match self.by_needs.get(&needs) {
            Some(&pool) => pool,
            None => {
                let pool = PoolId(self.all.len());
                let idle = add(pool, &needs);
                self.by_needs.insert(needs.clone(), pool);
                self.all.push(WorkerPool { needs, idle, served: None });
                pool
            }
        };
        if self.by_task.len() >= TASK_CACHE_MAX {
            self.by_task.clear();
        }
        self.by_task.insert((task.id, task.revision), pool);
        pool
    }

    /// The pools that a worker can serve.
    pub(super) fn served_by(&self, worker: &WorkerSpec) -> Vec<PoolId> {
        let serves = |(place, pool): (usize, &WorkerPool)| pool.needs.are_met_by(worker).then_some(PoolId(place));
        self.all.iter().enumerate().filter_map(serves).collect()
    }

    /// Whether its jobs wait for a file.
    pub(super) fn awaits_arrival(&self, pool: PoolId) -> bool {
        self.all.get(pool.0).is_some_and(|pool| pool.needs.capability == ARRIVAL)
    }

    pub(super) fn set_idle(&mut self, worker: WorkerId, pools: &[PoolId]) {
        for &pool in pools {
            self.all[pool.0].idle.insert(worker);
        }
    }

    pub(super) fn set_busy(&mut self, worker: WorkerId, pools: &[PoolId]) {
        for &pool in pools {
            self.all[pool.0].idle.remove(&worker);
        }
    }

    /// What a worker of the pool must offer.
    pub(super) fn needs(&self, pool: PoolId) -> Option<&WorkerNeeds> {
        self.all.get(pool.0).map(|pool| &pool.needs)
    }

    /// Workers of a pool with these needs that have a free slot; `None` if no job has needed them yet.
    pub(super) fn idle_for(&self, needs: &WorkerNeeds) -> Option<&BTreeSet<WorkerId>> {
        self.by_needs.get(needs).map(|pool| &self.all[pool.0].idle)
    }

    /// The workers of the pool that have a free slot.
    pub(super) fn idle_in(&self, pool: PoolId) -> impl Iterator<Item = &WorkerId> {
        self.all.get(pool.0).into_iter().flat_map(|pool| &pool.idle)
    }

    /// How many workers of the pool have a free slot.
    pub(super) fn idle(&self, pool: PoolId) -> usize {
        self.all.get(pool.0).map_or(0, |pool| pool.idle.len())
    }

    /// The worker with a free slot whose turn it is.
    pub(super) fn next_worker(&mut self, pool: PoolId) -> Option<WorkerId> {
        let pool = &mut self.all[pool.0];
        let after = pool.served.map_or(Bound::Unbounded, Bound::Excluded);
        let next = pool.idle.range((after, Bound::Unbounded)).next().or_else(|| pool.idle.first()).copied();
        pool.served = next;
        next
    }
}
