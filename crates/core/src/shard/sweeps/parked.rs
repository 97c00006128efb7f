//! Pools whose jobs the window has no room for.
//!
//! Parked jobs are not forgotten. For each pool this module knows the row from which on its jobs are not in memory;
//! when the pool has room again, they are read from there, in order. So a sweep can pass the backlog of one queue and
//! find what is due in others.

use std::collections::BTreeMap;

use crate::id::TaskId;
use crate::job::JobKey;
use crate::shard::fleet::PoolId;
use crate::shard::sweeps::cursor::Cursor;

/// Tasks that the sweeps of a shard leave out, at most: each row is compared with all of them.
/// Jobs of further tasks are read, and parked once more.
const PASSED_TASKS_MAX: usize = 32;

#[derive(Default)]
pub(super) struct ParkedPools {
    /// For each pool, the row from which on its jobs are not in memory.
    pub(super) from: BTreeMap<PoolId, JobKey>,
    /// Some tasks of these pools.
    tasks: BTreeMap<TaskId, PoolId>,
    pub(super) reading: Option<OpenParkedRead>,
    pub(super) cursor: Cursor,
}

/// The read of parked jobs that is under way.
pub(super) struct OpenParkedRead {
    pub(super) pool: PoolId,
    pub(super) limit: usize,
}

impl ParkedPools {
    /// Tasks whose jobs after a row are all parked.
    pub(super) fn passed_from(&self, after: Option<JobKey>) -> Vec<TaskId> {
        let Some(after) = after else { return Vec::new() };
        let is_passed = |pool: &PoolId| self.from.get(pool).is_some_and(|from| *from <= after);
        self.tasks.iter().filter(|(_, pool)| is_passed(pool)).map(|(task, _)| *task).collect()
    }

    /// Remembers to read this job later.
    pub(super) fn park(&mut self, pool: PoolId, key: JobKey, task: TaskId) {
        let from = self.from.entry(pool).or_insert(key);
        *from = key.min(*from);
        if self.tasks.len() < PASSED_TASKS_MAX {
            self.tasks.insert(task, pool);
        }
        // The read may have passed it already.
        if self.reading.as_ref().is_some_and(|reading| reading.pool == pool) {
            self.cursor.rewind_read(key);
        }
    }

    /// The task may be of another pool now. Its jobs are parked in that one, as far as they
    /// may have been in the former.
    pub(super) fn park_anew(&mut self, task: TaskId, pool: PoolId) {
        if self.from.contains_key(&pool) && self.tasks.get(&task) == Some(&pool) {
            return;
        }
        if let Some(&first) = self.from.values().min() {
            self.tasks.remove(&task);
            self.park(pool, first, task);
        }
    }

    /// No job of the pool is parked any more.
    pub(super) fn remove(&mut self, pool: PoolId) {
        self.from.remove(&pool);
        self.tasks.retain(|_, of| *of != pool);
    }
}
