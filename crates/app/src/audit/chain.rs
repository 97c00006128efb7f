//! Lines in a chain of hashes, and the signature of its head.

use punctual_api::AuditLine;
use punctual_core::access::Rights;
use punctual_core::{Timestamp, hex};
use punctual_store::{AuditPlace, AuditRow};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use sha2::{Digest, Sha256};

use super::AuditEvent;
use crate::peer_key::PeerKey;
use crate::principal::{Principal, PrincipalKind};

/// SHA-256 of the hash before a line and of the line.
pub(super) fn hash(before: [u8; 32], line: &str) -> [u8; 32] {
    Sha256::new().chain_update(before).chain_update(line.as_bytes()).finalize().into()
}

/// The rows that follow a place.
pub(super) fn rows(after: AuditPlace, events: &[(Timestamp, &AuditEvent)]) -> Vec<AuditRow> {
    let mut place = after;
    let row = |(at, event): &(Timestamp, &AuditEvent)| {
        let line = serde_json::to_string(&line(place.seq + 1, *at, event)).expect("a line is JSON");
        place = AuditPlace { seq: place.seq + 1, hash: hash(place.hash, &line) };
        AuditRow { seq: place.seq, at: *at, line, hash: place.hash }
    };
    events.iter().map(row).collect()
}

fn line(seq: u64, at: Timestamp, event: &AuditEvent) -> AuditLine {
    let AuditEvent { principal, kind, credential, namespace, address, action, object, before, outcome, times } =
        event.clone();
    AuditLine {
        seq,
        at,
        principal,
        kind: kind.to_owned(),
        credential,
        namespace,
        address: address.map(|address| address.to_string()),
        action,
        object,
        before,
        outcome,
        times,
    }
}

/// The action of a line about the next key.
const SUCCESSION: &str = "rotate_audit_key";

const HASH_FIELD: &str = r#","hash":""#;

/// A line as it is exported: its own bytes, and its hash as the last field.
pub(super) fn exported(row: &AuditRow) -> String {
    let open = row.line.strip_suffix('}').unwrap_or(&row.line);
    format!("{open}{HASH_FIELD}{}\"}}", hex::encode(row.hash))
}

/// The line and the hash of an exported line.
pub(super) fn imported(text: &str) -> Option<(String, [u8; 32])> {
    let (open, rest) = text.split_at_checked(text.rfind(HASH_FIELD)?)?;
    let digits = rest.strip_prefix(HASH_FIELD)?.strip_suffix("\"}")?;
    Some((format!("{open}}}"), hex::decode::<32>(digits)?))
}

/// Signs heads with a key that is derived from the cluster's secret.
pub(crate) struct Signer(Ed25519KeyPair);

impl Signer {
    pub(crate) fn new(key: &PeerKey) -> Self {
        let seed = key.derive(b"audit signature");
        Self(Ed25519KeyPair::from_seed_unchecked(&seed).expect("a seed has 32 bytes"))
    }

    pub(super) fn sign(&self, head: AuditPlace) -> Vec<u8> {
        self.0.sign(&message(head)).as_ref().to_vec()
    }

    pub(crate) fn public_key(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    pub(crate) fn has_signed(&self, head: AuditPlace, signature: &[u8]) -> bool {
        is_signed(head, signature, self.public_key())
    }

    /// The line by which this key vouches for the one that follows it.
    pub(crate) fn succession(&self, next: &Self) -> AuditEvent {
        let signature = self.0.sign(&succession_message(next.public_key()));
        let former = format!("{} {}", hex::encode(self.public_key()), hex::encode(signature.as_ref()));
        let by = Principal::new(PrincipalKind::Server, "server", Rights::NONE);
        let event = AuditEvent::new(&by, SUCCESSION, AuditEvent::DONE);
        event.object(Some(&hex::encode(next.public_key()))).before(Some(&former))
    }
}

pub(super) fn is_signed(head: AuditPlace, signature: &[u8], public_key: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, public_key).verify(&message(head), signature).is_ok()
}

/// The former key and the next one, if a line says that one follows the other and the former has signed that. Whoever writes to
/// the database alone cannot make such a line.
pub(super) fn succession(line: &AuditLine) -> Option<([u8; 32], [u8; 32])> {
    if line.action != SUCCESSION {
        return None;
    }
    let next = hex::decode::<32>(line.object.as_deref()?)?;
    let (former, signature) = line.before.as_deref()?.split_once(' ')?;
    let (former, signature) = (hex::decode::<32>(former)?, hex::decode::<64>(signature)?);
    let vouched = UnparsedPublicKey::new(&ED25519, &former).verify(&succession_message(&next), &signature);
    vouched.ok().map(|()| (former, next))
}

fn succession_message(next: &[u8]) -> Vec<u8> {
    [b"punctual audit key 1\n", next].concat()
}

fn message(head: AuditPlace) -> Vec<u8> {
    [b"punctual audit head 1\n", &head.seq.to_be_bytes()[..], &head.hash].concat()
}
