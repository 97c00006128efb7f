//! Writes about schedules and their ledger.

use std::sync::Arc;

use super::Void;
use crate::id::{JobId, ScheduleId, ShardId, TaskId};
use crate::notice::Notice;
use crate::schedule::{Marks, OccurrenceRow, ScheduleChange, ScheduleEdit, ScheduleRow, ScheduleState, Source};
use crate::task::Priority;
use crate::time::Timestamp;

/// A store applies those of a batch in the order edit and drop, add, set, decide, release, started late, watermark,
/// whatever order they were decided in.
#[derive(Debug, Clone, PartialEq)]
pub enum ScheduleWrite {
    /// A schedule is stored. Void if its name is taken.
    Add(Arc<ScheduleRow>),
    /// A schedule has a new definition. In its batch nothing about the schedule was decided before it.
    Edit { id: ScheduleId, edit: Arc<ScheduleEdit>, state: ScheduleState, change: ScheduleChange },
    /// The definition stays, and something else changes, but for the number of runs, which grows with
    /// verdicts alone. What nobody asked for is not put on record.
    Set { id: ScheduleId, state: ScheduleState, change: Option<ScheduleChange> },
    /// The schedule goes; its occurrences stay for as long as history does. In its batch nothing about the schedule was
    /// decided before it.
    Drop { id: ScheduleId, change: ScheduleChange },
    /// A planned time gets its verdict, and its job if it fires. Void if it has one already.
    Decide(Box<Decision>),
    /// A time that was queued gets its final verdict. Void if it is not queued.
    Release(Box<Decision>),
    /// The run of a planned time starts, and not at its time. Comes before the start that it is about.
    StartedLate(LateStart),
    /// All planned times of the shard up to here have their verdicts.
    Watermark { shard: ShardId, at: Timestamp },
}

impl ScheduleWrite {
    pub fn shard(&self) -> ShardId {
        match self {
            Self::Add(row) => row.id.shard(),
            Self::Edit { id, .. } | Self::Set { id, .. } | Self::Drop { id, .. } => id.shard(),
            Self::Decide(decision) | Self::Release(decision) => decision.occurrence.schedule.shard(),
            Self::StartedLate(late) => late.schedule.shard(),
            Self::Watermark { shard, .. } => *shard,
        }
    }

    /// The schedule whose definition, state or verdicts it changes. A late start is about a job, too, and changes none of
    /// them.
    pub fn schedule(&self) -> Option<ScheduleId> {
        match self {
            Self::Add(row) => Some(row.id),
            Self::Edit { id, .. } | Self::Set { id, .. } | Self::Drop { id, .. } => Some(*id),
            Self::Decide(decision) | Self::Release(decision) => Some(decision.occurrence.schedule),
            Self::StartedLate(_) | Self::Watermark { .. } => None,
        }
    }

    /// Whether it must not be overtaken by what was decided later.
    pub fn keeps_order(&self) -> bool {
        !matches!(self, Self::StartedLate(_))
    }

    /// Whether it says what a schedule is. It is applied first, so what was decided about the schedule before must not
    /// be in the same batch.
    pub fn is_definition(&self) -> bool {
        matches!(self, Self::Edit { .. } | Self::Drop { .. })
    }

    pub(super) fn notice(&self) -> Option<&Notice> {
        match self {
            Self::Decide(decision) | Self::Release(decision) => decision.notice.as_deref(),
            Self::Add(_)
            | Self::Edit { .. }
            | Self::Set { .. }
            | Self::Drop { .. }
            | Self::StartedLate(_)
            | Self::Watermark { .. } => None,
        }
    }

    pub(super) fn is_void(&self, void: &Void) -> bool {
        match self {
            Self::Decide(decision) | Self::Release(decision) => {
                void.has_occurrence(decision.occurrence.schedule, decision.occurrence.at)
            }
            Self::Add(row) => void.schedules.contains(&row.id),
            Self::Edit { .. }
            | Self::Set { .. }
            | Self::Drop { .. }
            | Self::StartedLate(_)
            | Self::Watermark { .. } => false,
        }
    }
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

/// How late the run of a planned time started. Nothing is written if the time has another job by now, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateStart {
    pub schedule: ScheduleId,
    /// The key of its occurrence.
    pub at: Timestamp,
    pub job: JobId,
    pub started_at: Timestamp,
    /// Marks to add: [`Marks::LATE`] if the start is later than the schedule allows, otherwise none.
    pub marks: Marks,
}
