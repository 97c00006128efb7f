//! Executors: what actually runs. One kind of task, one executor, one file.
//!
//! An executor is given a [`Call`] and ends with an outcome. It never sees a server or a
//! store, does not enforce the task's timeout and does not decide retries: the worker's
//! runtime does the first, the owner of the job's shard the second.

mod cancel;
pub mod clock;
mod handler;
mod http;
mod log;
mod probe;
mod registry;
mod retry_after;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::attempt::{AttemptNo, Outcome};
use punctual_core::id::JobId;
use punctual_core::task::Run;

pub use cancel::Cancel;
pub use handler::{HandlerError, HandlerResult, Handlers, JobContext};
pub use http::Http;
pub use log::{LogOutlet, LogPiece, LogSink};
pub use probe::Prober;
pub use registry::Executors;

/// One attempt, as an executor sees it.
pub struct Call {
    pub job: JobId,
    pub attempt: AttemptNo,
    /// Empty for the task of a one-off job.
    pub task: Arc<str>,
    pub run: Arc<Run>,
    pub input: Option<Bytes>,
    pub tracing_id: Option<String>,
    pub log: LogSink,
    pub cancel: Cancel,
}

/// Runs one kind of task.
///
/// The future may be dropped at any await: when the task's time is over, when the attempt
/// is no longer ours, or a while after it was asked to cancel and did not end.
#[async_trait]
pub trait Executor: Send + Sync + 'static {
    /// The kind of task, as in [`Run::kind`].
    fn kind(&self) -> &'static str;

    /// The words of [`Run::capability`] that this executor can do.
    fn capabilities(&self) -> Vec<String>;

    fn first_poll(&self) -> FirstPoll {
        FirstPoll::OnOwnTask
    }

    async fn execute(self: Arc<Self>, call: Call) -> Outcome;
}

/// Where the runtime polls an attempt for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstPoll {
    /// Among others of its batch: for executors that never block. Many attempts end there,
    /// and those cost no task and no timer.
    InPlace,
    /// On a task of its own: for everything that may keep a thread busy.
    OnOwnTask,
}

/// A server that sends a kind which the executor was not made for has made a mistake, and
/// nothing ran.
fn wrong_kind(run: &Run) -> Outcome {
    Outcome::NotStarted { reason: format!("this executor does not run {} tasks", run.kind()) }
}

/// The innermost cause: for errors of a transport, the only part that says something.
pub fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
