//! One try at a job, by one worker, and how it ended.

use bytes::Bytes;

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
    /// Ended because it was asked to.
    Cancelled,
    /// The worker gave it back before anything ran.
    NotStarted {
        reason: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub reason: String,
    /// A final failure is not retried, whatever the policy says.
    pub last: Last,
    /// The receiver asked for this wait (`Retry-After`).
    pub retry_after: Option<Span>,
    pub ran: Ran,
}

impl Failure {
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), last: Last::No, retry_after: None, ran: Ran::Yes }
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
    /// Nobody can know: the request went out and no answer came.
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
    pub picked_up_at: Timestamp,
    pub started_at: Timestamp,
    pub finished_at: Timestamp,
    pub ending: Ending,
    pub reason: Option<String>,
}
