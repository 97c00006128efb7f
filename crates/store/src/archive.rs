//! Moving logs of attempts that ended out of the store, into object storage.
//!
//! The object is written first; then, in one transaction, its path is recorded with the attempt and
//! the pieces that are in it go. So a log is in the store, or in an object that history names, at
//! every moment. Objects that nobody names any more are remembered until they are deleted.

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use punctual_core::attempt::ArchivedLog;
use punctual_core::{AttemptNo, JobId, NamespaceId, Timestamp};

use crate::Result;

/// An attempt of which there are pieces in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptLog {
    pub job: JobId,
    pub attempt: AttemptNo,
    /// None while it runs, and for an attempt that history does not know.
    pub ended: Option<EndedLog>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedLog {
    pub finished_at: Timestamp,
    /// The pieces came after the log was archived: some are new, or all were there before.
    pub archived: Option<ArchivedLog>,
}

/// A log in one piece, and of how many pieces in the store it is made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WholeLog {
    pub bytes: Bytes,
    pub pieces: u64,
}

/// A log whose object is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archiving {
    pub job: JobId,
    /// Of the job: so that the bytes of the log count there.
    pub namespace: NamespaceId,
    pub attempt: AttemptNo,
    pub log: ArchivedLog,
    /// What history has for it so far.
    pub replaces: Option<String>,
    /// How many pieces in the store are in it.
    pub pieces: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Archived {
    Done,
    /// Nothing was done: more pieces have come, another server was faster, or the attempt is gone.
    Changed,
}

#[async_trait]
pub trait LogArchive: Send + Sync + 'static {
    /// Attempts that have pieces in the store, in order, after `after`. Costs nothing for attempts
    /// that have none, however many there are.
    async fn kept_logs(&self, after: Option<(JobId, AttemptNo)>, limit: usize) -> Result<Vec<KeptLog>>;

    /// `base` with what the pieces add to it, by the rules of [`Assembly`]. Pieces that reach
    /// beyond `limit` are left out.
    async fn assemble_log(&self, job: JobId, attempt: AttemptNo, base: Bytes, limit: usize) -> Result<WholeLog>;

    /// Records the paths of logs with their attempts and removes the pieces that are in them, all
    /// of it or none of it for each. A path that was replaced is remembered as dropped. Only pieces that
    /// end within the log count; if they are not as many as was said, nothing is done.
    async fn archive_logs(&self, logs: Vec<Archiving>) -> Result<Vec<Archived>>;

    /// Where the log of an attempt that ended is, if it was archived.
    async fn archived_log(&self, job: JobId, attempt: AttemptNo) -> Result<Option<ArchivedLog>>;

    /// Removes the pieces of a job that the caller did not find any more: they came after it went.
    async fn forget_pieces(&self, job: JobId) -> Result<()>;

    /// Paths that nothing names any more, in order: their jobs went, or their logs grew.
    async fn dropped_logs(&self, limit: usize) -> Result<Vec<String>>;

    /// Their objects are deleted.
    async fn forget_dropped_logs(&self, paths: Vec<String>) -> Result<()>;
}

/// Puts pieces at their places. What is there stays. A place that no piece covers is zero, and a piece that
/// comes later may fill it: so the places of all other bytes are those that the worker gave them.
#[derive(Debug)]
pub struct Assembly {
    bytes: BytesMut,
    pieces: u64,
    limit: usize,
}

impl Assembly {
    pub fn new(base: &[u8], limit: usize) -> Self {
        Self { bytes: BytesMut::from(base), pieces: 0, limit }
    }

    pub fn add(&mut self, offset: u64, piece: &[u8]) {
        let Some(begin) = usize::try_from(offset).ok().filter(|begin| *begin <= self.limit) else { return };
        let end = begin.saturating_add(piece.len());
        if end > self.limit {
            return;
        }
        self.pieces += 1;
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        for (there, new) in self.bytes[begin..end].iter_mut().zip(piece) {
            if *there == 0 {
                *there = *new;
            }
        }
    }

    pub fn whole(self) -> WholeLog {
        WholeLog { bytes: self.bytes.freeze(), pieces: self.pieces }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assembled(base: &str, pieces: &[(u64, &str)]) -> (String, u64) {
        let mut assembly = Assembly::new(base.as_bytes(), 16);
        for (offset, piece) in pieces {
            assembly.add(*offset, piece.as_bytes());
        }
        let WholeLog { bytes, pieces } = assembly.whole();
        (String::from_utf8(bytes.to_vec()).unwrap(), pieces)
    }

    #[test]
    fn pieces_are_put_at_their_places() {
        for (base, pieces, expected) in [
            ("", &[(0, "one "), (4, "two")][..], ("one two", 2)),
            ("one ", &[(0, "one "), (4, "two")], ("one two", 2)),
            ("one two", &[(0, "ONE "), (2, "")], ("one two", 2)),
            ("", &[(0, "one"), (5, "!")], ("one\0\0!", 2)),
            ("one\0\0!", &[(3, "ly")], ("onely!", 1)),
            ("", &[(0, "all"), (10, "too long"), (u64::MAX, "x")], ("all", 1)),
        ] {
            assert_eq!(assembled(base, pieces), (expected.0.to_owned(), expected.1), "{base:?} and {pieces:?}");
        }
    }
}
