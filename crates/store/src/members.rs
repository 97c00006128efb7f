//! The servers of a cluster, and the duties that only one of them does.

use async_trait::async_trait;
use punctual_core::shard::write::Epoch;
use punctual_core::{ServerId, Span, Timestamp};

use crate::Result;

/// A server as it describes itself. Every start of a process is a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub id: ServerId,
    /// Where peers and workers reach it, such as `http://127.0.0.1:8020`.
    pub address: String,
    pub version: String,
    /// `api`, `scheduler`.
    pub roles: Vec<String>,
    pub started_at: Timestamp,
    pub status: MemberStatus,
    /// The version of its time zone data, such as `2026a`. Empty if it does not say.
    pub zone_data: String,
}

/// How a server was doing when it was last seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemberStatus {
    pub workers: u32,
    pub running: u32,
    /// How long the job has waited that waits longest for a worker.
    pub lag: Span,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenMember {
    pub member: Member,
    /// By the store's clock.
    pub seen_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DutyLease {
    pub duty: String,
    pub owner: ServerId,
    pub epoch: Epoch,
    pub until: Timestamp,
}

/// 256 random bits. Shown to nobody, not even in a log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClusterSecret(pub [u8; 32]);

impl std::fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClusterSecret")
    }
}

#[async_trait]
pub trait Members: Send + Sync + 'static {
    /// Says that a server lives: its row is made or replaced, and seen now.
    async fn beat(&self, member: Member) -> Result<()>;

    /// All rows, in order of id, also of servers that are gone: the reader decides by `seen_at`.
    async fn members(&self) -> Result<Vec<SeenMember>>;

    /// Removes the row of a server that leaves; that there is none is fine.
    async fn leave(&self, server: ServerId) -> Result<()>;

    /// Removes rows of servers that were not seen since `before`; the answer is how many.
    async fn forget_members(&self, before: Timestamp) -> Result<usize>;

    /// Takes or prolongs the lease of a duty that one server does for all. `None` while
    /// another server holds it. The epoch rises each time it changes hands.
    async fn hold_duty(&self, server: ServerId, duty: &str, ttl: Span) -> Result<Option<Epoch>>;

    /// Gives up every duty of `server`.
    async fn drop_duties(&self, server: ServerId) -> Result<()>;

    /// Every duty that was ever held, in order of name; a lease may be over.
    async fn duties(&self) -> Result<Vec<DutyLease>>;
}
