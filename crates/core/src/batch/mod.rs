//! Batches: jobs that are stored, started and ended together, as their batch declares.
//!
//! A batch is one row in one shard, with all of its jobs. What its members have come to is a part of that row, and changes in
//! the transaction that ends a member. What follows from that is worked out here, by [`step`], and never kept in memory. Does
//! not decide when the members of a gang start: the owner of the shard does, in `shard::gangs`.

#[cfg(feature = "planted-bugs")]
mod bug;
mod contract;
mod member;
mod planted;
mod state;
mod step;
#[cfg(test)]
mod step_tests;

#[cfg(feature = "planted-bugs")]
pub use bug::{BatchBug, plant};
pub use contract::{BatchOutcome, BatchStart, Contract, OnStartTimeout, Unplaceable};
pub use member::{BatchMember, Gang, MemberRef, MemberRole, compensation_job, member_job};
use planted::planted;
pub use state::{BatchPhase, BatchState, BatchStatus, MemberCounts, MemberStatus};
pub use step::{BatchEvent, BatchHead, BatchStep, Started, step};

/// Members of one batch: they are stored in one transaction, as large as the largest submission of jobs.
pub const MEMBERS_MAX: usize = 10_000;
