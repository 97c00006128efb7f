//! The state of one worker: its connection, its credit, and the jobs on it.

use std::collections::{BTreeMap, BTreeSet};

use super::pools::PoolId;
use crate::attempt::AttemptNo;
use crate::id::JobId;
use crate::id_map::IdSet;
use crate::namespace::ServedNamespaces;
use crate::shard::event::{CreditKept, Demand, StreamId, WorkerSpec};
use crate::time::Timestamp;

pub(super) struct Worker {
    pub(super) spec: WorkerSpec,
    /// `None` while it is disconnected.
    pub(super) stream: Option<StreamId>,
    /// The last connection on which the worker sent a hello, open or not. A hello of an earlier connection that is read
    /// only now says nothing about what was sent since.
    pub(super) newest: Option<StreamId>,
    pub(super) seen_at: Timestamp,
    /// The jobs that the worker runs for this owner, and those that are being started on it.
    pub(super) jobs: IdSet<JobId>,
    /// Attempts of our shards that it holds although we gave them up, or another run of it
    /// left them. They fill its slots until it reports them, or until we stop believing it:
    /// it may have told another server.
    pub(super) left_over: BTreeSet<(JobId, AttemptNo)>,
    pub(super) left_over_until: Timestamp,
    pub(super) pools: Vec<PoolId>,
    /// The demand that the worker was last sent on this connection.
    pub(super) demand_told: Demand,
}

impl Worker {
    /// A worker that is known only from a start that was assigned to it.
    pub(super) fn absent(now: Timestamp) -> Self {
        let namespaces = ServedNamespaces::Only(BTreeSet::new());
        let (queues, capabilities, labels) = (Vec::new(), Vec::new(), BTreeMap::new());
        let spec = WorkerSpec { namespaces, queues, capabilities, labels, credit: 0 };
        Self {
            spec,
            stream: None,
            newest: None,
            seen_at: now,
            jobs: IdSet::default(),
            left_over: BTreeSet::new(),
            left_over_until: now,
            pools: Vec::new(),
            demand_told: Demand::default(),
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.stream.is_some()
    }

    /// Slots in use are counted from what it runs, never kept as a number.
    fn in_use(&self) -> usize {
        self.jobs.len() + self.left_over.len()
    }

    pub(super) fn free(&self) -> usize {
        if self.stream.is_none() {
            return 0;
        }
        (self.spec.credit as usize).saturating_sub(self.in_use())
    }

    /// More than it granted was in use, and something of it ends.
    pub(super) fn is_overdrawn(&self) -> bool {
        self.stream.is_some() && self.in_use() > self.spec.credit as usize
    }

    pub(super) fn credit_kept(&self) -> CreditKept {
        let told = self.spec.credit;
        CreditKept { told, bound: told.max(u32::try_from(self.in_use()).unwrap_or(u32::MAX)) }
    }
}
