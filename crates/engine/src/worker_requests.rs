//! Workers that this server's jobs lack, and workers of this server that another one wants.

use std::sync::Arc;

use punctual_core::ServerId;
use punctual_core::shard::{FittingWorkers, Owner, WorkersWanted};
use tokio::sync::oneshot;

use crate::handle::{Engine, EngineError};
use crate::inbox::Input;

/// Which workers of other servers a server lets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    AllWorkers,
    /// It is not on loopback.
    WithCertificate,
}

impl Engine {
    /// What the jobs of this server lack now. Nothing while its leases may be over: others may own its shards.
    pub async fn workers_wanted(&self) -> Result<WorkersWanted, EngineError> {
        if !self.is_current() {
            return Ok(WorkersWanted::default());
        }
        self.query(Owner::workers_wanted).await
    }

    /// Tells workers of this server that `by` has jobs for them, and answers which. One that cannot connect to `by` is not told.
    pub async fn invite_workers(
        &self,
        by: ServerId,
        wanted: WorkersWanted,
        turn: usize,
        reach: Reach,
    ) -> Result<FittingWorkers, EngineError> {
        let (answer, told) = oneshot::channel();
        let registry = Arc::clone(&self.0.connections.registry);
        let may_connect = Box::new(move |worker| reach == Reach::AllWorkers || registry.has_certificate(worker));
        self.0.inbox.send(Input::WorkersWanted { by, wanted, turn, may_connect, answer });
        told.await.map_err(|_| EngineError::Stopped)
    }
}
