//! A worker's figures for its host program.

use std::sync::{Arc, OnceLock};

use crate::held::{HeldAttempts, RemainingWork};

/// The current figures of a worker; all zero before it runs.
#[derive(Clone, Default)]
pub struct WorkerStatus(pub(crate) Arc<OnceLock<Arc<HeldAttempts>>>);

impl WorkerStatus {
    /// The number of running attempts.
    pub fn running(&self) -> usize {
        self.left().running
    }

    /// The number of outcomes that no server has acknowledged yet.
    pub fn unacknowledged(&self) -> usize {
        self.left().unacked
    }

    /// The number of servers with an established stream.
    pub fn connected(&self) -> usize {
        self.left().connected
    }

    fn left(&self) -> RemainingWork {
        self.0.get().map(|held| held.left()).unwrap_or_default()
    }
}
