//! What servers sign with keys that are derived from the cluster's secret, and how the secret is replaced while they run.
//!
//! There is one secret, and two during a rotation: one signs, both are accepted. Whoever signs or checks takes the keys as they are
//! at that moment, and keeps none of them.

mod opened;
mod progress;
mod rotation;

use std::fmt;
use std::sync::Arc;

use punctual_blobs::UrlKey;
use punctual_core::{ServerId, hex};
use punctual_pki::ClusterName;
use punctual_store::{ClusterSecret, SecretStage};
use tokio::sync::watch;

pub use self::opened::OpenedSecrets;
pub(crate) use self::opened::read as read_secrets;
pub use self::rotation::SECRET_OVERLAP_DEFAULT;
use crate::access::AccessToken;
use crate::agents::TokenKey;
use crate::attempt_tokens::AttemptTokens;
use crate::audit::Signer;
use crate::identities::TicketKey;
use crate::peer_key::{BodyDigest, PeerKey, Question};
use crate::sealing::DataKey;

/// All that is derived from one secret.
pub(crate) struct SecretKeys {
    /// Public.
    pub(crate) id: String,
    peer: PeerKey,
    pub(crate) access: AccessToken,
    pub(crate) agents: TokenKey,
    pub(crate) audit: Signer,
    pub(crate) tickets: TicketKey,
    /// Seals the private keys of the cluster's authorities.
    pub(crate) authority: DataKey,
    urls: UrlKey,
}

impl SecretKeys {
    fn new(secret: &ClusterSecret) -> Self {
        let peer = PeerKey::new(*secret);
        Self {
            id: hex::encode(&peer.derive(b"cluster secret id")[..8]),
            access: AccessToken::new(&peer),
            agents: TokenKey::new(&peer),
            audit: Signer::new(&peer),
            tickets: TicketKey::new(peer.derive(b"openid logins")),
            authority: DataKey::new(peer.derive(b"authority key")),
            urls: UrlKey::derive(&secret.0),
            peer,
        }
    }
}

/// The keys that count at one moment.
pub struct KeySet {
    /// That of the state that they follow.
    pub(crate) revision: u64,
    pub(crate) stage: SecretStage,
    cluster: ClusterName,
    pub(crate) signing: SecretKeys,
    /// The next one, which does not sign yet, or the former one, which signs no more.
    pub(crate) other: Option<SecretKeys>,
    attempts: Arc<AttemptTokens>,
}

impl KeySet {
    fn new(secrets: &OpenedSecrets) -> Self {
        let OpenedSecrets { state, current, next } = secrets;
        let (signing, other) = match (state.stage, next) {
            (SecretStage::Settled, _) | (_, None) => (current, None),
            (SecretStage::Announced, Some(next)) => (current, Some(next)),
            (SecretStage::Signing, Some(next)) => (next, Some(current)),
        };
        let (signing, other) = (SecretKeys::new(signing), other.map(SecretKeys::new));
        // The name in certificates stays when the secret changes.
        let named = state.cluster.as_deref().and_then(|name| ClusterName::new(name.to_owned()).ok());
        let cluster = named.unwrap_or_else(|| cluster_name(&PeerKey::new(*current)));
        let attempts = AttemptTokens::new(&signing.peer, other.as_ref().map(|other| &other.peer));
        Self { revision: state.revision, stage: state.stage, cluster, signing, other, attempts: Arc::new(attempts) }
    }

    /// The one that signs first.
    pub(crate) fn accepted(&self) -> impl Iterator<Item = &SecretKeys> {
        std::iter::once(&self.signing).chain(&self.other)
    }

    /// What the cluster is called in certificates.
    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    /// The token that gives every right, as it is written into its file.
    pub fn access_token(&self) -> &AccessToken {
        &self.signing.access
    }

    /// What signs the URLs of the storage.
    pub fn url_key(&self) -> UrlKey {
        self.signing.urls.clone()
    }

    /// What signs the URLs of the storage, and what else is accepted in them.
    pub(crate) fn url_keys(&self) -> (UrlKey, Option<UrlKey>) {
        (self.signing.urls.clone(), self.other.as_ref().map(|other| other.urls.clone()))
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySet({}, {:?})", self.revision, self.stage)
    }
}

fn cluster_name(key: &PeerKey) -> ClusterName {
    let digits = hex::encode(&key.derive(b"cluster name")[..8]);
    ClusterName::new(digits).expect("hexadecimal digits are a name")
}

/// The keys as they are now. Clones see the same.
#[derive(Clone)]
pub struct ClusterKeys(Arc<watch::Sender<Arc<KeySet>>>);

impl ClusterKeys {
    /// Of a cluster whose secret is not being rotated.
    pub fn new(secret: ClusterSecret) -> Self {
        Self::open(&OpenedSecrets { state: Default::default(), current: secret, next: None })
    }

    pub fn open(secrets: &OpenedSecrets) -> Self {
        Self(Arc::new(watch::Sender::new(Arc::new(KeySet::new(secrets)))))
    }

    pub fn now(&self) -> Arc<KeySet> {
        Arc::clone(&self.0.borrow())
    }

    /// Tells of other keys.
    pub fn subscribe(&self) -> watch::Receiver<Arc<KeySet>> {
        self.0.subscribe()
    }

    pub(crate) fn replace(&self, secrets: &OpenedSecrets) -> Arc<KeySet> {
        let keys = Arc::new(KeySet::new(secrets));
        self.0.send_replace(Arc::clone(&keys));
        keys
    }

    pub(crate) fn attempt_tokens(&self) -> Arc<AttemptTokens> {
        Arc::clone(&self.0.borrow().attempts)
    }

    /// What goes with a question to a peer that calls `method` with this body.
    pub fn ask(&self, question: Question, method: &str, body: BodyDigest) -> String {
        self.0.borrow().signing.peer.ask(question, method, body)
    }

    /// The question and the digest that its body must have, if whoever asks `to` for `method` knows a secret that is accepted.
    pub fn asked(&self, text: &str, to: ServerId, method: &str) -> Option<(Question, BodyDigest)> {
        self.0.borrow().accepted().find_map(|keys| keys.peer.asked(text, to, method))
    }

    /// What goes with the answer.
    pub fn answer(&self, question: Question) -> String {
        self.0.borrow().signing.peer.answer(question)
    }

    /// Whether whoever answered knows a secret that is accepted.
    pub fn answered(&self, text: &str, question: Question) -> bool {
        self.0.borrow().accepted().any(|keys| keys.peer.answered(text, question))
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::{AttemptNo, JobId, ShardId, Timestamp};
    use punctual_store::ClusterSecretState;

    use super::*;

    fn secret(byte: u8) -> ClusterSecret {
        ClusterSecret([byte; 32])
    }

    fn keys(stage: SecretStage, current: u8, next: Option<u8>) -> ClusterKeys {
        let state = ClusterSecretState { stage, ..ClusterSecretState::default() };
        ClusterKeys::open(&OpenedSecrets { state, current: secret(current), next: next.map(secret) })
    }

    /// Everything that one server signs, and whether another accepts it.
    fn accepts(signer: &ClusterKeys, checker: &ClusterKeys) -> bool {
        let question = Question {
            from: ServerId::new(Timestamp::EPOCH, 1),
            to: ServerId::new(Timestamp::EPOCH, 2),
            asked_at: Timestamp::EPOCH,
            number: 1,
        };
        let job = JobId::new(Timestamp::EPOCH, ShardId(3), 7);
        let (from, to) = (signer.now(), checker.now());
        let body = BodyDigest::of(b"");
        let token = from.attempts.token(job, AttemptNo(1));
        let all = [
            checker.asked(&signer.ask(question, "m", body), question.to, "m").is_some(),
            checker.answered(&signer.answer(question), question),
            to.attempts.is_of(job, AttemptNo(1), &token),
            to.accepted().any(|keys| keys.access.is(from.access_token().as_str())),
            to.accepted().any(|keys| keys.audit.public_key() == from.signing.audit.public_key()),
        ];
        assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
        all[0]
    }

    #[test]
    fn servers_in_neighbouring_stages_accept_what_the_other_signs() {
        use SecretStage::{Announced, Settled, Signing};
        let before = keys(Settled, 1, None);
        let announced = keys(Announced, 1, Some(2));
        let signing = keys(Signing, 1, Some(2));
        let after = keys(Settled, 2, None);
        let stages = [&before, &announced, &signing, &after];
        for (place, stage) in stages.iter().enumerate() {
            assert!(accepts(stage, stage), "{place}");
        }
        for pair in stages.windows(2) {
            assert!(accepts(pair[0], pair[1]), "{:?}", pair[0].now());
            assert!(accepts(pair[1], pair[0]), "{:?}", pair[1].now());
        }
        assert!(!accepts(&signing, &before), "no server may be so far behind when the next secret begins to sign");
        assert!(!accepts(&before, &after), "the former secret is gone");
        assert_eq!(before.now().signing.id, signing.now().other.as_ref().unwrap().id);
        assert_ne!(before.now().signing.id, after.now().signing.id);
    }

    #[test]
    fn the_name_of_the_cluster_stays() {
        let before = keys(SecretStage::Settled, 1, None).now();
        let state = |stage| ClusterSecretState {
            stage,
            cluster: Some(before.cluster().to_string()),
            ..ClusterSecretState::default()
        };
        for (stage, current, next) in
            [(SecretStage::Announced, 1, Some(2)), (SecretStage::Signing, 1, Some(2)), (SecretStage::Settled, 2, None)]
        {
            let secrets = OpenedSecrets { state: state(stage), current: secret(current), next: next.map(secret) };
            assert_eq!(ClusterKeys::open(&secrets).now().cluster(), before.cluster(), "{stage:?}");
        }
        assert_ne!(keys(SecretStage::Settled, 2, None).now().cluster(), before.cluster(), "another cluster");
    }
}
