//! Classes of jobs that the window has no room for.
//!
//! What is left out is not forgotten: of each class it is known from which row on its
//! jobs are not in memory, and when the class has room again it is read on from there,
//! in order. So the sweep can pass the backlog of one queue and find what is due in others.

use std::collections::BTreeMap;

use crate::id::TaskId;
use crate::job::JobKey;
use crate::shard::fleet::JobClass;
use crate::shard::sweeps::cursor::Cursor;

/// Tasks that the sweeps of a shard leave out, at most: each row is compared with all of them.
/// Jobs of further tasks are read, and parked once more.
const PASSED_TASKS_MAX: usize = 32;

#[derive(Default)]
pub(super) struct Parking {
    /// From here on, jobs of the class are not in memory.
    pub(super) from: BTreeMap<JobClass, JobKey>,
    /// Some tasks of these classes.
    tasks: BTreeMap<TaskId, JobClass>,
    pub(super) reading: Option<Reading>,
    pub(super) cursor: Cursor,
}

/// The read of parked jobs that is under way.
pub(super) struct Reading {
    pub(super) class: JobClass,
    pub(super) limit: usize,
}

impl Parking {
    /// Tasks whose jobs after a row are all parked.
    pub(super) fn passed_from(&self, after: Option<JobKey>) -> Vec<TaskId> {
        let Some(after) = after else { return Vec::new() };
        let is_passed = |class: &JobClass| self.from.get(class).is_some_and(|from| *from <= after);
        self.tasks.iter().filter(|(_, class)| is_passed(class)).map(|(task, _)| *task).collect()
    }

    /// Remembers to read this job later.
    pub(super) fn park(&mut self, class: JobClass, key: JobKey, task: TaskId) {
        let from = self.from.entry(class).or_insert(key);
        *from = key.min(*from);
        if self.tasks.len() < PASSED_TASKS_MAX {
            self.tasks.insert(task, class);
        }
        // The read may have passed it already.
        if self.reading.as_ref().is_some_and(|reading| reading.class == class) {
            self.cursor.rewind_read(key);
        }
    }

    /// The task may be of another class now. Its jobs are parked in that one, as far as they
    /// may have been in the former.
    pub(super) fn park_anew(&mut self, task: TaskId, class: JobClass) {
        if self.from.contains_key(&class) && self.tasks.get(&task) == Some(&class) {
            return;
        }
        if let Some(&first) = self.from.values().min() {
            self.tasks.remove(&task);
            self.park(class, first, task);
        }
    }

    /// No job of the class is parked any more.
    pub(super) fn remove(&mut self, class: JobClass) {
        self.from.remove(&class);
        self.tasks.retain(|_, of| *of != class);
    }
}
