//! One job: reading it, waiting for it, and commands on it.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use punctual_api::{Answered, Attempt, AttemptDetails, ErrorKind, Job, Rerun, TaskRef, limits};
use punctual_core::attempt::{AttemptRecord, Details, Ending};
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::Source;
use punctual_core::shard::event::{Command, Refusal, Reply};
use punctual_core::shard::{Answer, Ask, LiveView};
use punctual_core::task::Task;
use punctual_core::{AttemptNo, JobId, JobState, ServerId, Span, TaskId, Timestamp, WorkerId};
use punctual_store::{
    Artifact, FoundRow, HotJob, JobActionKind, JobRecord, OccurrenceFilter, Order, RerunRecord, SeenWorker,
};
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::facts::Facts;
use crate::placement::job_waits_for;
use crate::principal::permission::{ControlJobs, ViewJobs};
use crate::principal::{By, Principal};
use crate::route::{Decided, Live};
use crate::shard_workers::ShardWorkers;
use crate::{App, AppError, Result, cut, explain};

/// How long to wait for a job's end before answering.
#[derive(Debug, Clone, Copy)]
pub struct WaitFor(Duration);

impl WaitFor {
    pub fn parse(text: &str) -> Result<Self> {
        let span = Span::parse(text).map_err(|error| AppError::time("wait", &error))?;
        if span > Span::from_secs(limits::WAIT_SECONDS_MAX) {
            let detail = format!("must be at most {}s", limits::WAIT_SECONDS_MAX);
            return Err(AppError::out_of_range("wait", detail)
                .hint("ask again when the answer says that the job has not finished"));
        }
        Ok(Self(span.to_std()))
    }
}

impl App {
    pub async fn job(&self, by: &By<ViewJobs>, id: JobId, wait: Option<WaitFor>) -> Result<Job> {
        let Some(WaitFor(limit)) = wait else {
            let job = self.read_job(by.namespace(), id).await?;
            return Ok(cut::job(by, self.with_owner(by.namespace(), job).await?));
        };
        let deadline = Instant::now() + limit;
        loop {
            // Subscribed before the read, or an end in between would be missed.
            let finish = self.finish_of(id);
            let job = self.read_job(by.namespace(), id).await?;
            if Instant::now() >= deadline || JobState::parse(&job.state).is_some_and(JobState::is_final) {
                return Ok(cut::job(by, self.with_owner(by.namespace(), job).await?));
            }
            finish.wait(deadline.min(Instant::now() + Principal::CHECKED_EVERY)).await;
            by.check_again(self)?;
        }
    }

    /// Uncut: for views of this crate that show less. A job of another namespace is not there.
    pub(crate) async fn read_job(&self, namespace: NamespaceId, id: JobId) -> Result<Job> {
        // Before its input is read, which takes the longer the larger it is: nobody is to learn by that what there is elsewhere.
        self.check_job_in(namespace, id).await?;
        // First what runs, then the rows: a job that ends in between is seen as ended.
        let live = self.live(id).await?;
        let record = self.0.store.job(id).await?.filter(|record| namespace_of(record) == namespace);
        let record = record.ok_or_else(|| not_found(id))?;
        let task_id = match &record {
            JobRecord::Hot { job, .. } => job.task,
            JobRecord::Finished { job, .. } => job.task,
        };
        let task = self.tasks_by_id(std::iter::once(task_id)).await?.remove(&task_id);
        let reruns = self.reruns(id, &record).await?;
        let ended = match &record {
            JobRecord::Hot { attempts, .. } | JobRecord::Finished { attempts, .. } => attempts,
        };
        let about = self.job_facts(id, &record, task.as_deref(), &live).await?;
        let waiting_for = match (&record, &live, &task) {
            (JobRecord::Hot { job, .. }, Live::Waiting, Some(task)) if job.key.due_at <= self.now() => {
                let shard = id.shard();
                let mut reasons = self.waiting_reasons(std::iter::once((shard, task))).await;
                job_waits_for(job, reasons.remove(&(task_id, shard)))
            }
            (JobRecord::Hot { job, .. }, Live::Waiting, _) => explain::could_not_start(job),
            _ => None,
        };
        let Facts {
            title,
            schedule,
            definition,
            retries,
            node_retries,
            notification,
            late_outcomes,
            workers: known,
            submitted_by,
            actions,
        } = about;
        let source = match &record {
            JobRecord::Hot { job, .. } => job.source,
            JobRecord::Finished { job, .. } => job.source,
        };
        let meant_for = self.meant_for(id, source).await?;
        let late_by = late_by(meant_for, ended, &live);
        Ok(match record {
            JobRecord::Hot { job, input, attempts, requester: _ } => {
                // The attempt that ran when the owner was asked may have ended since, and is on record then.
                let has_ended =
                    matches!(&live, Live::Running { view, .. } if view.attempt != job.counters.next_attempt);
                let live = if has_ended { Live::Waiting } else { live };
                let late_by = match &live {
                    Live::Waiting if has_run(&attempts) => waiting_late_by(&job, self.now()).or(late_by),
                    Live::Waiting => {
                        waiting_late_by(&job, self.now()).map(|late_by| late_by.max(self.now().since(meant_for)))
                    }
                    Live::Running { .. } | Live::Unknown => late_by,
                };
                let explanation = match &live {
                    Live::Running { view, .. } => {
                        explain::running(&job, task.as_deref(), view, self.0.settings.worker_dead_after)
                    }
                    Live::Waiting => {
                        let quota = self.running_quota(job.namespace).await?;
                        let paused = task.as_deref().and_then(|task| self.queue_paused(task));
                        let workers = ShardWorkers { quota, paused, ..self.workers_of(id.shard()).await };
                        let awaited = self.awaited(task.as_deref()).await?;
                        let (task, program) = (task.as_deref(), self.0.settings.worker_program);
                        explain::waiting(&job, &attempts, task, awaited.as_ref(), &workers, program, self.now())
                    }
                    Live::Unknown => {
                        let (place, unwritable) = (self.0.cluster.place(id.shard()), self.writable().await.err());
                        explain::unknown(&job, &place, unwritable.as_ref(), self.now())
                    }
                };
                let explanation = match self.printed_though_given_back(id, &attempts).await? {
                    Some(attempt) => explanation + &explain::printed_though_given_back(attempt),
                    None => explanation,
                };
                let mut attempts: Vec<Attempt> =
                    attempts.iter().map(|attempt| self.attempt_view(attempt, &known)).collect();
                let mut state = JobState::Scheduled;
                let mut attempt_count = job.counters.next_attempt.0.saturating_sub(1);
                if let Live::Running { view, server } = &live {
                    attempts.push(running_view(view, *server, &known));
                    state = JobState::Running;
                    attempt_count = view.attempt.0;
                }
                Job {
                    id,
                    title,
                    task: task_ref(task_id, task.as_deref()),
                    definition,
                    retries,
                    node_retries,
                    notification,
                    waiting_for,
                    late_outcomes,
                    state: state.as_str().to_owned(),
                    uncertain: matches!(live, Live::Unknown),
                    explanation,
                    priority: job.priority,
                    submitted_at: job.submitted_at,
                    submitted_by,
                    scheduled_at: id.due_at(),
                    due_at: job.key.due_at,
                    finished_at: None,
                    late_by,
                    schedule,
                    workflow: None,
                    run: None,
                    batch: None,
                    tracing_id: job.tracing_id,
                    cancel_requested: job.cancel_requested,
                    attempt_count,
                    attempts,
                    reruns,
                    actions,
                    reason: job.give_backs.and_then(|all| Some(all.last?.reason)),
                    input: input.and_then(raw_json),
                    output: None,
                }
            }
            JobRecord::Finished { job, input, output, attempts, requester: _ } => Job {
                id,
                title,
                task: task_ref(task_id, task.as_deref()),
                definition,
                retries,
                node_retries,
                notification,
                waiting_for,
                late_outcomes,
                state: job.state.as_str().to_owned(),
                uncertain: false,
                explanation: explain::finished(&job),
                priority: job.priority,
                submitted_at: job.submitted_at,
                submitted_by,
                scheduled_at: id.due_at(),
                due_at: job.due_at,
                finished_at: Some(job.finished_at),
                late_by,
                schedule,
                workflow: None,
                run: None,
                batch: None,
                tracing_id: job.tracing_id,
                cancel_requested: false,
                attempt_count: job.counters.next_attempt.0.saturating_sub(1),
                attempts: attempts.iter().map(|attempt| self.attempt_view(attempt, &known)).collect(),
                reruns,
                actions,
                reason: job.reason,
                input: input.and_then(raw_json),
                output: output.and_then(raw_json),
            },
        })
    }

    /// The last attempt that ended, if it has a log although it was given back as not started.
    async fn printed_though_given_back(&self, id: JobId, attempts: &[AttemptRecord]) -> Result<Option<AttemptNo>> {
        let Some(last) = attempts.last().filter(|last| last.ending == Ending::NotStarted) else { return Ok(None) };
        let has_log = last.log.is_some() || self.0.store.log_end(id, last.attempt).await? > 0;
        Ok(has_log.then_some(last.attempt))
    }

    /// What the lateness of a job counts from. A run of a schedule counts from its planned time plus jitter, as in the
    /// schedule's record, also if it waited for the run before it or was caught up, and its job was made later.
    async fn meant_for(&self, id: JobId, source: Option<Source>) -> Result<Timestamp> {
        let Some(source) = source.filter(|source| source.at < id.due_at()) else { return Ok(id.due_at()) };
        let before = Some(source.at + Span::from_micros(1));
        let filter = OccurrenceFilter { from: Some(source.at), before, verdicts: Vec::new() };
        let (rows, _) = self.0.store.occurrences(source.schedule, filter, None, Order::Ascending, 1).await?;
        Ok(rows.iter().find(|row| row.job == Some(id)).map_or(id.due_at(), |row| row.slot))
    }

    async fn reruns(&self, id: JobId, record: &JobRecord) -> Result<Vec<Rerun>> {
        let due_at = match record {
            JobRecord::Hot { job, .. } => job.key.due_at,
            JobRecord::Finished { job, .. } => job.due_at,
        };
        // Most jobs have no rerun. A job that runs again has another due time than its id.
        if due_at == id.due_at() {
            return Ok(Vec::new());
        }
        let view = |rerun: RerunRecord| Rerun {
            at: rerun.at,
            from: rerun.from.as_str().to_owned(),
            next_attempt: rerun.next_attempt.0,
        };
        Ok(self.0.store.reruns(id).await?.into_iter().map(view).collect())
    }

    pub(crate) async fn awaited(&self, task: Option<&Task>) -> Result<Option<Artifact>> {
        match task.and_then(|task| task.waits_for) {
            Some(id) => Ok(self.0.store.artifact(id).await?),
            None => Ok(None),
        }
    }

    /// Removes a job that has not started; it never will.
    pub async fn delete_job(&self, by: &By<ControlJobs>, id: JobId) -> Result<Answered> {
        self.check_job(by, id).await?;
        self.command_by(by, id, Command::Delete, JobActionKind::Delete).await
    }

    /// Ends a job: at once if it waits; by asking its worker if it runs.
    pub async fn cancel_job(&self, by: &By<ControlJobs>, id: JobId) -> Result<Answered> {
        self.check_job(by, id).await?;
        self.command_by(by, id, Command::Cancel, JobActionKind::Cancel).await
    }

    /// Makes a finished job eligible again.
    pub async fn retry_job(&self, by: &By<ControlJobs>, id: JobId) -> Result<Answered> {
        self.check_job(by, id).await?;
        // An answer that is lost is asked for again, and the job must not run once more for that.
        let command = match self.0.store.find(id).await? {
            FoundRow::Finished { counters, .. } => Command::RerunOnce(counters.next_attempt),
            FoundRow::Hot(_) | FoundRow::Absent => Command::Rerun,
        };
        let admitted = match command {
            Command::RerunOnce(_) => Some(self.admit_jobs(by.namespace(), 1).await?),
            _ => None,
        };
        let answer = self.command_by(by, id, command, JobActionKind::Retry).await?;
        if let Some(admitted) = admitted {
            admitted.stored(1);
        }
        Ok(answer)
    }

    /// Starts a waiting job now.
    pub async fn run_job_now(&self, by: &By<ControlJobs>, id: JobId) -> Result<Answered> {
        self.check_job(by, id).await?;
        self.command_by(by, id, Command::RunNow, JobActionKind::RunNow).await
    }

    /// For whoever has found that the job is theirs.
    pub(crate) async fn command(&self, id: JobId, command: Command) -> Result<Answered> {
        if id.shard().0 >= self.0.store.shard_count() {
            return Err(not_found(id));
        }
        let done = |state: JobState| Ok(Answered { id, state: state.as_str().to_owned(), pending: false });
        let asked_at = self.now();
        let Decided { answer, is_repeated } = self.ask(Ask::Job { id, command }).await?;
        let Answer::Job(reply) = answer else { return Err(AppError::out_of_place()) };
        match reply {
            Reply::Done(state) => done(state),
            Reply::Asked => Ok(Answered { id, state: JobState::Running.as_str().to_owned(), pending: true }),
            Reply::Refused(state, refusal) if is_repeated && self.was_done(id, command, refusal, asked_at).await? => {
                done(state)
            }
            Reply::Refused(state, refusal) => Err(refused(id, state, refusal)),
            Reply::NotFound => Err(not_found(id)),
        }
    }

    /// Whether a command that is refused now was carried out when it was first asked for and
    /// the answer was lost. Deletes and cancels say so themselves.
    async fn was_done(&self, id: JobId, command: Command, refusal: Refusal, asked_at: Timestamp) -> Result<bool> {
        Ok(match (command, refusal) {
            // It waits or runs again.
            (Command::Rerun | Command::RerunOnce(_), Refusal::NotFinished) => true,
            // What was asked for is that it starts, and it has.
            (Command::RunNow, Refusal::AlreadyStarted | Refusal::AlreadyFinished) => {
                let Some(namespace) = self.namespace_of_job(id).await? else { return Ok(false) };
                let attempts = self.read_job(namespace, id).await?.attempts;
                attempts.last().is_some_and(|last| last.started_at >= asked_at)
            }
            (Command::Delete | Command::Cancel | Command::RunNow | Command::Rerun | Command::RerunOnce(_), _) => false,
        })
    }
}

/// Jobs that are due start within this, unless something holds them up.
const STARTS_WITHIN: Span = Span::from_secs(1);

/// How long a job that waits has been due: since its first due time, or that of its retry.
pub(crate) fn waiting_late_by(job: &HotJob, now: Timestamp) -> Option<Span> {
    Some(now.since(job.due_since())).filter(|late_by| *late_by > STARTS_WITHIN)
}

fn has_run(ended: &[AttemptRecord]) -> bool {
    ended.iter().any(|attempt| attempt.ending != Ending::NotStarted)
}

/// How much later than `meant_for` the job started first. An attempt that was given back did not start.
fn late_by(meant_for: Timestamp, ended: &[AttemptRecord], live: &Live) -> Option<Span> {
    let running = match live {
        Live::Running { view, .. } => Some(view.started_at),
        Live::Waiting | Live::Unknown => None,
    };
    let started = ended.iter().find(|attempt| attempt.ending != Ending::NotStarted);
    let started_at = started.map(|attempt| attempt.started_at).or(running)?;
    Some(started_at.since(meant_for)).filter(|late_by| *late_by > Span::ZERO)
}

fn running_view(view: &LiveView, server: ServerId, known: &HashMap<WorkerId, SeenWorker>) -> Attempt {
    let worker = known.get(&view.worker);
    Attempt {
        attempt: view.attempt.0,
        state: JobState::Running.as_str().to_owned(),
        worker: Some(view.worker),
        worker_name: worker.map(|worker| worker.name.clone()),
        worker_host: worker.and_then(|worker| worker.host.clone()),
        server: server.known(),
        due_at: view.key.due_at,
        picked_up_at: view.picked_up_at,
        started_at: view.started_at,
        finished_at: None,
        reason: None,
        details: None,
        log_path: None,
        log_bytes: None,
    }
}

pub(crate) fn namespace_of(record: &JobRecord) -> NamespaceId {
    match record {
        JobRecord::Hot { job, .. } => job.namespace,
        JobRecord::Finished { job, .. } => job.namespace,
    }
}

pub(crate) fn not_found(id: JobId) -> AppError {
    AppError::new(ErrorKind::JobNotFound, format!("there is no job {id}"))
        .hint("finished jobs are removed when their retention is over; GET /v1/jobs lists what is there")
}

fn refused(id: JobId, state: JobState, refusal: Refusal) -> AppError {
    let (kind, detail, hint) = match refusal {
        Refusal::AlreadyStarted => {
            (ErrorKind::JobAlreadyStarted, format!("{id} has started"), "POST /v1/jobs/{id}/cancel asks it to end")
        }
        Refusal::AlreadyFinished => (
            ErrorKind::JobAlreadyFinished,
            format!("{id} has finished: {state}"),
            "POST /v1/jobs/{id}/retry runs it again",
        ),
        Refusal::NotFinished => (
            ErrorKind::JobNotFinished,
            format!("{id} has not finished: {state}"),
            "POST /v1/jobs/{id}/run starts a waiting job now",
        ),
        Refusal::Deleted => {
            (ErrorKind::JobDeleted, format!("{id} was deleted"), "a deleted job never runs; submit a new one")
        }
    };
    AppError::new(kind, detail).hint(hint)
}

pub(crate) fn task_ref(id: TaskId, task: Option<&Task>) -> TaskRef {
    TaskRef {
        id,
        name: task.and_then(|task| task.name.clone()),
        kind: task.map_or("unknown", |task| task.spec.run.kind()).to_owned(),
        queue: task.map_or_else(String::new, |task| task.spec.queue.clone()),
    }
}

impl App {
    fn attempt_view(&self, record: &AttemptRecord, known: &HashMap<WorkerId, SeenWorker>) -> Attempt {
        let worker = known.get(&record.worker);
        Attempt {
            attempt: record.attempt.0,
            state: record.ending.as_str().to_owned(),
            worker: record.worker.known(),
            worker_name: worker.map(|worker| worker.name.clone()),
            worker_host: worker.and_then(|worker| worker.host.clone()),
            server: record.server.known(),
            due_at: record.due_at,
            picked_up_at: record.picked_up_at,
            started_at: record.started_at,
            finished_at: Some(record.finished_at),
            reason: record.reason.clone(),
            details: record.details.as_deref().map(details_view),
            log_path: record.log.as_ref().map(|log| self.log_address(&log.path)),
            log_bytes: record.log.as_ref().map(|log| log.bytes),
        }
    }
}

fn details_view(details: &Details) -> AttemptDetails {
    let Details { class, exit_code, signal, limit, peak_memory_bytes, cpu_us, sandbox, host } = details.clone();
    let class = class.map(|class| class.as_str().to_owned());
    AttemptDetails { class, exit_code, signal, limit, peak_memory_bytes, cpu_us, sandbox, host }
}

/// JSON is passed on byte for byte; anything else becomes a JSON string.
pub(crate) fn raw_json(bytes: Bytes) -> Option<Box<RawValue>> {
    let text = match String::from_utf8(bytes.into()) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    };
    RawValue::from_string(text.clone()).or_else(|_| serde_json::to_string(&text).and_then(RawValue::from_string)).ok()
}
