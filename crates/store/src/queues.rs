//! What people have decided about queues: whether their jobs start, and what their tasks are given that do not say otherwise.
//!
//! A queue is a name in tasks. It has a row once somebody has paused or described it.

use async_trait::async_trait;
use punctual_core::NamespaceId;
use punctual_core::queue::QueueState;
use punctual_core::schedule::By;

use crate::Result;

/// Queues with a row in all namespaces: every server has all of them in memory.
pub const QUEUES_OF_ALL_MAX: usize = 10_000;
/// Queues with a row in one namespace.
pub const QUEUES_MAX: usize = 1_000;
/// How many times as many there may be when a queue is paused or drained: whoever has to stop a queue can do so although others, or
/// they themselves, have described as many queues as may be.
pub const STOPPED_QUEUES_FACTOR: usize = 10;

/// How many rows there may be before a row in this state is added: in its namespace, and in all.
pub fn queues_max(state: QueueState) -> (usize, usize) {
    let factor = match state {
        QueueState::Active => 1,
        QueueState::Paused | QueueState::Draining => STOPPED_QUEUES_FACTOR,
    };
    (factor * QUEUES_MAX, factor * QUEUES_OF_ALL_MAX)
}

/// Which of the two limits is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuesFull {
    Namespace,
    Cluster,
}

impl QueuesFull {
    /// Whether a row in this state can be added where there are so many.
    pub fn check(state: QueueState, own: usize, all: usize) -> Option<Self> {
        let (own_max, all_max) = queues_max(state);
        if own >= own_max {
            return Some(Self::Namespace);
        }
        (all >= all_max).then_some(Self::Cluster)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRow {
    pub namespace: NamespaceId,
    pub name: String,
    /// Grows by one with each change, from 1 on.
    pub revision: u32,
    pub state: QueueState,
    /// Who brought the queue into this state, and when.
    pub state_by: By,
    /// Why, in their words.
    pub note: Option<String>,
    pub changed: By,
    /// What the user wrote down, as JSON; a store does not look into it.
    pub spec: String,
}

impl QueueRow {
    /// Such as: since 2026-11-18T12:00:00Z by user:ana: the provider is down
    pub fn since(&self) -> String {
        let note = self.note.as_deref().map(|note| format!(": {note}")).unwrap_or_default();
        format!("since {} by {}{note}", self.state_by.at, self.state_by.who)
    }
}

/// All queues with a row, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllQueues {
    /// Grows with each change of any of them.
    pub revision: u64,
    /// In order of namespace and name.
    pub rows: Vec<QueueRow>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueChange {
    Done,
    /// It has this revision, not the one that the change was based on. 0: it has no row.
    Conflict {
        revision: u32,
    },
    /// There are as many as [`queues_max`] says.
    Full(QueuesFull),
}

/// Rows of a namespace go when it is deleted.
#[async_trait]
pub trait Queues: Send + Sync + 'static {
    /// Stores a row in place of the one whose revision is `row.revision` - 1; for revision 1, there must be none.
    async fn put_queue(&self, row: QueueRow) -> Result<QueueChange>;

    /// All rows, from one snapshot.
    async fn queues(&self) -> Result<AllQueues>;

    /// The largest revision of all changes: whether anything was changed since `queues`.
    async fn queues_revision(&self) -> Result<u64>;

    /// The queues that named tasks of a namespace name, after a name, in order. Reads one row for each of them, however many
    /// tasks there are.
    async fn queue_names(&self, namespace: NamespaceId, after: &str, limit: usize) -> Result<Vec<String>>;
}
