//! A look at a worker from outside.

use std::sync::{Arc, OnceLock};

use crate::ledger::{Ledger, Left};

/// What a worker is doing; all zero before it runs.
#[derive(Clone, Default)]
pub struct WorkerStatus(pub(crate) Arc<OnceLock<Arc<Ledger>>>);

impl WorkerStatus {
    /// Attempts under way.
    pub fn running(&self) -> usize {
        self.left().running
    }

    /// Outcomes that no server has acknowledged yet.
    pub fn unacknowledged(&self) -> usize {
        self.left().unacked
    }

    /// Servers with a stream that is up.
    pub fn connected(&self) -> usize {
        self.left().connected
    }

    fn left(&self) -> Left {
        self.0.get().map(|ledger| ledger.left()).unwrap_or_default()
    }
}
