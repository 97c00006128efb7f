//! How a worker proves who it is.
//!
//! A worker id is derived from a secret that never leaves the worker process but in its own messages to servers. Any
//! server checks the pair without having seen the worker before, so an id that shows up in lists is of no use to others,
//! also right after a failover, when no server remembers the worker.

use std::fmt;

use punctual_core::{Timestamp, WorkerId};
use sha2::{Digest, Sha256};

/// Separates this use of the hash from any other.
const LABEL: &[u8] = b"punctual worker id 1";
const SECRET_BYTES: usize = 32;

/// Made at random when a worker process starts, and forgotten with it.
#[derive(Clone)]
pub struct WorkerSecret([u8; SECRET_BYTES]);

impl WorkerSecret {
    pub const fn new(random: [u8; SECRET_BYTES]) -> Self {
        Self(random)
    }

    /// `None` unless it has the length of a secret.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.try_into().ok()?))
    }

    pub fn to_bytes(&self) -> [u8; SECRET_BYTES] {
        self.0
    }

    /// The id of the worker that has this secret and started at this time.
    pub fn worker_id(&self, started_at: Timestamp) -> WorkerId {
        WorkerId::new(started_at, self.digest(WorkerId::new(started_at, 0)))
    }

    /// Whether the worker with this id has this secret.
    pub fn is_of(&self, id: WorkerId) -> bool {
        // The random bits of an id are the low ones; the time and the marks of a UUID stay.
        let low = id.as_u128() as u64;
        let marks = WorkerId::new(Timestamp::EPOCH, 0).as_u128() as u64;
        let random = WorkerId::new(Timestamp::EPOCH, u64::MAX).as_u128() as u64 & !marks;
        low & random == self.digest(id) & random
    }

    /// Includes the time in the id, so that a search for a secret is about one worker.
    fn digest(&self, id: WorkerId) -> u64 {
        let time = (id.as_u128() >> 64) as u64;
        let digest = Sha256::new().chain_update(LABEL).chain_update(time.to_be_bytes()).chain_update(self.0).finalize();
        u64::from_be_bytes(digest[..8].try_into().expect("a digest is longer"))
    }
}

/// Never shown.
impl fmt::Debug for WorkerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkerSecret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_belongs_to_one_secret_and_one_start() {
        let (first, later) = (Timestamp::EPOCH, Timestamp::from_micros(1_700_000_000_000_001).unwrap());
        let (secret, other) = (WorkerSecret::new([7; 32]), WorkerSecret::new([8; 32]));
        for started_at in [first, later] {
            let id = secret.worker_id(started_at);
            assert!(secret.is_of(id) && !other.is_of(id), "{id}");
        }
        let own = secret.worker_id(later).as_u128();
        let of_another_start = (own >> 80 << 80) ^ (1 << 80) | (own & ((1 << 80) - 1));
        let changed = WorkerId::from_bytes(&of_another_start.to_be_bytes()).unwrap();
        assert!(!secret.is_of(changed), "the time is part of it");
        for bit in 0..62 {
            let changed = WorkerId::from_bytes(&(own ^ (1 << bit)).to_be_bytes()).unwrap();
            assert!(!secret.is_of(changed), "bit {bit}");
        }
    }

    #[test]
    fn a_secret_has_its_length_and_is_never_shown() {
        assert!(WorkerSecret::from_bytes(&[]).is_none() && WorkerSecret::from_bytes(&[0; 33]).is_none());
        assert_eq!(format!("{:?}", WorkerSecret::from_bytes(&[1; 32]).unwrap()), "WorkerSecret");
    }
}
