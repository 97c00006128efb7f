//! Queues as the owner sees them: which are paused, and what waits and runs in each.
//!
//! The store keeps the state of a queue. The owner is told which queues are paused before it gets its first shard, before it gets a
//! shard from another server, and when that changes. The pools of a paused queue start nothing; what runs goes on. Does not know why a queue
//! is paused, nor what is submitted to one that drains.
//!
//! While no queue is paused, nothing is looked up.

use std::collections::{BTreeMap, BTreeSet};

use crate::namespace::NamespaceId;
use crate::queue::QueueLoad;
use crate::shard::event::PausedQueue;
use crate::shard::fleet::PoolId;
use crate::shard::judge::queue_timeout_reason;
use crate::shard::live::Stage;
use crate::shard::{Owner, planted};
use crate::task::Task;
use crate::time::{Span, Timestamp};

/// The queues whose jobs do not start, with since when and by whom.
#[derive(Default)]
pub(super) struct PausedQueues(BTreeMap<NamespaceId, BTreeMap<String, String>>);

impl PausedQueues {
    /// Only the bug that a takeover forgets what is paused asks for it.
    pub(super) fn forget_all(&mut self) {
        self.0.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn has(&self, namespace: NamespaceId, queue: &str) -> bool {
        self.since(namespace, queue).is_some()
    }

    fn since(&self, namespace: NamespaceId, queue: &str) -> Option<&String> {
        self.0.get(&namespace)?.get(queue)
    }
}

impl Owner {
    /// Which queues are paused from now on: these and no others.
    pub(super) fn set_paused_queues(&mut self, paused: Vec<PausedQueue>) {
        let mut queues: BTreeMap<NamespaceId, BTreeMap<String, String>> = BTreeMap::new();
        for PausedQueue { namespace, name, since } in paused {
            queues.entry(namespace).or_default().insert(name, since);
        }
        self.paused_queues = PausedQueues(queues);
    }

    /// Whether the jobs of the pool wait because their queue is paused.
    pub(super) fn is_paused(&self, pool: PoolId) -> bool {
        if self.paused_queues.is_empty() || planted!(self.config, PauseIgnored) {
            return false;
        }
        self.fleet.needs_of(pool).is_some_and(|needs| self.paused_queues.has(needs.namespace, &needs.queue))
    }

    /// Why a job ends that no worker took within this time.
    pub(super) fn not_taken(&self, task: &Task, limit: Span) -> String {
        let queue = &task.spec.queue;
        match self.paused_queues.since(task.namespace, queue) {
            Some(since) => queue_timeout_reason(&format!("queue {queue} is paused {since}"), limit),
            None => "no worker took it in time".to_owned(),
        }
    }

    /// Pools of paused queues in which jobs wait.
    pub(super) fn paused_pools(&self) -> BTreeSet<PoolId> {
        if self.paused_queues.is_empty() {
            return BTreeSet::new();
        }
        self.window.ready_pools(|pool| self.is_paused(pool)).into_iter().collect()
    }

    /// How many starts of paused queues were decided before the pause and are not durable yet. Once there are none, nothing
    /// of a paused queue starts here.
    pub fn starts_of_paused_queues(&self) -> usize {
        if self.paused_queues.is_empty() {
            return 0;
        }
        let is_starting = |stage: &Stage| matches!(stage, Stage::Starting(_));
        self.shards.all_live().filter(|live| is_starting(&live.stage) && self.is_paused(live.pool)).count()
    }

    /// What waits and runs here, by queue. Looks at all jobs in memory, of which there are at most some ten thousand.
    pub fn queue_loads(&self) -> Vec<QueueLoad> {
        let mut by_pool: BTreeMap<PoolId, (u64, u64, Option<Timestamp>)> = BTreeMap::new();
        for live in self.shards.all_live() {
            let (waiting, running, since) = by_pool.entry(live.pool).or_default();
            match live.stage {
                Stage::Ready => {
                    *waiting += 1;
                    let due_since = live.due_since();
                    *since = Some(since.map_or(due_since, |since| since.min(due_since)));
                }
                Stage::Starting(_) | Stage::Running(_) | Stage::Ending { run: Some(_) } => *running += 1,
                Stage::Waiting | Stage::Ending { run: None } => {}
            }
        }
        let parked: BTreeSet<PoolId> = self.shards.iter().flat_map(|shard| shard.sweeps.parked_pools()).collect();
        let pools: BTreeSet<PoolId> = by_pool.keys().chain(&parked).copied().collect();
        let mut loads: BTreeMap<(NamespaceId, &str), QueueLoad> = BTreeMap::new();
        for pool in pools {
            let Some(needs) = self.fleet.needs_of(pool) else { continue };
            let (waiting, running, waiting_since) = by_pool.get(&pool).copied().unwrap_or_default();
            let has_more = parked.contains(&pool);
            let load = loads
                .entry((needs.namespace, needs.queue.as_str()))
                .or_insert_with(|| QueueLoad::new(needs.namespace, needs.queue.clone()));
            load.add(&QueueLoad { waiting, running, waiting_since, has_more, ..load.clone() });
        }
        loads.into_values().collect()
    }
}
