//! What the rest of the program may ask of a running engine.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use punctual_core::shard::event::{Command, Event, Loaded, Reply, Report, StreamId};
use punctual_core::shard::{Counts, LiveView, Owner, WorkerStatus};
use punctual_core::task::Task;
use punctual_core::{AttemptNo, JobId, ServerId, TaskId, WorkerId};
use punctual_store::{Store, StoreError};
use tokio::sync::{mpsc, oneshot};

use crate::config::EngineConfig;
use crate::driver::{Driver, commit};
use crate::duties::{LeaseDuty, RetentionDuty};
use crate::hub::{Changes, Hub};
use crate::inbox::{Inbox, Input};
use crate::infos::{Infos, WorkerInfo};
use crate::reads::Reads;
use crate::streams::{Outgoing, Streams};
use crate::tasks::TaskCache;

#[derive(Debug)]
pub enum EngineError {
    /// The engine is being stopped.
    Stopped,
}

impl std::fmt::Display for EngineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the engine is stopping")
    }
}

impl std::error::Error for EngineError {}

/// One connection of a worker. Dropping it tells the owner that the worker is away.
pub struct WorkerSession {
    inbox: Inbox,
    infos: Arc<Infos>,
    worker: WorkerId,
    stream: StreamId,
}

impl WorkerSession {
    pub fn credit(&self, credit: u32) {
        let (worker, stream) = (self.worker, self.stream);
        self.inbox.send(Input::Event(Event::WorkerCredit { worker, stream, credit }));
    }

    pub fn report(&self, reports: Vec<Report>) {
        self.inbox.send(Input::Event(Event::Outcomes { worker: self.worker, reports }));
    }
}

impl Drop for WorkerSession {
    fn drop(&mut self) {
        let (worker, stream) = (self.worker, self.stream);
        self.infos.disconnected(worker, stream);
        self.inbox.send(Input::Event(Event::WorkerDisconnected { worker, stream }));
    }
}

#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    server: ServerId,
    store: Arc<dyn Store>,
    inbox: Inbox,
    hub: Arc<Hub>,
    tasks: Arc<TaskCache>,
    streams_opened: AtomicU64,
    infos: Arc<Infos>,
    driver: Mutex<Option<std::thread::JoinHandle<()>>>,
    /// Closed when the driver has ended.
    ended: tokio::sync::watch::Receiver<()>,
    duties: Vec<tokio::task::AbortHandle>,
}

impl Engine {
    /// Takes the shards that are free and starts to work. Needs a Tokio runtime.
    pub async fn start(store: Arc<dyn Store>, config: EngineConfig) -> Result<Self, StoreError> {
        let (inbox, inputs) = Inbox::new();
        let hub = Arc::new(Hub::new());
        let tasks = Arc::new(TaskCache::default());
        let (batches, batches_taken) = mpsc::unbounded_channel();
        let (taken_again, shards_taken_again) = mpsc::unbounded_channel();
        let mut leases = LeaseDuty {
            store: Arc::clone(&store),
            tasks: Arc::clone(&tasks),
            inbox: inbox.clone(),
            config: config.clone(),
            owned: Vec::new(),
        };
        leases.start().await?;
        let retention = RetentionDuty { store: Arc::clone(&store), hub: Arc::clone(&hub), config: config.clone() };
        let driver = Driver {
            owner: Owner::new(config.server, config.owner.clone(), config.seed),
            clock: Arc::clone(&config.clock),
            inbox: inbox.clone(),
            inputs,
            batches,
            batches_in_flight_max: config.batches_in_flight_max,
            taken_again,
            reads: Reads { store: Arc::clone(&store), tasks: Arc::clone(&tasks), inbox: inbox.clone() },
            streams: Streams::default(),
            hub: Arc::clone(&hub),
            answers: HashMap::new(),
            commands_taken: 0,
            is_stopping: false,
        };
        let server = config.server;
        let duties = vec![
            tokio::spawn(leases.run(shards_taken_again)).abort_handle(),
            tokio::spawn(retention.run()).abort_handle(),
        ];
        tokio::spawn(commit(Arc::clone(&store), batches_taken, inbox.clone(), config));
        let runtime = tokio::runtime::Handle::current();
        let (alive, broken) = tokio::sync::watch::channel(());
        let thread = std::thread::Builder::new().name("engine".to_owned()).spawn(move || {
            let _guard = runtime.enter();
            // Dropped when the thread ends, be it by a panic.
            let _alive = alive;
            driver.run();
        });
        let thread = thread.map_err(|error| StoreError::Unavailable(format!("no thread for the engine: {error}")))?;
        Ok(Self(Arc::new(Inner {
            server,
            store,
            inbox,
            hub,
            tasks,
            streams_opened: AtomicU64::new(0),
            infos: Arc::default(),
            driver: Mutex::new(Some(thread)),
            ended: broken,
            duties,
        })))
    }

    /// Waits for what is on its way to the store, then gives the shards up. False if the
    /// driver had broken down.
    pub async fn stop(&self) -> bool {
        self.0.inbox.send(Input::Stop);
        let thread = self.0.driver.lock().expect("no panic while the lock is held").take();
        let ended = match thread {
            Some(thread) => tokio::task::spawn_blocking(move || thread.join()).await.is_ok_and(|ended| ended.is_ok()),
            None => true,
        };
        for duty in &self.0.duties {
            duty.abort();
        }
        if let Err(error) = self.0.store.release(self.0.server).await {
            tracing::warn!(%error, "the leases were not released; they end by themselves");
        }
        ended
    }

    pub fn server(&self) -> ServerId {
        self.0.server
    }

    /// Jobs that have just become durable. A hint: it may be dropped.
    pub fn submitted(&self, jobs: Vec<Loaded>) {
        self.0.inbox.hint(jobs);
    }

    /// Waiting jobs follow the new definition.
    pub fn task_changed(&self, task: Arc<Task>) {
        self.0.tasks.put(Arc::clone(&task));
        self.0.inbox.send(Input::Event(Event::TaskChanged { task }));
    }

    /// The definition, if it is at hand.
    pub fn cached_task(&self, id: TaskId) -> Option<Arc<Task>> {
        self.0.tasks.get(id)
    }

    pub async fn command(&self, id: JobId, command: Command) -> Result<Reply, EngineError> {
        let (answer, reply) = oneshot::channel();
        self.0.inbox.send(Input::Command { id, command, answer });
        reply.await.map_err(|_| EngineError::Stopped)
    }

    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Owner) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let (answer, reply) = oneshot::channel();
        self.0.inbox.send(Input::Query(Box::new(move |owner| {
            let _ = answer.send(question(owner));
        })));
        reply.await.map_err(|_| EngineError::Stopped)
    }

    pub async fn running(&self, ids: Vec<JobId>) -> Result<Vec<Option<LiveView>>, EngineError> {
        self.ask(move |owner| ids.into_iter().map(|id| owner.running(id)).collect()).await
    }

    pub async fn all_running(&self) -> Result<Vec<LiveView>, EngineError> {
        self.ask(Owner::all_running).await
    }

    pub async fn counts(&self) -> Result<Counts, EngineError> {
        self.ask(Owner::counts).await
    }

    pub async fn owned_shards(&self) -> Result<usize, EngineError> {
        self.ask(|owner| owner.owned_shards().len()).await
    }

    /// Workers that are known, with what they said of themselves.
    pub async fn workers(&self) -> Result<Vec<(WorkerStatus, WorkerInfo)>, EngineError> {
        let statuses = self.ask(Owner::worker_status).await?;
        Ok(self.0.infos.join(statuses))
    }

    pub fn changes(&self) -> Changes {
        self.0.hub.watch()
    }

    /// Resolves when the job has finished. Ask before reading the job.
    pub fn finish_of(&self, id: JobId) -> oneshot::Receiver<()> {
        self.0.hub.finish_of(id)
    }

    /// A worker has connected and said what it holds.
    pub fn connect(
        &self,
        worker: WorkerId,
        info: WorkerInfo,
        held: Vec<(JobId, AttemptNo)>,
    ) -> (WorkerSession, mpsc::UnboundedReceiver<Outgoing>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let stream = StreamId(self.0.streams_opened.fetch_add(1, Ordering::Relaxed) + 1);
        let spec = info.spec.clone();
        self.0.infos.connected(worker, stream, info);
        let event = Event::WorkerHello { worker, stream, spec, held };
        self.0.inbox.send(Input::Connected { event, worker, stream, sender });
        let session = WorkerSession { inbox: self.0.inbox.clone(), infos: Arc::clone(&self.0.infos), worker, stream };
        (session, receiver)
    }

    /// A heartbeat. False when the worker has no connection here and must make one.
    pub async fn alive(&self, worker: WorkerId) -> Result<bool, EngineError> {
        self.0.inbox.send(Input::Event(Event::WorkerAlive { worker }));
        self.ask(move |owner| owner.worker_is_connected(worker)).await
    }

    /// Resolves when the driver has ended, whether it was stopped or broke down. A server
    /// without its driver must not go on: it would accept jobs that nobody starts.
    pub async fn ended(&self) {
        let mut ended = self.0.ended.clone();
        while ended.changed().await.is_ok() {}
    }
}
