//! Submitting jobs, and reading them for people.

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::attempt::AttemptRecord;
use punctual_core::give_backs::{GiveBacks, GivenBack};
use punctual_core::schedule::Source;
use punctual_core::task::Priority;
use punctual_core::{AttemptNo, Counters, JobId, JobKey, JobState, TaskId, Timestamp};

use crate::Result;

/// One request carries at most so many jobs: they are one transaction, and a
/// larger one would hold up everybody behind it.
pub const SUBMIT_MAX: usize = 10_000;

/// A job to be stored. Its id says when it is due and in which shard it lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    pub id: JobId,
    pub task: TaskId,
    pub priority: Priority,
    pub submitted_at: Timestamp,
    pub tracing_id: Option<String>,
    pub source: Option<Source>,
    pub input: Option<Bytes>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    pub jobs: Vec<NewJob>,
    pub idempotency: Option<IdempotentAnswer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(pub String);

/// The answer to keep under a key, so that a repeated request gets it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotentAnswer {
    pub key: IdempotencyKey,
    /// Of the request: another request under the same key is refused.
    pub fingerprint: [u8; 32],
    pub answer: Bytes,
    pub now: Timestamp,
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submitted {
    Done,
    /// The key was used before, by the same request: this was its answer.
    Replayed {
        answer: Bytes,
    },
    /// The key was used before, by another request.
    KeyReused,
}

#[async_trait]
pub trait Submit: Send + Sync + 'static {
    /// Stores all of the jobs, or none. Not fenced: a new row disturbs no decision.
    async fn submit(&self, submission: Submission) -> Result<Submitted>;

    /// What `submit` would answer because of this key alone, if it was used before: `Replayed`
    /// or `KeyReused`. For a look before anything else is decided about a request that may be a
    /// repetition; another request may use the key right after it, so `submit` looks again.
    async fn idempotent_answer(
        &self,
        key: IdempotencyKey,
        fingerprint: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<Submitted>>;
}

/// A job in the hot table: it waits or runs. Which of the two, only its owner knows.
#[derive(Debug, Clone, PartialEq)]
pub struct HotJob {
    pub key: JobKey,
    pub task: TaskId,
    pub priority: Priority,
    pub counters: Counters,
    pub submitted_at: Timestamp,
    pub tracing_id: Option<String>,
    pub source: Option<Source>,
    /// Starts that were taken back.
    pub give_backs: Option<Box<GiveBacks>>,
    pub cancel_requested: bool,
}

impl HotJob {
    /// Its last start, if that was taken back.
    pub fn given_back(&self) -> Option<&GivenBack> {
        self.give_backs.as_ref()?.last.as_ref()
    }

    /// Since when it should have run. A start that was taken back does not move this.
    pub fn due_since(&self) -> Timestamp {
        self.given_back().map_or(self.key.due_at, |last| last.since)
    }
}

/// Everything that is known of one job.
#[derive(Debug, Clone, PartialEq)]
pub enum JobRecord {
    Hot { job: HotJob, input: Option<Bytes>, attempts: Vec<AttemptRecord> },
    Finished { job: FinishedJob, input: Option<Bytes>, output: Option<Bytes>, attempts: Vec<AttemptRecord> },
}

/// A finished job was made eligible again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RerunRecord {
    pub at: Timestamp,
    /// What it had been.
    pub from: JobState,
    /// The number of the attempt that came next.
    pub next_attempt: AttemptNo,
}

/// A job in history.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedJob {
    pub id: JobId,
    pub task: TaskId,
    pub priority: Priority,
    pub counters: Counters,
    pub submitted_at: Timestamp,
    pub tracing_id: Option<String>,
    pub source: Option<Source>,
    pub state: JobState,
    pub finished_at: Timestamp,
    /// When it was due last; its id says when it was due first.
    pub due_at: Timestamp,
    /// Why it ended so, if it did not succeed.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    Ascending,
    #[default]
    Descending,
}

/// Which jobs a list shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    pub task: Option<TaskId>,
    /// The type of task: http, probe, …
    pub kind: Option<String>,
    pub queue: Option<String>,
    /// Due at or after.
    pub due_from: Option<Timestamp>,
    /// Due before.
    pub due_before: Option<Timestamp>,
    /// In history only: these states. Empty: all.
    pub states: Vec<JobState>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Position {
    pub after: Option<JobKey>,
    pub order: Order,
    pub limit: usize,
}

/// Part of a list. A page may be short, even empty, and still not be the last:
/// a read examines a bounded number of rows and then says where to go on.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    pub rows: Vec<T>,
    /// Where the next page begins; `None` when there is no more.
    pub next: Option<JobKey>,
}

/// Jobs that cannot be read and that the log of one process names; and as many rows about notifications.
pub const UNREADABLE_NAMED_MAX: usize = 1000;

#[async_trait]
pub trait JobReads: Send + Sync + 'static {
    /// Details of an attempt that cannot be read are left out; the rest still tells something.
    async fn job(&self, id: JobId) -> Result<Option<JobRecord>>;

    /// How often the job was made eligible again, the first time first.
    async fn reruns(&self, id: JobId) -> Result<Vec<RerunRecord>>;

    /// Those of the hot jobs that are still under these keys, in the order asked for.
    async fn hot_jobs(&self, keys: Vec<JobKey>) -> Result<Vec<HotJob>>;

    /// Hot jobs in order of (due time, id), over all shards. One that cannot be read is left out: nobody would see the
    /// others for it. The log names it once, and so many of them: [`UNREADABLE_NAMED_MAX`].
    async fn list_hot(&self, filter: Filter, position: Position) -> Result<Page<HotJob>>;

    /// Jobs whose last start was taken back, in order of (`late_from`, id) after that place, up to a time. The
    /// `due_at` of the keys that go in and come out as `next` is that `late_from`. One that cannot be read is left out.
    async fn given_back(&self, after: Option<JobKey>, until: Timestamp, limit: usize) -> Result<Page<HotJob>>;

    /// Finished jobs in order of id, which is the order of their first due time. A position
    /// may be the key of a hot job that was moved: two lists are read as one.
    async fn list_finished(&self, filter: Filter, position: Position) -> Result<Page<FinishedJob>>;
}
