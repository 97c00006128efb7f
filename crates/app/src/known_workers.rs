//! Keeps on record which workers were seen, so that whoever ran an attempt stays known when it is gone.
//!
//! Written when a worker connects and parts, and now and then while it is connected; never on the way of a job. What cannot
//! be written is tried again. Whether a worker is connected is known to the servers alone: a row says who it is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use punctual_api::{WorkerQuery, WorkerView};
use punctual_core::{Span, Timestamp, WorkerId};
use punctual_store::SeenWorker;
use tokio::sync::Notify;

use crate::{App, Checked, Result, parameters};

/// Rows of one transaction.
const BATCH_MAX: usize = 500;
/// Workers that are gone are listed for this long.
const GONE_SHOWN_FOR: Span = Span::from_secs(86_400);
/// At most so many workers that are gone are shown: a fleet that grows and shrinks has thousands in a day.
const GONE_SHOWN_MAX: usize = 100;

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parting {
    /// The worker had said that it leaves.
    Left,
    Lost,
}

/// Which workers that are gone a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum GoneWorkers {
    #[default]
    None,
    /// Those that left without a word.
    Lost,
    All,
}

impl GoneWorkers {
    pub(crate) fn read(query: &WorkerQuery) -> Result<Self> {
        let words = [("none", Self::None), ("lost", Self::Lost), ("all", Self::All)];
        Ok(parameters::word("gone", query.gone.as_deref(), &words)?.unwrap_or_default())
    }
}

impl Checked for WorkerQuery {
    fn check(&self) -> Result<()> {
        GoneWorkers::read(self).map(drop)
    }
}

#[derive(Default)]
pub(crate) struct KnownWorkers {
    known: Mutex<Known>,
    changed: Arc<Notify>,
}

#[derive(Default)]
struct Known {
    /// With the number of their connections to this server: a new one may begin before the end of the last is noticed.
    connected: BTreeMap<WorkerId, (SeenWorker, usize)>,
    unwritten: BTreeMap<WorkerId, SeenWorker>,
}

impl KnownWorkers {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no panic while the lock is held")
    }

    pub(crate) fn connected(&self, worker: SeenWorker) {
        let mut known = self.lock();
        let streams = known.connected.get(&worker.id).map_or(0, |(_, streams)| *streams);
        known.connected.insert(worker.id, (worker.clone(), streams + 1));
        known.unwritten.insert(worker.id, worker);
        self.changed.notify_one();
    }

    fn parted(&self, id: WorkerId, parting: Parting, now: Timestamp) {
        let mut known = self.lock();
        let Some((worker, streams)) = known.connected.get_mut(&id) else { return };
        *streams -= 1;
        let left_at = (parting == Parting::Left).then_some(now);
        let seen = SeenWorker { last_seen_at: now, left_at, ..worker.clone() };
        if *streams == 0 {
            known.connected.remove(&id);
        }
        known.unwritten.insert(id, seen);
        self.changed.notify_one();
    }

    fn renew(&self, now: Timestamp) {
        let mut known = self.lock();
        let Known { connected, unwritten } = &mut *known;
        for (id, (worker, _)) in connected {
            unwritten.entry(*id).or_insert_with(|| SeenWorker { last_seen_at: now, ..worker.clone() });
        }
    }

    fn take(&self) -> Vec<SeenWorker> {
        let mut known = self.lock();
        let mut batch = Vec::new();
        while batch.len() < BATCH_MAX {
            let Some((_, worker)) = known.unwritten.pop_first() else { break };
            batch.push(worker);
        }
        batch
    }

    /// Keeps workers for the next write, unless something newer is known of them.
    fn put_back(&self, workers: Vec<SeenWorker>) {
        let mut known = self.lock();
        for worker in workers {
            known.unwritten.entry(worker.id).or_insert(worker);
        }
    }
}

impl App {
    /// Notified when a worker connects or parts, so that it is recorded soon.
    pub fn workers_changed(&self) -> Arc<Notify> {
        Arc::clone(&self.0.known_workers.changed)
    }

    /// Has the next [`App::record_workers`] write that the workers that are connected were seen now.
    pub fn renew_workers(&self) {
        self.0.known_workers.renew(self.now());
    }

    /// Writes what has changed about workers. What cannot be written is kept for the next call.
    pub async fn record_workers(&self) -> Result<()> {
        loop {
            let batch = self.0.known_workers.take();
            if batch.is_empty() {
                return Ok(());
            }
            if let Err(error) = self.0.store.keep_workers(batch.clone()).await {
                self.0.known_workers.put_back(batch);
                return Err(error.into());
            }
        }
    }

    /// A worker's connection to this server ended.
    pub fn worker_parted(&self, worker: WorkerId, parting: Parting) {
        self.0.enrolments.parted(worker);
        self.0.known_workers.parted(worker, parting, self.now());
    }

    /// Who they are, as far as that is on record. Not knowing it hides nothing else.
    pub(crate) async fn workers_known(&self, ids: impl Iterator<Item = WorkerId>) -> HashMap<WorkerId, SeenWorker> {
        let ids: BTreeSet<WorkerId> = ids.collect();
        if ids.is_empty() {
            return HashMap::new();
        }
        let mut known: HashMap<WorkerId, SeenWorker> = {
            // A worker that has just connected may not be on record yet.
            let here = self.0.known_workers.lock();
            ids.iter().filter_map(|id| Some((*id, here.connected.get(id)?.0.clone()))).collect()
        };
        let unknown: Vec<WorkerId> = ids.into_iter().filter(|id| !known.contains_key(id)).collect();
        if !unknown.is_empty() {
            match self.0.store.workers_by_id(unknown).await {
                Ok(rows) => known.extend(rows.into_iter().map(|row| (row.id, row))),
                Err(error) => tracing::debug!(%error, "who ran an attempt could not be read"),
            }
        }
        known
    }

    /// Workers that were seen lately and are not among these.
    pub(crate) async fn workers_gone(
        &self,
        live: &BTreeMap<WorkerId, WorkerView>,
        shown: GoneWorkers,
    ) -> Result<Vec<WorkerView>> {
        if shown == GoneWorkers::None {
            return Ok(Vec::new());
        }
        let since = self.now() - GONE_SHOWN_FOR;
        let rows = self.0.store.workers_since(since, live.len() + 2 * GONE_SHOWN_MAX).await?.into_iter();
        let is_shown = |row: &SeenWorker| shown == GoneWorkers::All || row.left_at.is_none();
        let gone = rows.filter(|row| !live.contains_key(&row.id) && is_shown(row)).take(GONE_SHOWN_MAX);
        Ok(gone.map(gone_view).collect())
    }
}

fn gone_view(row: SeenWorker) -> WorkerView {
    WorkerView {
        id: row.id,
        name: row.name,
        host: row.host,
        version: row.version,
        state: if row.left_at.is_some() { "left" } else { "lost" }.to_owned(),
        namespaces: None,
        queues: Vec::new(),
        capabilities: Vec::new(),
        labels: BTreeMap::new(),
        slots: 0,
        running: 0,
        servers: Vec::new(),
        last_seen_at: row.last_seen_at,
        commands_as: None,
    }
}
