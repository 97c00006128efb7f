//! What this server asks of the others. The transport is the binary's choice.
//!
//! An error means that no answer came. Whether the peer did what it was asked is not
//! known then; every question here may be asked again.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use punctual_core::namespace::NamespaceId;
use punctual_core::queue::QueueLoad;
use punctual_core::shard::event::Change;
use punctual_core::shard::{Answer, Ask, WorkerStatus, WorkersWanted};
use punctual_core::{JobId, JobRow, ServerId, Span, TaskId};
use punctual_engine::{Runs, WorkerInfo};

use crate::{InvitedWorkers, Peer, WorkerRequest};

#[derive(Debug, thiserror::Error)]
#[error("{peer} did not answer: {reason}")]
pub struct PeerError {
    pub peer: ServerId,
    pub reason: String,
}

/// How a server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pulse {
    pub workers: u32,
    pub running: u32,
    pub lag: Span,
    /// Its clock minus the store's in microseconds, if that was measured.
    pub skew_us: Option<i64>,
}

/// The workers that a server knows, and those that it lacks.
#[derive(Debug, Clone, Default)]
pub struct WorkersThere {
    pub known: Vec<(WorkerStatus, WorkerInfo)>,
    pub requests: Vec<WorkerRequest>,
}

/// What a follower hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    Change(Change),
    /// Some were lost before this: so many, or nobody knows how many.
    Missed(Option<u64>),
}

/// Changes as a peer sends them. Its end means that the connection broke.
pub type PeerChanges = BoxStream<'static, Heard>;

type Asked<T> = std::result::Result<T, PeerError>;

#[async_trait]
pub trait Peers: Send + Sync + 'static {
    /// What only the owner of a shard may answer. One answer to each, in order; each after its commit.
    async fn ask(&self, peer: &Peer, asks: Vec<Ask>) -> Asked<Vec<Answer>>;

    /// Jobs that have just become durable. Returns at once; what does not fit is dropped.
    fn hint(&self, peer: &Peer, jobs: Vec<JobRow>);

    /// Those of `ids` that run; for no ids, all that runs.
    async fn running(&self, peer: &Peer, ids: Vec<JobId>) -> Asked<Runs>;

    /// Whether the job finished within `limit`.
    async fn finished(&self, peer: &Peer, id: JobId, limit: Duration) -> Asked<bool>;

    /// Changes from now on: when this returns, none is missed any more.
    async fn watch(&self, peer: &Peer) -> Asked<PeerChanges>;

    async fn task_changed(&self, peer: &Peer, id: TaskId, namespace: NamespaceId, name: &str) -> Asked<()>;

    /// What people have decided about queues has changed. Whether the peer has read it, and starts nothing of a paused queue.
    async fn queues_changed(&self, peer: &Peer) -> Asked<bool>;

    /// What waits and runs in the peer's shards, by queue.
    async fn queue_loads(&self, peer: &Peer, namespace: NamespaceId) -> Asked<Vec<QueueLoad>>;

    async fn workers(&self, peer: &Peer) -> Asked<WorkersThere>;

    /// This server wants workers. `turn` counts its questions.
    async fn invite_workers(&self, peer: &Peer, wanted: &WorkersWanted, turn: u64) -> Asked<InvitedWorkers>;

    async fn pulse(&self, peer: &Peer) -> Asked<Pulse>;

    /// This server has given up its shards.
    async fn leaving(&self, peer: &Peer) -> Asked<()>;
}
