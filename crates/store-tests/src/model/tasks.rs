use std::collections::HashSet;

use punctual_core::task::Task;
use punctual_core::{NamespaceId, TaskId, Timestamp};
use punctual_store::{Interned, Result, TASK_USE_STEP, TaskChange, tasks_used_since};

use super::{ModelStore, State, StoredTask, inconsistent};

impl ModelStore {
    pub fn create_task_now(&self, task: Task) -> Result<TaskChange> {
        self.state().all_or_nothing(|state| {
            let Some(name) = &task.name else { return Err(inconsistent("a named task needs a name")) };
            if state.live(task.namespace, name).is_some() {
                return Ok(TaskChange::NameTaken);
            }
            match state.awaited(&task) {
                Err((artifact, unfit)) => Ok(TaskChange::Unfit(artifact, unfit)),
                Ok(waits_for) => state.store_task(Task { waits_for, ..task }, None).map(|_| TaskChange::Done),
            }
        })
    }

    pub fn update_task_now(&self, task: Task) -> Result<TaskChange> {
        self.state().all_or_nothing(|state| {
            let Some(mut stored) = state.named(task.id).cloned() else { return Ok(TaskChange::Absent) };
            let revision = stored.task.revision;
            if revision.checked_add(1) != Some(task.revision) {
                return Ok(TaskChange::Conflict { revision });
            }
            let waits_for = match state.awaited(&task) {
                Err((artifact, unfit)) => return Ok(TaskChange::Unfit(artifact, unfit)),
                Ok(waits_for) => waits_for,
            };
            state.let_go(&stored.task, task.updated_at);
            // A change of name or of birthday is not part of an update.
            stored.task.revision = task.revision;
            stored.task.updated_at = task.updated_at;
            stored.task.spec = task.spec;
            stored.task.changed_by = task.changed_by;
            stored.task.waits_for = waits_for;
            state.tasks.put(task.id, stored);
            Ok(TaskChange::Done)
        })
    }

    pub fn delete_task_now(&self, id: TaskId, expected: Option<u32>) -> Result<TaskChange> {
        self.state().all_or_nothing(|state| {
            let Some(stored) = state.named(id).cloned() else { return Ok(TaskChange::Absent) };
            let revision = stored.task.revision;
            if expected.is_some_and(|expected| expected != revision) {
                return Ok(TaskChange::Conflict { revision });
            }
            let used_until = stored.used_until.max(state.now);
            state.tasks.put(id, StoredTask { deleted: true, used_until, ..stored });
            Ok(TaskChange::Done)
        })
    }

    pub fn intern_tasks_now(&self, mut tasks: Vec<(Task, [u8; 32])>) -> Result<Interned> {
        self.state().all_or_nothing(|state| {
            if tasks.iter().any(|(task, _)| task.name.is_some()) {
                return Err(inconsistent("a task with a name cannot be interned"));
            }
            for (task, _) in &mut tasks {
                match state.awaited(task) {
                    Err((artifact, unfit)) => return Ok(Interned::Unfit(artifact, unfit)),
                    Ok(waits_for) => task.waits_for = waits_for,
                }
            }
            let ids = tasks.into_iter().map(|(task, digest)| state.intern(task, digest));
            ids.collect::<Result<_>>().map(Interned::Done)
        })
    }

    pub fn task_by_name_now(&self, namespace: NamespaceId, name: &str) -> Option<Task> {
        self.state().live(namespace, name).cloned()
    }

    pub fn tasks_by_id_now(&self, ids: &[TaskId]) -> Vec<Task> {
        let state = self.state();
        ids.iter().filter_map(|id| state.tasks.get(id)).map(|stored| stored.task.clone()).collect()
    }

    pub fn list_tasks_now(&self, namespace: NamespaceId, after: Option<&str>, limit: usize) -> Vec<Task> {
        let state = self.state();
        let mut named: Vec<_> = state
            .tasks
            .values()
            .filter(|stored| !stored.deleted && stored.task.namespace == namespace)
            .filter(|stored| stored.task.name.as_deref() > Some(after.unwrap_or_default()))
            .map(|stored| stored.task.clone())
            .collect();
        named.sort_by(|one, other| one.name.cmp(&other.name));
        named.truncate(limit);
        named
    }
}

impl State {
    /// That of its jobs. A task that is gone has none that anybody sees.
    pub(super) fn namespace_of(&self, task: TaskId) -> NamespaceId {
        self.tasks.get(&task).map(|stored| stored.task.namespace).unwrap_or_default()
    }

    fn live(&self, namespace: NamespaceId, name: &str) -> Option<&Task> {
        let of_namespace = self.tasks.values().filter(|stored| stored.task.namespace == namespace);
        let mut live = of_namespace.filter(|stored| !stored.deleted).map(|stored| &stored.task);
        live.find(|task| task.name.as_deref() == Some(name))
    }

    fn named(&self, id: TaskId) -> Option<&StoredTask> {
        self.tasks.get(&id).filter(|stored| !stored.deleted && stored.task.name.is_some())
    }

    fn intern(&mut self, task: Task, digest: [u8; 32]) -> Result<TaskId> {
        let is_same = |stored: &&StoredTask| stored.digest == Some(digest) && stored.task.namespace == task.namespace;
        let known = self.tasks.values().find(is_same).map(|stored| stored.task.id);
        match known {
            Some(id) => {
                self.use_task(id, task.created_at);
                Ok(id)
            }
            None => self.store_task(task, Some(digest)),
        }
    }

    fn store_task(&mut self, task: Task, digest: Option<[u8; 32]>) -> Result<TaskId> {
        let id = task.id;
        if self.tasks.has(&id) {
            return Err(inconsistent(format!("{id} is there already")));
        }
        let used_until = task.created_at;
        self.tasks.put(id, StoredTask { task, deleted: false, digest, used_until });
        Ok(id)
    }

    pub(super) fn use_task(&mut self, id: TaskId, until: Timestamp) {
        let stored = &self.tasks[&id];
        if until > stored.used_until + TASK_USE_STEP {
            self.tasks.put(id, StoredTask { used_until: until, ..stored.clone() });
        }
    }

    pub(super) fn forget_tasks(&mut self, before: Timestamp) {
        let hot = self.hot.values().map(|hot| hot.task);
        let finished = self.finished.values().map(|finished| finished.hot.task);
        let scheduled = self.schedules.values().map(|row| row.edit.task);
        let needed: HashSet<TaskId> = hot.chain(finished).chain(scheduled).collect();
        let is_unused = |stored: &StoredTask| stored.used_until < tasks_used_since(before);
        self.tasks.take_all(|id, stored| {
            (stored.deleted || stored.task.name.is_none()) && is_unused(stored) && !needed.contains(id)
        });
    }
}
