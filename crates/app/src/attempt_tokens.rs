//! What proves that an attempt was assigned to whoever speaks about it.
//!
//! The token goes out with the assignment and comes back with the log and the outcome. It holds for the attempt, not for a
//! worker: outcomes that a worker left in its spool are delivered by the next run of the worker, which has another id. The
//! key is derived from the cluster's secret, so every server knows the tokens of all others and stores none. While the secret
//! is rotated, tokens of both are accepted.

use hmac::{Hmac, Mac};
use punctual_core::{AttemptNo, JobId};
use sha2::Sha256;

use crate::peer_key::PeerKey;

/// 128 bits: there is no way to try one out that is faster than to send it.
pub const ATTEMPT_TOKEN_BYTES: usize = 16;

pub struct AttemptTokens {
    signing: Hmac<Sha256>,
    /// During a rotation of the secret.
    other: Option<Hmac<Sha256>>,
}

impl AttemptTokens {
    pub(crate) fn new(signing: &PeerKey, other: Option<&PeerKey>) -> Self {
        let key = |secret: &PeerKey| {
            let key = secret.derive(b"punctual assignments 1");
            Hmac::new_from_slice(&key).expect("a key may have any length")
        };
        Self { signing: key(signing), other: other.map(key) }
    }

    pub fn token(&self, job: JobId, attempt: AttemptNo) -> [u8; ATTEMPT_TOKEN_BYTES] {
        let proof: [u8; 32] = proof(&self.signing, job, attempt).finalize().into_bytes().into();
        proof[..ATTEMPT_TOKEN_BYTES].try_into().expect("a proof is longer")
    }

    /// Compares in constant time.
    pub fn is_of(&self, job: JobId, attempt: AttemptNo, token: &[u8]) -> bool {
        let mut keys = std::iter::once(&self.signing).chain(&self.other);
        let is_by = |key| proof(key, job, attempt).verify_truncated_left(token).is_ok();
        token.len() == ATTEMPT_TOKEN_BYTES && keys.any(is_by)
    }
}

fn proof(key: &Hmac<Sha256>, job: JobId, attempt: AttemptNo) -> Hmac<Sha256> {
    let mut mac = key.clone();
    mac.update(&job.to_bytes());
    mac.update(&attempt.0.to_be_bytes());
    mac
}

#[cfg(test)]
mod tests {
    use punctual_core::{ShardId, Timestamp};
    use punctual_store::ClusterSecret;

    use super::*;

    #[test]
    fn a_token_is_of_one_attempt_of_one_cluster() {
        let key = |byte| PeerKey::new(ClusterSecret([byte; 32]));
        let of = |byte| AttemptTokens::new(&key(byte), None);
        let job = |random| JobId::new(Timestamp::EPOCH, ShardId(3), random);
        let token = of(1).token(job(7), AttemptNo(2));
        assert!(of(1).is_of(job(7), AttemptNo(2), &token));
        assert!(!of(2).is_of(job(7), AttemptNo(2), &token), "another cluster");
        assert!(!of(1).is_of(job(8), AttemptNo(2), &token), "another job");
        assert!(!of(1).is_of(job(7), AttemptNo(3), &token), "another attempt");
        let rotating = AttemptTokens::new(&key(2), Some(&key(1)));
        assert!(rotating.is_of(job(7), AttemptNo(2), &token), "the former secret is accepted");
        assert_eq!(rotating.token(job(7), AttemptNo(2)), of(2).token(job(7), AttemptNo(2)));
        assert!(!AttemptTokens::new(&key(2), Some(&key(3))).is_of(job(7), AttemptNo(2), &token));
        for wrong in [&token[..15], &[], &[token.as_slice(), &[0]].concat(), &[0; 16]] {
            assert!(!of(1).is_of(job(7), AttemptNo(2), wrong));
        }
    }
}
