//! What people may want to be told: that a job failed, that a time was missed, that all is well again.
//!
//! The owner puts a notice into the write that it is about, so it is durable exactly when that is.
//! Whether anybody is told, and how, is decided later, by rules.

mod rule;

use serde::{Deserialize, Serialize};

pub use rule::{Channel, RuleSpec, Templates, late_limits};

use crate::id::{JobId, ScheduleId, ShardId, TaskId};
use crate::lifecycle::JobState;
use crate::schedule::Source;
use crate::time::{Span, Timestamp};

/// Numbers are those in stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum NoticeKind {
    /// A job failed permanently.
    Failed = 1,
    /// It is unknown whether a job ran.
    Lost = 2,
    /// A job took its workers down with it, again and again.
    Quarantined = 3,
    /// Planned times that no server handled in time, and that do not run any more.
    Missed = 4,
    /// A job that started late, or waits for longer than it should.
    Late = 5,
    /// A task had failed, and has succeeded since.
    Recovered = 6,
}

impl NoticeKind {
    pub const ALL: [Self; 6] = [Self::Failed, Self::Lost, Self::Quarantined, Self::Missed, Self::Late, Self::Recovered];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::Quarantined => "quarantined",
            Self::Missed => "missed",
            Self::Late => "late",
            Self::Recovered => "recovered",
        }
    }

    pub fn from_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| i64::from(*kind as u8) == number)
    }

    /// What there is to say of a job that ended so.
    pub const fn of_end(state: JobState) -> Option<Self> {
        match state {
            JobState::Failed => Some(Self::Failed),
            JobState::Lost => Some(Self::Lost),
            JobState::Quarantined => Some(Self::Quarantined),
            JobState::Scheduled | JobState::Running | JobState::Succeeded | JobState::Cancelled | JobState::Deleted => {
                None
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub at: Timestamp,
    pub kind: NoticeKind,
    /// The shard whose owner noticed it.
    pub shard: ShardId,
    /// `None` where the owner did not have it at hand; the job says it.
    pub task: Option<TaskId>,
    /// The job; one of the jobs if the notice stands for several.
    pub job: Option<JobId>,
    /// The schedule, and the planned time.
    pub planned: Option<(ScheduleId, Timestamp)>,
    /// How many jobs or planned times it stands for.
    pub count: u32,
    /// How late the latest of them was.
    pub lateness: Option<Span>,
}

impl Notice {
    /// A notice about one job.
    pub fn of_job(kind: NoticeKind, job: JobId, task: Option<TaskId>, source: Option<&Source>, at: Timestamp) -> Self {
        let planned = source.map(|source| (source.schedule, source.at));
        Self { at, kind, shard: job.shard(), task, job: Some(job), planned, count: 1, lateness: None }
    }
}
