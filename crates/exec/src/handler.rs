//! Functions of the user's own, by name.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::attempt::{AttemptNo, Failure, Last, Outcome};
use punctual_core::id::JobId;
use punctual_core::schedule::ScheduledRun;
use punctual_core::task::Run;
use punctual_core::{Span, Timestamp};

use crate::{Call, ExecutionEnd, Executor, wrong_kind};

/// The output of a job, if it has one, or why the attempt failed.
pub type HandlerResult = Result<Option<Bytes>, HandlerError>;

type BoxedHandler = Box<dyn Fn(JobContext) -> Pin<Box<dyn Future<Output = HandlerResult> + Send>> + Send + Sync>;

/// What a handler knows of the attempt it runs.
pub struct JobContext(Call);

impl JobContext {
    pub fn job(&self) -> JobId {
        self.0.job
    }

    pub fn attempt(&self) -> AttemptNo {
        self.0.attempt
    }

    /// The name of the task; empty for a one-off job.
    pub fn task(&self) -> &str {
        &self.0.task
    }

    pub fn input(&self) -> Option<&Bytes> {
        self.0.input.as_ref()
    }

    pub fn tracing_id(&self) -> Option<&str> {
        self.0.tracing_id.as_deref()
    }

    /// The time that the job was submitted for; of a scheduled run, when it was to start.
    pub fn scheduled_at(&self) -> Timestamp {
        self.0.job.due_at()
    }

    /// The schedule, the planned time and the data interval; `None` for a job that no schedule made.
    pub fn scheduled_run(&self) -> Option<&ScheduledRun> {
        self.0.scheduled_run.as_deref()
    }

    /// A key that is the same for every attempt of the job. A receiver that honours it sees the job's effect once,
    /// however often the job is attempted.
    pub fn idempotency_key(&self) -> String {
        self.0.job.to_string()
    }

    /// Adds a line to the attempt's log.
    pub fn log(&self, line: impl AsRef<str>) {
        self.0.log.line(line);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.cancel.is_cancelled()
    }

    /// Ends when someone asked for the job to be cancelled. The handler then has a few
    /// seconds to end by itself before it is dropped.
    pub async fn cancelled(&self) {
        self.0.cancel.cancelled().await;
    }
}

/// Why a handler did not do its work. Any error becomes one by `?`, and is retried.
pub struct HandlerError {
    reason: String,
    last: Last,
    retry_after: Option<Span>,
    cancelled: bool,
}

impl HandlerError {
    /// A failure that the task's retry policy decides about.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), last: Last::No, retry_after: None, cancelled: false }
    }

    /// A failure that trying again cannot mend: it is not retried.
    pub fn fatal(reason: impl Into<String>) -> Self {
        Self { last: Last::Yes, ..Self::new(reason) }
    }

    /// The handler ended early because [`JobContext::cancelled`] told it to. If nobody asked for the cancel, the attempt
    /// has failed.
    pub fn cancelled() -> Self {
        Self { cancelled: true, ..Self::new("cancelled") }
    }

    /// The next attempt waits this long instead of what the retry policy says.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        let micros = i64::try_from(wait.as_micros()).unwrap_or(i64::MAX);
        self.retry_after = Some(Span::from_micros(micros).min(Span::MAX));
        self
    }

    fn into_outcome(self) -> Outcome {
        if self.cancelled {
            return Outcome::Cancelled;
        }
        let Self { reason, last, retry_after, .. } = self;
        Outcome::Failed(Failure { last, retry_after, ..Failure::new(reason) })
    }
}

// Not an Error itself: the conversion from every Error would overlap with the one from itself.
impl<E: std::error::Error> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let mut reason = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            reason.push_str(": ");
            reason.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::new(reason)
    }
}

impl fmt::Debug for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HandlerError").field(&self.reason).finish()
    }
}

/// All handlers of a worker.
#[derive(Default)]
pub struct Handlers(HashMap<String, BoxedHandler>);

impl Handlers {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last handler of a name counts.
    pub fn add<H, F>(&mut self, name: impl Into<String>, handler: H)
    where
        H: Fn(JobContext) -> F + Send + Sync + 'static,
        F: Future<Output = HandlerResult> + Send + 'static,
    {
        self.0.insert(name.into(), Box::new(move |job| Box::pin(handler(job))));
    }
}

#[async_trait]
impl Executor for Handlers {
    fn kind(&self) -> &'static str {
        "handler"
    }

    fn capabilities(&self) -> Vec<String> {
        let mut words: Vec<_> = self.0.keys().map(|name| format!("handler:{name}")).collect();
        words.sort();
        words
    }

    async fn execute(self: Arc<Self>, call: Call) -> ExecutionEnd {
        let Run::Handler(named) = &*call.run else {
            return wrong_kind(&call.run).into();
        };
        let Some(handler) = self.0.get(&named.name) else {
            let reason = format!("this worker has no handler `{}`", named.name);
            return Outcome::NotStarted { reason }.into();
        };
        let outcome = match handler(JobContext(call)).await {
            Ok(output) => Outcome::Succeeded { output },
            Err(error) => error.into_outcome(),
        };
        outcome.into()
    }
}
