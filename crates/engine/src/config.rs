//! How an engine runs.

use std::sync::Arc;

use punctual_core::shard::Config;
use punctual_core::{ServerId, Span, Timestamp};

/// Where the time comes from. The real one enters where the binary builds the engine.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

#[derive(Clone)]
pub struct EngineConfig {
    pub server: ServerId,
    pub owner: Config,
    pub clock: Clock,
    /// Feeds the jitter of retries.
    pub seed: u64,
    pub takeover: Takeover,
    /// A lease that is not renewed for this long is over.
    pub lease_ttl: Span,
    pub renew_every: Span,
    /// Batches on their way to the store at a time. A second one waits in the store's
    /// queue while the first is flushed, so that the writer is never idle.
    pub batches_in_flight_max: usize,
    /// Finished jobs are kept for this long.
    pub retention: Span,
    pub prune_every: Span,
}

/// When a new server may take a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takeover {
    /// At once: the store lets only one process in, so the former owner is gone.
    AtOnce,
    /// When its lease is over.
    WhenExpired,
}

impl EngineConfig {
    pub fn new(server: ServerId, clock: Clock, seed: u64) -> Self {
        Self {
            server,
            owner: Config::default(),
            clock,
            seed,
            takeover: Takeover::WhenExpired,
            lease_ttl: Span::from_secs(10),
            renew_every: Span::from_secs(3),
            batches_in_flight_max: 2,
            retention: Span::from_secs(7 * 86_400),
            prune_every: Span::from_secs(60),
        }
    }
}
