//! The wire to the other servers, for tests that decide what comes back.

use std::time::Duration;

use punctual_app::{InvitedWorkers, Peer, PeerChanges, PeerError, Peers, Pulse, WorkersThere};
use punctual_core::namespace::NamespaceId;
use punctual_core::queue::QueueLoad;
use punctual_core::shard::{Answer, Ask, WorkersWanted};
use punctual_core::{JobId, JobRow, TaskId};
use punctual_engine::Runs;

/// The server at the other end. `None` is an answer that never arrives.
#[async_trait::async_trait]
pub(crate) trait FarSide: Send + Sync + 'static {
    async fn ask(&self, asks: Vec<Ask>) -> Option<Vec<Answer>>;

    fn runs(&self) -> Option<Runs> {
        None
    }
}

pub(crate) struct Wire<T>(pub(crate) std::sync::Arc<T>);

fn lost(peer: &Peer) -> PeerError {
    PeerError { peer: peer.id, reason: "the line was cut".to_owned() }
}

#[async_trait::async_trait]
impl<T: FarSide> Peers for Wire<T> {
    async fn ask(&self, peer: &Peer, asks: Vec<Ask>) -> Result<Vec<Answer>, PeerError> {
        self.0.ask(asks).await.ok_or_else(|| lost(peer))
    }
    fn hint(&self, _: &Peer, _: Vec<JobRow>) {}
    async fn running(&self, peer: &Peer, _: Vec<JobId>) -> Result<Runs, PeerError> {
        self.0.runs().ok_or_else(|| lost(peer))
    }
    async fn finished(&self, peer: &Peer, _: JobId, _: Duration) -> Result<bool, PeerError> {
        Err(lost(peer))
    }
    async fn watch(&self, peer: &Peer) -> Result<PeerChanges, PeerError> {
        Err(lost(peer))
    }
    async fn task_changed(&self, peer: &Peer, _: TaskId, _: NamespaceId, _: &str) -> Result<(), PeerError> {
        Err(lost(peer))
    }
    async fn queues_changed(&self, peer: &Peer) -> Result<bool, PeerError> {
        Err(lost(peer))
    }
    async fn queue_loads(&self, peer: &Peer, _: NamespaceId) -> Result<Vec<QueueLoad>, PeerError> {
        Err(lost(peer))
    }
    async fn workers(&self, peer: &Peer) -> Result<WorkersThere, PeerError> {
        Err(lost(peer))
    }
    async fn invite_workers(&self, peer: &Peer, _: &WorkersWanted, _: u64) -> Result<InvitedWorkers, PeerError> {
        Err(lost(peer))
    }
    async fn pulse(&self, peer: &Peer) -> Result<Pulse, PeerError> {
        Err(lost(peer))
    }
    async fn leaving(&self, peer: &Peer) -> Result<(), PeerError> {
        Err(lost(peer))
    }
}
