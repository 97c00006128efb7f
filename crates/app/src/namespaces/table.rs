//! All namespaces in memory, so that no request waits for the store to know in which it is made.
//!
//! Each server asks the store once a second whether they changed, as it does for keys and people. While the store is away the
//! last known state counts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use punctual_core::JobId;
use punctual_core::namespace::{NamespaceId, NamespaceName};
use punctual_store::{AllNamespaces, NamespaceRow};

/// A namespace as principals carry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    id: NamespaceId,
    name: Arc<str>,
}

impl Namespace {
    pub(crate) fn new(id: NamespaceId, name: impl Into<Arc<str>>) -> Self {
        Self { id, name: name.into() }
    }

    pub fn id(&self) -> NamespaceId {
        self.id
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Default for Namespace {
    fn default() -> Self {
        // Nearly every request is made in it.
        static DEFAULT: LazyLock<Namespace> =
            LazyLock::new(|| Namespace::new(NamespaceId::DEFAULT, NamespaceName::DEFAULT));
        DEFAULT.clone()
    }
}

#[derive(Default)]
pub(crate) struct NamespaceTable {
    known: RwLock<Known>,
    /// Whose turn it is to read changes.
    pub(super) turn: tokio::sync::Mutex<()>,
}

/// Jobs that were found to be of the namespace of whoever asked. A job never changes its namespace. Nothing is remembered of
/// others, or an answer would be quicker for a job that is there than for one that is not.
#[derive(Default)]
pub(crate) struct OwnJobs(Mutex<HashSet<(NamespaceId, JobId)>>);

impl OwnJobs {
    /// Beyond this the memory starts anew.
    const MAX: usize = 10_000;

    fn known(&self) -> MutexGuard<'_, HashSet<(NamespaceId, JobId)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has(&self, namespace: NamespaceId, job: JobId) -> bool {
        self.known().contains(&(namespace, job))
    }

    pub(super) fn remember(&self, namespace: NamespaceId, job: JobId) {
        let mut known = self.known();
        if known.len() >= Self::MAX {
            known.clear();
        }
        known.insert((namespace, job));
    }
}

#[derive(Default)]
struct Known {
    /// `None` before the first look.
    revision: Option<u64>,
    rows: BTreeMap<NamespaceId, Arc<NamespaceRow>>,
    /// Of those that are not deleted.
    names: HashMap<String, Namespace>,
}

impl NamespaceTable {
    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn revision(&self) -> Option<u64> {
        self.known().revision
    }

    pub(super) fn replace(&self, all: AllNamespaces) {
        let names = all.rows.iter().filter(|row| row.deleted_at.is_none());
        let names = names.map(|row| (row.name.as_str().to_owned(), Namespace::new(row.id, row.name.as_str())));
        let known = Known {
            revision: Some(all.revision),
            names: names.collect(),
            rows: all.rows.into_iter().map(|row| (row.id, Arc::new(row))).collect(),
        };
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// One that is not deleted. The default one is there before the store was asked.
    pub(crate) fn named(&self, name: &str) -> Option<Namespace> {
        let known = self.known().names.get(name).cloned();
        known.or_else(|| (name == NamespaceName::DEFAULT).then(Namespace::default))
    }

    /// One that is not deleted.
    pub(crate) fn by_id(&self, id: NamespaceId) -> Option<Namespace> {
        if id.is_default() {
            return Some(Namespace::default());
        }
        let row = self.row(id).filter(|row| row.deleted_at.is_none())?;
        Some(Namespace::new(id, row.name.as_str()))
    }

    /// Also one that was deleted: its history may still be shown.
    pub(crate) fn name_of(&self, id: NamespaceId) -> Option<String> {
        if id.is_default() {
            return Some(NamespaceName::DEFAULT.to_owned());
        }
        self.row(id).map(|row| row.name.as_str().to_owned())
    }

    fn row(&self, id: NamespaceId) -> Option<Arc<NamespaceRow>> {
        self.known().rows.get(&id).cloned()
    }

    /// Those that are not deleted, in order of name.
    pub(super) fn live(&self) -> Vec<Arc<NamespaceRow>> {
        let known = self.known();
        let mut rows: Vec<_> = known.rows.values().filter(|row| row.deleted_at.is_none()).cloned().collect();
        drop(known);
        rows.sort_by(|one, other| one.name.cmp(&other.name));
        rows
    }

    /// Whether there is no other namespace than the default one, and never was one whose jobs may still be there. Then a job
    /// that is found is in the namespace of whoever asks, and nothing needs to be read to know it.
    pub(crate) fn is_single(&self) -> bool {
        let known = self.known();
        known.revision.is_some() && known.rows.keys().all(NamespaceId::is_default)
    }

    pub(super) fn has_several(&self) -> bool {
        self.known().rows.keys().any(|id| !id.is_default())
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::Timestamp;

    use super::*;

    fn row(id: u32, name: &str, deleted_at: Option<Timestamp>) -> NamespaceRow {
        NamespaceRow {
            id: NamespaceId(id),
            name: name.parse().unwrap(),
            revision: 1,
            created_at: Timestamp::EPOCH,
            created_by: "local".to_owned(),
            changed_at: Timestamp::EPOCH,
            changed_by: "local".to_owned(),
            deleted_at,
            spec: "{}".to_owned(),
        }
    }

    #[test]
    fn the_default_namespace_is_there_before_the_store_was_asked_and_jobs_are_looked_at_until_then() {
        let table = NamespaceTable::default();
        assert_eq!(table.named("default"), Some(Namespace::default()));
        assert!(!table.is_single(), "nobody knows yet");
        table.replace(AllNamespaces { revision: 1, rows: vec![row(0, "default", None)] });
        assert!(table.is_single());
    }

    #[test]
    fn a_deleted_namespace_is_found_by_nobody_and_its_name_may_be_that_of_another() {
        let table = NamespaceTable::default();
        let rows = vec![row(1, "team-a", Some(Timestamp::EPOCH)), row(2, "team-b", None), row(3, "team-a", None)];
        table.replace(AllNamespaces { revision: 5, rows });
        assert_eq!(table.named("team-a").map(|found| found.id()), Some(NamespaceId(3)));
        assert_eq!(table.by_id(NamespaceId(1)), None);
        assert_eq!(table.name_of(NamespaceId(1)).as_deref(), Some("team-a"), "its history has a name");
        assert!(!table.is_single());
        assert_eq!(table.live().len(), 2);
    }
}
