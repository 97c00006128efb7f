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
use punctual_core::shard::event::{AssignedInput, Report};
use punctual_core::shard::write::Epoch;
use punctual_core::shard::{AgentAnswer, AgentAsk, AgentWork, Answer, Ask};
use punctual_core::{ArtifactId, AttemptNo, JobId, ShardId, Span, WorkerId};
use punctual_store::LogChunk;
use tokio::time::Instant;

pub(crate) use leases::SharedLeases;
pub(crate) use silence::Agents;
pub use token::Claims;
pub(crate) use token::{BadToken, TokenKey};

use crate::logs::checked_marks;
use crate::principal::By;
use crate::principal::permission::ServeJobs;
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

/// What is to be known of an agent's question when the owner has answered it.
pub(crate) struct AgentQuestion {
    id: JobId,
    attempt: AttemptNo,
    /// The environment of an agent that says that it lives.
    host: Option<String>,
    /// Under which this server owned the shard before the owner was asked.
    epoch: Option<Epoch>,
}

impl App {
    /// Lets an agent run an attempt that this worker was given; `None` for any other worker.
    /// `reached` is the address at which the worker reached this server.
    pub async fn admit(&self, _: &By<ServeJobs>, newcomer: Newcomer, reached: &str) -> Result<Option<Admission>> {
        check(&newcomer)?;
        let Newcomer { worker, job, attempt, artifact, host, pod } = newcomer;
        let Some(work) = self.work_with(worker, job, attempt, artifact).await? else { return Ok(None) };
        let now = self.now();
        let expires_at = work.ends_by().max(now) + LAST_WORDS;
        let download = self.download_until(artifact, reached, expires_at).await?;
        let tracing_id = work.assignment.tracing_id;
        let claims = Claims { job, attempt, worker, host, pod, tracing_id, issued_at: now, expires_at };
        Ok(Some(Admission { token: self.0.keys.now().signing.agents.sign(&claims), download }))
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
        let AgentAnswer::Work(work) = self.ask_for_agent(job, attempt, AgentAsk::Work).await? else {
            return Ok(None);
        };
        let is_its_own = work.assignment.task.spec.run.artifacts().any(|own| own == artifact);
        Ok(is_its_own.then_some(*work))
    }

    /// Whom a request speaks for, if it may speak about this attempt.
    pub fn agent(&self, token: Option<&str>, job: JobId, attempt: AttemptNo) -> Result<Claims> {
        let refused = |detail: String| {
            AppError::new(ErrorKind::InvalidToken, detail).hint("an agent's token comes from the worker that made it")
        };
        let token = token.ok_or_else(|| refused("there is no token".to_owned()))?;
        let claims = self.claims(token).map_err(|error| refused(format!("the token is refused: {error}")));
        let claims = match claims {
            // It may be signed with a secret that this server has not read yet.
            Err(_) if !self.knows_cluster_secret() => {
                let error = AppError::new(ErrorKind::DatabaseUnavailable, "the token cannot be verified now");
                return Err(error.hint("try again in a few seconds"));
            }
            claims => claims?,
        };
        if (claims.job, claims.attempt) != (job, attempt) {
            return Err(self.not_its_attempt());
        }
        Ok(claims)
    }

    fn claims(&self, token: &str) -> std::result::Result<Claims, BadToken> {
        let (keys, now) = (self.0.keys.now(), self.now());
        let claims = keys.signing.agents.verify(token, now);
        match (&claims, &keys.other) {
            (Err(BadToken::NotOurs), Some(other)) => other.agents.verify(token, now),
            _ => claims,
        }
    }

    pub fn not_its_attempt(&self) -> AppError {
        let error = AppError::new(ErrorKind::WrongAttempt, "the token is for another attempt");
        error.hint("an agent may change its own attempt and nothing else")
    }

    pub async fn agent_work(&self, agent: &Claims) -> Result<AgentWork> {
        match self.ask_for_agent(agent.job, agent.attempt, AgentAsk::Work).await? {
            AgentAnswer::Work(work) => Ok(*work),
            AgentAnswer::Alive { .. } | AgentAnswer::Recorded | AgentAnswer::Over => Err(over(agent)),
        }
    }

    /// Where the files are that the attempt reads, for as long as it may take.
    pub async fn agent_files(&self, work: &AgentWork, reached: &str) -> Result<Vec<(ArtifactId, Download)>> {
        let until = work.ends_by().max(self.now()) + LAST_WORDS;
        let mut files = Vec::new();
        for file in work.assignment.task.spec.run.files() {
            files.push((file.artifact, self.download_until(file.artifact, reached, until).await?));
        }
        Ok(files)
    }

    /// True when the agent is to end.
    pub async fn agent_alive(&self, agent: &Claims) -> Result<bool> {
        let alive = AgentAsk::Alive { host: agent.host.clone() };
        match self.ask_for_agent(agent.job, agent.attempt, alive).await? {
            AgentAnswer::Alive { cancel_requested } => Ok(cancel_requested),
            AgentAnswer::Work(_) | AgentAnswer::Recorded | AgentAnswer::Over => Err(over(agent)),
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
            // Of a log that was cut, nothing more is kept.
            if self.log_was_cut(agent.job, agent.attempt).await? {
                return Ok(());
            }
            return Err(AppError::field("offset", format!("must be {end}, where the log ends")));
        }
        let marks = checked_marks(offset, bytes.len(), marks);
        let chunk = LogChunk { job: agent.job, attempt: agent.attempt, offset, bytes, marks };
        self.keep_logs(vec![chunk]).await
    }

    /// Records how the attempt ended. Returns when it is durable.
    pub async fn agent_ended(&self, agent: &Claims, report: Report) -> Result<()> {
        // Whatever it says, it is the environment that was admitted.
        let details = report.details.map(|details| *details).unwrap_or_default();
        let details = Some(Box::new(Details { host: Some(agent.host.clone()), ..details }));
        let report = Box::new(Report { id: agent.job, attempt: agent.attempt, details, ..report });
        match self.ask_for_agent(agent.job, agent.attempt, AgentAsk::Ended(report)).await? {
            AgentAnswer::Recorded => Ok(()),
            AgentAnswer::Work(_) | AgentAnswer::Alive { .. } | AgentAnswer::Over => Err(over(agent)),
        }
    }

    /// Asks the owner of the agent's job.
    async fn ask_for_agent(&self, id: JobId, attempt: AttemptNo, ask: AgentAsk) -> Result<AgentAnswer> {
        match self.ask(Ask::Agent { id, attempt, ask }).await?.answer {
            Answer::Agent(answer) => Ok(answer),
            Answer::NotOwner | Answer::Job(_) | Answer::Schedule(_) | Answer::Gang(_) => Err(AppError::out_of_place()),
        }
    }

    /// Before the owner in this process is asked.
    pub(crate) async fn agent_question(&self, ask: &Ask) -> Result<Option<AgentQuestion>> {
        let Ask::Agent { id, attempt, ask } = ask else { return Ok(None) };
        let host = match ask {
            AgentAsk::Alive { host } => Some(host.clone()),
            AgentAsk::Work | AgentAsk::Ended(_) => None,
        };
        let epoch = self.0.engine.epoch_of(id.shard()).await?;
        Ok(Some(AgentQuestion { id: *id, attempt: *attempt, host, epoch }))
    }

    /// After the owner in this process has answered.
    pub(crate) async fn complete_answer(&self, question: AgentQuestion, answer: Answer) -> Result<Answer> {
        let AgentQuestion { id, attempt, host, epoch } = question;
        match answer {
            // An agent that hears that it is over ends for good. So nobody says that who has been
            // replaced without having noticed.
            Answer::Agent(AgentAnswer::Over) if !self.is_still_owner(id.shard(), epoch).await? => Ok(Answer::NotOwner),
            Answer::Agent(AgentAnswer::Work(work)) => Ok(AgentAnswer::Work(self.complete_work(work).await?).into()),
            Answer::Agent(AgentAnswer::Alive { cancel_requested }) => {
                let until = Instant::now() + self.0.settings.worker_dead_after.to_std();
                self.0.agents.heard(id, attempt, host.unwrap_or_default(), until);
                Ok(AgentAnswer::Alive { cancel_requested }.into())
            }
            answer => Ok(answer),
        }
    }

    async fn is_still_owner(&self, shard: ShardId, epoch: Option<Epoch>) -> Result<bool> {
        let Some(epoch) = epoch else { return Ok(false) };
        let leases = self.0.leases.read(&*self.0.store).await?;
        let lease = leases.iter().find(|lease| lease.shard == shard);
        Ok(lease.is_some_and(|lease| lease.epoch == epoch && lease.owner == Some(self.0.engine.server())))
    }

    /// Adds what takes longer than the owner can wait.
    async fn complete_work(&self, mut work: Box<AgentWork>) -> Result<Box<AgentWork>> {
        let assignment = &mut work.assignment;
        if matches!(assignment.input, AssignedInput::Stored) {
            let input = self.0.store.inputs(vec![assignment.key]).await?.pop().flatten();
            assignment.input = input.map_or(AssignedInput::None, AssignedInput::Inline);
        }
        work.scheduled_run = assignment.origin.take().map(|origin| origin.scheduled_run());
        Ok(work)
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
