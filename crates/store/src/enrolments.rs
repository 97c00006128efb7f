//! Workers on other hosts: the tokens that they join with, and what each of them may do.

use async_trait::async_trait;
use punctual_core::worker_scope::WorkerScope;
use punctual_core::{EnrolmentId, JoinTokenId, Span, Timestamp};

use crate::Result;

/// Join tokens that there can be, with those that are spent and not yet removed. People make them one by one.
pub const JOIN_TOKENS_MAX: usize = 1000;
/// Enrolled workers that there can be. Every server has all of them in memory, about 400 bytes each.
pub const ENROLMENTS_MAX: usize = 100_000;
/// Tokens and enrolments stay so long after their end, so that a refusal can say what was wrong.
pub const ENDED_KEPT_FOR: Span = Span::from_secs(7 * 86_400);
/// Ended rows that are removed when one is added.
pub const ENDED_REMOVED_MAX: usize = 100;

/// What a worker on another host enrols with. Only the digest of its secret is stored: 256 random bits need no slow hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinTokenRow {
    pub id: JoinTokenId,
    pub secret_sha256: [u8; 32],
    pub scope: WorkerScope,
    pub uses_max: u32,
    pub uses: u32,
    pub created_at: Timestamp,
    pub created_by: String,
    pub expires_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
}

impl JoinTokenRow {
    /// Why nobody new can join with it.
    pub fn refusal(&self, now: Timestamp) -> Option<JoinRefusal> {
        if self.revoked_at.is_some() {
            Some(JoinRefusal::Revoked)
        } else if self.expires_at <= now {
            Some(JoinRefusal::Expired)
        } else if self.uses >= self.uses_max {
            Some(JoinRefusal::UsedUp)
        } else {
            None
        }
    }
}

/// A worker on another host. Its certificate names this row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolment {
    pub id: EnrolmentId,
    pub join_token: JoinTokenId,
    /// As the worker called itself.
    pub name: String,
    pub scope: WorkerScope,
    /// The SHA-256 of the public key that the worker joined with.
    pub key_sha256: [u8; 32],
    pub enrolled_at: Timestamp,
    pub renewed_at: Timestamp,
    /// When its latest certificate expires.
    pub expires_at: Timestamp,
    pub revoked_at: Option<Timestamp>,
    /// Grows over all enrolments with each change.
    pub revision: u64,
}

/// A worker that wants to join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinRequest {
    pub id: EnrolmentId,
    pub join_token: JoinTokenId,
    pub name: String,
    pub key_sha256: [u8; 32],
    pub now: Timestamp,
    pub expires_at: Timestamp,
}

/// Why a worker cannot join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinRefusal {
    UnknownToken,
    Revoked,
    Expired,
    UsedUp,
    /// It had joined with this key, and was revoked since.
    WorkerRevoked,
    /// There are [`ENROLMENTS_MAX`].
    Full,
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one is made for each worker that joins")]
pub enum Joined {
    Enrolled(Enrolment),
    Refused(JoinRefusal),
}

/// What has changed, in order of revision.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EnrolmentChanges {
    /// The latest revision. Lower than before after the database went back in time.
    pub revision: u64,
    pub rows: Vec<Enrolment>,
}

/// Revisions are given and committed in one order, so whoever has read up to one has missed nothing before it.
#[async_trait]
pub trait Enrolments: Send + Sync + 'static {
    /// Adds a token, and removes some that ended long ago. False if there are [`JOIN_TOKENS_MAX`]. Crash before: there is no
    /// token.
    async fn add_join_token(&self, token: JoinTokenRow) -> Result<bool>;

    /// All of them, the oldest first.
    async fn join_tokens(&self) -> Result<Vec<JoinTokenRow>>;

    async fn join_token(&self, id: JoinTokenId) -> Result<Option<JoinTokenRow>>;

    /// From now on nobody joins with it. False if it is not there, or was revoked before.
    async fn revoke_join_token(&self, id: JoinTokenId, at: Timestamp) -> Result<bool>;

    /// Uses a token for a worker, and removes some enrolments that ended long ago. Of many who use a token at once no more
    /// get in than it has uses. A worker that asks again with the same token and key, because the answer was lost, gets the
    /// same enrolment and uses nothing. Crash before: nothing is used, and the worker is not enrolled.
    async fn enrol(&self, request: JoinRequest) -> Result<Joined>;

    /// Notes that a worker gets another certificate. `None` if it is unknown or revoked. Crash before: the worker asks again.
    async fn renew_enrolment(
        &self,
        id: EnrolmentId,
        now: Timestamp,
        expires_at: Timestamp,
    ) -> Result<Option<Enrolment>>;

    /// From now on the worker may run jobs of these namespaces and of no others. `None` if it is unknown or revoked.
    async fn set_worker_namespaces(&self, id: EnrolmentId, namespaces: Vec<String>) -> Result<Option<Enrolment>>;

    /// The same for every worker that joined with a token, and for those that join with it from now on. `None` if there is no
    /// such token. Crash before: nothing has changed, for none of them.
    async fn set_token_namespaces(&self, id: JoinTokenId, namespaces: Vec<String>) -> Result<Option<JoinTokenRow>>;

    /// From now on the worker is nobody. False if it is unknown or was revoked before.
    async fn revoke_enrolment(&self, id: EnrolmentId, at: Timestamp) -> Result<bool>;

    /// Enrolments with a larger revision, at most `limit`.
    async fn enrolments_changed(&self, after: u64, limit: usize) -> Result<EnrolmentChanges>;
}
