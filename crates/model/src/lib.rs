//! A model of the cluster protocol, small enough that a checker can visit every state of it.
//!
//! Two servers, up to two workers and two jobs of one shard: leases and epochs, fenced
//! transitions, starts, assignments, executions, outcomes, acknowledgements, greetings and
//! hellos, takeovers, commands. Messages come late, repeated or never; processes die, or sleep
//! and act on what they remember. The invariants 1 to 5 of the architecture are checked in
//! every reachable state, and [`Mutation`] lists mistakes that each break one of them.
//!
//! It shares no code with what it models: it is the protocol written down a second time, and
//! says nothing about how the first time was done. `sim` runs the real core, also on a store that loses commits: here the
//! store keeps them.

pub mod actions;
pub mod bounds;
pub mod check;
pub mod cluster;
pub mod forms;
pub mod link;
pub mod mutations;
mod owner;
pub mod properties;
pub mod queue;
mod server;
pub mod state;
mod store;
pub mod worker;

pub use bounds::Bounds;
pub use cluster::Cluster;
pub use mutations::Mutation;
pub use properties::{Invariant, Sight};
