//! How large the cluster is, and how much may go wrong in it.

use crate::properties::Sight;
use crate::state::{FaultBudget, Place};

pub const SERVERS: usize = 2;
pub const WORKERS: usize = 2;
pub const JOBS: usize = 2;
/// Starts of one job, at most.
pub const ATTEMPTS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryMode {
    AtLeastOnce,
    ExactlyOnce,
}

#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub delivery: DeliveryMode,
    pub due: u8,
    /// The maximum number of starts of the job.
    pub attempts: u8,
    pub served_by: ServedBy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedBy {
    Any,
    One(Place),
}

/// What may happen to an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fates {
    Success,
    /// The attempt may fail, and a worker may give back its assignment.
    Any,
}

#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub name: &'static str,
    pub servers: u8,
    pub workers: u8,
    pub jobs: &'static [Job],
    pub epochs: u8,
    /// Messages under way on one link in one direction.
    pub messages: usize,
    pub fates: Fates,
    /// Whether leases end by themselves and are renewed; otherwise anyone may take the shard
    /// at any moment, which allows as much and needs fewer states.
    pub leases: Leases,
    pub grain: Grain,
    pub beginning: Beginning,
    pub left: FaultBudget,
    /// Events that must be possible within these bounds.
    pub sights: &'static [Sight],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leases {
    Kept,
    Ignored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    Fine,
    /// The store's answer comes with the commit, and a worker that connects again has been
    /// greeted and has said hello. What would be late in between is late afterwards, as a
    /// message that is not yet read.
    Coarse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// No server owns the shard, and no worker is connected.
    Cold,
    /// The first server owns the shard, and all workers have said hello to all servers.
    Warm,
}
