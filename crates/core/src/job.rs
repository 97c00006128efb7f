//! A job as it waits: the row that a store keeps.

use bytes::Bytes;

use crate::attempt::AttemptNo;
use crate::batch::MemberRef;
use crate::give_backs::GiveBacks;
use crate::id::{JobId, ShardId, TaskId};
use crate::schedule::Source;
use crate::task::Priority;
use crate::time::Timestamp;
use crate::workflow::NodeRef;

/// Where a waiting job's row is: stores keep a shard's jobs in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobKey {
    pub due_at: Timestamp,
    pub id: JobId,
}

impl JobKey {
    /// The key of a job that was never moved.
    pub fn original(id: JobId) -> Self {
        Self { due_at: id.due_at(), id }
    }

    pub fn shard(self) -> ShardId {
        self.id.shard()
    }
}

/// What happened to a job so far, as far as decisions need it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Counters {
    /// The number that the next start will carry.
    pub next_attempt: AttemptNo,
    /// Failures of the task since it was submitted or made eligible again.
    pub failures: u16,
    /// Losses of the worker that ran it, likewise.
    pub node_failures: u16,
}

impl Counters {
    pub const NEW: Self = Self { next_attempt: AttemptNo::FIRST, failures: 0, node_failures: 0 };

    /// An operator makes the job eligible again: a clean slate, but no number is reused.
    pub const fn fresh(self) -> Self {
        Self { failures: 0, node_failures: 0, ..self }
    }

    pub fn has_started(self) -> bool {
        self.next_attempt > AttemptNo::FIRST
    }
}

/// A job that waits. Immutable while it does; a retry replaces the row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    pub key: JobKey,
    pub task: TaskId,
    pub priority: Priority,
    pub counters: Counters,
    pub submitted_at: Timestamp,
    pub tracing_id: Option<String>,
    /// The schedule that made it. Boxed: most jobs have none.
    pub source: Option<Box<Source>>,
    /// The node of a run that it is for. Boxed: most jobs have none.
    pub node: Option<Box<NodeRef>>,
    /// The member of a batch that it is for. Boxed: most jobs have none.
    pub member: Option<Box<MemberRef>>,
    /// Starts that were taken back. Boxed: most jobs have none.
    pub give_backs: Option<Box<GiveBacks>>,
    pub input: Input,
}

/// A job's input. Large ones stay in the store until the job starts, so that the
/// window's memory is bounded by its length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    None,
    Inline(Bytes),
    /// The input is in the store and is read when the attempt is assigned.
    Stored {
        len: u32,
    },
}

impl Input {
    /// Inputs up to this size travel with the row. 20,000 of them are 20 MiB.
    pub const INLINE_MAX: usize = 1024;
}
