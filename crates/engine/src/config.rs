//! How an engine runs.

use std::sync::Arc;

use punctual_core::shard::Config;
use punctual_core::{ServerId, Span, Timestamp};

use crate::clock::Monotonic;

/// Where the time comes from. The real one enters where the binary builds the engine.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The role of servers that own shards and do what one server does for all.
pub const SCHEDULER: &str = "scheduler";

#[derive(Clone)]
pub struct EngineConfig {
    pub server: ServerId,
    pub owner: Config,
    /// This machine's clock.
    pub clock: Clock,
    pub monotonic: Monotonic,
    pub timekeeper: Timekeeper,
    /// A server whose clock differs by more from the store's does not work.
    pub clock_skew_max: Span,
    /// Feeds the jitter of retries.
    pub seed: u64,
    pub takeover: Takeover,
    pub member: MemberConfig,
    /// A lease that is not renewed for this long is over.
    pub lease_ttl: Span,
    pub renew_every: Span,
    /// How often the leases are looked at, for shards that became free. Four times as long
    /// passes between two looks at everything: members, duties, the store's clock.
    pub look_every: Span,
}

/// What this server tells the others of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberConfig {
    /// Where peers and workers reach it.
    pub address: String,
    pub version: String,
    pub roles: Vec<String>,
    /// The version of its time zone data; empty if it does not say.
    pub zone_data: String,
}

/// When a new server may take a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takeover {
    /// At once: the store lets only one process in, so the former owner is gone.
    AtOnce,
    /// When its lease is over.
    WhenExpired,
}

/// Whose clock says what is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timekeeper {
    /// For a store on this machine.
    ThisMachine,
    /// For a store that several servers share.
    Store,
}

impl EngineConfig {
    /// For one of several servers on one store.
    pub fn new(server: ServerId, clock: Clock, monotonic: Monotonic, seed: u64) -> Self {
        Self {
            server,
            owner: Config::default(),
            clock,
            monotonic,
            timekeeper: Timekeeper::Store,
            clock_skew_max: Span::from_secs(5),
            seed,
            takeover: Takeover::WhenExpired,
            member: MemberConfig::default(),
            lease_ttl: Span::from_secs(10),
            renew_every: Span::from_secs(3),
            look_every: Span::from_millis(250),
        }
    }

    /// For the only server of a store on this machine.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { timekeeper: Timekeeper::ThisMachine, takeover: Takeover::AtOnce, ..self }
    }

    pub(crate) fn is_scheduler(&self) -> bool {
        self.member.roles.iter().any(|role| role == SCHEDULER)
    }

    /// How long a lease is relied on, from before it was asked for: a little less than it
    /// lasts, because what is decided in the last moment takes a moment to leave.
    pub(crate) fn lease_relied_on(&self) -> std::time::Duration {
        self.lease_ttl.to_std().mul_f64(0.9)
    }
}

impl Default for MemberConfig {
    fn default() -> Self {
        let roles = ["api", SCHEDULER].map(str::to_owned).to_vec();
        Self { address: String::new(), version: env!("CARGO_PKG_VERSION").to_owned(), roles, zone_data: String::new() }
    }
}
