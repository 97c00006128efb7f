//! What the owner wants to be durable. A store applies these; it decides nothing.
//!
//! A write belongs to one family, and a store applies each family in one place: what concerns schedules first, then
//! jobs, then what people are to be told of all that.

mod job;
mod schedule;

use std::sync::Arc;

pub use job::{CancelMark, JobWrite, OpenStart, Requeue, Rerun, ResolveLost, Settle, StaleOutcome, Start};
pub use schedule::{Decision, FiredJob, LateStart, ScheduleWrite};

use crate::id::{JobId, ScheduleId, ServerId, ShardId};
use crate::notice::Notice;
use crate::time::Timestamp;

/// Raised by one each time a shard changes hands. The fence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);

/// Numbers the batches of one owner, and with the shard and its epoch names a
/// record of starts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BatchSeq(pub u64);

/// Names one durable record of starts: all starts of one shard in one batch.
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
    /// The notices of all writes that were applied, in the order of the writes.
    pub fn notices<'a>(&'a self, void: &'a Void) -> impl Iterator<Item = &'a Notice> {
        self.writes.iter().filter(|write| write.notice().is_some() && !write.is_void(void)).filter_map(Write::notice)
    }

    /// The writes about jobs, each with its place in the batch.
    pub fn job_writes(&self) -> impl Iterator<Item = (usize, &JobWrite)> {
        self.writes.iter().enumerate().filter_map(|(place, write)| Some((place, write.as_job()?)))
    }

    /// The writes about schedules, each with its place in the batch.
    pub fn schedule_writes(&self) -> impl Iterator<Item = (usize, &ScheduleWrite)> {
        self.writes.iter().enumerate().filter_map(|(place, write)| Some((place, write.as_schedule()?)))
    }

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

pub type SharedBatch = Arc<Batch>;

#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// About a job, or its attempts.
    Job(JobWrite),
    /// About a schedule, or its planned times.
    Schedule(ScheduleWrite),
    /// Something to tell people that goes with no other write.
    Notice(Box<Notice>),
}

impl From<JobWrite> for Write {
    fn from(write: JobWrite) -> Self {
        Self::Job(write)
    }
}

impl From<ScheduleWrite> for Write {
    fn from(write: ScheduleWrite) -> Self {
        Self::Schedule(write)
    }
}

impl Write {
    pub fn as_job(&self) -> Option<&JobWrite> {
        match self {
            Self::Job(write) => Some(write),
            Self::Schedule(_) | Self::Notice(_) => None,
        }
    }

    pub fn as_schedule(&self) -> Option<&ScheduleWrite> {
        match self {
            Self::Schedule(write) => Some(write),
            Self::Job(_) | Self::Notice(_) => None,
        }
    }

    pub fn shard(&self) -> ShardId {
        match self {
            Self::Job(write) => write.shard(),
            Self::Schedule(write) => write.shard(),
            Self::Notice(notice) => notice.shard,
        }
    }

    /// The notice that is stored when the write is applied.
    pub fn notice(&self) -> Option<&Notice> {
        match self {
            Self::Job(write) => write.notice(),
            Self::Schedule(write) => write.notice(),
            Self::Notice(notice) => Some(notice),
        }
    }

    /// Whether the store left it out.
    pub fn is_void(&self, void: &Void) -> bool {
        match self {
            Self::Job(write) => write.is_void(void),
            Self::Schedule(write) => write.is_void(void),
            Self::Notice(_) => false,
        }
    }
}

/// What of a batch was left out, because the rows were not as expected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Void {
    pub jobs: Vec<JobId>,
    /// Schedules whose names were taken.
    pub schedules: Vec<ScheduleId>,
    /// Planned times that had a verdict, or were not queued.
    pub occurrences: Vec<(ScheduleId, Timestamp)>,
}

impl Void {
    pub fn has_occurrence(&self, schedule: ScheduleId, at: Timestamp) -> bool {
        self.occurrences.contains(&(schedule, at))
    }
}

impl From<Vec<JobId>> for Void {
    fn from(jobs: Vec<JobId>) -> Self {
        Self { jobs, ..Self::default() }
    }
}
