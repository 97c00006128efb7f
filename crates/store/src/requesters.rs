//! Who asked for jobs, and who gave commands on them.
//!
//! Rows of jobs have the number of their requester and no more: whoever drains jobs reads and joins nothing for it. A number
//! means the same requester for ever.

use async_trait::async_trait;
use punctual_core::{JobId, Timestamp};

use crate::{IdentityId, Result};

/// Requesters that are told apart. Beyond them, a new one is stored under its kind, without its name.
pub const REQUESTERS_MAX: usize = 100_000;

/// Commands on one job that are on record: the latest.
pub const JOB_ACTIONS_MAX: usize = 100;

/// The number of a requester, from 1 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequesterId(pub u32);

/// A principal that submits jobs or gives commands on them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requester {
    /// What it is: `person`, `key`, …
    pub kind: String,
    /// As records show it: `user:ana`. Empty if there were too many.
    pub name: String,
    /// The person behind it. Another one may have the name one day.
    pub user: Option<IdentityId>,
}

impl Requester {
    /// What is stored when there are too many.
    #[must_use]
    pub fn without_name(self) -> Self {
        Self { kind: self.kind, name: String::new(), user: None }
    }
}

/// What somebody did to a job. Numbers are those in stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum JobActionKind {
    Cancel = 1,
    Delete = 2,
    Retry = 3,
    RunNow = 4,
}

impl JobActionKind {
    pub const ALL: [Self; 4] = [Self::Cancel, Self::Delete, Self::Retry, Self::RunNow];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Delete => "delete",
            Self::Retry => "retry",
            Self::RunNow => "run",
        }
    }

    pub fn from_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| i64::from(*kind as u8) == number)
    }
}

/// A command on a job that was carried out, or is about to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobAction {
    pub job: JobId,
    pub at: Timestamp,
    pub kind: JobActionKind,
    pub by: RequesterId,
}

#[async_trait]
pub trait Requesters: Send + Sync + 'static {
    /// The number of a requester, who gets one if there is none. With [`REQUESTERS_MAX`] of them, a new one gets the number
    /// of [`Requester::without_name`], of which there is one for each kind. A crash after it leaves a number that nothing
    /// refers to.
    async fn requester_id(&self, requester: Requester) -> Result<RequesterId>;

    /// Those that there are, in order of their numbers.
    async fn requesters(&self, ids: Vec<RequesterId>) -> Result<Vec<(RequesterId, Requester)>>;

    /// Puts a command on record. It stays as long as the job; of more than [`JOB_ACTIONS_MAX`] the earliest go. Of two at one
    /// moment, the second stands a microsecond later.
    async fn keep_job_action(&self, action: JobAction) -> Result<()>;

    /// The commands on a job, the earliest first.
    async fn job_actions(&self, job: JobId) -> Result<Vec<JobAction>>;
}
