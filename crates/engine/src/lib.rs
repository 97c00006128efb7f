//! Does what the core decided.
//!
//! One thread drives the [`Owner`](punctual_core::shard::Owner) of this server's
//! shards: it waits for events and for the next due moment, hands batches to the
//! store, and sends what became durable to workers and watchers. Around it stand
//! the tasks that keep leases and membership. What else happens by itself is in the crate `duties`.

mod ask;
mod clock;
mod cluster;
mod config;
mod connections;
mod driver;
mod duties;
mod handle;
mod hub;
mod inbox;
mod keeper;
mod lease_state;
mod leases;
mod members;
mod outgoing;
mod plans;
mod queries;
mod queue_states;
mod reads;
mod replan;
mod roll;
mod start;
mod streams;
mod tasks;
mod worker_registry;
mod worker_requests;
mod zone_data;

pub use clock::{Monotonic, Skew, StoreClock};
pub use cluster::Cluster;
pub use config::{Clock, EngineConfig, MemberConfig, SCHEDULER, Takeover, Timekeeper};
pub use connections::{Greeting, WorkerSession};
pub use duties::{ARTIFACTS, LOGS, REPORTS, RETENTION};
pub use handle::{Engine, EngineError};
pub use hub::Changes;
pub use outgoing::OutgoingReceiver;
pub use queries::Runs;
pub use queue_states::KnownQueues;
pub use start::StartError;
pub use streams::Outgoing;
pub use worker_registry::WorkerInfo;
pub use worker_requests::Reach;
