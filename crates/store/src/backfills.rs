//! Backfills: planned times of the past that somebody wants to run now.
//!
//! A backfill is driven by the server that owns the schedule's shard, step by step. A step makes the
//! next jobs and says how far it came, in one transaction with a version: a server that has lost the shard without
//! knowing it can do no harm.

use async_trait::async_trait;
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::By;
use punctual_core::{BackfillId, JobId, JobState, ScheduleId, Timestamp};

use crate::{NewJob, Result};

/// Backfills under way at a time.
pub const BACKFILLS_MAX: usize = 100;
/// And of all namespaces: one server steps all of them.
pub const BACKFILLS_OF_ALL_MAX: usize = 1000;

/// Numbers are those in stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum BackfillState {
    Running = 1,
    Done = 2,
    Aborted = 3,
}

impl BackfillState {
    pub fn from_number(number: i64) -> Option<Self> {
        [Self::Running, Self::Done, Self::Aborted].into_iter().find(|state| i64::from(*state as u8) == number)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct BackfillRow {
    pub id: BackfillId,
    /// That of its schedule.
    pub namespace: NamespaceId,
    pub schedule: ScheduleId,
    /// The schedule's name when it was made: a schedule may go before its backfills.
    pub schedule_name: String,
    /// What the user asked for, as JSON; a store does not look into it.
    pub spec: String,
    pub created: By,
    /// Grows by one with each step.
    pub version: u64,
    pub progress: BackfillProgress,
}

/// What changes as it goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct BackfillProgress {
    pub state: BackfillState,
    /// All times up to here were dealt with; `None` at the beginning.
    pub reached: Option<Timestamp>,
    /// How many times there are in all.
    pub total: u32,
    /// Times that got a job, and those that were passed over because they had run before.
    pub made: u32,
    pub passed_over: u32,
    /// Jobs that ended, by how they did.
    pub succeeded: u32,
    pub failed: u32,
    pub cancelled: u32,
    /// When it ended, and who ended it.
    pub ended: Option<By>,
    /// Why it ended so, or what holds it up, for people.
    pub note: Option<String>,
}

/// One time of a backfill that got a job.
#[derive(Debug, Clone, PartialEq)]
pub struct BackfillRun {
    pub at: Timestamp,
    pub job: JobId,
    /// How the job ended, when that has been seen.
    pub state: Option<JobState>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BackfillStep {
    pub id: BackfillId,
    /// That it has now.
    pub version: u64,
    pub progress: BackfillProgress,
    /// Times that get a job, with the job; as by [`Submit::submit`](crate::Submit::submit).
    pub made: Vec<(Timestamp, NewJob)>,
    /// Runs whose jobs have ended.
    pub ended: Vec<(Timestamp, JobState)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stepped {
    Done,
    /// It has another version by now, or is gone. Nothing was done.
    Conflict,
}

/// A past time that a backfill ran.
#[derive(Debug, Clone, PartialEq)]
pub struct Backfilled {
    pub at: Timestamp,
    pub backfill: BackfillId,
    pub job: JobId,
    pub state: Option<JobState>,
}

#[async_trait]
pub trait Backfills: Send + Sync + 'static {
    /// False if [`BACKFILLS_MAX`] of the namespace are running, or [`BACKFILLS_OF_ALL_MAX`] of all; those that were aborted and wait for the end of their jobs do not count. One that is there already makes it `Inconsistent`.
    async fn add_backfill(&self, row: BackfillRow) -> Result<bool>;

    async fn backfill(&self, id: BackfillId) -> Result<Option<BackfillRow>>;

    /// The latest first, before `before`: of a schedule, or of all of a namespace.
    async fn list_backfills(
        &self,
        namespace: NamespaceId,
        schedule: Option<ScheduleId>,
        before: Option<BackfillId>,
        limit: usize,
    ) -> Result<Vec<BackfillRow>>;

    /// All that are running, in order of id.
    async fn running_backfills(&self) -> Result<Vec<BackfillRow>>;

    /// Crash before: as if it had not been asked. Crash after, before the answer: it is done, and asking again is a
    /// conflict. A time that gets a job and has a run already makes it
    /// `Inconsistent`, and so does the end of one that has none.
    async fn step_backfill(&self, step: BackfillStep) -> Result<Stepped>;

    /// The runs of a backfill whose jobs are not known to have ended, in order of time.
    async fn open_runs(&self, id: BackfillId, limit: usize) -> Result<Vec<BackfillRun>>;

    /// The runs of a backfill in order of time, after `after`.
    async fn backfill_runs(&self, id: BackfillId, after: Option<Timestamp>, limit: usize) -> Result<Vec<BackfillRun>>;

    /// The runs that backfills made of a schedule's times from `from` up to `until`, both included, in order of (time,
    /// backfill), at most `limit`.
    async fn backfilled(
        &self,
        schedule: ScheduleId,
        from: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Backfilled>>;
}
