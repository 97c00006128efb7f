//! Finds lines that were removed, changed or put in another order. Needs no server: an export is enough.

use punctual_api::{AuditHead, AuditLine};
use punctual_core::hex;
use punctual_store::AuditPlace;

use super::chain::{hash, imported, is_signed, succession};
use super::trim;

/// What is wrong with an audit log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditFault {
    #[error("line {0} is none of an export")]
    Unreadable(u64),
    #[error("line {expected} is missing: {found} follows {}", expected - 1)]
    Missing { expected: u64, found: u64 },
    #[error("line {0}, or one before it, was changed: its hash does not fit")]
    Changed(u64),
    #[error("lines after {0} are missing, or its hash was changed: the head is another")]
    Head(u64),
    #[error("the signature of the head is not that of the key")]
    Signature,
    #[error("the signature is that of another key than the one that was expected")]
    Key,
    #[error("lines up to {0} are missing, and no line of the log says that retention removed them")]
    Base(u64),
}

/// What was found to be in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditVerified {
    pub lines: u64,
    /// The number of the last line that retention removed; 0: none.
    pub base: u64,
    /// In hexadecimal digits. Whether it is that of the cluster is for whoever has noted it to know.
    pub public_key: String,
}

/// Takes the lines of an export in order, and then its head.
#[derive(Debug, Clone)]
pub struct AuditVerifier {
    base: AuditPlace,
    place: AuditPlace,
    lines: u64,
    is_base_on_record: bool,
    /// Keys of which the former has vouched for the latter.
    successions: Vec<([u8; 32], [u8; 32])>,
}

impl AuditVerifier {
    /// `head` is that of the first part of the export.
    pub fn new(head: &AuditHead) -> Result<Self, AuditFault> {
        let base = AuditPlace {
            seq: head.base_seq,
            hash: hex::decode(&head.base_hash).ok_or(AuditFault::Base(head.base_seq))?,
        };
        if base.seq == 0 && base != AuditPlace::default() {
            return Err(AuditFault::Base(0));
        }
        Ok(Self { base, place: base, lines: 0, is_base_on_record: base.seq == 0, successions: Vec::new() })
    }

    pub fn line(&mut self, text: &str) -> Result<(), AuditFault> {
        let expected = self.place.seq + 1;
        let unreadable = || AuditFault::Unreadable(expected);
        let (line, found) = imported(text).ok_or_else(unreadable)?;
        let read: AuditLine = serde_json::from_str(&line).map_err(|_| unreadable())?;
        if read.seq != expected {
            return Err(AuditFault::Missing { expected, found: read.seq });
        }
        if hash(self.place.hash, &line) != found {
            return Err(AuditFault::Changed(expected));
        }
        self.is_base_on_record |= trim::noted(&read) == Some(self.base);
        self.successions.extend(succession(&read));
        self.place = AuditPlace { seq: expected, hash: found };
        self.lines += 1;
        Ok(())
    }

    /// The number of the last line that was taken.
    pub fn last(&self) -> u64 {
        self.place.seq
    }

    /// Whether the key of the head is `key`, or the lines lead from `key` to it.
    fn leads_to_head(&self, key: &str, head: &AuditHead) -> bool {
        if key.eq_ignore_ascii_case(&head.public_key) {
            return true;
        }
        let Some(mut key) = hex::decode::<32>(&key.to_ascii_lowercase()) else { return false };
        for (former, next) in &self.successions {
            if *former == key {
                key = *next;
            }
        }
        hex::encode(key) == head.public_key
    }

    /// `key` is the public key that was noted before, if somebody did; it may have been replaced since. Without it, whoever has
    /// the cluster's secret, or signed everything anew with another, is not found out.
    pub fn finish(self, head: &AuditHead, key: Option<&str>) -> Result<AuditVerified, AuditFault> {
        let is_head = head.seq == self.place.seq && head.hash == hex::encode(self.place.hash);
        if !is_head {
            return Err(AuditFault::Head(self.place.seq));
        }
        if key.is_some_and(|key| !self.leads_to_head(key, head)) {
            return Err(AuditFault::Key);
        }
        let (signature, public_key) = (hex::decode::<64>(&head.signature), hex::decode::<32>(&head.public_key));
        let is_signed = match (signature, public_key) {
            _ if self.place.seq == 0 => true,
            (Some(signature), Some(public_key)) => is_signed(self.place, &signature, &public_key),
            _ => false,
        };
        if !is_signed {
            return Err(AuditFault::Signature);
        }
        if !self.is_base_on_record {
            return Err(AuditFault::Base(self.base.seq));
        }
        Ok(AuditVerified { lines: self.lines, base: self.base.seq, public_key: head.public_key.clone() })
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::Timestamp;
    use punctual_store::ClusterSecret;

    use super::super::AuditEvent;
    use super::super::chain::{Signer, exported, rows};
    use super::*;
    use crate::peer_key::PeerKey;

    fn signer(secret: u8) -> Signer {
        Signer::new(&PeerKey::new(ClusterSecret([secret; 32])))
    }

    /// Lines, some of which try to look like others, and their head.
    fn log() -> (Vec<String>, AuditHead) {
        let event = |object: &str| AuditEvent::by_nobody(None, "apply_task", "done").object(Some(object));
        let events = [event("a"), event("\",\"hash\":\"00\"}"), event("Zoë \u{0}"), event("d")];
        let events: Vec<_> = events.iter().map(|event| (Timestamp::EPOCH, event)).collect();
        let rows = rows(AuditPlace::default(), &events);
        let last = rows.last().expect("four").place();
        let head = AuditHead {
            base_seq: 0,
            base_hash: hex::encode([0; 32]),
            seq: last.seq,
            hash: hex::encode(last.hash),
            signature: hex::encode(signer(1).sign(last)),
            public_key: hex::encode(signer(1).public_key()),
        };
        (rows.iter().map(exported).collect(), head)
    }

    fn verify(lines: &[String], head: &AuditHead, key: Option<&str>) -> Result<AuditVerified, AuditFault> {
        let mut verifier = AuditVerifier::new(head)?;
        lines.iter().try_for_each(|line| verifier.line(line))?;
        verifier.finish(head, key)
    }

    #[test]
    fn a_log_that_nobody_touched_is_in_order() {
        let (lines, head) = log();
        let verified = verify(&lines, &head, Some(&head.public_key)).unwrap();
        assert_eq!((verified.lines, verified.base), (4, 0));
    }

    #[test]
    fn a_line_that_was_removed_changed_or_moved_shows() {
        let (lines, head) = log();
        for removed in 0..lines.len() {
            let mut left = lines.clone();
            left.remove(removed);
            assert!(verify(&left, &head, None).is_err(), "{removed} removed");
            let mut changed = lines.clone();
            changed[removed] = changed[removed].replace("apply_task", "apply_tasK");
            let fault = AuditFault::Changed(removed as u64 + 1);
            assert_eq!(verify(&changed, &head, None), Err(fault), "{removed} changed");
        }
        let mut swapped = lines.clone();
        swapped.swap(1, 2);
        assert_eq!(verify(&swapped, &head, None), Err(AuditFault::Missing { expected: 2, found: 3 }));
        let mut doubled = lines.clone();
        doubled.insert(1, lines[0].clone());
        assert!(verify(&doubled, &head, None).is_err());
    }

    #[test]
    fn a_chain_that_was_made_anew_has_another_signature() {
        let (lines, head) = log();
        // Whoever writes to the database can compute hashes, and does not have the key.
        let shorter = &lines[..3];
        let (_, hash) = imported(&shorter[2]).unwrap();
        let forged = AuditHead { seq: 3, hash: hex::encode(hash), ..head.clone() };
        assert_eq!(verify(shorter, &forged, None), Err(AuditFault::Signature));
        let other = signer(2);
        let signature = hex::encode(other.sign(AuditPlace { seq: 3, hash }));
        let forged = AuditHead { signature, public_key: hex::encode(other.public_key()), ..forged };
        assert!(verify(shorter, &forged, None).is_ok(), "nobody noted the key");
        assert_eq!(verify(shorter, &forged, Some(&head.public_key)), Err(AuditFault::Key));
    }

    #[test]
    fn a_key_that_was_replaced_leads_to_the_one_that_follows_it() {
        let events = [signer(1).succession(&signer(2)), signer(2).succession(&signer(3))];
        let log = |events: &[AuditEvent], last: u8| {
            let events: Vec<_> = events.iter().map(|event| (Timestamp::EPOCH, event)).collect();
            let rows = rows(AuditPlace::default(), &events);
            let place = rows.last().expect("one").place();
            let head = AuditHead {
                base_seq: 0,
                base_hash: hex::encode([0; 32]),
                seq: place.seq,
                hash: hex::encode(place.hash),
                signature: hex::encode(signer(last).sign(place)),
                public_key: hex::encode(signer(last).public_key()),
            };
            (rows.iter().map(exported).collect::<Vec<_>>(), head)
        };
        let key = |secret: u8| hex::encode(signer(secret).public_key());
        let (lines, head) = log(&events, 3);
        for noted in [1, 2, 3] {
            assert!(verify(&lines, &head, Some(&key(noted))).is_ok(), "{noted}");
        }
        assert_eq!(verify(&lines, &head, Some(&key(4))), Err(AuditFault::Key));
        // Somebody who writes to the database names a key of their own as the next one.
        let forged = signer(9).succession(&signer(4)).before(events[0].before.as_deref());
        let (lines, head) = log(&[forged], 4);
        assert_eq!(verify(&lines, &head, Some(&key(1))), Err(AuditFault::Key));
    }

    #[test]
    fn a_begin_that_no_line_speaks_of_shows() {
        let (lines, head) = log();
        let (_, hash) = imported(&lines[0]).unwrap();
        let cut = AuditHead { base_seq: 1, base_hash: hex::encode(hash), ..head };
        assert_eq!(verify(&lines[1..], &cut, None), Err(AuditFault::Base(1)));
    }
}
