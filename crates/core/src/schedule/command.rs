//! What the owner of a schedule is asked for, and what it answers.

use serde::{Deserialize, Serialize};

use crate::id::JobId;
use crate::schedule::row::{NewSchedule, ScheduleEdit};
use crate::schedule::spec::Overlap;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleCommand {
    Create(Box<NewSchedule>),
    /// Only if its revision is still this one.
    Edit {
        revision: Option<u32>,
        edit: Box<ScheduleEdit>,
    },
    Delete,
    /// Deletes the schedule only if its revision is still this one.
    DeleteRevision {
        revision: u32,
    },
    Pause {
        note: Option<String>,
    },
    Resume {
        note: Option<String>,
    },
    /// Skips the next `count` planned times.
    SkipNext {
        count: u32,
    },
    /// One run at once, beside the plan.
    RunNow {
        /// What happens if a run has not ended; `None` if the schedule's own policy counts.
        overlap: Option<Overlap>,
    },
    /// What waits for the run before it is skipped.
    ClearQueue,
}

impl ScheduleCommand {
    /// The revision that the schedule must have; `None`: whatever it has.
    pub(crate) fn expected_revision(&self) -> Option<u32> {
        match self {
            Self::Edit { revision, .. } => *revision,
            Self::DeleteRevision { revision } => Some(*revision),
            Self::Create(_)
            | Self::Delete
            | Self::Pause { .. }
            | Self::Resume { .. }
            | Self::SkipNext { .. }
            | Self::RunNow { .. }
            | Self::ClearQueue => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleReply {
    /// It is durable.
    Done {
        revision: u32,
    },
    /// This job was made, and is durable.
    Fired(JobId),
    /// The run that was asked for waits for the one before it. `at` is its time in the ledger.
    Queued {
        at: Timestamp,
    },
    /// The run was queued, and the run before it is being cancelled.
    CancelsPrevious {
        at: Timestamp,
    },
    /// The run that was asked for was skipped, because another one has not ended; the reason is for people.
    SkippedOverlap {
        at: Timestamp,
        reason: String,
    },
    /// The number of queued times that were skipped.
    Cleared {
        count: u32,
    },
    /// Planned times up to this one will be skipped.
    Skipping(Timestamp),
    NotFound,
    /// Another schedule has this name.
    NameTaken,
    /// The schedule has another revision by now.
    Conflict {
        revision: u32,
    },
    /// The command cannot be executed; the reason is for people.
    Refused(String),
}
