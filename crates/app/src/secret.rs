//! How servers of one cluster know each other.
//!
//! Each question carries a proof that the asker knows the cluster's secret, made for this
//! question to this server; the answer carries one for this question too. The secret itself
//! is never sent. Whoever listens on the port of a server that is gone learns nothing that
//! another server accepts, and cannot answer in its place.

use hmac::{Hmac, Mac};
use punctual_core::{ServerId, hex};
use punctual_store::ClusterSecret;
use sha2::Sha256;

/// The metadata of a question and of its answer.
pub const PEER_HEADER: &str = "punctual-peer";

#[derive(Clone)]
pub struct PeerKey(Hmac<Sha256>);

/// A question: who asks whom, and which of its questions it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    pub from: ServerId,
    pub to: ServerId,
    pub number: u64,
}

impl PeerKey {
    pub fn new(secret: ClusterSecret) -> Self {
        Self(Hmac::new_from_slice(&secret.0).expect("a key may have any length"))
    }

    /// A key for another use of the secret.
    pub(crate) fn derive(&self, label: &[u8]) -> [u8; 32] {
        let mut mac = self.0.clone();
        mac.update(b"derive");
        mac.update(label);
        mac.finalize().into_bytes().into()
    }

    /// What goes with a question: who asks, the number, and the proof.
    pub fn ask(&self, question: Question) -> String {
        let Question { from, number, .. } = question;
        let proof = self.proof(b"ask", question).finalize().into_bytes();
        [hex::encode(from.to_bytes()), hex::encode(number.to_be_bytes()), hex::encode(proof)].concat()
    }

    /// The question, if whoever asks `to` knows the secret.
    pub fn asked(&self, text: &str, to: ServerId) -> Option<Question> {
        let (from, rest) = text.split_at_checked(32)?;
        let (number, proof) = rest.split_at_checked(16)?;
        let from = ServerId::from_bytes(&hex::decode::<16>(from)?)?;
        let question = Question { from, to, number: u64::from_be_bytes(hex::decode(number)?) };
        // Compared in constant time.
        self.proof(b"ask", question).verify_slice(&hex::decode::<32>(proof)?).ok()?;
        Some(question)
    }

    /// What goes with the answer.
    pub fn answer(&self, question: Question) -> String {
        hex::encode(self.proof(b"answer", question).finalize().into_bytes())
    }

    /// Whether whoever answered knows the secret.
    pub fn answered(&self, text: &str, question: Question) -> bool {
        hex::decode::<32>(text).is_some_and(|proof| self.proof(b"answer", question).verify_slice(&proof).is_ok())
    }

    fn proof(&self, what: &[u8], question: Question) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(what);
        mac.update(&question.from.to_bytes());
        mac.update(&question.to.to_bytes());
        mac.update(&question.number.to_be_bytes());
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::Timestamp;

    fn server(number: u64) -> ServerId {
        ServerId::new(Timestamp::EPOCH, number)
    }

    #[test]
    fn a_proof_is_good_for_one_question_to_one_server() {
        let key = PeerKey::new(ClusterSecret([7; 32]));
        let other = PeerKey::new(ClusterSecret([8; 32]));
        let question = Question { from: server(1), to: server(2), number: 5 };
        let text = key.ask(question);
        assert_eq!(key.asked(&text, server(2)), Some(question));
        assert_eq!(key.asked(&text, server(3)), None, "it was meant for another server");
        assert_eq!(other.asked(&text, server(2)), None, "another cluster's");
        for bad in ["", "x", &text[1..], &format!("{}0", &text[..text.len() - 1].replace('0', "1")), &"é".repeat(56)] {
            assert_eq!(key.asked(bad, server(2)), None, "{bad}");
        }
        let answer = key.answer(question);
        assert!(key.answered(&answer, question));
        assert!(!key.answered(&answer, Question { number: 6, ..question }), "the answer to another question");
        assert!(!key.answered(&text[48..], question), "a question is not its own answer");
        assert!(!other.answered(&answer, question) && !key.answered("", question));
    }
}
