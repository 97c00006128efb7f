//! Submitting jobs: one, or up to 10,000 of which all are accepted or none.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::future::join_all;
use punctual_api::{BulkRequest, BulkSubmitted, ErrorKind, JobRequest, JobSubmitted, limits};
use punctual_core::namespace::NamespaceId;
use punctual_core::shard::event::Loaded;
use punctual_core::task::{Task, TaskSpec};
use punctual_core::{JobId, JobRow, ShardId, Span, Timestamp};
use punctual_store::{
    FoundRow, IdempotencyKey, IdempotentAnswer, Interned, NewJob, RequesterId, Submission, Submitted,
};
use sha2::{Digest, Sha256};

use crate::faults::each;
use crate::principal::By;
use crate::principal::permission::{SubmitJobs, ViewJobs};
use crate::{App, AppError, Checked, Faults, Result, WaitFor, artifacts, task_rights, validate};

/// An answer is kept under its idempotency key for this long.
const KEY_KEPT: Span = Span::from_secs(24 * 3600);

/// Neighbours in a request go to one shard, so that their rows are neighbours too.
const JOBS_PER_SHARD_TURN: usize = 256;

/// Tasks of a request that are looked up at a time.
const LOOKUPS_AT_ONCE: usize = 32;

/// Jobs due within this are told to their owner at once; the sweep finds the others.
const HINT_AHEAD: Span = Span::from_secs(30);

/// Jobs of a repeated request that are hinted at again. Each is a read; the sweeps find the others.
const HINTS_AGAIN_MAX: usize = 64;

/// What was accepted, and whether now or at an earlier request with the same key.
#[derive(Debug, Clone)]
pub struct SubmittedAnswer<T> {
    pub answer: T,
    pub is_replayed: bool,
}

/// What was accepted, with the task of each job; a repeated request has none.
struct Accepted {
    answer: SubmittedAnswer<BulkSubmitted>,
    tasks: Vec<Arc<Task>>,
}

/// The task that a job or a schedule is to run: it has a name, or is defined where it is needed.
pub(crate) struct WantedTask<'a> {
    pub(crate) name: Option<&'a str>,
    pub(crate) inline: Option<&'a TaskSpec>,
}

/// The idempotency key of a request, with the bytes that it stands for.
#[derive(Debug, Clone)]
pub struct KeyedRequest<'a> {
    pub key: &'a str,
    pub body: &'a [u8],
}

impl App {
    /// Submits one job, and answers when it is durable; with `wait`, when it has finished or that time is over.
    pub async fn submit(
        &self,
        by: &By<SubmitJobs>,
        request: JobRequest,
        keyed: Option<KeyedRequest<'_>>,
        wait: Option<WaitFor>,
    ) -> Result<SubmittedAnswer<JobSubmitted>> {
        let tracing_id = request.tracing_id.clone();
        let Accepted { answer: SubmittedAnswer { answer, is_replayed }, tasks } =
            self.submit_all(by, vec![request], keyed, "").await?;
        let id = *answer.ids.first().expect("one job makes one id");
        let mut answer = match tasks.first() {
            Some(task) => self.accepted(id, task, tracing_id, answer.warnings).await,
            None => Box::pin(self.accepted_before(by.namespace(), id)).await,
        };
        // The job is accepted: what keeps us from looking at it does not change that.
        if let Some(wait) = wait
            && let Ok(by) = by.also::<ViewJobs>()
            && let Ok(job) = Box::pin(self.job(&by, id, Some(wait))).await
        {
            answer.state = job.state.clone();
            answer.due_at = job.due_at;
            answer.job = Some(Box::new(job));
        }
        Ok(SubmittedAnswer { answer, is_replayed })
    }

    pub async fn submit_bulk(
        &self,
        by: &By<SubmitJobs>,
        request: BulkRequest,
        keyed: Option<KeyedRequest<'_>>,
    ) -> Result<SubmittedAnswer<BulkSubmitted>> {
        if request.jobs.is_empty() || request.jobs.len() > limits::BULK_JOBS_MAX {
            let detail = format!("must be 1 to {} jobs, not {}", limits::BULK_JOBS_MAX, request.jobs.len());
            return Err(AppError::length("/jobs", detail, request.jobs.len()));
        }
        Ok(self.submit_all(by, request.jobs, keyed, "/jobs").await?.answer)
    }

    async fn submit_all(
        &self,
        by: &By<SubmitJobs>,
        requests: Vec<JobRequest>,
        keyed: Option<KeyedRequest<'_>>,
        pointer: &str,
    ) -> Result<Accepted> {
        let under = |place: usize| if pointer.is_empty() { String::new() } else { format!("{pointer}/{place}") };
        let mut faults = Faults::default();
        for (place, request) in requests.iter().enumerate() {
            let checked = check(request).and_then(|()| match &request.inline {
                Some(spec) => self.check_limits(spec).map_err(|error| error.under("/inline")),
                None => Ok(()),
            });
            faults.check(checked.map_err(|error| error.under(&under(place))));
            if faults.is_full() {
                break;
            }
        }
        faults.finish()?;
        for spec in requests.iter().filter_map(|request| request.inline.as_ref()) {
            task_rights::check_inline(by, spec)?;
        }
        let keyed = keyed.map(|keyed| Keyed::read(by.namespace(), keyed)).transpose()?;
        if let Some(Keyed { key, fingerprint }) = &keyed {
            // Before the tasks are looked up: what is repeated has its answer, whatever became of them.
            let before = self.0.store.idempotent_answer(key.clone(), *fingerprint, self.now()).await?;
            if let Some(before) = before {
                return Ok(Accepted { answer: Box::pin(self.replayed(before)).await?, tasks: Vec::new() });
            }
        }
        let wanted: Vec<WantedTask<'_>> = requests
            .iter()
            .map(|request| WantedTask { name: request.task.as_deref(), inline: request.inline.as_ref() })
            .collect();
        for (place, spec) in requests.iter().enumerate().filter_map(|(place, one)| Some((place, one.inline.as_ref()?)))
        {
            self.check_secrets(by.namespace(), spec, &format!("{}/inline", under(place))).await?;
        }
        let admitted = self.admit_jobs(by.namespace(), requests.len()).await?;
        let tasks = self.resolve_tasks(by.namespace(), &wanted, under).await?;
        self.check_queues_open(&tasks)?;
        let requester = self.requester_of(by.principal()).await?;
        let now = self.now();
        let jobs = self.build(requests, &tasks, requester, now);
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        let idempotency = keyed.map(|keyed| keyed.answer(&ids, now));
        let hint = near_future(&jobs, &tasks, now);
        let submitted = self.0.store.submit(Submission { jobs, idempotency, batch: None }).await?;
        if submitted != Submitted::Done {
            return Ok(Accepted { answer: Box::pin(self.replayed(submitted)).await?, tasks: Vec::new() });
        }
        admitted.stored(ids.len());
        self.0.submitted.fetch_add(ids.len() as u64, Ordering::Relaxed);
        self.tell_owners(hint);
        let warnings = self.placement_warnings(tasks.iter()).await;
        let answer = SubmittedAnswer { answer: BulkSubmitted { ids, warnings }, is_replayed: false };
        Ok(Accepted { answer, tasks })
    }

    /// The answer of the earlier request with the same key. Whoever asks again has not seen it, so the hint to the owners
    /// may be lost as well: they get another.
    async fn replayed(&self, submitted: Submitted) -> Result<SubmittedAnswer<BulkSubmitted>> {
        let ids = earlier_answer(submitted)?;
        if let Err(error) = self.hint_again(&ids).await {
            tracing::debug!(%error, "the owners of replayed jobs got no second hint");
        }
        Ok(SubmittedAnswer { answer: BulkSubmitted { ids, warnings: Vec::new() }, is_replayed: true })
    }

    async fn hint_again(&self, ids: &[JobId]) -> Result<()> {
        let horizon = self.now() + HINT_AHEAD;
        let near = ids.iter().filter(|id| id.due_at() <= horizon).take(HINTS_AGAIN_MAX);
        let found = join_all(near.map(|id| self.0.store.find(*id))).await;
        let rows = found.into_iter().filter_map(|found| match found {
            Ok(FoundRow::Hot(row)) if !row.counters.has_started() => Some(row),
            Ok(_) | Err(_) => None,
        });
        let rows: Vec<JobRow> = rows.collect();
        let tasks = self.tasks_by_id(rows.iter().map(|row| row.task)).await?;
        let load = |row: JobRow| Some(Loaded { task: Arc::clone(tasks.get(&row.task)?), row });
        self.tell_owners(rows.into_iter().filter_map(load).collect());
        Ok(())
    }

    /// The task of each request, in order.
    pub(crate) async fn resolve_tasks(
        &self,
        namespace: NamespaceId,
        wanted: &[WantedTask<'_>],
        under: impl Fn(usize) -> String,
    ) -> Result<Vec<Arc<Task>>> {
        // Most requests are of one job and name its task.
        if let [WantedTask { name: Some(name), .. }] = wanted {
            let found = self.task_named(namespace, name).await.map_err(|error| unfound(error, &under(0)))?;
            return Ok(vec![found]);
        }
        let mut tasks: Vec<Option<Arc<Task>>> = vec![None; wanted.len()];
        let mut inline: Vec<(usize, &TaskSpec)> = Vec::new();
        let named = self.tasks_named(namespace, wanted, &under).await?;
        for (place, wanted) in wanted.iter().enumerate() {
            match (wanted.name, wanted.inline) {
                (Some(name), _) => tasks[place] = named.get(name).map(Arc::clone),
                (None, Some(spec)) => inline.push((place, spec)),
                (None, None) => unreachable!("checked before"),
            }
        }
        if !inline.is_empty() {
            Box::pin(self.intern(namespace, inline, &mut tasks, under)).await?;
        }
        Ok(tasks.into_iter().map(|task| task.expect("every request has a task")).collect())
    }

    /// The tasks of all names, each looked up once.
    async fn tasks_named<'a>(
        &self,
        namespace: NamespaceId,
        wanted: &[WantedTask<'a>],
        under: impl Fn(usize) -> String,
    ) -> Result<HashMap<&'a str, Arc<Task>>> {
        let mut places: HashMap<&str, usize> = HashMap::new();
        for (place, name) in wanted.iter().enumerate().filter_map(|(place, wanted)| Some((place, wanted.name?))) {
            places.entry(name).or_insert(place);
        }
        let mut names: Vec<(usize, &'a str)> = places.into_iter().map(|(name, place)| (place, name)).collect();
        // So that the first of several that are missing is the one that is named.
        names.sort_unstable();
        let mut named = HashMap::with_capacity(names.len());
        for part in names.chunks(LOOKUPS_AT_ONCE) {
            let found = join_all(part.iter().map(|(_, name)| self.task_named(namespace, name))).await;
            for ((place, name), found) in part.iter().zip(found) {
                let found = found.map_err(|error| unfound(error, &under(*place)))?;
                named.insert(*name, found);
            }
        }
        Ok(named)
    }

    /// Gives one-off jobs nameless tasks; equal definitions share one.
    async fn intern(
        &self,
        namespace: NamespaceId,
        inline: Vec<(usize, &TaskSpec)>,
        tasks: &mut [Option<Arc<Task>>],
        under: impl Fn(usize) -> String,
    ) -> Result<()> {
        let mut distinct: HashMap<[u8; 32], Vec<usize>> = HashMap::new();
        let mut new: Vec<(Task, [u8; 32])> = Vec::new();
        for (place, spec) in inline {
            let json = serde_json::to_vec(spec).expect("a task spec is JSON");
            let digest: [u8; 32] = Sha256::digest(&json).into();
            let places = distinct.entry(digest).or_default();
            if places.is_empty() {
                new.push((self.new_task(namespace, None, spec.clone()), digest));
            }
            places.push(place);
        }
        if new.is_empty() {
            return Ok(());
        }
        let ids = match self.0.store.intern_tasks(new.clone()).await? {
            Interned::Done(ids) => ids,
            Interned::Unfit(artifact, unfit) => {
                let refers = |(task, _): &&(Task, [u8; 32])| task.spec.run.artifacts().any(|own| own == artifact);
                let found = new.iter().find(refers);
                let place = found.and_then(|(_, digest)| distinct[digest].first().copied()).unwrap_or_default();
                let inside = found.map(|(task, _)| artifacts::pointer(&task.spec.run, artifact)).unwrap_or_default();
                let pointer = format!("{}/inline{inside}", under(place));
                return Err(artifacts::unfit(artifact, unfit).pointing(&pointer));
            }
        };
        // Only the store knows whether they wait for their files.
        let with_files = new.iter().zip(&ids).filter(|((task, _), _)| task.spec.run.artifact().is_some());
        let mut stored = self.tasks_by_id(with_files.map(|(_, id)| *id)).await?;
        for ((task, digest), id) in new.into_iter().zip(ids) {
            let task = stored.remove(&id).unwrap_or_else(|| Arc::new(Task { id, ..task }));
            for &place in &distinct[&digest] {
                tasks[place] = Some(Arc::clone(&task));
            }
        }
        Ok(())
    }

    fn build(
        &self,
        requests: Vec<JobRequest>,
        tasks: &[Arc<Task>],
        requester: RequesterId,
        now: Timestamp,
    ) -> Vec<NewJob> {
        let shards = self.shards_for_new_jobs();
        let turns = requests.len().div_ceil(JOBS_PER_SHARD_TURN) as u64;
        let first_turn = self.0.shard_turn.fetch_add(turns, Ordering::Relaxed);
        let jobs = requests.into_iter().zip(tasks).enumerate();
        let build = |(place, (request, task)): (usize, (JobRequest, &Arc<Task>))| {
            let turn = first_turn + (place / JOBS_PER_SHARD_TURN) as u64;
            let shard = shards[(turn % shards.len() as u64) as usize];
            // A time in the past means now.
            let run_at = request.run_at.or(request.delay.map(|delay| now + delay));
            let due_at = run_at.unwrap_or(now).max(now);
            NewJob {
                id: JobId::new(due_at, shard, self.random()),
                namespace: task.namespace,
                task: task.id,
                priority: request.priority.unwrap_or(task.spec.priority),
                submitted_at: now,
                tracing_id: request.tracing_id,
                source: None,
                requester: Some(requester),
                node: None,
                member: None,
                input: request.input.map(|json| Bytes::from(Box::<str>::from(json).into_string())),
            }
        };
        jobs.map(build).collect()
    }

    /// This server's own, which save a hop; all of them if it has none.
    pub(crate) fn shards_for_new_jobs(&self) -> Arc<[ShardId]> {
        let owned = self.0.cluster.owned_here();
        if owned.is_empty() { (0..self.0.store.shard_count()).map(ShardId).collect() } else { owned }
    }
}

/// Why the task of a job is not there, with the job's place in the request.
fn unfound(error: AppError, place: &str) -> AppError {
    AppError { errors: vec![], ..error }.at(place)
}

impl AppError {
    fn at(mut self, place: &str) -> Self {
        if !place.is_empty() {
            self.detail = format!("{place}/task: {}", self.detail);
        }
        self
    }
}

fn check(request: &JobRequest) -> Result<()> {
    let mut faults = Faults::default();
    faults.check(match (&request.task, &request.inline) {
        (Some(name), None) => validate::name("/task", name),
        (None, Some(spec)) => validate::spec(spec).map_err(|error| error.under("/inline")),
        (Some(_), Some(_)) => {
            Err(AppError::field("", "the job has both a task and an inline definition").hint("give one of the two"))
        }
        (None, None) => Err(AppError::field("", "the job names no task")
            .hint("give `task`, the name of a task, or define one in `inline`")),
    });
    if request.run_at.is_some() && request.delay.is_some() {
        let error = AppError::field("/delay", "the job has both `run_at` and `delay`");
        faults.check(Err(error.hint("give one of the two")));
    }
    if let Some(tracing_id) = &request.tracing_id {
        faults.check(validate::text("/tracing_id", tracing_id, limits::TRACING_ID_CHARS_MAX));
    }
    if let Some(input) = &request.input {
        faults.check(validate::input(input.get()));
    }
    faults.finish()
}

impl Checked for JobRequest {
    fn check(&self) -> Result<()> {
        check(self)
    }
}

impl Checked for BulkRequest {
    fn check(&self) -> Result<()> {
        each(&self.jobs, "/jobs")
    }
}

/// The ids that an earlier request with the same key was given.
fn earlier_answer(submitted: Submitted) -> Result<Vec<JobId>> {
    read_ids(&replayed_bytes(submitted)?)
}

/// What an earlier request with the same key was answered.
pub(crate) fn replayed_bytes(submitted: Submitted) -> Result<Bytes> {
    match submitted {
        Submitted::Replayed { answer } => Ok(answer),
        Submitted::Done => unreachable!("nothing was submitted under this key before"),
        Submitted::KeyReused => Err(AppError::new(
            ErrorKind::IdempotencyKeyReused,
            "this idempotency key was used by another request in the last 24 hours",
        )
        .hint("use a new key for each new request, and the same key only to repeat one")),
    }
}

/// A key that was checked, and what stands for its request.
pub(crate) struct Keyed {
    pub(crate) key: IdempotencyKey,
    pub(crate) fingerprint: [u8; 32],
}

impl Keyed {
    pub(crate) fn read(namespace: NamespaceId, request: KeyedRequest<'_>) -> Result<Self> {
        if request.key.is_empty() {
            return Err(AppError::field("Idempotency-Key", "must not be empty"));
        }
        validate::text("Idempotency-Key", request.key, limits::IDEMPOTENCY_KEY_CHARS_MAX)?;
        let key = IdempotencyKey { namespace, key: request.key.to_owned() };
        Ok(Self { key, fingerprint: Sha256::digest(request.body).into() })
    }

    fn answer(self, ids: &[JobId], now: Timestamp) -> IdempotentAnswer {
        let answer: Vec<u8> = ids.iter().flat_map(|id| id.to_bytes()).collect();
        self.answered(answer.into(), now)
    }

    pub(crate) fn answered(self, answer: Bytes, now: Timestamp) -> IdempotentAnswer {
        let Self { key, fingerprint } = self;
        IdempotentAnswer { key, fingerprint, answer, now, expires_at: now + KEY_KEPT }
    }
}

fn read_ids(answer: &[u8]) -> Result<Vec<JobId>> {
    let (ids, _) = answer.as_chunks::<16>();
    let ids: Option<Vec<JobId>> = ids.iter().map(|id| JobId::from_bytes(id)).collect();
    ids.filter(|ids| !ids.is_empty())
        .ok_or_else(|| AppError::new(ErrorKind::Internal, "a stored answer cannot be read"))
}

/// What the owner should hear of now.
pub(crate) fn near_future(jobs: &[NewJob], tasks: &[Arc<Task>], now: Timestamp) -> Vec<Loaded> {
    let horizon = now + HINT_AHEAD;
    let near = jobs.iter().zip(tasks).filter(|(job, _)| job.id.due_at() <= horizon);
    let load = |(job, task): (&NewJob, &Arc<Task>)| Loaded { row: job.row(), task: Arc::clone(task) };
    near.map(load).collect()
}
