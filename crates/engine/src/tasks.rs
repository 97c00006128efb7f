//! The definitions that jobs run by, kept near.

use std::sync::{Arc, Mutex};

use punctual_core::id_map::IdMap;
use punctual_core::shard::event::Loaded;
use punctual_core::task::Task;
use punctual_core::{JobRow, TaskId};
use punctual_store::{Result, Store};

/// Beyond this the cache starts anew; what is needed comes back from the store.
const CACHED_MAX: usize = 10_000;

#[derive(Default)]
pub(crate) struct TaskCache(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    tasks: IdMap<TaskId, Arc<Task>>,
    /// The generation of the store when the tasks were read.
    generation: u64,
}

impl TaskCache {
    fn tasks<T>(&self, look: impl FnOnce(&mut IdMap<TaskId, Arc<Task>>) -> T) -> T {
        look(&mut self.0.lock().expect("no panic while the lock is held").tasks)
    }

    /// What was read from another instance of the database may never have been in this one.
    fn follow(&self, store: &dyn Store) {
        let generation = store.generation();
        let mut cached = self.0.lock().expect("no panic while the lock is held");
        if cached.generation != generation {
            *cached = Cached { generation, ..Cached::default() };
        }
    }

    pub(crate) fn put(&self, task: Arc<Task>) {
        self.tasks(|cached| put(cached, task));
    }

    /// Those that can be changed, with their revisions.
    pub(crate) fn named(&self) -> Vec<(TaskId, u32)> {
        self.tasks(|cached| {
            cached.values().filter(|task| task.name.is_some()).map(|task| (task.id, task.revision)).collect()
        })
    }

    pub(crate) fn get(&self, id: TaskId) -> Option<Arc<Task>> {
        self.tasks(|cached| cached.get(&id).cloned())
    }

    /// The definitions of these tasks, from memory or the store. Those that are in neither are left out.
    pub(crate) async fn find(
        &self,
        store: &dyn Store,
        ids: impl Iterator<Item = TaskId>,
    ) -> Result<IdMap<TaskId, Arc<Task>>> {
        self.follow(store);
        let mut found: IdMap<TaskId, Arc<Task>> = IdMap::default();
        let mut missing: Vec<TaskId> = Vec::new();
        let mut last = None;
        for id in ids {
            if last == Some(id) || found.contains_key(&id) {
                continue;
            }
            last = Some(id);
            match self.get(id) {
                Some(task) => drop(found.insert(id, task)),
                None => missing.push(id),
            }
        }
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            for task in store.tasks_by_id(missing).await? {
                let task = Arc::new(task);
                self.put(Arc::clone(&task));
                found.insert(task.id, task);
            }
        }
        Ok(found)
    }

    /// Joins rows with their tasks, without the store. `None` if a task is not at hand.
    pub(crate) fn join_cached(&self, store: &dyn Store, rows: Vec<JobRow>) -> Option<Vec<Loaded>> {
        self.follow(store);
        self.tasks(|cached| {
            let join = |row: JobRow| cached.get(&row.task).cloned().map(|task| Loaded { row, task });
            rows.into_iter().map(join).collect()
        })
    }

    /// Joins rows with their tasks. A row whose task is gone is reported and left out:
    /// it cannot run, and it must not stop the others.
    pub(crate) async fn join(&self, store: &dyn Store, rows: Vec<JobRow>) -> Result<Vec<Loaded>> {
        let found = self.find(store, rows.iter().map(|row| row.task)).await?;
        let join = |row: JobRow| match found.get(&row.task).cloned() {
            Some(task) => Some(Loaded { row, task }),
            None => {
                tracing::error!(job = %row.key.id, task = %row.task, "the job's task is not in the store");
                None
            }
        };
        Ok(rows.into_iter().filter_map(join).collect())
    }
}

fn put(cached: &mut IdMap<TaskId, Arc<Task>>, task: Arc<Task>) {
    if cached.len() >= CACHED_MAX {
        cached.clear();
    }
    // A read that began before an update must not bring the old definition back.
    let is_newer = cached.get(&task.id).is_none_or(|known| known.revision <= task.revision);
    if is_newer {
        cached.insert(task.id, task);
    }
}

#[cfg(test)]
mod tests {
    use punctual_store::Tasks;
    use punctual_store_tests::fixture::{at, named_task, task_id};
    use punctual_store_tests::model::ModelStore;

    use super::*;

    #[tokio::test]
    async fn definitions_from_another_instance_of_the_database_are_forgotten() {
        let (store, cache) = (ModelStore::new(1, at(0)), TaskCache::default());
        let before = store.snapshot();
        store.create_task(named_task(1, "report")).await.unwrap();
        let known = || async { cache.find(&store, [task_id(1)].into_iter()).await.unwrap().len() };
        assert_eq!((known().await, cache.named().len()), (1, 1));
        store.go_back_to(before);
        assert_eq!((known().await, cache.named().len()), (0, 0));
    }
}
