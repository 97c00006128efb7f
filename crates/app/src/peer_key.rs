//! How servers of one cluster know each other.
//!
//! Each question carries a proof that the asker knows the cluster's secret. It covers who asks whom, the method, the body,
//! the time and the number of the question, so it is good for this question to this server once, for a short time. The
//! answer carries a proof for this question too. The secret itself is never sent. Whoever listens on the port of a server
//! that is gone learns nothing that another server accepts, and cannot answer in its place.

use hmac::{Hmac, Mac};
use punctual_core::{ServerId, Timestamp, hex};
use punctual_store::ClusterSecret;
use sha2::{Digest, Sha256};

/// The metadata of a question and of its answer.
pub const PEER_HEADER: &str = "punctual-peer";

/// What is derived from one secret. Servers use [`crate::ClusterKeys`].
pub(crate) struct PeerKey(Hmac<Sha256>);

/// A question: who asks whom, when, and which of its questions it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    pub from: ServerId,
    pub to: ServerId,
    /// By the store's clock, which all servers go by.
    pub asked_at: Timestamp,
    pub number: u64,
}

/// The SHA-256 of a question's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyDigest([u8; 32]);

impl BodyDigest {
    pub fn of(body: &[u8]) -> Self {
        Self(Sha256::digest(body).into())
    }
}

/// The fields of a question in hexadecimal digits, and the proof.
const FIELDS: [usize; 5] = [32, 16, 16, 64, 64];

impl PeerKey {
    pub(crate) fn new(secret: ClusterSecret) -> Self {
        Self(Hmac::new_from_slice(&secret.0).expect("a key may have any length"))
    }

    /// A key for another use of the secret.
    pub(crate) fn derive(&self, label: &[u8]) -> [u8; 32] {
        let mut mac = self.0.clone();
        mac.update(b"derive");
        mac.update(label);
        mac.finalize().into_bytes().into()
    }

    /// What goes with a question that calls `method` with this body.
    pub(crate) fn ask(&self, question: Question, method: &str, body: BodyDigest) -> String {
        let Question { from, asked_at, number, .. } = question;
        let proof = self.proof_of_question(question, method, body).finalize().into_bytes();
        [
            hex::encode(from.to_bytes()),
            hex::encode(asked_at.as_micros().to_be_bytes()),
            hex::encode(number.to_be_bytes()),
            hex::encode(body.0),
            hex::encode(proof),
        ]
        .concat()
    }

    /// The question and the digest that its body must have, if whoever asks `to` for `method` knows the secret.
    pub(crate) fn asked(&self, text: &str, to: ServerId, method: &str) -> Option<(Question, BodyDigest)> {
        let mut rest = text;
        let mut fields = [""; FIELDS.len()];
        for (field, len) in fields.iter_mut().zip(FIELDS) {
            (*field, rest) = rest.split_at_checked(len)?;
        }
        if !rest.is_empty() {
            return None;
        }
        let [from, asked_at, number, body, proof] = fields;
        let question = Question {
            from: ServerId::from_bytes(&hex::decode::<16>(from)?)?,
            to,
            asked_at: Timestamp::from_micros(i64::from_be_bytes(hex::decode(asked_at)?))?,
            number: u64::from_be_bytes(hex::decode(number)?),
        };
        let body = BodyDigest(hex::decode(body)?);
        let proof = hex::decode::<32>(proof)?;
        // Compared in constant time.
        self.proof_of_question(question, method, body).verify_slice(&proof).ok()?;
        Some((question, body))
    }

    /// What goes with the answer.
    pub(crate) fn answer(&self, question: Question) -> String {
        hex::encode(self.proof(b"answer 2", question).finalize().into_bytes())
    }

    /// Whether whoever answered knows the secret.
    pub(crate) fn answered(&self, text: &str, question: Question) -> bool {
        hex::decode::<32>(text).is_some_and(|proof| self.proof(b"answer 2", question).verify_slice(&proof).is_ok())
    }

    fn proof_of_question(&self, question: Question, method: &str, body: BodyDigest) -> Hmac<Sha256> {
        // All but the method have one length, and it is the last.
        self.proof(b"ask 2", question).chain_update(body.0).chain_update(method)
    }

    fn proof(&self, what: &[u8], question: Question) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(what);
        mac.update(&question.from.to_bytes());
        mac.update(&question.to.to_bytes());
        mac.update(&question.asked_at.as_micros().to_be_bytes());
        mac.update(&question.number.to_be_bytes());
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(number: u64) -> ServerId {
        ServerId::new(Timestamp::EPOCH, number)
    }

    const METHOD: &str = "/punctual.peer.v1.Peer/Ask";

    #[test]
    fn a_proof_is_good_for_one_question_to_one_server() {
        let key = PeerKey::new(ClusterSecret([7; 32]));
        let other = PeerKey::new(ClusterSecret([8; 32]));
        let asked_at = Timestamp::from_micros(1_700_000_000_000_000).unwrap();
        let question = Question { from: server(1), to: server(2), asked_at, number: 5 };
        let body = BodyDigest::of(b"a body");
        let text = key.ask(question, METHOD, body);
        assert_eq!(key.asked(&text, server(2), METHOD), Some((question, body)));
        assert_eq!(key.asked(&text, server(3), METHOD), None, "it was meant for another server");
        assert_eq!(key.asked(&text, server(2), "/punctual.peer.v1.Peer/Leaving"), None, "or another method");
        assert_eq!(other.asked(&text, server(2), METHOD), None, "another cluster's");
        for bad in ["", "x", &text[1..], &format!("{text}0"), &"é".repeat(96)] {
            assert_eq!(key.asked(bad, server(2), METHOD), None, "{bad}");
        }
        for place in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[place] = if changed[place] == b'1' { b'2' } else { b'1' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(key.asked(&changed, server(2), METHOD), None, "each digit is proven: {place}");
        }
        let answer = key.answer(question);
        assert!(key.answered(&answer, question));
        assert!(!key.answered(&answer, Question { number: 6, ..question }), "the answer to another question");
        assert!(!key.answered(&text[128..], question), "a question is not its own answer");
        assert!(!other.answered(&answer, question) && !key.answered("", question));
    }
}
