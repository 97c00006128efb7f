//! What a server does by itself, without a request: retention, notifications, the log archive and the like.
//!
//! Each of these is a [`Duty`]: a name, a lease or none, and `tick`. One [`Runner`] ticks all of them, so that back-off,
//! shutdown and logs are the same everywhere; tests call `tick` and wait for no period. Owning shards (the driver, leases
//! and membership) is no duty; see the engine.

mod arrivals;
mod artifact_retention;
mod audit;
mod backfills;
mod batches;
mod calendars;
mod cluster_secret;
mod cluster_view;
mod duty;
mod enrolments;
mod identities;
mod log_archive;
mod notifications;
mod queue_states;
mod retention;
mod runner;
mod running_places;
mod sealed_keys;
mod shared_storage;
mod silent_agents;
mod storage_sweep;
mod watch_list;
mod worker_records;
mod workflows;

use std::sync::Arc;

use punctual_app::{App, Settings};
use punctual_blobs::Blobs;
use punctual_core::Span;
use punctual_engine::Engine;
use punctual_store::Store;

pub use arrivals::Arrivals;
pub use artifact_retention::ArtifactRetention;
pub use audit::{AuditRetention, CountedRefusals};
pub use backfills::Backfills;
pub use batches::Batches;
pub use calendars::Calendars;
pub use cluster_secret::{ClusterSecretRefresh, ClusterSecretRotation};
pub use cluster_view::{ServerList, TaskRefresh, WorkerRequests};
pub use duty::{Duty, Next, TickError};
pub use enrolments::Enrolments;
pub use identities::{IdentityRefresh, IdentityRetention};
pub use log_archive::LogArchive;
pub use notifications::Notifications;
pub use queue_states::QueueStates;
pub use retention::Retention;
pub use runner::{DutyStatus, Runner, Statuses};
pub use running_places::RunningPlaces;
pub use sealed_keys::SealedKeys;
pub use shared_storage::StorageMarker;
pub use silent_agents::SilentAgents;
pub use storage_sweep::StorageSweep;
pub use watch_list::WatchList;
pub use worker_records::WorkerRecords;
pub use workflows::Workflows;

/// The parts of a server that its duties work with.
#[derive(Clone)]
pub struct Context {
    pub app: App,
    pub store: Arc<dyn Store>,
    pub engine: Engine,
    pub blobs: Blobs,
    pub settings: Settings,
    /// The time between two removals of old history.
    pub prune_every: Span,
}

/// The duties of a server.
pub fn all(context: &Context) -> Vec<Box<dyn Duty>> {
    vec![
        Box::new(Arrivals::new(context)),
        Box::new(ArtifactRetention::new(context)),
        Box::new(AuditRetention::new(context)),
        Box::new(Backfills::new(context)),
        Box::new(Calendars::new(context)),
        Box::new(ClusterSecretRefresh::new(context)),
        Box::new(ClusterSecretRotation::new(context)),
        Box::new(IdentityRefresh::new(context)),
        Box::new(IdentityRetention::new(context)),
        Box::new(CountedRefusals::new(context)),
        Box::new(Enrolments::new(context)),
        Box::new(LogArchive::new(context)),
        Box::new(Notifications::new(context)),
        Box::new(QueueStates::new(context)),
        Box::new(Retention::new(context)),
        Box::new(SealedKeys::new(context)),
        Box::new(ServerList::new(context)),
        Box::new(SilentAgents::new(context)),
        Box::new(Workflows::new(context)),
        Box::new(Batches::new(context)),
        Box::new(StorageMarker::new(context)),
        Box::new(StorageSweep::new(context)),
        Box::new(TaskRefresh::new(context)),
        Box::new(WatchList::new(context)),
        Box::new(WorkerRecords::new(context)),
        Box::new(WorkerRequests::new(context)),
        Box::new(RunningPlaces::new(context)),
    ]
}
