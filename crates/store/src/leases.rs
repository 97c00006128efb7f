//! Who owns which shard, and until when.

use async_trait::async_trait;
use punctual_core::shard::write::Epoch;
use punctual_core::{ServerId, ShardId, Span, Timestamp};

use crate::Result;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owned {
    pub shard: ShardId,
    pub epoch: Epoch,
}

/// A shard and who has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    pub shard: ShardId,
    pub epoch: Epoch,
    /// `None` when it was given up.
    pub owner: Option<ServerId>,
    pub until: Timestamp,
}

#[async_trait]
pub trait Leases: Send + Sync + 'static {
    /// The store's clock, which alone says what is due.
    async fn now(&self) -> Result<Timestamp>;

    /// How many shards there are; fixed when the store was made.
    fn shard_count(&self) -> u16;

    /// Another number whenever the database turned out to be another instance than before, which may have lost commits:
    /// what anybody remembers of it from before then is not to be relied on.
    fn generation(&self) -> u64;

    /// Takes up to `limit` shards whose lease is over or was given up, and raises their epochs.
    /// From the moment this is durable, no transition under an older epoch commits.
    async fn acquire(&self, server: ServerId, ttl: Span, limit: usize) -> Result<Vec<Owned>>;

    /// Takes these shards although their lease may still run, raising their epochs: for an
    /// owner that no longer knows what it wrote, and for a peer that saw the owner gone.
    async fn take_over(&self, server: ServerId, shards: Vec<ShardId>, ttl: Span) -> Result<Vec<Owned>>;

    /// Prolongs every lease of `server`; the answer is what it still owns.
    async fn renew(&self, server: ServerId, ttl: Span) -> Result<Vec<Owned>>;

    /// Gives up every lease of `server`, so that others need not wait for its end.
    async fn release(&self, server: ServerId) -> Result<()>;

    /// Gives up these shards, as far as `server` owns them.
    async fn give_up(&self, server: ServerId, shards: Vec<ShardId>) -> Result<()>;

    /// All shards, in order.
    async fn leases(&self) -> Result<Vec<Lease>>;
}
