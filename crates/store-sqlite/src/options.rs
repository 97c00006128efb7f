use std::sync::Arc;

use punctual_core::Timestamp;

use crate::commits::DataLoss;

/// Where the store's time comes from. The binary passes the real one.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What survives a loss of power. A crash of the process loses nothing in either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Everything that was answered.
    #[default]
    Full,
    /// Everything up to the last checkpoint; the newest answers may be lost.
    Normal,
}

impl Durability {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "FULL",
            Self::Normal => "NORMAL",
        }
    }
}

#[derive(Clone)]
pub struct Options {
    pub clock: Clock,
    pub durability: Durability,
    /// Used when the file is made, and fixed from then on.
    pub shard_count: u16,
    /// The writer's page cache. Every reader has a small one of its own.
    pub cache_bytes: usize,
    /// The write-ahead log is made this long at once and kept so: flushing a file
    /// that grows costs ten times as much as flushing one that does not.
    pub wal_kept_bytes: u64,
    /// What to do when commits that were acknowledged are not there.
    pub data_loss: DataLoss,
    /// A checkpoint is due when the log holds so many pages.
    pub checkpoint_pages: u32,
}

impl Options {
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            durability: Durability::default(),
            // One process owns all shards: more of them would only spread the hot pages.
            shard_count: 4,
            cache_bytes: 32 << 20,
            wal_kept_bytes: 40 << 20,
            data_loss: DataLoss::default(),
            checkpoint_pages: 8_000,
        }
    }
}
