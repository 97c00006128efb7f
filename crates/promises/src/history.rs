//! The one form of history that promises are judged by.
//!
//! The simulator and the acceptance runs see different things. What one of them cannot see is an `Option` or a named
//! variant here, and the promise that needs it says what it then cannot judge.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::attempt::{Ending, Failure, Outcome};
use punctual_core::retry::RetryPolicy;
use punctual_core::task::{DeliveryMode, OnLost};
use punctual_core::{AttemptNo, JobState, Span, Timestamp};

/// One moment on two clocks. In the simulator, which has one clock, both are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// By a clock that is never set and that all witnesses share. Its zero means nothing.
    pub steady: Timestamp,
    /// By the clock of the store, which jobs are due by.
    pub wall: Timestamp,
}

impl Moment {
    pub const fn on_one_clock(at: Timestamp) -> Self {
        Self { steady: at, wall: at }
    }
}

/// Everything that is known of the jobs of one run.
#[derive(Debug)]
pub struct RunHistory {
    pub jobs: Vec<JobHistory>,
    pub requests: Vec<Request>,
    pub listing: Listing,
    /// `None` if the source does not say which worker was out of reach, and when.
    pub faults: Option<Faults>,
    /// When the database lost its last commits.
    pub commits_lost_at: Option<Timestamp>,
    /// Empty if the source pauses no queues.
    pub pauses: Vec<QueuePause>,
    pub limits: Limits,
}

/// A time during which nothing of a queue may start.
#[derive(Debug, Clone)]
pub struct QueuePause {
    /// By a name that the source chooses.
    pub queue: String,
    /// When all who could start something had confirmed the pause. Not included: what starts at that very moment may come first.
    pub from: Timestamp,
    /// When somebody resumed the queue. `None` if nobody did.
    pub until: Option<Timestamp>,
}

/// How exact a source is.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// An owner decides by its estimate of the store's clock, which lags behind by this much at most.
    pub clock_lag: Span,
    /// [`RecordedStart::at`] differs from the moment of the commit by this much at most.
    pub start_error: Span,
    /// A job begins at most this long after it is due. `None` if the source does not measure lateness.
    pub late_max: Option<Span>,
    pub reports: Reports,
}

/// Which reports of workers a source sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reports {
    All,
    /// Only those of attempts that began.
    OfExecutions,
}

/// One try of a client to submit jobs. Tries with the same key are for the same jobs.
#[derive(Debug)]
pub struct Request {
    pub key: String,
    /// How many jobs it asks for.
    pub job_count: usize,
    /// The jobs that this try made.
    pub made: Vec<String>,
}

/// The jobs that the system lists at the end.
#[derive(Debug)]
pub enum Listing {
    NotRead,
    Count(usize),
    Jobs {
        ids: Vec<String>,
        /// Jobs of which a witness saw an attempt begin.
        begun: BTreeSet<String>,
        /// The servers' own counts, in runs in which no server was restarted.
        counters: Vec<Counter>,
    },
}

#[derive(Debug)]
pub struct Counter {
    pub name: String,
    pub counted: u64,
    /// How many jobs of this kind are listed.
    pub listed: u64,
}

/// What was done to the system.
#[derive(Debug, Default)]
pub struct Faults {
    /// When each worker died.
    pub died: BTreeMap<Worker, Moment>,
    /// Since when a living worker was out of reach, the first time.
    pub unreachable: BTreeMap<Worker, Moment>,
    pub first: Option<Moment>,
    /// From when on everything should be as usual.
    pub recovered: Option<Moment>,
}

/// A worker, by a name that the source chooses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Worker(pub String);

/// Everything that is known of one job.
#[derive(Debug)]
pub struct JobHistory {
    /// That of the request that asked for it.
    pub key: String,
    /// Its id, or the key of a submission that made none.
    pub name: String,
    pub rules: JobRules,
    /// As [`QueuePause::queue`]. `None` if the source pauses no queues.
    pub queue: Option<String>,
    pub submission: Submission,
    pub orders: Vec<Order>,
    /// In the order in which they began.
    pub executions: Vec<Execution>,
    pub reports: Vec<Report>,
    /// In the order in which the store took them.
    pub starts: Vec<RecordedStart>,
    /// In the order in which the store took them.
    pub ends: Vec<RecordedEnd>,
    /// When the due time of the job changed although no attempt had ended. Empty if the source does not see it.
    pub moves: Vec<Timestamp>,
    pub at_end: AtEnd,
    /// What another server said of it later. `None` if nobody was asked.
    pub reread: Option<Reread>,
}

/// What is promised for the jobs of a task.
#[derive(Debug, Clone)]
pub struct JobRules {
    pub delivery: DeliveryMode,
    pub on_lost: OnLost,
    pub retry: RetryPolicy,
    pub node_retry: RetryPolicy,
    /// `None` if the source does not see why an attempt was not started.
    pub start_retry: Option<RetryPolicy>,
    /// `None` if no attempt of the run comes near its timeout.
    pub timeout: Option<Span>,
    pub queue_timeout: Option<Span>,
    /// It starts together with others, and fails if that takes longer than this.
    pub start_timeout: Option<Span>,
    /// A job that has lost so many workers is not started again.
    pub quarantine_after: u16,
    pub failures: Failures,
}

/// Why the attempts of a task fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failures {
    /// Exactly this many attempts fail, the first ones, and each of them may be retried.
    FirstAttempts(u32),
    /// Also in ways that are not retried.
    Any,
}

#[derive(Debug)]
pub struct Submission {
    /// When a client asked for it first.
    pub asked_at: Moment,
    /// The first acknowledgement.
    pub acknowledged: Option<Acknowledgement>,
    /// The system refused all tries, so the job does not exist.
    pub was_refused: bool,
    /// A schedule made it, and may cancel it for its next run.
    pub by_schedule: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct Acknowledgement {
    pub at: Moment,
    pub due_at: Timestamp,
}

/// What a client asked about the job after its submission.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    pub command: Command,
    pub asked_at: Moment,
    /// `None` if no answer came: it may have been done or not.
    pub reply: Option<(Moment, Reply)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    Delete,
    Cancel,
    RunNow,
    Rerun,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    Done(JobState),
    /// A running attempt is being asked to end.
    Requested,
    /// Nothing was done.
    Refused,
    /// The server did not know the job.
    NotFound,
}

/// One time that the work of a job really began, by its witness.
#[derive(Debug, Clone)]
pub struct Execution {
    pub attempt: AttemptNo,
    /// How often an operator had run the job again by then.
    pub rerun: u32,
    pub worker: Worker,
    pub start: StartRecord,
    /// The time it was not allowed to begin before. `None` if the source knows none.
    pub due_at: Option<Timestamp>,
    pub begin: Moment,
    /// `None` if nobody saw it end, as when its process died.
    pub end: Option<Moment>,
}

/// Whether the start of an execution was durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartRecord {
    Durable,
    Missing,
}

/// What a worker said at the end of an attempt.
#[derive(Debug, Clone)]
pub struct Report {
    pub attempt: AttemptNo,
    pub at: Moment,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, Copy)]
pub struct RecordedStart {
    pub attempt: AttemptNo,
    /// When it was committed, or when the server says that it was; see [`Limits::start_error`].
    pub at: Timestamp,
    /// The start is older than the loss of commits, and is still on record after it.
    pub survived_loss: bool,
}

/// The end of an attempt in the store.
#[derive(Debug, Clone)]
pub struct RecordedEnd {
    pub attempt: AttemptNo,
    /// How often an operator had run the job again by then.
    pub rerun: u32,
    pub ending: Ending,
    pub started_at: Timestamp,
    pub finished_at: Timestamp,
    /// `None` if nobody knows which worker it was.
    pub worker: Option<Worker>,
    /// `None` if the source does not see commits.
    pub committed_at: Option<Timestamp>,
    /// The reported failure that this end is the record of.
    pub failure: Option<Failure>,
    /// Why it was not started. `None` if the source does not see it.
    pub not_started: Option<NotStarted>,
    /// What became of the job with this end. `None` if the source does not see it.
    pub consequence: Option<Consequence>,
    pub kind: EndKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndKind {
    First,
    /// The result of an attempt that had been given up, and that settled its job after all.
    LateResult,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotStarted {
    GivenBack,
    NeverReceived,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consequence {
    Settled(JobState),
    Again { due_at: Timestamp },
}

/// The job as the system shows it at the end of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtEnd {
    NotRead,
    Absent,
    /// It waits or runs. `is_overdue`: it should have ended before the end of the run.
    Open {
        state: JobState,
        is_overdue: bool,
    },
    /// `has_reason` is `None` if the source does not read reasons.
    Finished {
        state: JobState,
        has_reason: Option<bool>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reread {
    Same,
    Absent,
    Different { state: JobState },
}

impl JobRules {
    /// At most one execution can have had an effect, until an operator asks for another.
    pub fn is_strict(&self) -> bool {
        self.delivery != DeliveryMode::AtLeastOnce
    }
}

impl JobHistory {
    pub fn was_submitted_after(&self, at: Timestamp) -> bool {
        self.submission.asked_at.wall > at
    }

    /// Somebody asked for it, and was not refused.
    pub fn was_asked(&self, command: Command) -> bool {
        let is_refused = |reply: &Reply| matches!(reply, Reply::Refused | Reply::NotFound);
        let mut orders = self.orders.iter().filter(|order| order.command == command);
        orders.any(|order| !order.reply.is_some_and(|(_, reply)| is_refused(&reply)))
    }

    /// The answers to this command, in the order of the questions.
    pub fn replies(&self, command: Command) -> impl Iterator<Item = (Moment, Reply)> {
        self.orders.iter().filter(move |order| order.command == command).filter_map(|order| order.reply)
    }

    /// The record of an attempt's end.
    pub fn end(&self, attempt: AttemptNo) -> Option<&RecordedEnd> {
        self.first_ends().find(|end| end.attempt == attempt)
    }

    /// The ends of attempts without the late results of those that had been given up.
    pub fn first_ends(&self) -> impl Iterator<Item = &RecordedEnd> {
        self.ends.iter().filter(|end| end.kind == EndKind::First)
    }

    pub fn execution(&self, attempt: AttemptNo) -> Option<&Execution> {
        self.executions.iter().find(|execution| execution.attempt == attempt)
    }

    pub fn report(&self, attempt: AttemptNo) -> Option<&Report> {
        self.reports.iter().find(|report| report.attempt == attempt)
    }

    /// `None` if the job was not read, or does not exist.
    pub fn state(&self) -> Option<JobState> {
        match self.at_end {
            AtEnd::NotRead | AtEnd::Absent => None,
            AtEnd::Open { state, .. } | AtEnd::Finished { state, .. } => Some(state),
        }
    }
}
