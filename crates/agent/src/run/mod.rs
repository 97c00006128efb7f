//! The agent's side: runs the one attempt for which the agent was created, and reports its outcome.
//!
//! An agent ends in one of three ways. Its report is durable: the process exits with 0. Or a server says that the
//! attempt is no longer the agent's, or no server was reached for so long that the agent has been given up: it ends the
//! program at once and reports nothing, because no server would accept it. Or it dies, and the worker that started it
//! reports that.

mod beat;
mod guard;
mod liveness;
mod logs;
mod servers;
mod turn;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::attempt::{AttemptNo, Details, Failure, FailureClass, Outcome, Ran};
use punctual_core::id::{ArtifactId, JobId};
use punctual_core::namespace::NamespaceId;
use punctual_core::run::Run;
use punctual_core::shard::event::Report;
use punctual_exec::{
    Binaries, Call, Download, DownloadError, Downloads, ExecutionEnd, Executor, LogSink, NetworkPolicy, ProgramCache,
    ProgramUsers, Programs, guard_secrets,
};
use punctual_proto::bounds::bounded;
use punctual_proto::convert::{scheduled_run_from_wire, secrets_from_wire};
use punctual_proto::worker as wire;
use punctual_sandbox::{Launcher, LauncherOptions};
use tokio::time::Instant;

pub use guard::{Tie, guard_this_process};

use crate::handover::Handover;
use liveness::Liveness;
use logs::Outlet;
use servers::Servers;

/// How long to wait for the last output to be sent. The report must not wait for longer.
const FLUSH_LIMIT: Duration = Duration::from_secs(10);

/// The folder of programs, below the agent's current folder.
const PROGRAMS: &str = "programs";

/// Why an agent ended without a report.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("the attempt is over: {0}")]
    Over(String),
    #[error("the report was refused: {0}")]
    Refused(String),
    #[error("cannot set up: {0}")]
    Setup(String),
}

/// Runs the attempt to its end. Returns when its report is durable.
pub async fn run(handover: Handover, sandbox: LauncherOptions) -> Result<(), AgentError> {
    let handover = Arc::new(handover);
    let liveness = Liveness::default();
    beat::start(Arc::clone(&handover), liveness.clone())?;
    let servers = Servers::new(&handover)?;
    tokio::select! {
        biased;
        worked = work(&handover, sandbox, &servers, &liveness) => worked,
        // What runs ends as it is dropped.
        reason = liveness.over() => Err(AgentError::Over(reason)),
    }
}

async fn work(
    handover: &Handover,
    sandbox: LauncherOptions,
    servers: &Servers,
    liveness: &Liveness,
) -> Result<(), AgentError> {
    let sandbox = LauncherOptions { required: handover.sandbox_require.clone(), ..sandbox };
    // Side by side: both take a moment.
    let (attempt, launcher) = tokio::join!(servers.attempt(), Launcher::start(sandbox));
    let attempt = attempt.map_err(AgentError::Over)?;
    let begun = Instant::now();
    liveness.set_timing(&attempt);

    let outlet = Arc::new(Outlet::default());
    let log = LogSink::new(handover.job, handover.attempt, attempt.log_bytes_max as usize, outlet.clone());
    let mut shipping = std::pin::pin!(logs::ship(&log, &outlet, servers));
    let deadline = begun.checked_add(Duration::from_micros(attempt.remaining_us));
    let execution = async {
        match launcher {
            Ok(launcher) => execute(handover, attempt, launcher, log.clone(), deadline, liveness).await,
            Err(error) => not_started(format!("there is no sandbox in the agent's environment: {error}")),
        }
    };
    let ended = tokio::select! {
        () = &mut shipping => unreachable!("a log is shipped until it is closed"),
        ended = execution => ended,
    };
    // What is left of it is taken when the outlet is closed.
    let _ = log.close();
    outlet.close();
    if tokio::time::timeout(FLUSH_LIMIT, shipping).await.is_err() {
        tracing::warn!("the end of the log did not reach a server in time");
    }
    servers.report(&report(handover, ended)).await.map_err(AgentError::Refused)
}

async fn execute(
    handover: &Handover,
    attempt: wire::AgentAttempt,
    launcher: Launcher,
    log: LogSink,
    deadline: Option<Instant>,
    liveness: &Liveness,
) -> ExecutionEnd {
    let Some(task) = attempt.task else { return not_started("the attempt came without its task".to_owned()) };
    let run: Run = match serde_json::from_slice(&task.run) {
        Ok(run) => run,
        Err(error) => return not_started(format!("this agent cannot read the task: {error}")),
    };
    let scheduled_run = match attempt.scheduled_run.map(scheduled_run_from_wire).transpose() {
        Ok(run) => run.map(Box::new),
        Err(error) => return not_started(format!("this agent cannot read the attempt: {error}")),
    };
    let files: HashMap<ArtifactId, Download> = match attempt.files.iter().map(read_file).collect() {
        Ok(files) => files,
        Err(reason) => return not_started(reason.to_owned()),
    };
    let files_bytes: u64 = files.values().map(|file| file.size).sum();
    let bytes_max = handover.download.size.saturating_add(files_bytes);
    let cache = ProgramCache { folder: PathBuf::from(PROGRAMS), bytes_max };
    let download = Arc::new(GivenDownloads { program: handover.download.clone(), files });
    let programs = match Programs::trusting(handover.authorities.as_deref(), download, cache) {
        Ok(programs) => programs,
        Err(error) => return not_started(format!("the agent's folder cannot be used: {error}")),
    };
    // The worker that started this agent has decided whether its program may have a network, and its user.
    let users = ProgramUsers::Shared(handover.program_user);
    let binaries = Arc::new(Binaries::new(launcher, Arc::new(programs), NetworkPolicy::Allowed, users));
    let grace = binaries.grace(&run);
    let secrets = secrets_from_wire(attempt.secrets);
    let unavailable = Some(attempt.secrets_unavailable).filter(|reason| !reason.is_empty());
    let redactor = match guard_secrets(&run, &secrets, unavailable, &log) {
        Ok(redactor) => redactor,
        Err(outcome) => return outcome.into(),
    };
    let call = Call {
        job: handover.job,
        attempt: handover.attempt,
        namespace: NamespaceId(task.namespace),
        task: task.name.as_str().into(),
        run: Arc::new(run),
        input: attempt.input,
        tracing_id: Some(attempt.tracing_id).filter(|id| !id.is_empty()),
        scheduled_run,
        log,
        cancel: liveness.cancel().clone(),
        deadline,
    };
    let execution = binaries.execute(call.with_values(true, &secrets));
    let redacted = |ended: ExecutionEnd| match &redactor {
        Some(redactor) => ExecutionEnd {
            outcome: redactor.redact_outcome(ended.outcome),
            details: ended.details.map(|details| Box::new(redactor.redact_details(*details))),
        },
        None => ended,
    };
    let Some(end) = deadline.and_then(|deadline| deadline.checked_add(grace)) else {
        return redacted(execution.await);
    };
    tokio::time::timeout_at(end, execution).await.map(redacted).unwrap_or_else(|_| {
        let class = FailureClass::Timeout;
        let reason = "timeout: it did not end in time".to_owned();
        Outcome::Failed(Failure { class, ran: Ran::Unknown, ..Failure::new(reason) }).into()
    })
}

fn not_started(reason: String) -> ExecutionEnd {
    Outcome::NotStarted { reason }.into()
}

fn report(handover: &Handover, ended: ExecutionEnd) -> Report {
    let ExecutionEnd { outcome, details } = ended;
    let timed_out = matches!(&outcome, Outcome::Failed(failure) if failure.class == FailureClass::Timeout);
    let details = details.map(|details| *details).unwrap_or_default();
    let details = Details { host: Some(handover.host.to_string()), ..details };
    Report {
        id: handover.job,
        attempt: handover.attempt,
        outcome: bounded(outcome),
        timed_out,
        details: Some(Box::new(details.cut())),
    }
}

fn read_file(wire: &wire::FileDownload) -> Result<(ArtifactId, Download), &'static str> {
    let unreadable = "this agent cannot read where its files are";
    let artifact = ArtifactId::from_bytes(&wire.artifact_id).ok_or(unreadable)?;
    let wire::DownloadReply { url, size, sha256 } = wire.download.clone().ok_or(unreadable)?;
    let sha256 = sha256.as_ref().try_into().map_err(|_| unreadable)?;
    Ok((artifact, Download { url, size, sha256 }))
}

/// The worker was told where the program is, and passed it on; the server tells where the files are.
struct GivenDownloads {
    program: Download,
    files: HashMap<ArtifactId, Download>,
}

#[async_trait]
impl Downloads for GivenDownloads {
    async fn locate(&self, _: JobId, _: AttemptNo, artifact: ArtifactId) -> Result<Download, DownloadError> {
        Ok(self.files.get(&artifact).unwrap_or(&self.program).clone())
    }
}
