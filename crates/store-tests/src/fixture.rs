//! What cases are made of: short ways to say who, when and what.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use punctual_core::attempt::{AttemptRecord, Details, Ending, FailureClass};
use punctual_core::give_backs::{GiveBacks, GivenBack};
use punctual_core::run::default_grace;
use punctual_core::shard::event::{Load, Sweep};
use punctual_core::shard::write::{
    Batch, BatchSeq, CancelMark, Epoch, JobWrite, Requeue, Settle, SharedBatch, Start, Void, Write,
};
use punctual_core::task::{Binary, Handler, Limits, Network, Priority, Probe, Run, Task, TaskSpec};
use punctual_core::{
    ArtifactId, AttemptNo, Counters, JobId, JobKey, JobState, NamespaceId, ServerId, ShardId, Span, TaskId, Timestamp,
    WorkerId,
};
use punctual_store::{
    Applied, ArtifactKind, CreatedArtifact, Filter, FinishedJob, HotJob, NewArtifact, NewJob, Order, Owned, Page,
    Position, Result, RunSteps, Store, StoreError, Submission, Submitted, Tables, TaskChange,
};

/// Cases expect stores with so many shards.
pub const SHARDS: u16 = 4;

/// A fresh store, and what must live as long as it does, such as its folder.
pub struct Fixture {
    pub store: Arc<dyn Store>,
    _keep: Box<dyn Any + Send + Sync>,
}

impl Fixture {
    pub fn new(store: Arc<dyn Store>, keep: impl Any + Send + Sync) -> Self {
        Self { store, _keep: Box::new(keep) }
    }
}

/// Seconds into a day in 2026; every case happens there.
pub fn at(secs: i64) -> Timestamp {
    Timestamp::parse("2026-11-16T08:00:00Z").expect("a valid time") + Span::from_secs(secs)
}

pub fn server(n: u64) -> ServerId {
    ServerId::new(at(0), n)
}

pub fn worker(n: u64) -> WorkerId {
    WorkerId::new(at(0), n)
}

pub fn task_id(n: u64) -> TaskId {
    TaskId::new(at(0), n)
}

pub fn artifact_id(n: u64) -> ArtifactId {
    ArtifactId::new(at(0), n)
}

pub fn job_id(n: u64, due_secs: i64, shard: u16) -> JobId {
    JobId::new(at(due_secs), ShardId(shard), n)
}

pub fn priority(value: i8) -> Priority {
    Priority::new(value).expect("a valid priority")
}

pub fn named_task(n: u64, name: &str) -> Task {
    Task {
        namespace: NamespaceId::DEFAULT,
        id: task_id(n),
        name: Some(name.to_owned()),
        revision: 1,
        created_at: at(0),
        updated_at: at(0),
        spec: TaskSpec::new(Run::Probe(Probe::default())),
        waits_for: None,
        created_by: None,
        changed_by: None,
    }
}

/// A named task that runs the file of [`new_artifact`] of number `artifact`.
pub fn binary_task(n: u64, name: &str, artifact: u64) -> Task {
    Task { spec: binary_spec(artifact), ..named_task(n, name) }
}

pub fn binary_spec(artifact: u64) -> TaskSpec {
    TaskSpec::new(Run::Binary(Binary {
        artifact: artifact_id(artifact),
        args: Vec::new(),
        env: BTreeMap::new(),
        files: Vec::new(),
        network: Network::default(),
        limits: Limits::default(),
        grace: default_grace(),
    }))
}

/// A file of its own, to be uploaded within 100 s.
pub fn new_artifact(n: u64) -> NewArtifact {
    NewArtifact {
        namespace: NamespaceId::DEFAULT,
        id: artifact_id(n),
        name: Some(format!("file-{n}")),
        size: 1000 + n,
        sha256: [n as u8; 32],
        kind: ArtifactKind::Binary,
        created_at: at(0),
        until: at(100),
        bytes_max: None,
    }
}

pub async fn with_artifact(store: &dyn Store, n: u64) {
    let created = store.create_artifact(new_artifact(n)).await.unwrap();
    assert!(matches!(created, CreatedArtifact::New(_)), "{created:?}");
}

pub fn nameless_task(n: u64) -> (Task, [u8; 32]) {
    let run = Run::Handler(Handler { name: format!("handler-{n}") });
    let task = Task { name: None, spec: TaskSpec::new(run), ..named_task(n, "") };
    (task, [n as u8; 32])
}

/// A job of the task that [`with_task`] stores.
pub fn new_job(n: u64, due_secs: i64, shard: u16) -> NewJob {
    NewJob {
        namespace: NamespaceId::DEFAULT,
        id: job_id(n, due_secs, shard),
        task: task_id(1),
        priority: Priority::default(),
        submitted_at: at(-60),
        tracing_id: None,
        source: None,
        requester: None,
        node: None,
        member: None,
        input: None,
    }
}

pub async fn with_task(store: &dyn Store) {
    assert_eq!(store.create_task(named_task(1, "report")).await.unwrap(), TaskChange::Done);
}

/// Submits jobs without a key.
pub async fn submit(store: &dyn Store, jobs: Vec<NewJob>) -> Result<Submitted> {
    store.submit(Submission { jobs, idempotency: None, batch: None }).await
}

/// Stores the task and the jobs, and owns every shard.
pub async fn owner_of<'a>(store: &'a dyn Store, jobs: &[NewJob]) -> Owner<'a> {
    with_task(store).await;
    assert_eq!(submit(store, jobs.to_vec()).await.unwrap(), Submitted::Done);
    Owner::new(store, 1).await
}

/// A server that owns shards and writes under their epochs.
pub struct Owner<'a> {
    pub store: &'a dyn Store,
    pub server: ServerId,
    pub owned: Vec<Owned>,
    seq: u64,
}

impl<'a> Owner<'a> {
    /// Takes every shard, from whoever has it.
    pub async fn new(store: &'a dyn Store, n: u64) -> Self {
        let server = server(n);
        let shards = (0..store.shard_count()).map(ShardId).collect();
        let owned = store.take_over(server, shards, Span::from_secs(10)).await.unwrap();
        assert_eq!(owned.len(), usize::from(store.shard_count()));
        Self { store, server, owned, seq: 0 }
    }

    pub fn epoch(&self, shard: u16) -> Epoch {
        self.owned[usize::from(shard)].epoch
    }

    /// Fenced on the shards that the writes touch.
    pub fn batch(&mut self, writes: Vec<Write>) -> Batch {
        self.seq += 1;
        let mut shards: Vec<_> = writes.iter().map(Write::shard).collect();
        shards.sort_unstable();
        shards.dedup();
        let fences = shards.into_iter().map(|shard| (shard, self.epoch(shard.0))).collect();
        Batch { seq: BatchSeq(self.seq), server: self.server, fences, at: at(0), writes }
    }

    pub async fn apply(&mut self, writes: Vec<Write>) -> Result<Applied> {
        let batch = SharedBatch::new(self.batch(writes));
        self.store.apply(batch).await
    }

    /// Applies what must fit.
    pub async fn done(&mut self, writes: Vec<Write>) {
        self.void_of(writes, Void::default()).await;
    }

    /// Applies what comes too late for this job, and only that.
    pub async fn void(&mut self, writes: Vec<Write>, job: JobId) {
        self.void_of(writes, vec![job].into()).await;
    }

    async fn void_of(&mut self, writes: Vec<Write>, expected: Void) -> RunSteps {
        match self.apply(writes).await.unwrap() {
            Applied::Done { void, steps } if void == expected => steps,
            applied => panic!("{applied:?} instead of {expected:?}"),
        }
    }

    /// Applies what must fit, and answers what followed in runs.
    pub async fn stepped(&mut self, writes: Vec<Write>) -> RunSteps {
        self.void_of(writes, Void::default()).await
    }

    /// Applies what must not fit.
    pub async fn refused(&mut self, writes: Vec<Write>) {
        assert_inconsistent(self.apply(writes).await);
    }
}

#[track_caller]
pub fn assert_inconsistent<T: std::fmt::Debug>(result: Result<T>) {
    assert!(matches!(result, Err(StoreError::Inconsistent(_))), "{result:?}");
}

pub fn original(job: &NewJob) -> JobKey {
    JobKey::original(job.id)
}

/// Attempt `n` of a job, started by server 1 on worker 1.
pub fn start(key: JobKey, n: u32) -> Write {
    Write::Job(JobWrite::Start(plain_start(key, n)))
}

pub fn plain_start(key: JobKey, n: u32) -> Start {
    Start { key, attempt: AttemptNo(n), worker: worker(1), picked_up_at: at(100), started_at: at(101), gang: None }
}

/// An attempt that was due at `at(10)`, when most jobs of the cases are due at first.
pub fn ran(n: u32, ending: Ending) -> AttemptRecord {
    AttemptRecord {
        attempt: AttemptNo(n),
        worker: worker(1),
        server: server(1),
        due_at: at(10),
        picked_up_at: at(100),
        started_at: at(101),
        finished_at: at(102),
        ending,
        reason: (ending != Ending::Succeeded).then(|| format!("attempt {n} {}", ending.as_str())),
        details: None,
        log: None,
    }
}

/// All that can be known of an attempt.
pub fn details() -> Details {
    Details {
        class: Some(FailureClass::Limit),
        exit_code: Some(-1),
        signal: Some(9),
        limit: Some("oom".to_owned()),
        peak_memory_bytes: Some(u64::MAX),
        cpu_us: Some(0),
        sandbox: Some("\"full\" \0 ü".to_owned()),
        host: Some(String::new()),
    }
}

pub fn due(secs: i64, ran: AttemptRecord) -> AttemptRecord {
    AttemptRecord { due_at: at(secs), ..ran }
}

pub fn with_details(ran: AttemptRecord, details: Details) -> AttemptRecord {
    AttemptRecord { details: Some(Box::new(details)), ..ran }
}

pub fn counters(next: u32, failures: u16, node_failures: u16) -> Counters {
    Counters { next_attempt: AttemptNo(next), failures, node_failures }
}

/// Attempt `n` ended the job.
pub fn settled(key: JobKey, n: u32, state: JobState, ending: Ending) -> Settle {
    Settle {
        key,
        state,
        finished_at: at(102),
        counters: counters(n + 1, u16::from(state != JobState::Succeeded), 0),
        attempt: Some(AttemptRecord { due_at: key.due_at, ..ran(n, ending) }),
        reason: None,
        output: None,
        cancel: CancelMark::None,
        notice: None,
        success_of: None,
        node: None,
        member: None,
    }
}

pub fn succeed(key: JobKey, n: u32) -> Write {
    Write::Job(JobWrite::Settle(settled(key, n, JobState::Succeeded, Ending::Succeeded)))
}

/// The job ends without an attempt.
pub fn ended(key: JobKey, state: JobState, finished_at: Timestamp) -> Write {
    Write::Job(JobWrite::Settle(Settle {
        key,
        state,
        finished_at,
        counters: Counters::NEW,
        attempt: None,
        reason: Some("on request".to_owned()),
        output: None,
        cancel: CancelMark::None,
        notice: None,
        success_of: None,
        node: None,
        member: None,
    }))
}

/// Attempt `n` failed, and the job waits again.
pub fn retried(key: JobKey, n: u32, due_at: Timestamp) -> Requeue {
    Requeue {
        key,
        due_at,
        counters: counters(n + 1, 1, 0),
        give_backs: None,
        attempt: Some(AttemptRecord { due_at: key.due_at, ..ran(n, Ending::Failed) }),
        cancel: CancelMark::None,
    }
}

/// Attempt `n` was given back, and the job waits again.
pub fn given_back(key: JobKey, n: u32, due_at: Timestamp, since: Timestamp) -> Requeue {
    let last = GivenBack { since, reason: "the disk is full \0".to_owned() };
    Requeue {
        key,
        due_at,
        counters: counters(n + 1, 0, 0),
        give_backs: Some(Box::new(GiveBacks { count: n as u16, never_received: 0, last: Some(last) })),
        attempt: Some(AttemptRecord { due_at: key.due_at, ..ran(n, Ending::NotStarted) }),
        cancel: CancelMark::None,
    }
}

pub fn load_all(shard: u16) -> Load {
    let skip = Vec::new();
    Load {
        shard: ShardId(shard),
        epoch: Epoch(1),
        sweep: Sweep::All,
        after: None,
        until: Timestamp::MAX,
        limit: 1000,
        skip,
    }
}

pub fn first_page(order: Order, limit: usize) -> Position {
    Position { after: None, order, limit }
}

/// Jobs that wait or run.
pub async fn hot_page(store: &dyn Store, filter: Filter, position: Position) -> Page<HotJob> {
    let pages = store.list_jobs(Filter { tables: Tables::Hot, ..filter }, position).await.unwrap();
    assert_eq!(pages.finished, Page::EMPTY);
    pages.hot
}

pub async fn finished_page(store: &dyn Store, filter: Filter, position: Position) -> Page<FinishedJob> {
    let pages = store.list_jobs(Filter { tables: Tables::Finished, ..filter }, position).await.unwrap();
    assert_eq!(pages.hot, Page::EMPTY);
    pages.finished
}

/// All hot jobs that are listed, page by page.
pub async fn listed_hot(store: &dyn Store, order: Order, limit: usize) -> Vec<JobId> {
    let mut position = first_page(order, limit);
    let mut listed = Vec::new();
    loop {
        let page = hot_page(store, Filter::default(), position).await;
        listed.extend(page.rows.iter().map(|job| job.key.id));
        position.after = page.next;
        if page.next.is_none() {
            return listed;
        }
    }
}

pub fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}
