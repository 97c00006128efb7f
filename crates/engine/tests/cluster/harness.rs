//! Servers on one store, and a worker that behaves as real ones do.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use punctual_core::attempt::Outcome;
use punctual_core::shard::event::{Loaded, Report, WorkerSpec};
use punctual_core::task::{Priority, Probe, Run, Task, TaskSpec};
use punctual_core::{AttemptNo, JobId, NamespaceId, ServerId, ShardId, Span, TaskId, WorkerId};
use punctual_engine::{Engine, EngineConfig, StartError, WorkerInfo};
use punctual_store::{FoundRow, JobRecord, Leases, NewJob, Submission};

use crate::store::{START, Weather};

pub(crate) const LEASE_TTL: Span = Span::from_secs(2);

pub(crate) struct Harness {
    pub(crate) store: Weather,
    pub(crate) task: TaskId,
    made: AtomicU64,
}

/// What can be done to the clocks of one server.
#[derive(Clone, Default)]
pub(crate) struct Clocks {
    /// How far its clock is ahead of the store's.
    pub(crate) skew_ms: Arc<AtomicI64>,
    /// How long it was paused.
    pub(crate) paused_ms: Arc<AtomicU64>,
}

impl Harness {
    pub(crate) fn new(shards: u16) -> Self {
        let store = Weather::new(shards);
        let spec = TaskSpec::new(Run::Probe(Probe::default()));
        let id = TaskId::new(START, 1);
        let task = Task {
            namespace: NamespaceId::DEFAULT,
            id,
            name: None,
            revision: 1,
            created_at: START,
            updated_at: START,
            spec,
            waits_for: None,
            created_by: None,
            changed_by: None,
        };
        store.model.intern_tasks_now(vec![(task, [0; 32])]).unwrap();
        Self { store, task: id, made: AtomicU64::new(0) }
    }

    fn next(&self) -> u64 {
        self.made.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn config(&self, clocks: &Clocks) -> EngineConfig {
        let (store, skew_ms) = (self.store.clone(), Arc::clone(&clocks.skew_ms));
        let clock = move || {
            let skew_ms = skew_ms.load(Ordering::Relaxed);
            (store.time() + Span::from_millis(skew_ms)) - Span::from_millis(-skew_ms)
        };
        let (begun, paused_ms) = (self.store.begun, Arc::clone(&clocks.paused_ms));
        let monotonic = move || begun.elapsed() + Duration::from_millis(paused_ms.load(Ordering::Relaxed));
        let server = ServerId::new(START, self.next());
        let mut config = EngineConfig::new(server, Arc::new(clock), Arc::new(monotonic), 7);
        config.owner.lanes = 2;
        config.owner.worker_silence = Span::from_secs(60);
        // Jobs are submitted without a hint.
        config.owner.floor_sweep_every = Span::from_millis(50);
        config.lease_ttl = LEASE_TTL;
        config.renew_every = Span::from_millis(400);
        config.look_every = Span::from_millis(30);
        config
    }

    pub(crate) async fn start(&self) -> Engine {
        self.try_start(self.config(&Clocks::default())).await.unwrap()
    }

    pub(crate) async fn try_start(&self, config: EngineConfig) -> Result<Engine, StartError> {
        Engine::start(Arc::new(self.store.clone()), config).await
    }

    /// Submits a job that is due now, and tells nobody.
    pub(crate) fn submit(&self, shard: u16) -> JobId {
        let now = self.store.time();
        let job = NewJob {
            namespace: NamespaceId::DEFAULT,
            id: JobId::new(now, ShardId(shard), self.next()),
            task: self.task,
            priority: Priority::default(),
            submitted_at: now,
            tracing_id: None,
            source: None,
            requester: None,
            node: None,
            member: None,
            input: None,
        };
        let id = job.id;
        self.store.model.submit_now(Submission { jobs: vec![job], idempotency: None, batch: None }).unwrap();
        id
    }

    /// As a hint tells of it.
    pub(crate) fn loaded(&self, id: JobId) -> Vec<Loaded> {
        let FoundRow::Hot(row) = self.store.model.find_now(id) else { return Vec::new() };
        let task = self.store.model.tasks_by_id_now(&[self.task]).pop().unwrap();
        vec![Loaded { row, task: Arc::new(task) }]
    }

    /// The numbers of the attempts of a job that has finished.
    pub(crate) fn attempts(&self, id: JobId) -> Option<Vec<u32>> {
        match self.store.model.job_now(id)? {
            JobRecord::Finished { attempts, .. } => Some(attempts.iter().map(|ran| ran.attempt.0).collect()),
            JobRecord::Hot { .. } => None,
        }
    }

    /// Nothing runs, and nothing of what ran is left to be closed.
    pub(crate) fn has_no_starts(&self) -> bool {
        let open = (0..self.store.shard_count()).map(|shard| self.store.model.open_starts_now(ShardId(shard)));
        open.into_iter().all(|open| open.running.is_empty() && open.spent.is_empty())
    }

    /// How often shards have changed hands in all.
    pub(crate) fn moves(&self) -> u64 {
        (0..self.store.shard_count()).map(|shard| self.store.model.epoch(ShardId(shard)).0).sum()
    }

    /// How many shards each of these has, by the store, in their order.
    pub(crate) fn shares(&self, engines: &[&Engine]) -> Vec<usize> {
        let leases = self.store.model.leases_now();
        let share = |engine: &&Engine| leases.iter().filter(|lease| lease.owner == Some(engine.server())).count();
        engines.iter().map(share).collect()
    }
}

/// Waits until it is so, for a limited time.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "never: {what}");
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Runs everything at once and reports it to whoever owns it, until it is acknowledged.
#[derive(Clone)]
pub(crate) struct Worker {
    id: WorkerId,
    held: Arc<Mutex<BTreeMap<(JobId, AttemptNo), Report>>>,
    /// What was executed, in order.
    pub(crate) ran: Arc<Mutex<Vec<(JobId, AttemptNo)>>>,
    /// The servers that it was invited to.
    pub(crate) invited: Arc<Mutex<Vec<ServerId>>>,
}

impl Worker {
    pub(crate) fn new() -> Self {
        Self { id: WorkerId::new(START, 1), held: Arc::default(), ran: Arc::default(), invited: Arc::default() }
    }

    pub(crate) fn has_run(&self, id: JobId) -> bool {
        self.ran.lock().unwrap().iter().any(|(ran, _)| *ran == id)
    }

    fn info() -> WorkerInfo {
        let spec = WorkerSpec {
            namespaces: punctual_core::namespace::ServedNamespaces::All,
            queues: vec!["default".into()],
            capabilities: vec!["probe".into()],
            labels: BTreeMap::new(),
            credit: 100,
        };
        WorkerInfo {
            name: "test".into(),
            host: None,
            version: "0".into(),
            spec,
            commands_as: String::new(),
            has_certificate: false,
        }
    }

    /// Connects, and again whenever the connection ends, until the engine has stopped.
    pub(crate) fn serve(&self, engine: &Engine) {
        let (worker, engine) = (self.clone(), engine.clone());
        tokio::spawn(async move {
            while let Ok(greeting) = engine.greeting().await {
                let held: Vec<_> = worker.held.lock().unwrap().keys().copied().collect();
                let (session, mut outgoing) =
                    engine.connect(worker.id, greeting.stream, Self::info(), held, greeting.acquired);
                let mut repeat = tokio::time::interval(Duration::from_millis(50));
                loop {
                    let message = tokio::select! {
                        message = outgoing.recv() => message,
                        _ = repeat.tick() => {
                            let reports: Vec<Report> = worker.held.lock().unwrap().values().cloned().collect();
                            session.report(reports);
                            continue;
                        }
                    };
                    let Some(message) = message else { break };
                    worker.invited.lock().unwrap().extend(&message.invitations);
                    let mut reports = Vec::new();
                    for assignment in message.assignments {
                        let (id, attempt) = (assignment.key.id, assignment.attempt);
                        worker.ran.lock().unwrap().push((id, attempt));
                        let outcome = Outcome::Succeeded { output: None };
                        reports.push(Report { id, attempt, outcome, timed_out: false, details: None });
                    }
                    let mut held = worker.held.lock().unwrap();
                    held.extend(reports.iter().map(|report| ((report.id, report.attempt), report.clone())));
                    for ack in message.acks.iter().chain(&message.stops) {
                        held.remove(ack);
                    }
                    drop(held);
                    session.report(reports);
                }
            }
        });
    }
}
