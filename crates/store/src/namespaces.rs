//! Namespaces: the tenants of a cluster.

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::namespace::{NamespaceId, NamespaceName};
use punctual_core::schedule::By;

use crate::Result;

/// Namespaces that there can be: every server has all of them in memory.
pub const NAMESPACES_MAX: usize = 10_000;
/// Namespaces that were deleted and whose history is still there. Their names are shown with it.
pub const DELETED_NAMESPACES_MAX: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceRow {
    pub id: NamespaceId,
    pub name: NamespaceName,
    /// Grows by one with each change of the spec, from 1 on.
    pub revision: u32,
    pub created_at: Timestamp,
    pub created_by: String,
    pub changed_at: Timestamp,
    pub changed_by: String,
    /// Since then nobody finds it; another may have its name.
    pub deleted_at: Option<Timestamp>,
    /// What the user wrote down, as JSON; a store does not look into it.
    pub spec: String,
}

/// All namespaces at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllNamespaces {
    /// Grows with each change of any of them.
    pub revision: u64,
    /// In order of id; also those that were deleted, as long as their history may be there.
    pub rows: Vec<NamespaceRow>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceChange {
    Done(NamespaceRow),
    /// Another namespace has this name.
    NameTaken,
    /// It is not there, or was deleted.
    Absent,
    /// It has this revision, not the one that the change was based on.
    Conflict {
        revision: u32,
    },
    /// There are [`NAMESPACES_MAX`], or [`DELETED_NAMESPACES_MAX`] that were deleted.
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceDeletion {
    Done,
    /// It is not there, or was deleted before.
    Absent,
    /// It has this revision, not the one that the deletion was based on.
    Conflict {
        revision: u32,
    },
    /// The default namespace always exists.
    IsDefault,
    /// There is still something of this kind in it.
    InUse(NamespaceContent),
}

/// What keeps a namespace from being deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespaceContent {
    Schedules,
    Tasks,
    /// Jobs that wait or run.
    Jobs,
    Artifacts,
    Calendars,
    Secrets,
    Rules,
}

impl NamespaceContent {
    /// In the order in which they are looked for, which is one in which somebody can remove them.
    pub const ALL: [Self; 7] =
        [Self::Schedules, Self::Tasks, Self::Jobs, Self::Artifacts, Self::Calendars, Self::Secrets, Self::Rules];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Schedules => "schedules",
            Self::Tasks => "tasks",
            Self::Jobs => "jobs",
            Self::Artifacts => "artifacts",
            Self::Calendars => "calendars",
            Self::Secrets => "secrets",
            Self::Rules => "rules",
        }
    }
}

/// Whoever stores something in a namespace looks first whether it is there; stores of other things do not look. What is
/// stored at the same moment as its namespace is deleted may remain. Nobody finds it, because the number is not given again:
/// a job that was submitted then runs, and goes by retention.
#[async_trait]
pub trait Namespaces: Send + Sync + 'static {
    /// Stores a new namespace under a number that none had before. Crash before: there is no namespace, and its number
    /// may be lost.
    async fn create_namespace(&self, name: NamespaceName, spec: String, by: By) -> Result<NamespaceChange>;

    /// Replaces the spec of a namespace that has the revision `expected`.
    async fn update_namespace(&self, id: NamespaceId, expected: u32, spec: String, by: By) -> Result<NamespaceChange>;

    /// Deletes a namespace in which there is nothing but history. `expected` is the revision that it must have; `None`:
    /// whatever it has.
    async fn delete_namespace(&self, id: NamespaceId, expected: Option<u32>, by: By) -> Result<NamespaceDeletion>;

    /// All of them, from one snapshot.
    async fn namespaces(&self) -> Result<AllNamespaces>;

    /// The largest revision of all changes: whether anything was changed since `namespaces`.
    async fn namespaces_revision(&self) -> Result<u64>;
}
