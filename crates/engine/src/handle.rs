//! What the rest of the program may ask of a running engine.

use std::sync::{Arc, Mutex};

use punctual_core::running_places::RunningReport;
use punctual_core::shard::GangKey;
use punctual_core::shard::event::{Event, Loaded, Watch};
use punctual_core::shard::{Counts, LiveView, Owner, WorkerStatus};
use punctual_core::task::Task;
use punctual_core::{AttemptNo, JobId, NamespaceId, ServerId, ShardId, TaskId, WorkerId};
use punctual_store::Store;
use tokio::sync::{Notify, oneshot, watch};

use crate::clock::Skew;
use crate::cluster::Cluster;
use crate::config::{Clock, Takeover};
use crate::connections::Connections;
use crate::duties::Duties;
use crate::hub::{Changes, Hub};
use crate::inbox::{Inbox, Input};
use crate::lease_state::LeaseState;
use crate::plans::Plans;
use crate::queue_states::QueueStates;
use crate::start::KeeperTask;
use crate::tasks::TaskCache;
use crate::worker_registry::WorkerInfo;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    #[error("the engine is stopping")]
    Stopped,
    /// The store was not reached for so long that others may own the shards by now.
    #[error("the leases of this server could not be renewed")]
    NoLease,
    #[error("{0}")]
    ClockSkew(Skew),
}

#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) server: ServerId,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) inbox: Inbox,
    pub(crate) hub: Arc<Hub>,
    pub(crate) tasks: Arc<TaskCache>,
    pub(crate) plans: Arc<Plans>,
    pub(crate) queues: Arc<QueueStates>,
    pub(crate) connections: Connections,
    pub(crate) driver: Mutex<Option<std::thread::JoinHandle<()>>>,
    /// Closed when the driver has ended.
    pub(crate) ended: watch::Receiver<()>,
    pub(crate) clock: Clock,
    pub(crate) takeover: Takeover,
    pub(crate) lease: Arc<LeaseState>,
    pub(crate) cluster: watch::Receiver<Arc<Cluster>>,
    pub(crate) nudge: Arc<Notify>,
    pub(crate) run_ended: Arc<Notify>,
    pub(crate) batch_pressing: Arc<Notify>,
    pub(crate) duties: Arc<Duties>,
    pub(crate) keeper: Mutex<Option<KeeperTask>>,
}

impl Engine {
    pub fn server(&self) -> ServerId {
        self.0.server
    }

    /// The clock that says what is due: the store's where several servers share one.
    pub fn clock(&self) -> Clock {
        Arc::clone(&self.0.clock)
    }

    /// What this machine's clock and the store's said last. `None` where this machine's decides.
    pub fn skew(&self) -> Option<Skew> {
        self.0.lease.skew()
    }

    /// Says whether another server answers at the address of this one. While it does, this server owns no shards: workers do
    /// not reach it, and its jobs would wait. Returns what was known before.
    pub fn set_address_taken(&self, is_taken: bool) -> bool {
        self.0.lease.set_address_taken(is_taken)
    }

    /// Whether this server can do its part: its leases hold and its clock is right.
    pub fn ready(&self) -> Result<(), EngineError> {
        match self.skew().filter(Skew::is_too_large) {
            Some(skew) => Err(EngineError::ClockSkew(skew)),
            None if !self.0.lease.is_current() => Err(EngineError::NoLease),
            None => Ok(()),
        }
    }

    /// Whether this is the only server that its store lets in.
    pub fn is_alone(&self) -> bool {
        self.0.takeover == Takeover::AtOnce
    }

    /// Whether the leases of this server hold.
    pub fn is_current(&self) -> bool {
        self.0.lease.is_current()
    }

    /// Who is there and who owns what, as it was read last; a new picture several times a second.
    pub fn cluster(&self) -> watch::Receiver<Arc<Cluster>> {
        self.0.cluster.clone()
    }

    /// Who owned the shard when the cluster was read last. Ourselves included.
    pub fn owner_of(&self, shard: ShardId) -> Option<ServerId> {
        self.0.cluster.borrow().owner_of(shard)
    }

    /// The shards that this server owns and starts jobs of. Cheap enough for every request.
    pub fn owned(&self) -> Arc<[ShardId]> {
        self.0.lease.owned()
    }

    /// Resolves when a run of a workflow has ended whose job is to end with it. One that ended while nobody waited counts.
    pub async fn run_ended(&self) {
        self.0.run_ended.notified().await;
    }

    /// Resolves when a batch is to be looked at, because a member has ended. One while nobody waited counts.
    pub async fn batch_pressing(&self) {
        self.0.batch_pressing.notified().await;
    }

    /// Looks for free shards now: a peer has said that it leaves.
    pub fn look_around(&self) {
        self.0.nudge.notify_one();
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

    /// Tells the owner which gangs the fleet could not start if all of it were idle: these and no others.
    pub fn set_unplaceable_gangs(&self, gangs: Vec<GangKey>) {
        self.0.inbox.send(Input::Event(Event::UnplaceableGangs { gangs }));
    }

    /// The definition, if it is at hand.
    pub fn cached_task(&self, id: TaskId) -> Option<Arc<Task>> {
        self.0.tasks.get(id)
    }

    /// Which tasks and limits the owner writes notices about.
    pub fn watch(&self, watch: Watch) {
        self.0.inbox.send(Input::Event(Event::Watch(watch)));
    }

    /// The namespaces that have a quota of running attempts.
    pub fn set_running_quotas(&self, quotas: Vec<(NamespaceId, u64)>) {
        self.0.inbox.send(Input::Event(Event::RunningQuotas { quotas }));
    }

    /// What runs and waits of them. `None`: there are none.
    pub async fn running_report(&self) -> Result<Option<RunningReport>, EngineError> {
        self.query(Owner::running_report).await
    }

    /// How many attempts may run here, as the answer to the report of this version.
    pub fn set_running_places(&self, version: u64, places: Vec<(NamespaceId, u64)>) {
        self.0.inbox.send(Input::Event(Event::RunningPlaces { version, places }));
    }

    /// Ends an attempt whose agent was not heard of for too long.
    pub fn agent_silent(&self, id: JobId, attempt: AttemptNo, host: Option<String>) {
        self.0.inbox.send(Input::Event(Event::AgentSilent { id, attempt, host }));
    }

    /// Ends what these workers run here, and their streams: they may not work any more.
    pub fn workers_revoked(&self, workers: Vec<WorkerId>) {
        self.0.inbox.send(Input::Event(Event::WorkersRevoked { workers }));
    }

    /// The attempts running here that agents must be heard of for.
    pub async fn run_by_agents(&self) -> Result<Vec<LiveView>, EngineError> {
        self.query(Owner::run_by_agents).await
    }

    /// Looks into the owner's memory.
    pub(crate) async fn query<T: Send + 'static>(
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
        self.query(move |owner| ids.into_iter().map(|id| owner.running(id)).collect()).await
    }

    pub async fn all_running(&self) -> Result<Vec<LiveView>, EngineError> {
        self.query(Owner::all_running).await
    }

    pub async fn counts(&self) -> Result<Counts, EngineError> {
        self.query(Owner::counts).await
    }

    pub async fn owned_shards(&self) -> Result<usize, EngineError> {
        self.query(|owner| owner.owned_shards().len()).await
    }

    /// Workers that are known, with what they said of themselves.
    pub async fn workers(&self) -> Result<Vec<(WorkerStatus, WorkerInfo)>, EngineError> {
        let statuses = self.query(Owner::worker_status).await?;
        Ok(self.0.connections.registry.join(statuses))
    }

    /// Whether any worker that is connected to this server passes the test. Read from memory.
    pub fn any_connected(&self, test: impl Fn(&WorkerInfo) -> bool) -> bool {
        self.0.connections.registry.any_connected(test)
    }

    /// Another number as soon as other workers are connected to this server.
    pub fn connection_changes(&self) -> u64 {
        self.0.connections.registry.changes()
    }

    /// How many workers are connected to this server. Read from memory.
    pub fn connected_len(&self) -> usize {
        self.0.connections.registry.connected_len()
    }

    /// The workers that are connected to this server. Read from memory.
    pub fn connected_infos(&self) -> Vec<WorkerInfo> {
        self.0.connections.registry.connected_infos()
    }

    pub fn changes(&self) -> Changes {
        self.0.hub.watch()
    }

    /// Resolves when the job has finished. Ask before reading the job.
    pub fn finish_of(&self, id: JobId) -> oneshot::Receiver<()> {
        self.0.hub.finish_of(id)
    }

    /// Resolves when the driver has ended, whether it was stopped or broke down. A server
    /// without its driver must not go on: it would accept jobs that nobody starts.
    pub async fn ended(&self) {
        let mut ended = self.0.ended.clone();
        while ended.changed().await.is_ok() {}
    }
}
