//! What workers said of themselves, for people.

use std::collections::{BTreeMap, HashMap};
use std::sync::RwLock;

use punctual_core::WorkerId;
use punctual_core::shard::WorkerStatus;
use punctual_core::shard::event::{StreamId, WorkerSpec};

#[derive(Debug, Clone)]
pub struct WorkerInfo {
    pub name: String,
    /// Its machine, if it said.
    pub host: Option<String>,
    pub version: String,
    pub spec: WorkerSpec,
    /// The user that runs commands outside of the sandbox; empty if none does.
    pub commands_as: String,
}

struct Said {
    info: WorkerInfo,
    /// The connection it was said on, while that is open.
    stream: Option<StreamId>,
}

/// Beyond this many, those of workers that are away are dropped.
const INFOS_MAX: usize = 10_000;

#[derive(Default)]
pub(crate) struct Infos(RwLock<HashMap<WorkerId, Said>>);

impl Infos {
    pub(crate) fn connected(&self, worker: WorkerId, stream: StreamId, info: WorkerInfo) {
        let mut infos = self.0.write().expect("no panic while the lock is held");
        if infos.len() >= INFOS_MAX {
            infos.retain(|_, said| said.stream.is_some());
        }
        // Hellos may come in the wrong order.
        if infos.get(&worker).is_none_or(|said| said.stream < Some(stream)) {
            infos.insert(worker, Said { info, stream: Some(stream) });
        }
    }

    pub(crate) fn disconnected(&self, worker: WorkerId, stream: StreamId) {
        let mut infos = self.0.write().expect("no panic while the lock is held");
        if let Some(said) = infos.get_mut(&worker).filter(|said| said.stream == Some(stream)) {
            said.stream = None;
        }
    }

    pub(crate) fn is_connected(&self, worker: WorkerId) -> bool {
        let infos = self.0.read().expect("no panic while the lock is held");
        infos.get(&worker).is_some_and(|said| said.stream.is_some())
    }

    pub(crate) fn connected_len(&self) -> usize {
        let infos = self.0.read().expect("no panic while the lock is held");
        infos.values().filter(|said| said.stream.is_some()).count()
    }

    /// Whether any worker that is connected now passes the test.
    pub(crate) fn any_connected(&self, test: impl Fn(&WorkerSpec) -> bool) -> bool {
        let infos = self.0.read().expect("no panic while the lock is held");
        infos.values().any(|said| said.stream.is_some() && test(&said.info.spec))
    }

    /// What the workers can do that are connected now.
    pub(crate) fn connected_specs(&self) -> Vec<WorkerSpec> {
        let infos = self.0.read().expect("no panic while the lock is held");
        infos.values().filter(|said| said.stream.is_some()).map(|said| said.info.spec.clone()).collect()
    }

    /// Joins what the owner knows with what was said, and forgets workers that are gone.
    /// One that has just connected may not have reached the owner yet: it is kept.
    pub(crate) fn join(&self, statuses: Vec<WorkerStatus>) -> Vec<(WorkerStatus, WorkerInfo)> {
        let known: BTreeMap<WorkerId, WorkerStatus> = statuses.into_iter().map(|status| (status.id, status)).collect();
        let mut infos = self.0.write().expect("no panic while the lock is held");
        infos.retain(|id, said| said.stream.is_some() || known.contains_key(id));
        let pair = |status: WorkerStatus| infos.get(&status.id).map(|said| (status, said.info.clone()));
        known.into_values().filter_map(pair).collect()
    }
}
