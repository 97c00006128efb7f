//! Everything Punctual decides, and nothing it does.
//!
//! No async, no I/O, no clock and no randomness: time, jitter and ids come in as
//! arguments, so that the same code runs in production and in the simulator.

pub mod access;
pub mod attempt;
pub mod batch;
pub mod characters;
pub mod credits;
pub mod give_backs;
pub mod hex;
pub mod host;
pub mod id;
pub mod id_map;
pub mod job;
pub mod json;
pub mod lifecycle;
pub mod log;
pub mod namespace;
pub mod notice;
pub mod queue;
pub mod random;
pub mod retry;
mod rfc3339;
pub mod run;
pub mod running_places;
pub mod schedule;
pub mod secret;
pub mod server_choice;
pub mod shard;
pub mod size;
pub mod task;
pub mod task_defaults;
pub mod time;
pub mod worker_scope;
pub mod workflow;

pub use attempt::{AttemptNo, Outcome, Ran};
pub use id::{
    ArtifactId, BackfillId, BatchId, EnrolmentId, JobId, JoinTokenId, RunId, ScheduleId, ServerId, ShardId, TaskId,
    WorkerId,
};
pub use job::{Counters, JobKey, JobRow};
pub use lifecycle::JobState;
pub use namespace::{NamespaceId, NamespaceName};
pub use time::{Span, Timestamp};
