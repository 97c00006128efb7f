//! Writes about jobs and their attempts.

use bytes::Bytes;

use super::{StartsId, Void};
use crate::attempt::{AttemptNo, AttemptRecord, Details};
use crate::batch::MemberRef;
use crate::give_backs::GiveBacks;
use crate::id::{BatchId, JobId, ScheduleId, ServerId, ShardId, WorkerId};
use crate::job::{Counters, JobKey};
use crate::lifecycle::JobState;
use crate::notice::Notice;
use crate::time::Timestamp;
use crate::workflow::NodeRef;

/// Applied in the order in which they were decided.
#[derive(Debug, Clone, PartialEq)]
pub enum JobWrite {
    /// Records a start. Only when this is durable may the worker execute.
    Start(Start),
    /// The job leaves the hot table for history.
    Settle(Settle),
    /// The job waits again, under another key.
    Requeue(Requeue),
    /// A finished job waits again; its last attempt is kept with the earlier ones.
    Rerun(Rerun),
    /// A running job was asked to end. Survives the owner.
    RequestCancel { key: JobKey },
    /// The result of a lost attempt arrived after all.
    ResolveLost(ResolveLost),
    /// An outcome that came too late, kept for the record.
    Stale(StaleOutcome),
    /// Every job of this record has ended: it says nothing any more.
    CloseStarts(StartsId),
}

impl JobWrite {
    /// The job that it is about.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Self::Start(start) => Some(start.key.id),
            Self::Settle(settle) => Some(settle.key.id),
            Self::Requeue(requeue) => Some(requeue.key.id),
            Self::Rerun(rerun) => Some(rerun.id),
            Self::RequestCancel { key } => Some(key.id),
            Self::ResolveLost(resolve) => Some(resolve.id),
            Self::Stale(stale) => Some(stale.id),
            Self::CloseStarts(_) => None,
        }
    }

    pub fn shard(&self) -> ShardId {
        match self {
            Self::CloseStarts(starts) => starts.shard,
            Self::Start(_)
            | Self::Settle(_)
            | Self::Requeue(_)
            | Self::Rerun(_)
            | Self::RequestCancel { .. }
            | Self::ResolveLost(_)
            | Self::Stale(_) => self.job().expect("only a record of starts is of many jobs").shard(),
        }
    }

    /// The row that a write about a waiting job expects: this key, and this number of the next attempt. If a hint about
    /// the job came so late that the row differs, the write is void.
    pub fn expects_waiting(&self) -> Option<(JobKey, AttemptNo)> {
        match self {
            Self::Start(start) => Some((start.key, start.attempt)),
            Self::Settle(Settle { key, counters, attempt: None, .. })
            | Self::Requeue(Requeue { key, counters, attempt: None, .. }) => Some((*key, counters.next_attempt)),
            Self::Settle(_)
            | Self::Requeue(_)
            | Self::Rerun(_)
            | Self::RequestCancel { .. }
            | Self::ResolveLost(_)
            | Self::Stale(_)
            | Self::CloseStarts(_) => None,
        }
    }

    pub(super) fn notice(&self) -> Option<&Notice> {
        match self {
            Self::Settle(settle) => settle.notice.as_deref(),
            Self::ResolveLost(resolve) => resolve.notice.as_deref(),
            Self::Start(_)
            | Self::Requeue(_)
            | Self::Rerun(_)
            | Self::RequestCancel { .. }
            | Self::Stale(_)
            | Self::CloseStarts(_) => None,
        }
    }

    pub(super) fn is_void(&self, void: &Void) -> bool {
        match self {
            Self::Rerun(rerun) => void.jobs.contains(&rerun.id),
            Self::ResolveLost(resolve) => void.jobs.contains(&resolve.id),
            Self::Start(_) | Self::Settle(_) | Self::Requeue(_) => {
                self.expects_waiting().is_some_and(|(key, _)| void.jobs.contains(&key.id))
            }
            Self::RequestCancel { .. } | Self::Stale(_) | Self::CloseStarts(_) => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    pub key: JobKey,
    pub attempt: AttemptNo,
    pub worker: WorkerId,
    /// When this server took the job into its window.
    pub picked_up_at: Timestamp,
    pub started_at: Timestamp,
    /// The gang that it starts with. If the start of one of its members is void, so are all others in the batch.
    pub gang: Option<BatchId>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Settle {
    pub key: JobKey,
    pub state: JobState,
    pub finished_at: Timestamp,
    pub counters: Counters,
    /// The attempt that ended the job; `None` when it never ran or waited.
    pub attempt: Option<AttemptRecord>,
    /// Why, when there was no attempt to say it.
    pub reason: Option<String>,
    pub output: Option<Bytes>,
    /// A request to cancel was recorded and goes with the job.
    pub cancel: CancelMark,
    /// Void if the end is.
    pub notice: Option<Box<Notice>>,
    /// The planned time of a scheduled run that succeeded: the schedule's last success, unless a later one is known. Boxed:
    /// most jobs are of no schedule.
    pub success_of: Option<Box<(ScheduleId, Timestamp)>>,
    /// The node of a run that ends with the job: what follows from it for the run is applied in the same transaction. Boxed:
    /// most jobs are of no run.
    pub node: Option<Box<NodeRef>>,
    /// The member of a batch that ends with the job: what follows from it for the batch is applied in the same transaction.
    pub member: Option<Box<MemberRef>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelMark {
    None,
    Recorded,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Requeue {
    pub key: JobKey,
    pub due_at: Timestamp,
    pub counters: Counters,
    /// Starts that were taken back, the last one included. Boxed: most jobs have none.
    pub give_backs: Option<Box<GiveBacks>>,
    /// The attempt that ended; `None` when the job only moved in time.
    pub attempt: Option<AttemptRecord>,
    pub cancel: CancelMark,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rerun {
    pub id: JobId,
    pub due_at: Timestamp,
    pub counters: Counters,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ResolveLost {
    pub id: JobId,
    pub attempt: AttemptNo,
    pub state: JobState,
    pub finished_at: Timestamp,
    pub reason: Option<String>,
    pub output: Option<Bytes>,
    pub details: Option<Box<Details>>,
    /// Void if the rest is.
    pub notice: Option<Box<Notice>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StaleOutcome {
    pub id: JobId,
    pub attempt: AttemptNo,
    pub worker: WorkerId,
    pub at: Timestamp,
    pub outcome: String,
}

/// A start that a former owner recorded and that has not ended, as read at takeover.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenStart {
    pub starts: StartsId,
    pub start: Start,
    pub server: ServerId,
    pub cancel: CancelMark,
}
