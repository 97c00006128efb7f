use std::sync::Arc;

use punctual_core::{Span, Timestamp};

/// Where a test's time comes from. A store in production asks PostgreSQL.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What to do about a schema that is not up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Migrate {
    #[default]
    Apply,
    /// Refuse to open; the operator migrates.
    Check,
}

/// How many connections `apply` has unless somebody asks for another number; whoever makes batches needs to know it. Two drain
/// nearly twice as fast as one, and more only add commits.
pub const LANES: u16 = 2;

#[derive(Clone)]
pub struct Options {
    /// As libpq takes it: a URL or `key=value` pairs, also with several hosts.
    pub url: String,
    /// Used when the store is made, and fixed from then on.
    pub shard_count: u16,
    pub migrate: Migrate,
    /// Connections for `apply`. Batches of shards that are equal modulo this number follow each
    /// other on one connection; a batch that touches others waits for all.
    pub lanes: u16,
    /// How much time a partition of history covers, and one of the ledger of occurrences.
    pub history_step: Span,
    /// For tests: time that stands still.
    pub clock: Option<Clock>,
    /// For tests: epochs that count from here, whatever happens to the database.
    pub generation: Option<i64>,
}

impl Options {
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            shard_count: 64,
            migrate: Migrate::default(),
            lanes: LANES,
            history_step: Span::from_secs(86_400),
            clock: None,
            generation: None,
        }
    }
}
