//! What the owner wants to be durable. A store applies these; it decides nothing.

use std::sync::Arc;

use bytes::Bytes;

use crate::attempt::{AttemptNo, AttemptRecord, Details};
use crate::give_backs::GiveBacks;
use crate::id::{JobId, ScheduleId, ServerId, ShardId, TaskId, WorkerId};
use crate::job::{Counters, JobKey};
use crate::lifecycle::JobState;
use crate::notice::Notice;
use crate::schedule::{Marks, OccurrenceRow, ScheduleChange, ScheduleEdit, ScheduleRow, ScheduleState, Source};
use crate::task::Priority;
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
    /// What people are to be told of all that was applied, in the order of the writes.
    pub fn notices<'a>(&'a self, void: &'a Void) -> impl Iterator<Item = &'a Notice> {
        self.writes.iter().filter(|write| write.notice().is_some() && !write.is_void(void)).filter_map(Write::notice)
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
    /// A schedule is stored. Void if its name is taken.
    AddSchedule(Arc<ScheduleRow>),
    /// A schedule has a new definition. In its batch nothing about the schedule was decided before it.
    EditSchedule { id: ScheduleId, edit: Arc<ScheduleEdit>, state: ScheduleState, change: ScheduleChange },
    /// The definition stays, and something else changes, but for the number of runs, which grows with
    /// verdicts alone. What nobody asked for is not put on record.
    SetSchedule { id: ScheduleId, state: ScheduleState, change: Option<ScheduleChange> },
    /// The schedule goes; its occurrences stay for as long as history does. Likewise.
    DropSchedule { id: ScheduleId, change: ScheduleChange },
    /// A planned time gets its verdict, and its job if it fires. Void if it has one already.
    Decide(Box<Decision>),
    /// A time that was queued gets its final verdict. Void if it is not queued.
    Release(Box<Decision>),
    /// The run of a planned time starts, and not at its time. Comes before the start that it is about.
    StartedLate(LateStart),
    /// All planned times of the shard up to here have their verdicts.
    Watermark { shard: ShardId, at: Timestamp },
    /// Something to tell people that goes with no other write.
    Notice(Box<Notice>),
}

/// A verdict, and the job that it makes.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub occurrence: OccurrenceRow,
    pub job: Option<FiredJob>,
    /// Void if the verdict is.
    pub notice: Option<Box<Notice>>,
}

/// A job that a schedule makes. Its id says when it is due; it is submitted when it is decided.
#[derive(Debug, Clone, PartialEq)]
pub struct FiredJob {
    pub id: JobId,
    pub task: TaskId,
    pub priority: Priority,
    pub source: Source,
    /// The schedule has an input, which the store copies.
    pub has_input: bool,
    /// The schedule is limited to a number of runs, and this is one of them: the store counts it.
    pub is_counted: bool,
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
            | Self::CloseStarts(_)
            | Self::AddSchedule(_)
            | Self::EditSchedule { .. }
            | Self::SetSchedule { .. }
            | Self::DropSchedule { .. }
            | Self::Decide(_)
            | Self::Release(_)
            | Self::StartedLate(_)
            | Self::Watermark { .. }
            | Self::Notice(_) => None,
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
            Self::AddSchedule(row) => row.id.shard(),
            Self::EditSchedule { id, .. } | Self::SetSchedule { id, .. } | Self::DropSchedule { id, .. } => id.shard(),
            Self::Decide(decision) | Self::Release(decision) => decision.occurrence.schedule.shard(),
            Self::StartedLate(late) => late.schedule.shard(),
            Self::Watermark { shard, .. } => *shard,
            Self::Notice(notice) => notice.shard,
        }
    }

    /// The schedule that it is about, if it is not about a job.
    pub fn schedule(&self) -> Option<ScheduleId> {
        match self {
            Self::AddSchedule(row) => Some(row.id),
            Self::EditSchedule { id, .. } | Self::SetSchedule { id, .. } | Self::DropSchedule { id, .. } => Some(*id),
            Self::Decide(decision) | Self::Release(decision) => Some(decision.occurrence.schedule),
            Self::Start(_)
            | Self::Settle(_)
            | Self::Requeue(_)
            | Self::Rerun(_)
            | Self::RequestCancel { .. }
            | Self::ResolveLost(_)
            | Self::Stale(_)
            | Self::CloseStarts(_)
            | Self::StartedLate(_)
            | Self::Watermark { .. }
            | Self::Notice(_) => None,
        }
    }

    /// What people are to be told when it is applied.
    pub fn notice(&self) -> Option<&Notice> {
        match self {
            Self::Settle(settle) => settle.notice.as_deref(),
            Self::ResolveLost(resolve) => resolve.notice.as_deref(),
            Self::Decide(decision) | Self::Release(decision) => decision.notice.as_deref(),
            Self::Notice(notice) => Some(notice),
            Self::Start(_)
            | Self::Requeue(_)
            | Self::Rerun(_)
            | Self::RequestCancel { .. }
            | Self::Stale(_)
            | Self::CloseStarts(_)
            | Self::AddSchedule(_)
            | Self::EditSchedule { .. }
            | Self::SetSchedule { .. }
            | Self::DropSchedule { .. }
            | Self::StartedLate(_)
            | Self::Watermark { .. } => None,
        }
    }

    /// Whether the store left it out.
    pub fn is_void(&self, void: &Void) -> bool {
        match self {
            Self::Decide(decision) | Self::Release(decision) => {
                void.has_occurrence(decision.occurrence.schedule, decision.occurrence.at)
            }
            Self::Rerun(rerun) => void.jobs.contains(&rerun.id),
            Self::ResolveLost(resolve) => void.jobs.contains(&resolve.id),
            Self::AddSchedule(row) => void.schedules.contains(&row.id),
            Self::Start(_) | Self::Settle(_) | Self::Requeue(_) => {
                self.expects_waiting().is_some_and(|(key, _)| void.jobs.contains(&key.id))
            }
            Self::RequestCancel { .. }
            | Self::Stale(_)
            | Self::CloseStarts(_)
            | Self::EditSchedule { .. }
            | Self::SetSchedule { .. }
            | Self::DropSchedule { .. }
            | Self::StartedLate(_)
            | Self::Watermark { .. }
            | Self::Notice(_) => false,
        }
    }

    /// Whether it must not be overtaken by what was decided later.
    pub fn concerns_schedules(&self) -> bool {
        self.schedule().is_some() || matches!(self, Self::Watermark { .. })
    }

    /// Whether it says what a schedule is. A store applies what concerns schedules in the order edit
    /// and drop, add, set, decide, release, started late, watermark; so what was decided about the schedule before must not be
    /// in the same batch.
    pub fn is_definition(&self) -> bool {
        matches!(self, Self::EditSchedule { .. } | Self::DropSchedule { .. })
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

/// How late the run of a planned time started. Nothing is written if the time has another job by now, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateStart {
    pub schedule: ScheduleId,
    /// The key of its occurrence.
    pub at: Timestamp,
    pub job: JobId,
    pub started_at: Timestamp,
    /// To be added: [`Marks::LATE`] if the schedule does not allow it, or none.
    pub marks: Marks,
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
    /// The planned time of a scheduled run that succeeded: the schedule's last success, unless a later one is known.
    pub success_of: Option<(ScheduleId, Timestamp)>,
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

/// A start that a former owner recorded and nobody ended, as read at takeover.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenStart {
    pub starts: StartsId,
    pub start: Start,
    pub server: ServerId,
    pub cancel: CancelMark,
}

pub type SharedBatch = Arc<Batch>;
