//! What people have decided about queues.

use std::collections::BTreeSet;

use async_trait::async_trait;
use punctual_core::NamespaceId;
use punctual_store::{AllQueues, QueueChange, QueueRow, Queues, QueuesFull, Result};

use super::{ModelStore, State};

impl State {
    fn queues_revision(&self) -> u64 {
        self.queues_revision.get(&()).copied().unwrap_or_default()
    }

    fn count_queue_change(&mut self) {
        let revision = self.queues_revision();
        self.queues_revision.put((), revision + 1);
    }

    pub(super) fn drop_queues(&mut self, namespace: NamespaceId) {
        if self.queues.keys().any(|(of, _)| *of == namespace) {
            self.queues.take_all(|(of, _), _| *of == namespace);
            self.count_queue_change();
        }
    }
}

impl ModelStore {
    pub fn put_queue_now(&self, row: QueueRow) -> Result<QueueChange> {
        self.state().all_or_nothing(|state| {
            let key = (row.namespace, row.name.clone());
            let revision = state.queues.get(&key).map_or(0, |known| known.revision);
            if revision + 1 != row.revision {
                return Ok(QueueChange::Conflict { revision });
            }
            let own = state.queues.keys().filter(|(of, _)| *of == row.namespace).count();
            if revision == 0
                && let Some(full) = QueuesFull::check(row.state, own, state.queues.len())
            {
                return Ok(QueueChange::Full(full));
            }
            state.queues.put(key, row);
            state.count_queue_change();
            Ok(QueueChange::Done)
        })
    }

    pub fn queues_now(&self) -> AllQueues {
        let state = self.state();
        AllQueues { revision: state.queues_revision(), rows: state.queues.values().cloned().collect() }
    }

    pub fn queue_names_now(&self, namespace: NamespaceId, after: &str, limit: usize) -> Vec<String> {
        let state = self.state();
        let tasks = state.tasks.values().filter(|stored| stored.task.namespace == namespace && !stored.deleted);
        let names = tasks.filter(|stored| stored.task.name.is_some()).map(|stored| stored.task.spec.queue.clone());
        let names: BTreeSet<String> = names.filter(|name| name.as_str() > after).collect();
        names.into_iter().take(limit).collect()
    }
}

#[async_trait]
impl Queues for ModelStore {
    async fn put_queue(&self, row: QueueRow) -> Result<QueueChange> {
        self.put_queue_now(row)
    }

    async fn queues(&self) -> Result<AllQueues> {
        Ok(self.queues_now())
    }

    async fn queues_revision(&self) -> Result<u64> {
        Ok(self.queues_now().revision)
    }

    async fn queue_names(&self, namespace: NamespaceId, after: &str, limit: usize) -> Result<Vec<String>> {
        Ok(self.queue_names_now(namespace, after, limit))
    }
}
