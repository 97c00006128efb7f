//! The audit log: lines in a chain. The app makes lines, hashes and signatures; the store keeps them in order.

use async_trait::async_trait;
use punctual_core::Timestamp;

use crate::{Order, Result};

/// Lines of one call.
pub const AUDIT_ROWS_MAX: usize = 1000;

/// A place in the chain: the number of a line, and its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuditPlace {
    /// Lines are numbered from 1. 0 is the place before the first.
    pub seq: u64,
    pub hash: [u8; 32],
}

/// A line as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    pub seq: u64,
    pub at: Timestamp,
    /// Kept byte for byte: the hash is that of these bytes.
    pub line: String,
    pub hash: [u8; 32],
}

impl AuditRow {
    pub fn place(&self) -> AuditPlace {
        AuditPlace { seq: self.seq, hash: self.hash }
    }
}

/// Where the chain begins and ends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditEnds {
    /// The place before the first line that is kept.
    pub base: AuditPlace,
    /// The place of the last line.
    pub head: AuditPlace,
    /// Of the head; empty before the first line.
    pub signature: Vec<u8>,
}

/// Lines that follow one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditBatch {
    pub after: AuditPlace,
    /// At least one, numbered without gaps.
    pub rows: Vec<AuditRow>,
    /// Of the last of them.
    pub signature: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditAppended {
    Done,
    /// The chain has another head: somebody else wrote. Nothing was written.
    Behind(AuditEnds),
}

#[async_trait]
pub trait Audit: Send + Sync + 'static {
    async fn audit_ends(&self) -> Result<AuditEnds>;

    /// Adds lines if `after` is the head. Of servers that append at once, one is done and the others are behind. After a
    /// crash all lines are there with the new head, or none; a caller that does not know asks for the ends and compares.
    async fn append_audit(&self, batch: AuditBatch) -> Result<AuditAppended>;

    /// Lines after (or, descending, before) a number; at most [`AUDIT_ROWS_MAX`].
    async fn audit_rows(&self, from: Option<u64>, order: Order, limit: usize) -> Result<Vec<AuditRow>>;

    /// Removes the lines up to this place, which becomes the base. Nothing happens if the base is there or beyond; the answer
    /// is how many lines went. Whether the place is right is for the caller to know.
    async fn trim_audit(&self, base: AuditPlace) -> Result<usize>;
}
