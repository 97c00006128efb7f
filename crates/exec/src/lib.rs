//! Executors: what actually runs. One kind of task, one executor, one file.
//!
//! An executor is given a [`Call`] and ends with an outcome. It never sees a server or a
//! store and does not decide retries: the owner of the job's shard does. Nor does it enforce
//! the task's timeout: the worker's runtime does, unless the executor says that it ends by
//! itself.

mod admissions;
mod binary;
mod cancel;
pub mod clock;
mod command;
mod dial;
mod downloads;
mod email;
mod guard;
mod handler;
mod http;
mod log;
mod message;
mod named;
mod probe;
mod redact;
mod registry;
mod retry_after;
mod sending;
mod slack;
mod telegram;
mod words;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::attempt::{AttemptNo, Details, Failure, FailureClass, Outcome, Ran};
use punctual_core::id::JobId;
use punctual_core::namespace::NamespaceId;
use punctual_core::run::{Escape, Facts};
use punctual_core::schedule::ScheduledRun;
use punctual_core::secret::SecretValues;
use punctual_core::task::Run;
use tokio::time::Instant;

pub use admissions::{Admission, AdmissionGrant, Admissions, AdmitError};
pub use binary::{Binaries, NetworkPolicy, ProgramCache, ProgramUsers, Programs, UserRange};
pub use cancel::Cancel;
pub use command::{Account, Commands};
pub use dial::{Outbound, Resolve};
pub use downloads::{Download, DownloadError, Downloads};
pub use email::{Email, MailServer};
pub use guard::{Guard, Places};
pub use handler::{HandlerError, HandlerResult, Handlers, JobContext};
pub use http::{Http, WebhookKeys};
pub use log::{ClosedLog, LogOutlet, LogPiece, LogSink};
pub use probe::Prober;
pub use redact::{RedactingStream, Redactor};
pub use registry::Executors;
pub use sending::Sending;
pub use slack::{Slack, SlackWebhooks};
pub use telegram::{Telegram, TelegramBots};
pub use words::{connection_trouble, root_cause};

/// One attempt, as an executor sees it.
pub struct Call {
    pub job: JobId,
    pub attempt: AttemptNo,
    pub namespace: NamespaceId,
    /// The task's name; empty for the task of a one-off job.
    pub task: Arc<str>,
    pub run: Arc<Run>,
    pub input: Option<Bytes>,
    pub tracing_id: Option<String>,
    /// The scheduled run, if a schedule made the job.
    pub scheduled_run: Option<Box<ScheduledRun>>,
    pub log: LogSink,
    pub cancel: Cancel,
    /// When the task's timeout is over; `None` if it has none.
    pub deadline: Option<Instant>,
}

impl Call {
    /// What the task learns about this run, for variables, headers and placeholders.
    pub fn facts(&self) -> Facts {
        Facts::new(self.job, self.attempt, self.scheduled_run.as_deref())
    }

    /// Replaces placeholders by values, in the definition if it `has_placeholders` and in the input. Secrets are replaced in
    /// the definition alone.
    #[must_use]
    pub fn with_values(mut self, has_placeholders: bool, secrets: &SecretValues) -> Self {
        let input = self.input.as_deref().filter(|input| input.windows(2).any(|pair| pair == b"{{"));
        let text = input.and_then(|input| std::str::from_utf8(input).ok());
        if !has_placeholders && text.is_none() {
            return self;
        }
        let facts = self.facts();
        if let Some(Cow::Owned(expanded)) = text.map(|text| facts.expand(text, Escape::None)) {
            self.input = Some(expanded.into());
        }
        if let Some(run) = facts.expand_run(&self.run, secrets) {
            self.run = Arc::new(run);
        }
        self
    }
}

/// Takes the secrets of an attempt out of its log from now on, and of what the answer is used for. `Err` is why the attempt
/// cannot start.
pub fn guard_secrets(
    run: &Run,
    secrets: &SecretValues,
    unavailable: Option<String>,
    log: &LogSink,
) -> Result<Option<Redactor>, Outcome> {
    if let Some(reason) = unavailable {
        return Err(Outcome::NotStarted { reason });
    }
    if let Some(name) = run.secrets().into_iter().find(|name| secrets.get(name).is_none()) {
        let reason = format!("the secret {name} does not exist");
        let class = FailureClass::Environment;
        return Err(Outcome::Failed(Failure { class, ran: Ran::No, ..Failure::new(reason) }));
    }
    let redactor = Redactor::new(secrets);
    if let Some(redactor) = &redactor {
        log.redact(redactor);
    }
    Ok(redactor)
}

/// The outcome of an attempt, and the details that are known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutionEnd {
    pub outcome: Outcome,
    pub details: Option<Box<Details>>,
}

impl From<Outcome> for ExecutionEnd {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, details: None }
    }
}

/// Runs one kind of task.
///
/// The future may be dropped at any await: when the task's time is over, when the attempt
/// is no longer ours, or a while after it was asked to cancel and did not end. What one that
/// ends by itself has started must end with it all the same.
#[async_trait]
pub trait Executor: Send + Sync + 'static {
    /// The kind of task, as in [`Run::kind`].
    fn kind(&self) -> &'static str;

    /// The words of [`Run::capability`] that this executor can do.
    fn capabilities(&self) -> Vec<String>;

    /// The user of this machine that runs tasks outside the sandbox.
    fn runs_as(&self) -> Option<String> {
        None
    }

    fn first_poll(&self) -> FirstPoll {
        FirstPoll::OnOwnTask
    }

    /// Whether the executor watches [`Call::deadline`] itself, and then ends with a failure of class timeout. The
    /// runtime ends it by force only after its grace period.
    fn ends_by_itself(&self) -> bool {
        false
    }

    /// How long an executor that ends by itself may take after the timeout or a cancellation.
    fn grace(&self, _run: &Run) -> Duration {
        Duration::ZERO
    }

    async fn execute(self: Arc<Self>, call: Call) -> ExecutionEnd;
}

/// Where the runtime polls an attempt for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstPoll {
    /// Together with the other attempts of its batch, for executors that never block. Many attempts end there, and
    /// those cost no task and no timer.
    InPlace,
    /// On a task of its own, for executors that may keep a thread busy.
    OnOwnTask,
}

/// The outcome for a task of another kind than the executor's, which is a mistake of the server. Nothing ran.
fn wrong_kind(run: &Run) -> Outcome {
    Outcome::NotStarted { reason: format!("this executor does not run {} tasks", run.kind()) }
}
