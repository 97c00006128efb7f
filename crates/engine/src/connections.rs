//! Workers that connect, and that say they live.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use punctual_core::namespace::ServedNamespaces;
use punctual_core::run::WORKFLOW;
use punctual_core::shard::event::{Event, Report, StreamId, WorkerSpec};
use punctual_core::shard::write::Epoch;
use punctual_core::{AttemptNo, JobId, ServerId, ShardId, Span, WorkerId};

use crate::handle::{Engine, EngineError};
use crate::inbox::{Inbox, Input};
use crate::outgoing::{self, OutgoingReceiver, Queue};
use crate::worker_registry::{WorkerInfo, WorkerRegistry};

/// The first word to a worker: what this server owns. A hello must answer it before more is
/// acquired.
#[derive(Debug, Clone)]
pub struct Greeting {
    pub server: ServerId,
    /// Numbers the connection. From the greeting on, not from the hello: hellos of two
    /// connections of one worker may be read in the wrong order.
    pub stream: StreamId,
    pub acquired: u64,
    pub shards: Vec<(ShardId, Epoch)>,
}

/// One connection of a worker. Dropping it tells the owner that the worker is away.
pub struct WorkerSession {
    inbox: Inbox,
    registry: Arc<WorkerRegistry>,
    worker: WorkerId,
    stream: StreamId,
    queue: Queue,
}

impl WorkerSession {
    pub fn credit(&self, credit: u32) {
        let (worker, stream) = (self.worker, self.stream);
        self.inbox.send(Input::Event(Event::WorkerCredit { worker, stream, credit }));
    }

    pub fn report(&self, reports: Vec<Report>) {
        self.inbox.send(Input::Event(Event::Outcomes { worker: self.worker, reports }));
    }

    /// Tells the worker to forget these outcomes, which do not count.
    pub fn refuse(&self, attempts: Vec<(JobId, AttemptNo)>) {
        let (worker, stream) = (self.worker, self.stream);
        self.inbox.send(Input::Refused { worker, stream, attempts });
    }

    /// Tells the worker to connect to these servers as well.
    pub fn invite(&self, servers: Vec<ServerId>) {
        let (worker, stream) = (self.worker, self.stream);
        self.inbox.send(Input::Invited { worker, stream, servers });
    }

    /// Waits until the driver has taken all that this connection told it.
    pub async fn taken(&self) {
        self.inbox.taken().await;
    }

    /// Whether the worker leaves unread what it is sent.
    pub fn is_crowded(&self) -> bool {
        self.queue.is_crowded()
    }
}

impl Drop for WorkerSession {
    fn drop(&mut self) {
        let (worker, stream) = (self.worker, self.stream);
        self.registry.disconnected(worker, stream);
        self.inbox.send(Input::Event(Event::WorkerDisconnected { worker, stream }));
    }
}

/// Heartbeats are gathered and handed on together, at most this much later.
const BEATS_HELD_MAX: Span = Span::from_millis(500);

/// Heartbeats of at most so many workers are gathered: more than a server has.
const BEATS_HELD_LEN_MAX: usize = 65_536;

/// Gathered heartbeats are handed on so many times within the silence after which a worker counts as dead.
const BEATS_PER_SILENCE: i64 = 40;

pub(crate) struct Connections {
    pub(crate) registry: Arc<WorkerRegistry>,
    opened: AtomicU64,
    beats: Arc<Mutex<HashSet<WorkerId>>>,
    beats_held: Span,
}

impl Connections {
    pub(crate) fn new(silence: Span) -> Self {
        let beats_held = Span::from_micros(silence.as_micros() / BEATS_PER_SILENCE).min(BEATS_HELD_MAX);
        Self { registry: Arc::default(), opened: AtomicU64::new(0), beats: Arc::default(), beats_held }
    }
}

impl Engine {
    pub async fn greeting(&self) -> Result<Greeting, EngineError> {
        let stream = StreamId(self.0.connections.opened.fetch_add(1, Ordering::Relaxed) + 1);
        self.query(move |owner| Greeting {
            server: owner.server(),
            stream,
            acquired: owner.acquisitions(),
            shards: owner.owned_shards(),
        })
        .await
    }

    /// A worker has said what it holds, in answer to the greeting with this number and with
    /// `acquired`. If more was acquired since, the connection ends: the worker must say it again.
    pub fn connect(
        &self,
        worker: WorkerId,
        stream: StreamId,
        info: WorkerInfo,
        held: Vec<(JobId, AttemptNo)>,
        acquired: u64,
    ) -> (WorkerSession, OutgoingReceiver) {
        let spec = info.spec.clone();
        self.0.connections.registry.connected(worker, stream, info);
        self.join(worker, stream, spec, held, acquired)
    }

    /// This server, as the worker that starts the runs of workflows, so many at a time. It is in no list of workers. What it
    /// had begun on another connection, or another server had, is assigned to it again.
    pub fn connect_workflows(&self, greeting: &Greeting, at_once: u32) -> (WorkerSession, OutgoingReceiver) {
        let spec = WorkerSpec {
            namespaces: ServedNamespaces::All,
            queues: Vec::new(),
            capabilities: vec![WORKFLOW.to_owned()],
            labels: BTreeMap::new(),
            credit: at_once,
        };
        self.join(WorkerId::WORKFLOWS, greeting.stream, spec, Vec::new(), greeting.acquired)
    }

    fn join(
        &self,
        worker: WorkerId,
        stream: StreamId,
        spec: WorkerSpec,
        held: Vec<(JobId, AttemptNo)>,
        acquired: u64,
    ) -> (WorkerSession, OutgoingReceiver) {
        let (sender, receiver) = outgoing::channel();
        let queue = sender.queue.clone();
        let registry = &self.0.connections.registry;
        let event = Event::WorkerHello { worker, stream, spec, held };
        self.0.inbox.send(Input::Connected { event, worker, stream, sender, acquired });
        let session =
            WorkerSession { inbox: self.0.inbox.clone(), registry: Arc::clone(registry), worker, stream, queue };
        (session, receiver)
    }

    /// A heartbeat. False when the worker has no connection here and must make one.
    ///
    /// Costs the driver nothing: thousands of workers beat every few seconds, and all beats
    /// of half a second reach it in one piece.
    pub fn alive(&self, worker: WorkerId) -> bool {
        let Connections { registry, beats, beats_held, .. } = &self.0.connections;
        let is_first = {
            let mut beats = beats.lock().expect("no panic while the lock is held");
            let is_new = beats.len() < BEATS_HELD_LEN_MAX && beats.insert(worker);
            is_new && beats.len() == 1
        };
        if is_first {
            let (inbox, beats, held) = (self.0.inbox.clone(), Arc::clone(beats), beats_held.to_std());
            tokio::spawn(async move {
                tokio::time::sleep(held).await;
                let workers = std::mem::take(&mut *beats.lock().expect("no panic while the lock is held"));
                let workers = workers.into_iter().collect();
                inbox.send(Input::Event(Event::WorkersAlive { workers }));
            });
        }
        registry.is_connected(worker)
    }
}
