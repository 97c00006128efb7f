//! Batches.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::batch::{
    BatchEvent, BatchHead, BatchMember, BatchStart, BatchState, BatchStatus, Contract, MemberRef, Started, Unplaceable,
    compensation_job, member_job, step,
};
use punctual_core::schedule::By;
use punctual_core::shard::write::{Batch, JobWrite, Void};
use punctual_core::task::Priority;
use punctual_core::{BatchId, JobId, NamespaceId, Span, TaskId, Timestamp};

use crate::{NewJob, RequesterId, Result};

/// The tasks of a batch are kept for this long after it is due, for its compensations.
const TASKS_KEPT: Span = Span::from_secs(120 * 24 * 3600);

/// A batch as a store keeps it. Its jobs are worked out: [`member_job`].
#[derive(Debug, Clone, PartialEq)]
pub struct BatchRow {
    pub id: BatchId,
    pub namespace: NamespaceId,
    pub name: Option<String>,
    pub made: By,
    pub requester: Option<RequesterId>,
    pub due_at: Timestamp,
    /// Those that members refer to.
    pub tasks: Vec<(TaskId, Priority)>,
    pub members: Vec<BatchMember>,
    pub state: BatchState,
    pub status: BatchStatus,
}

impl BatchRow {
    /// Until when its tasks are needed.
    pub fn tasks_used_until(&self) -> Timestamp {
        self.due_at + TASKS_KEPT
    }

    /// When a batch that is new is to be looked at.
    pub fn first_wake(&self) -> Option<Timestamp> {
        let Contract { start, unplaceable, .. } = self.state.contract;
        let is_checked = start == BatchStart::Together && unplaceable == Unplaceable::Fail;
        is_checked.then_some(self.due_at)
    }

    pub fn member_job(&self, place: u16) -> JobId {
        member_job(self.id, self.due_at, place)
    }

    /// The job that undoes a member, if one was stored.
    pub fn compensation_job(&self, place: u16) -> Option<JobId> {
        self.state.compensating_since.map(|since| compensation_job(self.id, since, place))
    }

    pub fn step(&self, events: &[BatchEvent], now: Timestamp) -> BatchChanges {
        let done = step(BatchHead { members: &self.members }, self.state.clone(), events, now);
        let row = Self { state: done.state, status: done.status, ..self.clone() };
        let cancels = done.cancels.iter().map(|place| row.member_job(*place)).collect();
        let compensations = done.compensations.iter().filter_map(|place| row.compensation(*place)).collect();
        BatchChanges { row, wake_at: done.wake_at, cancels, compensations, is_refused: done.is_refused }
    }

    fn compensation(&self, place: u16) -> Option<Compensation> {
        let member = self.members.get(usize::from(place))?;
        let &(task, priority) = self.tasks.get(usize::from(member.compensation?))?;
        Some(Compensation { place, task, priority, of: self.member_job(place), job: self.compensation_job(place)? })
    }
}

/// A job to be stored that undoes what a member did. It is given the input of the member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compensation {
    pub place: u16,
    pub task: TaskId,
    pub priority: Priority,
    /// The job of the member.
    pub of: JobId,
    pub job: JobId,
}

/// What a step wants to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchChanges {
    pub row: BatchRow,
    pub wake_at: Option<Timestamp>,
    pub cancels: Vec<JobId>,
    pub compensations: Vec<Compensation>,
    pub is_refused: bool,
}

impl BatchChanges {
    /// The jobs of the compensations, with the inputs of their members. Those of members that are gone, or whose task is, have
    /// failed.
    pub fn into_change(mut self, inputs: &BTreeMap<JobId, Option<Bytes>>, gone: &[TaskId], now: Timestamp) -> Self {
        let cannot = |one: &Compensation| !inputs.contains_key(&one.of) || gone.contains(&one.task);
        let failed = |one: &Compensation| BatchEvent::Ended {
            member: MemberRef::compensation(self.row.id, one.place),
            state: punctual_core::JobState::Failed,
            started: Started::Never,
        };
        let ends: Vec<BatchEvent> = self.compensations.iter().filter(|one| cannot(one)).map(failed).collect();
        if !ends.is_empty() {
            let after = self.row.step(&ends, now);
            (self.row, self.wake_at) = (after.row, after.wake_at);
            self.compensations.retain(|one| !cannot(one));
        }
        self
    }

    pub fn jobs(&self, inputs: &BTreeMap<JobId, Option<Bytes>>) -> Vec<NewJob> {
        let job = |one: &Compensation| NewJob {
            id: one.job,
            namespace: self.row.namespace,
            task: one.task,
            priority: one.priority,
            submitted_at: one.job.due_at(),
            tracing_id: Some(self.row.id.to_string()),
            source: None,
            requester: self.row.requester,
            node: None,
            member: Some(MemberRef::compensation(self.row.id, one.place)),
            input: inputs.get(&one.of).cloned().flatten(),
        };
        self.compensations.iter().map(job).collect()
    }

    pub fn into_answer(self, jobs: Vec<NewJob>) -> BatchChange {
        BatchChange { row: self.row, jobs, cancels: self.cancels, is_refused: self.is_refused }
    }
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchChange {
    pub row: BatchRow,
    /// The jobs that were stored.
    pub jobs: Vec<NewJob>,
    /// Jobs that are to be cancelled.
    pub cancels: Vec<JobId>,
    /// The request was refused, and nothing was changed.
    pub is_refused: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchFilter {
    pub namespace: NamespaceId,
    pub status: Option<BatchStatus>,
    /// Only older ones.
    pub before: Option<BatchId>,
    pub limit: usize,
}

/// A batch that is to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueBatch {
    /// Since when.
    pub at: Timestamp,
    pub id: BatchId,
}

/// A batch is stored by [`Submit::submit`](crate::Submit::submit), with all of its jobs or not at all. The end of a job of a batch
/// reaches it in [`Transitions::apply`](crate::Transitions::apply), in the transaction that ends the job. Nothing else of a
/// batch is fenced: whoever changes it locks its row.
#[async_trait]
pub trait Batches: Send + Sync + 'static {
    /// Applies an event to a batch, and stores the compensations that follow from it, in one transaction that holds the batch's
    /// row. `None` if there is no such batch. Crash before: nothing happened, and the row is due again. Crash after: the jobs
    /// are stored, and those that are to be cancelled are named again some seconds later.
    async fn change_batch(&self, id: BatchId, event: BatchEvent, now: Timestamp) -> Result<Option<BatchChange>>;

    async fn batch(&self, id: BatchId) -> Result<Option<BatchRow>>;

    /// The batch, if it is of this namespace. One of another namespace takes as long as one that is not there, however large it is.
    async fn batch_in(&self, namespace: NamespaceId, id: BatchId) -> Result<Option<BatchRow>>;

    /// The latest first.
    async fn list_batches(&self, filter: BatchFilter) -> Result<Vec<BatchRow>>;

    /// Batches that are to be looked at by now, the longest overdue first, after `after`.
    async fn due_batches(&self, now: Timestamp, after: Option<DueBatch>, limit: usize) -> Result<Vec<DueBatch>>;

    /// The member that a job is for, if it is of a batch.
    async fn member_of_job(&self, job: JobId) -> Result<Option<MemberRef>>;
}

/// The ends of jobs of batches that a transaction brings, by batch, in their order.
pub fn batch_ends(batch: &Batch, void: &Void) -> BTreeMap<BatchId, Vec<BatchEvent>> {
    let mut ends: BTreeMap<BatchId, Vec<BatchEvent>> = BTreeMap::new();
    for (_, write) in batch.job_writes() {
        let JobWrite::Settle(settle) = write else { continue };
        let Some(member) = settle.member.as_deref() else { continue };
        let is_void = write.expects_waiting().is_some_and(|(key, _)| void.jobs.contains(&key.id));
        if !is_void {
            let started = if settle.counters.has_started() { Started::Yes } else { Started::Never };
            let event = BatchEvent::Ended { member: *member, state: settle.state, started };
            ends.entry(member.batch).or_default().push(event);
        }
    }
    ends
}
