//! Submitting jobs, and reading them for people.

use std::cmp::Ordering;

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::attempt::AttemptRecord;
use punctual_core::batch::MemberRef;
use punctual_core::give_backs::{GiveBacks, GivenBack};
use punctual_core::job::Input;
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::Source;
use punctual_core::task::Priority;
use punctual_core::workflow::NodeRef;
use punctual_core::{AttemptNo, Counters, JobId, JobKey, JobRow, JobState, Span, TaskId, Timestamp, WorkerId};

use crate::{BatchRow, RequesterId, Result};

/// One request carries at most so many jobs: they are one transaction, and a
/// larger one would hold up everybody behind it.
pub const SUBMIT_MAX: usize = 10_000;

/// A job to be stored. Its id says when it is due and in which shard it lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    pub id: JobId,
    /// That of its task; another one is refused.
    pub namespace: NamespaceId,
    pub task: TaskId,
    pub priority: Priority,
    pub submitted_at: Timestamp,
    pub tracing_id: Option<String>,
    pub source: Option<Source>,
    /// Who submitted it; `None` if nobody did, because a schedule made it.
    pub requester: Option<RequesterId>,
    /// The node of a run that it is for; such a job has no `source`.
    pub node: Option<NodeRef>,
    /// The member of a batch that it is for; such a job has neither.
    pub member: Option<MemberRef>,
    pub input: Option<Bytes>,
}

impl NewJob {
    /// Its row, as a load would show it.
    pub fn row(&self) -> JobRow {
        JobRow {
            key: JobKey::original(self.id),
            task: self.task,
            priority: self.priority,
            counters: Counters::NEW,
            submitted_at: self.submitted_at,
            tracing_id: self.tracing_id.clone(),
            source: self.source.map(Box::new),
            node: self.node.map(Box::new),
            member: self.member.map(Box::new),
            give_backs: None,
            input: match &self.input {
                None => Input::None,
                Some(bytes) if bytes.len() <= Input::INLINE_MAX => Input::Inline(bytes.clone()),
                Some(bytes) => Input::Stored { len: bytes.len() as u32 },
            },
        }
    }

    /// Why it exists, as stores keep it.
    pub fn maker(&self) -> Option<[u8; Source::LEN]> {
        let member = self.member.map(MemberRef::to_bytes);
        member.or_else(|| self.node.map(NodeRef::to_bytes)).or_else(|| self.source.map(Source::to_bytes))
    }
}

/// What [`NewJob::maker`] wrote.
pub enum Maker {
    Schedule(Source),
    Run(NodeRef),
    Batch(MemberRef),
}

/// The parts of a row that say why its job exists. At most one of them is there.
#[derive(Debug, Default)]
pub struct MakerFields {
    pub source: Option<Box<Source>>,
    pub node: Option<Box<NodeRef>>,
    pub member: Option<Box<MemberRef>>,
}

impl From<Option<Maker>> for MakerFields {
    fn from(maker: Option<Maker>) -> Self {
        match maker {
            Some(Maker::Schedule(source)) => Self { source: Some(Box::new(source)), ..Self::default() },
            Some(Maker::Run(node)) => Self { node: Some(Box::new(node)), ..Self::default() },
            Some(Maker::Batch(member)) => Self { member: Some(Box::new(member)), ..Self::default() },
            None => Self::default(),
        }
    }
}

impl Maker {
    /// `None` if it cannot be read.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let member = || MemberRef::from_bytes(bytes).map(Self::Batch);
        let node = || NodeRef::from_bytes(bytes).map(Self::Run);
        Source::from_bytes(bytes).map(Self::Schedule).or_else(node).or_else(member)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    pub jobs: Vec<NewJob>,
    pub idempotency: Option<IdempotentAnswer>,
    /// The batch that the jobs are the members of.
    pub batch: Option<Box<BatchRow>>,
}

/// The same text in another namespace is another key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey {
    pub namespace: NamespaceId,
    pub key: String,
}

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
    pub namespace: NamespaceId,
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
    Hot {
        job: HotJob,
        requester: Option<RequesterId>,
        input: Option<Bytes>,
        attempts: Vec<AttemptRecord>,
    },
    Finished {
        job: FinishedJob,
        requester: Option<RequesterId>,
        input: Option<Bytes>,
        output: Option<Bytes>,
        attempts: Vec<AttemptRecord>,
    },
}

impl JobRecord {
    /// Who submitted it, if that is on record.
    pub fn requester(&self) -> Option<RequesterId> {
        match self {
            Self::Hot { requester, .. } | Self::Finished { requester, .. } => *requester,
        }
    }
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

/// An outcome that came too late to count; see [`JobWrite::Stale`](punctual_core::shard::write::Write::Stale).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateOutcome {
    pub attempt: AttemptNo,
    pub worker: WorkerId,
    pub at: Timestamp,
    /// A description for people.
    pub outcome: String,
}

/// A job in history.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedJob {
    pub id: JobId,
    pub namespace: NamespaceId,
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

/// Which tables a list is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tables {
    #[default]
    Both,
    /// Jobs that wait or run.
    Hot,
    Finished,
}

impl Tables {
    pub fn has_hot(self) -> bool {
        matches!(self, Self::Both | Self::Hot)
    }

    pub fn has_finished(self) -> bool {
        matches!(self, Self::Both | Self::Finished)
    }
}

/// Which jobs a list shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    pub tables: Tables,
    /// `None`: all, for duties. People see one.
    pub namespace: Option<NamespaceId>,
    pub task: Option<TaskId>,
    /// The type of task: http, probe, …
    pub kind: Option<String>,
    pub queue: Option<String>,
    /// Exactly this one.
    pub tracing_id: Option<String>,
    /// First due at or after.
    pub scheduled_from: Option<Timestamp>,
    /// First due before.
    pub scheduled_before: Option<Timestamp>,
    /// In history only: these states. Empty: all.
    pub states: Vec<JobState>,
}

/// A place in a list by id. The id after which it goes on need not be that of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Position {
    pub after: Option<JobId>,
    pub order: Order,
    pub limit: usize,
}

impl Position {
    /// How far a list by id has come when a read in order of (due time, id) has come to the job at `key`: every job that
    /// is still due at its first time and comes before this id in the list was read, and none after it. A job that was
    /// moved stands among jobs with other first due times, so its own id says nothing about that.
    pub fn reached(self, key: JobKey) -> JobId {
        const INSTANT: Span = Span::from_micros(1);
        match (key.due_at.cmp(&key.id.due_at()), self.order) {
            (Ordering::Equal, _) => key.id,
            // It comes before all that are first due at this time.
            (Ordering::Greater, Order::Ascending) => JobId::last_at(key.due_at - INSTANT),
            (Ordering::Greater, Order::Descending) => JobId::first_at(key.due_at),
            // It comes after them.
            (Ordering::Less, Order::Ascending) => JobId::last_at(key.due_at),
            (Ordering::Less, Order::Descending) => JobId::first_at(key.due_at + INSTANT),
        }
    }
}

/// Part of a list. A page may be short, even empty, and still not be the last:
/// a read examines a bounded number of rows and then says where to go on.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T, K = JobId> {
    pub rows: Vec<T>,
    /// Where the next page begins; `None` when there is no more.
    pub next: Option<K>,
}

impl<T, K> Page<T, K> {
    pub const EMPTY: Self = Self { rows: Vec::new(), next: None };
}

/// Two pages of one snapshot: no job is in both.
#[derive(Debug, Clone, PartialEq)]
pub struct JobPages {
    pub hot: Page<HotJob>,
    pub finished: Page<FinishedJob>,
}

/// Hot jobs by the time at which they are due now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DueWindow {
    /// `None`: all.
    pub namespace: Option<NamespaceId>,
    /// Due at or after.
    pub from: Timestamp,
    /// Due before.
    pub before: Timestamp,
    /// Only what comes after this key.
    pub after: Option<JobKey>,
}

/// Jobs that cannot be read and that the log of one process names; and as many rows about notifications.
pub const UNREADABLE_NAMED_MAX: usize = 1000;

#[async_trait]
pub trait JobReads: Send + Sync + 'static {
    /// Details of an attempt that cannot be read are left out; the rest still tells something.
    async fn job(&self, id: JobId) -> Result<Option<JobRecord>>;

    /// The namespace of a job that waits, runs or is history. It takes as long for a job that is there as for one that is not,
    /// whatever its input is.
    async fn namespace_of_job(&self, id: JobId) -> Result<Option<NamespaceId>>;

    /// How often the job was made eligible again, the first time first.
    async fn reruns(&self, id: JobId) -> Result<Vec<RerunRecord>>;

    /// Outcomes of the job that came too late to count, by (attempt, worker), the first `limit`.
    async fn late_outcomes(&self, id: JobId, limit: usize) -> Result<Vec<LateOutcome>>;

    /// Those of the hot jobs that are still under these keys, in the order asked for.
    async fn hot_jobs(&self, keys: Vec<JobKey>) -> Result<Vec<HotJob>>;

    /// Those of the jobs that are finished, in any order.
    async fn finished_jobs(&self, ids: Vec<JobId>) -> Result<Vec<FinishedJob>>;

    /// Jobs whose last start was taken back, in order of (`since`, id) after that place, up to a time. The
    /// `due_at` of the keys that go in and come out as `next` is that `since`. One that cannot be read is left out.
    /// Those of other namespaces than the one asked for are examined and left out.
    async fn given_back(
        &self,
        namespace: Option<NamespaceId>,
        after: Option<JobKey>,
        until: Timestamp,
        limit: usize,
    ) -> Result<Page<HotJob, JobKey>>;

    /// Jobs in order of id, which is that of their first due times and never changes, over all shards. Both tables are
    /// read in one snapshot, or a job that moves between them would be found twice or not at all.
    ///
    /// A hot job that cannot be read is left out: nobody would see the others for it. The log names it once, and so many
    /// of them: [`UNREADABLE_NAMED_MAX`].
    async fn list_jobs(&self, filter: Filter, position: Position) -> Result<JobPages>;

    /// Hot jobs in ascending order of (due time, id), over all shards. For those who look for late jobs: a retry moves a
    /// job in this order, so a walk through it may meet a job twice or not at all. Unreadable jobs are left out as by
    /// `list_jobs`.
    async fn list_due(&self, window: DueWindow, limit: usize) -> Result<Page<HotJob, JobKey>>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::ShardId;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros).unwrap()
    }

    fn id(micros: i64) -> JobId {
        JobId::new(at(micros), ShardId(1), 7)
    }

    #[test]
    fn a_job_that_was_moved_says_how_far_a_list_by_id_has_come() {
        let ids = [id(4), id(5), id(6)];
        // The job that is first due at `first` waits among those that are due at 5.
        for (first, order, passed) in [
            (5, Order::Ascending, 2),
            (2, Order::Ascending, 1),
            (9, Order::Ascending, 2),
            (5, Order::Descending, 2),
            (2, Order::Descending, 2),
            (9, Order::Descending, 1),
        ] {
            let position = Position { after: None, order, limit: 1 };
            let reached = position.reached(JobKey { due_at: at(5), id: id(first) });
            let is_passed = |id: &&JobId| match order {
                Order::Ascending => **id <= reached,
                Order::Descending => **id >= reached,
            };
            assert_eq!(ids.iter().filter(is_passed).count(), passed, "{first} {order:?}");
        }
    }
}
