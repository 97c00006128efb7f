//! A look at a worker from outside.

use std::sync::{Arc, OnceLock};

use crate::ledger::Ledger;

/// What a worker is doing; all zero before it runs.
#[derive(Clone, Default)]
pub struct WorkerStatus(pub(crate) Arc<OnceLock<Arc<[Arc<Ledger>]>>>);

impl WorkerStatus {
    /// Attempts under way.
    pub fn running(&self) -> usize {
        self.ledgers().iter().map(|ledger| ledger.left().running).sum()
    }

    /// Outcomes that no server has acknowledged yet.
    pub fn unacknowledged(&self) -> usize {
        self.ledgers().iter().map(|ledger| ledger.left().unacked).sum()
    }

    /// Servers with a stream that is up.
    pub fn connected(&self) -> usize {
        self.ledgers().iter().filter(|ledger| ledger.up().is_some()).count()
    }

    fn ledgers(&self) -> &[Arc<Ledger>] {
        self.0.get().map_or(&[], |ledgers| ledgers)
    }
}
