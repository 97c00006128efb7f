//! Runs attempts, each to exactly one end: its own, its timeout, a cancellation or a panic.
//!
//! Attempts that were assigned in one message start in its order. Those of an executor that
//! never blocks are polled in place, and most end there: they cost no task, no timer and no
//! lock of their own.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use punctual_core::attempt::{Details, Failure, FailureClass, Outcome, Ran};
use punctual_core::schedule::ScheduledRun;
use punctual_core::secret::SecretValues;
use punctual_core::shard::event::Report;
use punctual_core::time::Span;
use punctual_exec::{Call, Cancel, ExecutionEnd, FirstPoll, LogSink, Redactor, guard_secrets};
use punctual_proto::bounds::bounded;
use tokio::time::Instant;

use crate::held::{HeldAttempts, Key};
use crate::journal::Journal;
use crate::tasks::RunnableTask;

/// After this many ended attempts their reports are handed on and other tasks get a turn.
const CHUNK_LEN: usize = 256;

pub(crate) struct Attempt {
    pub(crate) key: Key,
    pub(crate) task: Arc<RunnableTask>,
    pub(crate) input: Option<Bytes>,
    pub(crate) tracing_id: Option<String>,
    pub(crate) scheduled_run: Option<Box<ScheduledRun>>,
    pub(crate) secrets: GivenSecrets,
    pub(crate) cancel: Cancel,
    pub(crate) log: LogSink,
}

/// The secrets that came with an assignment.
#[derive(Debug, Clone, Default)]
pub(crate) struct GivenSecrets {
    pub(crate) values: SecretValues,
    /// Why the server could not read them.
    pub(crate) unavailable: Option<String>,
}

/// The rules that hold for every attempt of a worker.
#[derive(Clone)]
pub(crate) struct AttemptRules {
    /// How long a cancelled attempt may take to end by itself.
    pub(crate) cancel_grace: Duration,
    pub(crate) journal: Arc<Journal>,
}

type Execution = Pin<Box<dyn Future<Output = ExecutionEnd> + Send>>;

/// An attempt under way, without what the executor took.
struct RunningAttempt {
    key: Key,
    task: Arc<RunnableTask>,
    tracing_id: Option<String>,
    cancel: Cancel,
    began: Instant,
    deadline: Option<Instant>,
    /// For an attempt with secrets.
    redactor: Option<Redactor>,
}

struct AttemptEnd {
    outcome: Outcome,
    timed_out: bool,
    details: Option<Box<Details>>,
}

impl AttemptEnd {
    /// The end of an attempt that the worker ended itself, so that no details are known.
    fn imposed(outcome: Outcome) -> Self {
        Self { outcome, timed_out: false, details: None }
    }
}

/// Starts all attempts. Those that do not end at once continue in tasks of their own.
pub(crate) async fn run_all(attempts: Vec<Attempt>, rules: AttemptRules, held: Arc<HeldAttempts>) {
    let mut ended = Vec::with_capacity(attempts.len().min(CHUNK_LEN));
    for attempt in attempts {
        if let Some(report) = start(attempt, &rules, &held) {
            ended.push(report);
        }
        if ended.len() >= CHUNK_LEN {
            held.finish(ended.drain(..));
            tokio::task::yield_now().await;
        }
    }
    if !ended.is_empty() {
        held.finish(ended);
    }
}

/// Starts one attempt. Returns its report if it ended at once.
fn start(attempt: Attempt, rules: &AttemptRules, held: &Arc<HeldAttempts>) -> Option<Report> {
    let Attempt { key, task, input, tracing_id, scheduled_run, secrets, cancel, log } = attempt;
    if cancel.is_stopped() {
        return None;
    }
    let began = Instant::now();
    let deadline = task.timeout.map(|timeout| began + timeout.to_std());
    rules.journal.started(key, &task, tracing_id.as_deref(), began);
    let tracing = tracing_id.clone();
    let mut running = RunningAttempt { key, task, tracing_id: tracing, cancel, began, deadline, redactor: None };
    let journal = &rules.journal;
    let GivenSecrets { values: secrets, unavailable } = secrets;
    if running.task.has_placeholders || unavailable.is_some() {
        match guard_secrets(&running.task.run, &secrets, unavailable, &log) {
            Ok(redactor) => running.redactor = redactor,
            Err(outcome) => return Some(running.report(AttemptEnd::imposed(outcome), journal)),
        }
    }
    if running.cancel.is_cancelled() {
        return Some(running.report(AttemptEnd::imposed(Outcome::Cancelled), journal));
    }
    let call = Call {
        job: key.0,
        attempt: key.1,
        namespace: running.task.namespace,
        task: running.task.name.clone(),
        run: running.task.run.clone(),
        input,
        tracing_id,
        scheduled_run,
        log,
        cancel: running.cancel.clone(),
        deadline,
    };
    let call = call.with_values(running.task.has_placeholders, &secrets);
    match catch_unwind(AssertUnwindSafe(|| begin(&running.task, call))) {
        Ok(FirstPollResult::Ended(ended)) => Some(running.report(running.task.own_end(ended), journal)),
        Ok(FirstPollResult::Running(execution)) => {
            tokio::spawn(run_on(running, execution, rules.clone(), held.clone()));
            None
        }
        Err(panic) => Some(running.report(AttemptEnd::imposed(panicked(&running.task, panic)), journal)),
    }
}

enum FirstPollResult {
    Ended(ExecutionEnd),
    Running(Execution),
}

fn begin(task: &RunnableTask, call: Call) -> FirstPollResult {
    let mut execution = task.executor.clone().execute(call);
    if task.executor.first_poll() == FirstPoll::InPlace {
        // Nobody needs to be woken: what is not ready is polled again by its own task.
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(ended) = execution.poll_unpin(&mut context) {
            return FirstPollResult::Ended(ended);
        }
    }
    FirstPollResult::Running(execution)
}

async fn run_on(running: RunningAttempt, execution: Execution, rules: AttemptRules, held: Arc<HeldAttempts>) {
    let end = supervise(&running, execution, rules.cancel_grace);
    let end = match AssertUnwindSafe(end).catch_unwind().await {
        Ok(Some(end)) => end,
        // Stopped: it is no longer held.
        Ok(None) => return,
        Err(panic) => AttemptEnd::imposed(panicked(&running.task, panic)),
    };
    held.finish([running.report(end, &rules.journal)]);
}

async fn supervise(running: &RunningAttempt, execution: Execution, cancel_grace: Duration) -> Option<AttemptEnd> {
    let RunningAttempt { task, cancel, deadline, .. } = running;
    let own_grace = task.grace();
    let cancel_over = async {
        cancel.cancelled().await;
        tokio::time::sleep(cancel_grace.max(own_grace)).await;
    };
    let time_over = async {
        match deadline.and_then(|deadline| deadline.checked_add(own_grace)) {
            Some(end) => tokio::time::sleep_until(end).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        // In this order: an end of its own counts before one that was imposed in the same moment.
        biased;
        () = cancel.stopped() => None,
        ended = execution => Some(task.own_end(ended)),
        () = time_over => Some(AttemptEnd { timed_out: true, ..AttemptEnd::imposed(task.not_ended()) }),
        () = cancel_over => Some(AttemptEnd::imposed(Outcome::Cancelled)),
    }
}

impl RunnableTask {
    /// The extra time after the task's timeout that an executor needs to end its attempts itself.
    fn grace(&self) -> Duration {
        if self.executor.ends_by_itself() { self.executor.grace(&self.run) } else { Duration::ZERO }
    }

    fn own_end(&self, ended: ExecutionEnd) -> AttemptEnd {
        let ExecutionEnd { outcome, details } = ended;
        let timed_out = self.executor.ends_by_itself()
            && matches!(&outcome, Outcome::Failed(failure) if failure.class == FailureClass::Timeout);
        AttemptEnd { outcome, timed_out, details }
    }

    /// The outcome of an attempt that did not end before its timeout.
    fn not_ended(&self) -> Outcome {
        let timeout = self.timeout.unwrap_or(Span::MAX);
        let mut reason = format!("timed out after {timeout}");
        let grace = self.grace();
        if grace > Duration::ZERO {
            reason += &format!(" and {grace:?} of grace");
        }
        Outcome::Failed(Failure { class: FailureClass::Timeout, ran: Ran::Unknown, ..Failure::new(reason) })
    }
}

impl RunningAttempt {
    fn report(&self, end: AttemptEnd, journal: &Arc<Journal>) -> Report {
        let (id, attempt) = self.key;
        let AttemptEnd { outcome, details, .. } = end;
        // Before anything is cut, or a part of a secret would not be found.
        let (outcome, details) = match &self.redactor {
            Some(redactor) => {
                let details = details.map(|details| Box::new(redactor.redact_details(*details)));
                (redactor.redact_outcome(outcome), details)
            }
            None => (outcome, details),
        };
        let details = details.map(|details| Box::new(details.cut()));
        let report = Report { id, attempt, outcome: bounded(outcome), timed_out: end.timed_out, details };
        journal.ended(&report, self.tracing_id.as_deref(), self.began);
        report
    }
}

fn panicked(task: &RunnableTask, panic: Box<dyn Any + Send>) -> Outcome {
    let said = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it said nothing");
    let reason = match task.run.kind() {
        "handler" => format!("the handler panicked: {said}"),
        kind => format!("the {kind} executor panicked: {said}"),
    };
    Outcome::Failed(Failure::new(reason))
}
