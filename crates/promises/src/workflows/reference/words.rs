//! The words that a run is described with.

use serde_json::Value;

/// What a node has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeStatus {
    Waiting,
    Active,
    Open,
    Succeeded,
    Failed,
    Cancelled,
    Skipped,
    UpstreamFailed,
    NotRun,
}

impl NodeStatus {
    /// As people are shown it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Active => "active",
            Self::Open => "open",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Skipped => "skipped",
            Self::UpstreamFailed => "upstream_failed",
            Self::NotRun => "not_run",
        }
    }

    pub(super) const fn is_end(self) -> bool {
        !matches!(self, Self::Waiting | Self::Active | Self::Open)
    }

    /// Cancelled nodes and `upstream_failed` ones count as failed.
    pub(super) const fn counts_as_failed(self) -> bool {
        matches!(self, Self::Failed | Self::Cancelled | Self::UpstreamFailed)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatus {
    Running,
    Succeeded,
    Failed,
    Cancelled,
}

impl RunStatus {
    /// As people are shown it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// One job that a run asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Try(pub(super) u64);

/// A job that must start now.
#[derive(Debug, Clone, PartialEq)]
pub struct Due {
    pub number: Try,
    /// The place of its node; tasks that run after the nodes come after them.
    pub node: usize,
    /// The place in the list of a node with `for_each`; otherwise 0.
    pub element: u32,
    /// Null if it has none.
    pub input: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    Succeeded,
    /// Also one that was lost or quarantined.
    Failed,
    /// Also one that was deleted.
    Cancelled,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    Ended { number: Try, end: JobEnd, output: Option<Vec<u8>> },
    Decided { node: usize, is_approved: bool },
    Arrived { event: String, payload: Option<Vec<u8>> },
    Skipped { node: usize },
    Cancelled,
    Resumed { skip: Vec<usize> },
}

/// The request must be refused, and nothing follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused;
