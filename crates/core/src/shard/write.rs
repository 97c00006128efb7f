//! What the owner wants to be durable. A store applies these; it decides nothing.

use std::sync::Arc;

use bytes::Bytes;

use crate::attempt::{AttemptNo, AttemptRecord, Details};
use crate::id::{JobId, ServerId, ShardId, WorkerId};
use crate::job::{Counters, JobKey};
use crate::lifecycle::JobState;
use crate::time::Timestamp;

/// Raised by one each time a shard changes hands. The fence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);

/// Numbers the batches of one owner, and with the shard and its epoch names a
/// record of starts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BatchSeq(pub u64);

/// Names one durable record of starts: all that one shard started in one batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StartsId {
    pub shard: ShardId,
    pub epoch: Epoch,
    pub seq: BatchSeq,
}

/// One fenced transaction: all of it or nothing.
#[derive(Debug, Clone)]
pub struct Batch {
    pub seq: BatchSeq,
    pub server: ServerId,
    /// Every shard that the writes touch, with the epoch that must still hold.
    pub fences: Vec<(ShardId, Epoch)>,
    pub at: Timestamp,
    pub writes: Vec<Write>,
}

impl Batch {
    pub fn epoch_of(&self, shard: ShardId) -> Option<Epoch> {
        self.fences.iter().find(|(id, _)| *id == shard).map(|(_, epoch)| *epoch)
    }

    /// Which of so many lanes it goes through: that of all its shards.
    pub fn lane(&self, lanes: usize) -> usize {
        self.fences.first().map_or(0, |(shard, _)| shard.lane(lanes))
    }

    pub fn starts_id(&self, shard: ShardId) -> StartsId {
        let epoch = self.epoch_of(shard).expect("a batch fences every shard it touches");
        StartsId { shard, epoch, seq: self.seq }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// After this is durable, and only then, the worker may execute.
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

impl Write {
    /// What a write about a job that is only waiting expects its row to be: under this key,
    /// with this number for the next attempt. The owner may have been told of the job so
    /// late that it is not; then the write is void.
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

    pub fn shard(&self) -> ShardId {
        match self {
            Self::Start(start) => start.key.shard(),
            Self::Settle(settle) => settle.key.shard(),
            Self::Requeue(requeue) => requeue.key.shard(),
            Self::Rerun(rerun) => rerun.id.shard(),
            Self::RequestCancel { key } => key.shard(),
            Self::ResolveLost(resolve) => resolve.id.shard(),
            Self::Stale(stale) => stale.id.shard(),
            Self::CloseStarts(starts) => starts.shard,
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
}

#[derive(Debug, Clone, PartialEq)]
pub struct StaleOutcome {
    pub id: JobId,
    pub attempt: AttemptNo,
    pub worker: WorkerId,
    pub at: Timestamp,
    pub outcome: String,
}

/// A start that a former owner recorded and nobody ended, as read at takeover.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenStart {
    pub starts: StartsId,
    pub start: Start,
    pub server: ServerId,
    pub cancel: CancelMark,
}

pub type SharedBatch = Arc<Batch>;
