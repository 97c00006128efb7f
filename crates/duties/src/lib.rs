//! What a server does by itself, without a request: retention, notifications, the log archive and the like.
//!
//! Each of these is a [`Duty`]: a name, a lease or none, and `tick`. One [`Runner`] ticks all of them, so that back-off,
//! shutdown and logs are the same everywhere; tests call `tick` and wait for no period. Owning shards (the driver, leases
//! and membership) is no duty; see the engine.

mod calendars;
mod duty;
mod retention;
mod runner;
mod watch_list;

use std::sync::Arc;

use punctual_core::Span;
use punctual_engine::Engine;
use punctual_store::Store;

pub use calendars::Calendars;
pub use duty::{Duty, Next, TickError};
pub use retention::Retention;
pub use runner::{DutyStatus, Runner, Statuses};
pub use watch_list::WatchList;

/// The parts of a server that its duties work with.
#[derive(Clone)]
pub struct Context {
    pub store: Arc<dyn Store>,
    pub engine: Engine,
    /// How long finished jobs are kept.
    pub retention: Span,
    /// The time between two removals of old history.
    pub prune_every: Span,
}

/// The duties of a server.
pub fn all(context: &Context) -> Vec<Box<dyn Duty>> {
    vec![Box::new(Calendars::new(context)), Box::new(Retention::new(context)), Box::new(WatchList::new(context))]
}
