//! How far a rotation of the cluster's secret is, and which servers act by it. The secrets themselves are sealed keys.

use async_trait::async_trait;
use punctual_core::{ServerId, Span, Timestamp};

use crate::{Result, SealedKey};

/// The label of the secret that follows the one in use, while a rotation is under way.
pub const NEXT_CLUSTER_SECRET: &str = "cluster/next";

/// Which of the secrets signs, and which are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SecretStage {
    /// There is one secret.
    #[default]
    Settled,
    /// The next secret is accepted, and nothing is signed with it yet.
    Announced,
    /// The next secret signs, and the former one is accepted.
    Signing,
}

impl SecretStage {
    pub const ALL: [Self; 3] = [Self::Settled, Self::Announced, Self::Signing];

    /// As it is stored.
    pub const fn code(self) -> i16 {
        match self {
            Self::Settled => 0,
            Self::Announced => 1,
            Self::Signing => 2,
        }
    }

    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.code() == code)
    }
}

/// A server that acts by the revision of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirmation {
    pub server: ServerId,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterSecretState {
    /// Counts the changes of the stage, from 0.
    pub revision: u64,
    pub stage: SecretStage,
    /// When the stage began. `None` if there never was a rotation.
    pub stage_since: Option<Timestamp>,
    /// When the secret with the label [`crate::CLUSTER_SECRET`] was made. `None` for the first one.
    pub made_at: Option<Timestamp>,
    /// When the secret with the label [`NEXT_CLUSTER_SECRET`] was made.
    pub next_made_at: Option<Timestamp>,
    /// How long the former secret is accepted once all servers sign with the next. `None` outside of a rotation.
    pub overlap: Option<Span>,
    /// What the cluster is called in certificates. `None` before the first rotation: until then the name follows from the
    /// secret.
    pub cluster: Option<String>,
    /// Servers that act by this revision, in order of id. Some of them may be gone.
    pub confirmed: Vec<Confirmation>,
}

impl ClusterSecretState {
    fn at(&self, stage: SecretStage, now: Timestamp) -> Self {
        let confirmed = Vec::new();
        Self { revision: self.revision + 1, stage, stage_since: Some(now), confirmed, ..self.clone() }
    }

    /// After a rotation began. `None` if the revision is not `known`, or a rotation is under way.
    pub fn announced(&self, known: u64, cluster: &str, overlap: Span, now: Timestamp) -> Option<Self> {
        let is_as_known = self.revision == known && self.stage == SecretStage::Settled;
        is_as_known.then(|| Self {
            next_made_at: Some(now),
            overlap: Some(overlap),
            cluster: Some(self.cluster.clone().unwrap_or_else(|| cluster.to_owned())),
            ..self.at(SecretStage::Announced, now)
        })
    }

    /// After the announced secret began to sign. `None` if the revision is not `known`, or none is announced.
    pub fn signing(&self, known: u64, now: Timestamp) -> Option<Self> {
        let is_as_known = self.revision == known && self.stage == SecretStage::Announced;
        is_as_known.then(|| self.at(SecretStage::Signing, now))
    }

    /// After the former secret was dropped. `None` if the revision is not `known`, or the next one does not sign.
    pub fn settled(&self, known: u64, now: Timestamp) -> Option<Self> {
        let is_as_known = self.revision == known && self.stage == SecretStage::Signing;
        is_as_known.then(|| Self {
            made_at: self.next_made_at,
            next_made_at: None,
            overlap: None,
            ..self.at(SecretStage::Settled, now)
        })
    }
}

/// The key of an authority, sealed anew.
#[derive(Clone, PartialEq, Eq)]
pub struct ResealedAuthority {
    pub generation: u32,
    /// As it is stored now.
    pub former: Vec<u8>,
    pub sealed_key: Vec<u8>,
}

impl std::fmt::Debug for ResealedAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ResealedAuthority({})", self.generation)
    }
}

#[async_trait]
pub trait ClusterSecrets: Send + Sync + 'static {
    async fn cluster_secret(&self) -> Result<ClusterSecretState>;

    /// Begins a rotation: stores `next`, whose label is [`NEXT_CLUSTER_SECRET`], and the name of the cluster if it has none yet.
    /// False, and nothing is changed, unless the revision is `known`, no rotation is under way, and the secret in use is sealed
    /// with the same root key as `next`. A crash leaves all of it or nothing.
    async fn announce_cluster_secret(
        &self,
        known: u64,
        next: SealedKey,
        cluster: &str,
        overlap: Span,
        now: Timestamp,
    ) -> Result<bool>;

    /// Lets the announced secret sign from `now`. False, and nothing is changed, unless the revision is `known`, and the secret
    /// is announced.
    async fn sign_with_next_secret(&self, known: u64, now: Timestamp) -> Result<bool>;

    /// Ends a rotation: `secret`, whose label is [`crate::CLUSTER_SECRET`], takes the place of both, and the keys of
    /// `authorities` that of theirs. False, and nothing is changed, unless the revision is `known`, the next secret signs and is
    /// sealed with the same root key as `secret`, and `authorities` are all there are, as they are stored. A crash leaves all of
    /// it or nothing.
    async fn retire_cluster_secret(
        &self,
        known: u64,
        secret: SealedKey,
        authorities: Vec<ResealedAuthority>,
        now: Timestamp,
    ) -> Result<bool>;

    /// Notes that a server acts by a revision. The first note of a server stays. Does nothing if the revision is another by now.
    async fn confirm_cluster_secret(&self, server: ServerId, revision: u64, now: Timestamp) -> Result<()>;
}
