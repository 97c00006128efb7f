//! Agents: each runs one attempt in an environment that was made for it, is not trusted, and may
//! change that attempt and nothing else.
//!
//! Its worker has it admitted and holds its environment. From then on the agent speaks for itself,
//! to any server; what it says is decided by the owner of the job's shard.

mod leases;
mod silence;
mod token;

use bytes::Bytes;
use punctual_api::ErrorKind;
use punctual_core::attempt::Details;
use punctual_core::run::Run;
use punctual_core::schedule::ScheduledRun;
use punctual_core::shard::event::{AssignedInput, Reply, Report};
use punctual_core::shard::write::Epoch;
use punctual_core::{ArtifactId, AttemptNo, JobId, ShardId, Span, TaskId, Timestamp, WorkerId};
use punctual_engine::EngineError;
use punctual_store::LogChunk;
use tokio::time::Instant;

pub(crate) use leases::SharedLeases;
pub(crate) use silence::{Agents, keep};
pub use token::Claims;
pub(crate) use token::{BadToken, TokenKey};

use crate::cluster::Place;
use crate::logs::checked_marks;
use crate::route::{COMMAND_LIMIT, IN_DOUBT, Patience};
use crate::{App, AppError, Download, Result};

/// On top of the attempt's time, so that its end can still be reported.
const LAST_WORDS: Span = Span::from_secs(60);
const HOST_BYTES_MAX: usize = 64;
const POD_BYTES_MAX: usize = 128;

/// Who is to be admitted.
#[derive(Debug, Clone)]
pub struct Newcomer {
    pub worker: WorkerId,
    pub job: JobId,
    pub attempt: AttemptNo,
    pub artifact: ArtifactId,
    pub host: String,
    pub pod: String,
}

pub struct Admission {
    pub token: String,
    /// Valid as long as the token.
    pub download: Download,
}

/// What an agent is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentWork {
    pub task: TaskId,
    pub revision: u32,
    /// Empty for the task of a one-off job.
    pub name: String,
    /// The JSON of the task's `run`.
    pub run: Bytes,
    pub timeout: Span,
    /// With the time that it may take to end.
    pub ends_by: Timestamp,
    pub started_at: Timestamp,
    pub tracing_id: Option<String>,
    pub input: Option<Bytes>,
    /// Of a job that a schedule made.
    pub scheduled_run: Option<ScheduledRun>,
}

/// What an agent asks the owner of its job.
#[derive(Debug, Clone)]
pub enum AgentAsks {
    Work,
    /// It lives.
    Alive {
        host: String,
    },
    Ended(Box<Report>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentAnswer {
    Work(Box<AgentWork>),
    Alive {
        cancel_requested: bool,
    },
    /// The end is durable.
    Recorded,
    /// The attempt is not the agent's any more, if it ever was.
    Over,
    /// The shard is another's.
    NotOwner,
}

impl App {
    /// Lets an agent run an attempt that this worker was given; `None` for any other worker.
    /// `reached` is the address at which the worker reached this server.
    pub async fn admit(&self, newcomer: Newcomer, reached: &str) -> Result<Option<Admission>> {
        check(&newcomer)?;
        let Newcomer { worker, job, attempt, artifact, host, pod } = newcomer;
        let Some(work) = self.work_with(worker, job, attempt, artifact).await? else { return Ok(None) };
        let now = self.now();
        let expires_at = work.ends_by.max(now) + LAST_WORDS;
        let download = self.download_until(artifact, reached, expires_at).await?;
        let claims =
            Claims { job, attempt, worker, host, pod, tracing_id: work.tracing_id, issued_at: now, expires_at };
        Ok(Some(Admission { token: self.0.tokens.sign(&claims), download }))
    }

    /// What this worker runs with this file, if it does.
    pub(crate) async fn work_with(
        &self,
        worker: WorkerId,
        job: JobId,
        attempt: AttemptNo,
        artifact: ArtifactId,
    ) -> Result<Option<AgentWork>> {
        if !self.runs_on(worker, job, attempt).await? {
            return Ok(None);
        }
        let AgentAnswer::Work(work) = self.ask_owner(job, attempt, AgentAsks::Work).await? else { return Ok(None) };
        let run = serde_json::from_slice::<Run>(&work.run).ok();
        let is_its_own = run.is_some_and(|run| run.artifacts().any(|own| own == artifact));
        Ok(is_its_own.then_some(*work))
    }

    /// Whom a request speaks for, if it may speak about this attempt.
    pub fn agent(&self, token: Option<&str>, job: JobId, attempt: AttemptNo) -> Result<Claims> {
        let refused = |detail: String| {
            AppError::new(ErrorKind::InvalidToken, detail).hint("an agent's token comes from the worker that made it")
        };
        let token = token.ok_or_else(|| refused("there is no token".to_owned()))?;
        let claims = self.0.tokens.verify(token, self.now());
        let claims = claims.map_err(|error: BadToken| refused(format!("the token is refused: {error}")))?;
        if (claims.job, claims.attempt) != (job, attempt) {
            return Err(self.not_its_attempt());
        }
        Ok(claims)
    }

    pub fn not_its_attempt(&self) -> AppError {
        let error = AppError::new(ErrorKind::WrongAttempt, "the token is for another attempt");
        error.hint("an agent may change its own attempt and nothing else")
    }

    pub async fn agent_work(&self, agent: &Claims) -> Result<AgentWork> {
        match self.ask_owner(agent.job, agent.attempt, AgentAsks::Work).await? {
            AgentAnswer::Work(work) => Ok(*work),
            AgentAnswer::Alive { .. } | AgentAnswer::Recorded | AgentAnswer::Over | AgentAnswer::NotOwner => {
                Err(over(agent))
            }
        }
    }

    /// Where the files are that the attempt reads, for as long as it may take.
    pub async fn agent_files(&self, work: &AgentWork, reached: &str) -> Result<Vec<(ArtifactId, Download)>> {
        let run = serde_json::from_slice::<Run>(&work.run).ok();
        let until = work.ends_by.max(self.now()) + LAST_WORDS;
        let mut files = Vec::new();
        for file in run.iter().flat_map(Run::files) {
            files.push((file.artifact, self.download_until(file.artifact, reached, until).await?));
        }
        Ok(files)
    }

    /// True when the agent is to end.
    pub async fn agent_alive(&self, agent: &Claims) -> Result<bool> {
        let alive = AgentAsks::Alive { host: agent.host.clone() };
        match self.ask_owner(agent.job, agent.attempt, alive).await? {
            AgentAnswer::Alive { cancel_requested } => Ok(cancel_requested),
            AgentAnswer::Work(_) | AgentAnswer::Recorded | AgentAnswer::Over | AgentAnswer::NotOwner => {
                Err(over(agent))
            }
        }
    }

    /// Keeps what the attempt printed from `offset` on. Returns when it is durable.
    pub async fn agent_printed(&self, agent: &Claims, offset: u64, bytes: Bytes, marks: Bytes) -> Result<()> {
        let limit = self.0.settings.log_limit.get();
        if offset.saturating_add(bytes.len() as u64) > limit {
            let detail = format!("a log ends at {limit} bytes");
            return Err(AppError::new(ErrorKind::PayloadTooLarge, detail).hint("send no more of it"));
        }
        self.agent_alive(agent).await?;
        let end = self.0.store.log_end(agent.job, agent.attempt).await?;
        // It is said again.
        if bytes.is_empty() || offset.saturating_add(bytes.len() as u64) <= end {
            return Ok(());
        }
        if offset != end {
            return Err(AppError::field("offset", format!("must be {end}, where the log ends")));
        }
        let marks = checked_marks(offset, bytes.len(), marks);
        let chunk = LogChunk { job: agent.job, attempt: agent.attempt, offset, bytes, marks };
        Ok(self.0.store.append_logs(vec![chunk]).await?)
    }

    /// Records how the attempt ended. Returns when it is durable.
    pub async fn agent_ended(&self, agent: &Claims, report: Report) -> Result<()> {
        // Whatever it says, it is the environment that was admitted.
        let details = report.details.map(|details| *details).unwrap_or_default();
        let details = Some(Box::new(Details { host: Some(agent.host.clone()), ..details }));
        let report = Box::new(Report { id: agent.job, attempt: agent.attempt, details, ..report });
        match self.ask_owner(agent.job, agent.attempt, AgentAsks::Ended(report)).await? {
            AgentAnswer::Recorded => Ok(()),
            AgentAnswer::Work(_) | AgentAnswer::Alive { .. } | AgentAnswer::Over | AgentAnswer::NotOwner => {
                Err(over(agent))
            }
        }
    }

    /// Asks the owner, again while the shard changes hands.
    async fn ask_owner(&self, job: JobId, attempt: AttemptNo, asks: AgentAsks) -> Result<AgentAnswer> {
        let mut patience = Patience::new(self, "job");
        loop {
            let answer = match self.0.cluster.place(job.shard()) {
                Place::Here => self.agent_here(job, attempt, asks.clone()).await?,
                Place::At(peer) => match self.0.peers.agent(&peer, job, attempt, asks.clone()).await {
                    Ok(answer) => answer,
                    Err(error) => {
                        tracing::debug!(%error, %job, "an agent's question was not answered");
                        AgentAnswer::NotOwner
                    }
                },
                Place::Nowhere => AgentAnswer::NotOwner,
            };
            if answer != AgentAnswer::NotOwner {
                return Ok(answer);
            }
            patience.wait(self).await?;
        }
    }

    /// Decided here or not at all.
    pub async fn agent_here(&self, job: JobId, attempt: AttemptNo, asks: AgentAsks) -> Result<AgentAnswer> {
        let Some(epoch) = self.0.engine.epoch_of(job.shard()).await? else { return Ok(AgentAnswer::NotOwner) };
        let answer = self.answer_agent(job, attempt, asks).await?;
        // An agent that hears that it is over ends for good. So nobody says that who has been
        // replaced without having noticed.
        if answer == AgentAnswer::Over && !self.is_still_owner(job.shard(), epoch).await? {
            return Ok(AgentAnswer::NotOwner);
        }
        Ok(answer)
    }

    async fn is_still_owner(&self, shard: ShardId, epoch: Epoch) -> Result<bool> {
        let leases = self.0.leases.read(&*self.0.store).await?;
        let lease = leases.iter().find(|lease| lease.shard == shard);
        Ok(lease.is_some_and(|lease| lease.epoch == epoch && lease.owner == Some(self.0.engine.server())))
    }

    async fn answer_agent(&self, job: JobId, attempt: AttemptNo, asks: AgentAsks) -> Result<AgentAnswer> {
        match asks {
            AgentAsks::Ended(report) => self.agent_ended_here(*report).await,
            AgentAsks::Work => self.work_here(job, attempt).await,
            AgentAsks::Alive { host } => {
                let runs = self.runs_here(vec![job]).await?;
                if !runs.owned.contains(&job.shard()) {
                    return Ok(AgentAnswer::NotOwner);
                }
                let Some(view) = runs.attempts.into_iter().find(|view| view.attempt == attempt) else {
                    return Ok(AgentAnswer::Over);
                };
                let until = Instant::now() + self.0.settings.worker_dead_after.to_std();
                self.0.agents.heard(job, attempt, host, until);
                Ok(AgentAnswer::Alive { cancel_requested: view.cancel_requested })
            }
        }
    }

    async fn work_here(&self, job: JobId, attempt: AttemptNo) -> Result<AgentAnswer> {
        let Some(assignment) = self.0.engine.assignment(job, attempt).await? else { return Ok(AgentAnswer::Over) };
        let input = match assignment.input {
            AssignedInput::None => None,
            AssignedInput::Inline(bytes) => Some(bytes),
            AssignedInput::Stored => self.0.store.inputs(vec![assignment.key]).await?.pop().flatten(),
        };
        let task = &assignment.task;
        let run = serde_json::to_vec(&task.spec.run).expect("a task's run is JSON");
        Ok(AgentAnswer::Work(Box::new(AgentWork {
            task: task.id,
            revision: task.revision,
            name: task.name.clone().unwrap_or_default(),
            run: run.into(),
            timeout: task.spec.timeout,
            ends_by: assignment.started_at + task.spec.time_to_end(),
            started_at: assignment.started_at,
            tracing_id: assignment.tracing_id,
            input,
            scheduled_run: assignment.origin.map(|origin| origin.scheduled_run()),
        })))
    }

    async fn agent_ended_here(&self, report: Report) -> Result<AgentAnswer> {
        match tokio::time::timeout(COMMAND_LIMIT, self.0.engine.agent_reported(report)).await {
            Ok(Ok(Reply::Done(_))) => Ok(AgentAnswer::Recorded),
            Ok(Ok(Reply::NotOwner) | Err(EngineError::NoLease)) => Ok(AgentAnswer::NotOwner),
            Ok(Ok(Reply::NotFound | Reply::Asked | Reply::Refused(..))) => Ok(AgentAnswer::Over),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => {
                let error = AppError::new(ErrorKind::Unavailable, "the store did not answer in time");
                Err(error.hint(IN_DOUBT))
            }
        }
    }
}

fn over(agent: &Claims) -> AppError {
    let detail = format!("attempt {} of {} is not running", agent.attempt, agent.job);
    AppError::new(ErrorKind::AttemptOver, detail).hint("end: nothing that this agent says changes anything any more")
}

fn check(newcomer: &Newcomer) -> Result<()> {
    let host = &newcomer.host;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if host.is_empty() || host.len() > HOST_BYTES_MAX || !host.chars().all(is_plain) {
        return Err(AppError::field("host_id", "must be 1 to 64 letters, digits and dashes"));
    }
    if newcomer.pod.len() > POD_BYTES_MAX || newcomer.pod.chars().any(char::is_control) {
        return Err(AppError::field("pod", "must be at most 128 bytes without control characters"));
    }
    Ok(())
}
