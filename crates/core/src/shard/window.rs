//! The window: which jobs of the near future are in memory, and in what order they are due.
//!
//! Each pool of jobs has queues of its own, so that one whose workers are busy or disconnected never holds up another.
//! Does not know shards, nor what is left out of it; see [`super::admission`] and [`super::sweeps`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::id::{JobId, TaskId};
use crate::job::JobKey;
use crate::shard::Config;
use crate::shard::event::Loaded;
use crate::shard::fleet::PoolId;
use crate::shard::gangs::Gangs;
use crate::shard::live::{Live, Stage};
use crate::task::{Priority, Task};
use crate::time::Timestamp;

/// Changes of tasks that are remembered, for rows that were read before them.
const CHANGED_TASKS_MAX: usize = 256;

/// Places in the window that a pool has in any case.
const CLASS_SURE: usize = 16;

/// The jobs of one pool.
#[derive(Default)]
struct PoolQueue {
    /// Jobs whose time has not come, the next one first.
    waiting: BTreeSet<JobKey>,
    /// Jobs that are due, the lowest rank first.
    ready: BTreeSet<(i64, JobId)>,
}

impl PoolQueue {
    fn len(&self) -> usize {
        self.waiting.len() + self.ready.len()
    }
}

/// A pool whose jobs need a worker now or soon.
pub(super) struct PressingPool {
    pub(super) pool: PoolId,
    pub(super) ready: usize,
    pub(super) due_since: Option<Timestamp>,
}

pub(super) struct Window {
    /// Queues by the index of their pool.
    queues: Vec<PoolQueue>,
    /// Jobs in all queues.
    len: usize,
    len_max: usize,
    /// Members of gangs, which are in no queue.
    pub(super) gangs: Gangs,
    /// Tasks that were changed lately.
    changed_tasks: BTreeMap<TaskId, Arc<Task>>,
}

impl Window {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            queues: Vec::new(),
            len: 0,
            len_max: config.window_max,
            gangs: Gangs::new(config.window_max),
            changed_tasks: BTreeMap::new(),
        }
    }

    fn queue(&self, pool: PoolId) -> Option<&PoolQueue> {
        self.queues.get(pool.place())
    }

    fn queue_mut(&mut self, pool: PoolId) -> &mut PoolQueue {
        if self.queues.len() <= pool.place() {
            self.queues.resize_with(pool.place() + 1, PoolQueue::default);
        }
        &mut self.queues[pool.place()]
    }

    /// Puts a job among those that wait for their time or, if it is due by `limit`, for a worker.
    pub(super) fn enqueue(&mut self, live: &mut Live, limit: Timestamp) {
        if let Some((key, gang)) = live.gang() {
            let is_due = key.due_at <= limit;
            live.stage = if is_due { Stage::Ready } else { Stage::Waiting };
            self.gangs.insert(key, gang, live.key.id, live.pool, is_due);
            return;
        }
        self.len += 1;
        let queue = self.queue_mut(live.pool);
        if live.key.due_at <= limit {
            live.stage = Stage::Ready;
            queue.ready.insert(live.rank());
        } else {
            live.stage = Stage::Waiting;
            queue.waiting.insert(live.key);
        }
    }

    /// Takes a job out of the queues, if it is in one.
    pub(super) fn dequeue(&mut self, live: &Live) {
        if let Some((key, _)) = live.gang().filter(|_| live.is_in_window()) {
            self.gangs.remove(key, live.key.id);
            return;
        }
        let queue = self.queue_mut(live.pool);
        match live.stage {
            Stage::Waiting => _ = queue.waiting.remove(&live.key),
            Stage::Ready => _ = queue.ready.remove(&live.rank()),
            Stage::Starting(_) | Stage::Running(_) | Stage::Ending { .. } => return,
        }
        self.len -= 1;
    }

    /// Removes the jobs that are due by `limit`. Each must then be [woken](Window::wake).
    pub(super) fn take_due(&mut self, limit: Timestamp) -> Vec<JobId> {
        let mut due = self.gangs.take_due(limit);
        for queue in &mut self.queues {
            while queue.waiting.first().is_some_and(|key| key.due_at <= limit) {
                due.extend(queue.waiting.pop_first().map(|key| key.id));
            }
        }
        due
    }

    /// A job that was taken out as due waits for a worker.
    pub(super) fn wake(&mut self, live: &mut Live) {
        live.stage = Stage::Ready;
        if live.gang().is_none() {
            self.queue_mut(live.pool).ready.insert(live.rank());
        }
    }

    /// Takes out jobs of a pool that are due, the oldest first, to be started.
    pub(super) fn take_ready(&mut self, pool: PoolId, count: usize) -> Vec<JobId> {
        let mut taken = Vec::with_capacity(count);
        let queue = self.queue_mut(pool);
        for _ in 0..count {
            taken.extend(queue.ready.pop_first().map(|(_, id)| id));
        }
        self.len -= taken.len();
        taken
    }

    /// Pools with jobs that are due and that `may_run`, the one with the oldest job first.
    pub(super) fn ready_pools(&self, may_run: impl Fn(PoolId) -> bool) -> Vec<PoolId> {
        let pools = self.queues.iter().enumerate().map(|(place, queue)| (PoolId::at(place), queue));
        let oldest = |(pool, queue): (PoolId, &PoolQueue)| queue.ready.first().map(|&rank| (rank, pool));
        let mut pools: Vec<_> = pools.filter(|(pool, _)| may_run(*pool)).filter_map(oldest).collect();
        pools.sort_unstable();
        pools.into_iter().map(|(_, pool)| pool).collect()
    }

    /// Whether any pool with jobs in the window satisfies the predicate.
    pub(super) fn has_pool(&self, is_wanted: impl Fn(PoolId) -> bool) -> bool {
        let holding = self.queues.iter().enumerate().filter(|(_, queue)| queue.len() > 0);
        holding.map(|(place, _)| PoolId::at(place)).chain(self.gangs.pools()).any(is_wanted)
    }

    /// Jobs in memory that wait for their time or for a worker.
    pub(super) fn len(&self) -> usize {
        self.len + self.gangs.len()
    }

    /// How many jobs of the pool are in the window, due or not.
    pub(super) fn len_of(&self, pool: PoolId) -> usize {
        self.queue(pool).map_or(0, PoolQueue::len)
    }

    /// How many jobs wait for a worker.
    pub(super) fn ready_len(&self) -> usize {
        self.queues.iter().map(|queue| queue.ready.len()).sum::<usize>() + self.gangs.due_len()
    }

    /// Whether any job waits for a worker.
    pub(super) fn has_ready(&self) -> bool {
        self.gangs.has_due() || self.queues.iter().any(|queue| !queue.ready.is_empty())
    }

    /// How many jobs of this pool wait for a worker by themselves.
    pub(super) fn queued_in(&self, pool: PoolId) -> usize {
        self.queue(pool).map_or(0, |queue| queue.ready.len())
    }

    /// How many jobs of these pools wait for a worker.
    pub(super) fn ready_in(&self, pools: &[PoolId]) -> usize {
        let queued: usize = pools.iter().filter_map(|pool| self.queue(*pool)).map(|queue| queue.ready.len()).sum();
        queued + self.gangs.due_in(pools)
    }

    /// Pools with jobs that are due, or will be by `limit`: how many are due, and since when the first of them is.
    pub(super) fn pressing(&self, limit: Timestamp) -> Vec<PressingPool> {
        let pressing = |(place, queue): (usize, &PoolQueue)| {
            let ready = queue.ready.len();
            let is_soon = || queue.waiting.first().is_some_and(|key| key.due_at <= limit);
            let due_since = queue.ready.first().map(|(_, id)| id.due_at());
            (ready > 0 || is_soon()).then_some(PressingPool { pool: PoolId::at(place), ready, due_since })
        };
        let mut all: Vec<PressingPool> = self.queues.iter().enumerate().filter_map(pressing).collect();
        for (pool, (ready, due_since)) in self.gangs.pressing(limit) {
            match all.iter_mut().find(|pressing| pressing.pool == pool) {
                Some(pressing) => {
                    pressing.ready += ready;
                    pressing.due_since = pressing.due_since.into_iter().chain(due_since).min();
                }
                None => all.push(PressingPool { pool, ready, due_since }),
            }
        }
        all
    }

    /// The last job of the pool in order of due time.
    pub(super) fn last_waiting(&self, pool: PoolId) -> Option<JobKey> {
        self.queue(pool)?.waiting.last().copied()
    }

    /// When the next job becomes due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let queued = self.queues.iter().filter_map(|queue| queue.waiting.first().map(|key| key.due_at));
        queued.chain(self.gangs.next_due()).min()
    }

    /// How many more jobs of this pool the window takes. No pool takes more than what
    /// is left for all others, so that one whose workers are busy or away never shuts out
    /// the rest. Beyond that, urgent jobs have a reserve, and every pool has a few places
    /// however full the window is.
    pub(super) fn room_for(&self, pool: PoolId, priority: Priority) -> usize {
        let max = self.len_max;
        let reserve = if priority > Priority::default() { max / 4 } else { 0 };
        let free = (max + reserve).saturating_sub(self.len);
        let sure = CLASS_SURE.min(max / 4).max(1);
        let in_window = self.len_of(pool);
        let share = if reserve > 0 { free } else { free.saturating_sub(in_window) };
        share.max(sure.saturating_sub(in_window))
    }

    /// Records the new definition of a task. False if a newer one is known, because two changes may arrive in the wrong
    /// order.
    pub(super) fn task_changed(&mut self, task: &Arc<Task>) -> bool {
        if self.changed_tasks.get(&task.id).is_some_and(|known| known.revision > task.revision) {
            return false;
        }
        if self.changed_tasks.len() >= CHANGED_TASKS_MAX {
            self.changed_tasks.clear();
        }
        self.changed_tasks.insert(task.id, Arc::clone(task));
        true
    }

    /// A row may have been read before its task was changed.
    pub(super) fn with_newest_task(&self, mut job: Loaded) -> Loaded {
        if let Some(newest) = self.changed_tasks.get(&job.task.id)
            && newest.revision > job.task.revision
        {
            job.task = Arc::clone(newest);
        }
        job
    }
}
