//! What people have decided about queues, as this server knows it, and the one place that tells the owner which are paused.
//!
//! Read before the owner gets a shard, from the store that gave the shard to this server: a pause that was stored before then counts for
//! it. Otherwise read when another server or the duty `queue-states` asks for it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use punctual_core::NamespaceId;
use punctual_core::queue::{QueueLoad, QueueState};
use punctual_core::shard::Owner;
use punctual_core::shard::event::{Event, PausedQueue};
use punctual_store::{AllQueues, QueueRow, Result, Store};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use crate::handle::{Engine, EngineError};
use crate::inbox::{Inbox, Input};

/// How often it is looked whether starts that were decided before a pause are durable. A commit takes milliseconds.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// All queues that somebody has paused or described.
#[derive(Debug, Default)]
pub struct KnownQueues {
    rows: BTreeMap<NamespaceId, BTreeMap<String, QueueRow>>,
    /// Whether any of them drains, which each submission asks.
    has_draining: bool,
}

impl KnownQueues {
    fn new(all: AllQueues) -> Self {
        let has_draining = all.rows.iter().any(|row| row.state == QueueState::Draining);
        let mut rows: BTreeMap<NamespaceId, BTreeMap<String, QueueRow>> = BTreeMap::new();
        for row in all.rows {
            rows.entry(row.namespace).or_default().insert(row.name.clone(), row);
        }
        Self { rows, has_draining }
    }

    pub fn get(&self, namespace: NamespaceId, queue: &str) -> Option<&QueueRow> {
        self.rows.get(&namespace)?.get(queue)
    }

    /// Those of a namespace, in order of name.
    pub fn of(&self, namespace: NamespaceId) -> impl Iterator<Item = &QueueRow> {
        self.rows.get(&namespace).into_iter().flat_map(BTreeMap::values)
    }

    pub fn has_draining(&self) -> bool {
        self.has_draining
    }

    fn paused(&self) -> Vec<PausedQueue> {
        let all = self.rows.values().flat_map(BTreeMap::values);
        let paused = all.filter(|row| row.state == QueueState::Paused);
        paused.map(|row| PausedQueue { namespace: row.namespace, name: row.name.clone(), since: row.since() }).collect()
    }
}

pub(crate) struct QueueStates {
    inbox: Inbox,
    known: RwLock<Arc<KnownQueues>>,
    /// Held from the read until the owner is told, so that it never hears of an older state after a newer one. The revision that
    /// was read last, and of which instance of the database.
    read: Mutex<Option<(u64, u64)>>,
}

impl QueueStates {
    pub(crate) fn new(inbox: Inbox) -> Self {
        Self { inbox, known: RwLock::default(), read: Mutex::default() }
    }

    /// Reads the queues if they have changed, and tells the owner.
    pub(crate) async fn refresh(&self, store: &dyn Store) -> Result<()> {
        let mut read = self.read.lock().await;
        // Before the read: the database may become another one meanwhile, which is then read again.
        let generation = store.generation();
        if *read == Some((generation, store.queues_revision().await?)) {
            return Ok(());
        }
        let all = store.queues().await?;
        let revision = all.revision;
        let known = KnownQueues::new(all);
        self.inbox.send(Input::Event(Event::PausedQueues { paused: known.paused() }));
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
        *read = Some((generation, revision));
        Ok(())
    }

    fn known(&self) -> Arc<KnownQueues> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Engine {
    /// The queues that somebody has paused or described, as they were read last. Read from memory.
    pub fn queues(&self) -> Arc<KnownQueues> {
        self.0.queues.known()
    }

    /// Reads the queues if they have changed, and tells the owner.
    pub async fn refresh_queues(&self) -> Result<()> {
        self.0.queues.refresh(&*self.0.store).await
    }

    /// Waits until no start of a paused queue is on its way to the store. From then on this server starts nothing of the queues
    /// that were paused at the last [`Engine::refresh_queues`]. False if there still were some after `limit`.
    pub async fn paused_starts_settled(&self, limit: Duration) -> std::result::Result<bool, EngineError> {
        let until = Instant::now() + limit;
        while self.query(Owner::starts_of_paused_queues).await? > 0 {
            if Instant::now() >= until {
                return Ok(false);
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(true)
    }

    /// What waits and runs in the shards of this server, by queue.
    pub async fn queue_loads(&self) -> std::result::Result<Vec<QueueLoad>, EngineError> {
        if !self.0.lease.is_current() {
            // Others may own the shards by now.
            return Ok(Vec::new());
        }
        self.query(Owner::queue_loads).await
    }
}
