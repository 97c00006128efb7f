//! Namespaces: the tenants of a cluster.

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::namespace::{NamespaceId, NamespaceName};
use punctual_core::schedule::By;
use punctual_store::{
    AllNamespaces, DELETED_NAMESPACES_MAX, NAMESPACES_MAX, NamespaceChange, NamespaceContent, NamespaceDeletion,
    NamespaceRow, Namespaces, Result, data_key_label,
};

use super::{ModelStore, State};

impl ModelStore {
    pub fn create_namespace_now(&self, name: NamespaceName, spec: String, by: By) -> Result<NamespaceChange> {
        self.state().all_or_nothing(|state| {
            let live = || state.namespaces.values().filter(|row| row.deleted_at.is_none());
            if live().any(|row| row.name == name) {
                return Ok(NamespaceChange::NameTaken);
            }
            let deleted = state.namespaces.len() - live().count();
            if live().count() >= NAMESPACES_MAX || deleted >= DELETED_NAMESPACES_MAX {
                return Ok(NamespaceChange::Full);
            }
            let row = NamespaceRow {
                id: state.count_namespace_change(1),
                name,
                revision: 1,
                created_at: by.at,
                created_by: by.who.clone(),
                changed_at: by.at,
                changed_by: by.who,
                deleted_at: None,
                spec,
            };
            state.namespaces.put(row.id, row.clone());
            Ok(NamespaceChange::Done(row))
        })
    }

    pub fn update_namespace_now(
        &self,
        id: NamespaceId,
        expected: u32,
        spec: String,
        by: By,
    ) -> Result<NamespaceChange> {
        self.state().all_or_nothing(|state| {
            let Some(row) = state.live_namespace(id) else { return Ok(NamespaceChange::Absent) };
            let revision = row.revision;
            if revision != expected {
                return Ok(NamespaceChange::Conflict { revision });
            }
            let row = NamespaceRow { revision: revision + 1, spec, changed_at: by.at, changed_by: by.who, ..row };
            state.namespaces.put(id, row.clone());
            state.count_namespace_change(0);
            Ok(NamespaceChange::Done(row))
        })
    }

    pub fn delete_namespace_now(&self, id: NamespaceId, expected: Option<u32>, by: By) -> Result<NamespaceDeletion> {
        self.state().all_or_nothing(|state| {
            if id.is_default() {
                return Ok(NamespaceDeletion::IsDefault);
            }
            let Some(row) = state.live_namespace(id) else { return Ok(NamespaceDeletion::Absent) };
            let revision = row.revision;
            if expected.is_some_and(|expected| expected != revision) {
                return Ok(NamespaceDeletion::Conflict { revision });
            }
            if let Some(content) = NamespaceContent::ALL.into_iter().find(|content| state.has(id, *content)) {
                return Ok(NamespaceDeletion::InUse(content));
            }
            let (changed_at, changed_by, deleted_at) = (by.at, by.who, Some(by.at));
            state
                .namespaces
                .put(id, NamespaceRow { revision: revision + 1, changed_at, changed_by, deleted_at, ..row });
            let first = data_key_label(id);
            let is_its = |label: &&String| {
                label.strip_prefix(&first).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let dropped: Vec<String> = state.sealed_keys.keys().filter(is_its).cloned().collect();
            for label in dropped {
                state.sealed_keys.take(&label);
            }
            state.drop_queues(id);
            state.count_namespace_change(0);
            Ok(NamespaceDeletion::Done)
        })
    }

    pub fn namespaces_now(&self) -> AllNamespaces {
        let state = self.state();
        AllNamespaces { revision: state.namespace_changes().0, rows: state.namespaces.values().cloned().collect() }
    }
}

impl State {
    /// The namespace that always exists.
    pub(super) fn begin_namespaces(&mut self) {
        let row = NamespaceRow {
            id: NamespaceId::DEFAULT,
            name: NamespaceName::default(),
            revision: 1,
            created_at: Timestamp::EPOCH,
            created_by: "punctual".to_owned(),
            changed_at: Timestamp::EPOCH,
            changed_by: "punctual".to_owned(),
            deleted_at: None,
            spec: "{}".to_owned(),
        };
        self.namespaces.put(NamespaceId::DEFAULT, row);
        self.namespaces.keep();
        self.namespace_counter.put((), (1, 0));
        self.namespace_counter.keep();
    }

    fn namespace_changes(&self) -> (u64, u32) {
        self.namespace_counter.get(&()).copied().unwrap_or_default()
    }

    /// Answers the last number that was given.
    fn count_namespace_change(&mut self, numbers: u32) -> NamespaceId {
        let (revision, last) = self.namespace_changes();
        self.namespace_counter.put((), (revision + 1, last + numbers));
        NamespaceId(last + numbers)
    }

    pub(super) fn live_namespace(&self, id: NamespaceId) -> Option<NamespaceRow> {
        self.namespaces.get(&id).filter(|row| row.deleted_at.is_none()).cloned()
    }

    fn has(&self, id: NamespaceId, content: NamespaceContent) -> bool {
        match content {
            NamespaceContent::Schedules => self.schedules.values().any(|row| row.namespace == id),
            NamespaceContent::Tasks => self
                .tasks
                .values()
                .any(|stored| stored.task.namespace == id && !stored.deleted && stored.task.name.is_some()),
            NamespaceContent::Jobs => self.hot.values().any(|hot| self.namespace_of(hot.task) == id),
            NamespaceContent::Artifacts => self.has_artifact_of(id),
            NamespaceContent::Calendars => self.calendars.values().any(|calendar| calendar.namespace == id),
            NamespaceContent::Secrets => self.secrets.values().any(|secret| secret.namespace == id),
            NamespaceContent::Rules => self.rules.values().any(|rule| rule.namespace == id),
        }
    }

    pub(super) fn forget_namespaces(&mut self, before: Timestamp) {
        self.namespaces.take_all(|_, row| row.deleted_at.is_some_and(|deleted_at| deleted_at < before));
    }
}

#[async_trait]
impl Namespaces for ModelStore {
    async fn create_namespace(&self, name: NamespaceName, spec: String, by: By) -> Result<NamespaceChange> {
        self.create_namespace_now(name, spec, by)
    }
    async fn update_namespace(&self, id: NamespaceId, expected: u32, spec: String, by: By) -> Result<NamespaceChange> {
        self.update_namespace_now(id, expected, spec, by)
    }
    async fn delete_namespace(&self, id: NamespaceId, expected: Option<u32>, by: By) -> Result<NamespaceDeletion> {
        self.delete_namespace_now(id, expected, by)
    }
    async fn namespaces(&self) -> Result<AllNamespaces> {
        Ok(self.namespaces_now())
    }
    async fn namespaces_revision(&self) -> Result<u64> {
        Ok(self.namespaces_now().revision)
    }
}
