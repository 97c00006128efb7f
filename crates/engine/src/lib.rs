//! Does what the core decided.
//!
//! One thread drives the [`Owner`](punctual_core::shard::Owner) of this server's
//! shards: it waits for events and for the next due moment, hands batches to the
//! store, and sends what became durable to workers and watchers. Around it stand
//! the duties that keep leases and let go of old history.

mod config;
mod driver;
mod duties;
mod handle;
mod hub;
mod inbox;
mod infos;
mod reads;
mod streams;
mod tasks;

pub use config::{Clock, EngineConfig, Takeover};
pub use handle::{Engine, EngineError, WorkerSession};
pub use hub::Changes;
pub use infos::WorkerInfo;
pub use streams::{Outgoing, OutgoingAssignment};
