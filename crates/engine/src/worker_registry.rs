//! The workers that have connected to this server, with what each reported about itself.

use std::collections::{BTreeMap, HashMap};
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_core::WorkerId;
use punctual_core::shard::WorkerStatus;
use punctual_core::shard::event::{StreamId, WorkerSpec};

#[derive(Debug, Clone)]
pub struct WorkerInfo {
    pub name: String,
    /// The machine that the worker reported, if any.
    pub host: Option<String>,
    pub version: String,
    pub spec: WorkerSpec,
    /// The user that runs commands outside of the sandbox; empty if none does.
    pub commands_as: String,
    /// Without one it is let in only by servers on its own machine.
    pub has_certificate: bool,
}

struct RegisteredWorker {
    info: WorkerInfo,
    /// The connection on which the worker reported this, while it is open.
    stream: Option<StreamId>,
}

/// Beyond this many workers, those that are not connected are dropped.
const WORKERS_MAX: usize = 10_000;

#[derive(Default)]
pub(crate) struct WorkerRegistry {
    workers: RwLock<HashMap<WorkerId, RegisteredWorker>>,
    /// Counts the connections that were opened and closed.
    changes: AtomicU64,
}

impl WorkerRegistry {
    pub(crate) fn connected(&self, worker: WorkerId, stream: StreamId, info: WorkerInfo) {
        let mut workers = self.workers.write().expect("no panic while the lock is held");
        if workers.len() >= WORKERS_MAX {
            workers.retain(|_, worker| worker.stream.is_some());
        }
        // Hellos may come in the wrong order.
        if workers.get(&worker).is_none_or(|worker| worker.stream < Some(stream)) {
            workers.insert(worker, RegisteredWorker { info, stream: Some(stream) });
        }
        self.changes.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn disconnected(&self, worker: WorkerId, stream: StreamId) {
        let mut workers = self.workers.write().expect("no panic while the lock is held");
        if let Some(worker) = workers.get_mut(&worker).filter(|worker| worker.stream == Some(stream)) {
            worker.stream = None;
        }
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Another number as soon as other workers are connected. What was read after the number is at least as new.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    pub(crate) fn is_connected(&self, worker: WorkerId) -> bool {
        let workers = self.workers.read().expect("no panic while the lock is held");
        workers.get(&worker).is_some_and(|worker| worker.stream.is_some())
    }

    pub(crate) fn has_certificate(&self, worker: WorkerId) -> bool {
        let workers = self.workers.read().expect("no panic while the lock is held");
        workers.get(&worker).is_some_and(|worker| worker.info.has_certificate)
    }

    pub(crate) fn connected_len(&self) -> usize {
        let workers = self.workers.read().expect("no panic while the lock is held");
        workers.values().filter(|worker| worker.stream.is_some()).count()
    }

    /// Whether any worker that is connected now passes the test.
    pub(crate) fn any_connected(&self, test: impl Fn(&WorkerInfo) -> bool) -> bool {
        let workers = self.workers.read().expect("no panic while the lock is held");
        workers.values().any(|worker| worker.stream.is_some() && test(&worker.info))
    }

    /// The workers that are connected now.
    pub(crate) fn connected_infos(&self) -> Vec<WorkerInfo> {
        let workers = self.workers.read().expect("no panic while the lock is held");
        workers.values().filter(|worker| worker.stream.is_some()).map(|worker| worker.info.clone()).collect()
    }

    /// Joins what the owner knows with what workers reported, and forgets workers that are gone.
    /// One that has just connected may not have reached the owner yet: it is kept.
    pub(crate) fn join(&self, statuses: Vec<WorkerStatus>) -> Vec<(WorkerStatus, WorkerInfo)> {
        let known: BTreeMap<WorkerId, WorkerStatus> = statuses.into_iter().map(|status| (status.id, status)).collect();
        let mut workers = self.workers.write().expect("no panic while the lock is held");
        workers.retain(|id, worker| worker.stream.is_some() || known.contains_key(id));
        let pair = |status: WorkerStatus| workers.get(&status.id).map(|worker| (status, worker.info.clone()));
        known.into_values().filter_map(pair).collect()
    }
}
