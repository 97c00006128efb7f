//! One try at a job, by one worker, and how it ended.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::id::{ServerId, WorkerId};
use crate::time::{Span, Timestamp};

/// Numbers the starts of a job from 1. Never reused: a start that was taken back
/// keeps its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AttemptNo(pub u32);

impl AttemptNo {
    pub const FIRST: Self = Self(1);

    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl std::fmt::Display for AttemptNo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What a worker reports about an attempt that it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Succeeded {
        output: Option<Bytes>,
    },
    Failed(Failure),
    /// Ended because it was asked to. Counts as a failure if nobody had asked: see [`Outcome::unrequested`].
    Cancelled,
    /// The worker gave it back before anything ran.
    NotStarted {
        reason: String,
    },
}

impl Outcome {
    /// What counts as the outcome of an attempt that nobody asked to end. Its worker ended it for a reason of its own,
    /// which is a failure like any other: only people and schedules cancel jobs.
    #[must_use]
    pub fn unrequested(self) -> Self {
        match self {
            Self::Cancelled => Self::Failed(Failure::unrequested_cancel()),
            Self::Succeeded { .. } | Self::Failed(_) | Self::NotStarted { .. } => self,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub reason: String,
    pub class: FailureClass,
    /// A final failure is not retried, whatever the policy says.
    pub last: Last,
    /// The receiver asked for this wait (`Retry-After`).
    pub retry_after: Option<Span>,
    pub ran: Ran,
}

impl Failure {
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), class: FailureClass::Task, last: Last::No, retry_after: None, ran: Ran::Yes }
    }

    /// An attempt that was reported as cancelled, although no cancel was requested.
    pub fn unrequested_cancel() -> Self {
        Self::new("reported as cancelled, but no cancel was requested")
    }
}

/// What failed. A task can say which of these are not worth a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The work itself: an exit code, an answer that was not expected.
    Task,
    /// The receiver was not reached, or the connection broke.
    Network,
    /// It used more than it may: memory, processes, output, disk.
    Limit,
    /// It took too long.
    Timeout,
    /// The worker could not do it: a file that it cannot have, a setting that is missing.
    Environment,
}

impl FailureClass {
    pub const ALL: [Self; 5] = [Self::Task, Self::Network, Self::Limit, Self::Timeout, Self::Environment];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Network => "network",
            Self::Limit => "limit",
            Self::Timeout => "timeout",
            Self::Environment => "environment",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.as_str() == text)
    }
}

/// What is known of an attempt besides how it ended. All of it for people; nothing is decided by it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Details {
    /// What failed, unless it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The limit that it hit: `oom`, `pids`, `output` or `disk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<u64>,
    /// The sandbox level, such as `full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// The environment that was made for this attempt alone, where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

impl Details {
    /// Longer texts of a worker are cut: details are kept with every attempt.
    pub const TEXT_MAX: usize = 128;

    /// Cuts the texts to the length that is kept.
    #[must_use]
    pub fn cut(mut self) -> Self {
        for text in [&mut self.limit, &mut self.sandbox, &mut self.host].into_iter().flatten() {
            text.truncate(text.floor_char_boundary(Self::TEXT_MAX));
        }
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Last {
    No,
    Yes,
}

/// Whether the attempt can have had an effect. Decides what `exactly_once` may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// Proven: nothing ran, no byte was sent.
    No,
    /// It ran, and its failure is known for certain.
    Yes,
    /// It is unknown: the request was sent and no answer came.
    Unknown,
}

/// How an attempt ended, as history keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Succeeded,
    Failed,
    TimedOut,
    WorkerLost,
    Cancelled,
    NotStarted,
}

impl Ending {
    pub const ALL: [Self; 6] =
        [Self::Succeeded, Self::Failed, Self::TimedOut, Self::WorkerLost, Self::Cancelled, Self::NotStarted];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
            Self::WorkerLost => "worker_lost",
            Self::Cancelled => "cancelled",
            Self::NotStarted => "not_started",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ending| ending.as_str() == text)
    }
}

/// A finished attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    pub attempt: AttemptNo,
    pub worker: WorkerId,
    pub server: ServerId,
    /// When this attempt was due: that of the job's key. A retry has a later one than the job had at first.
    pub due_at: Timestamp,
    pub picked_up_at: Timestamp,
    pub started_at: Timestamp,
    pub finished_at: Timestamp,
    pub ending: Ending,
    pub reason: Option<String>,
    pub details: Option<Box<Details>>,
    /// Set some time after the end, if the attempt printed anything.
    pub log: Option<Box<ArchivedLog>>,
}

/// The log of an attempt that ended, in object storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedLog {
    /// The key of the object, such as `logs/2026-12-24/<job>/1-<digest>.log`.
    pub path: String,
    pub bytes: u64,
}
