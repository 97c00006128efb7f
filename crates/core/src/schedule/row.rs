//! A schedule as it is stored.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::id::{ScheduleId, TaskId};
use crate::namespace::NamespaceId;
use crate::task::Priority;
use crate::time::Timestamp;

/// Who did something, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct By {
    pub at: Timestamp,
    pub who: String,
}

/// What a user writes down, checked and ready to be stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleEdit {
    pub task: TaskId,
    /// A [`super::ScheduleSpec`] as JSON; equal specs have equal texts.
    pub spec: Arc<str>,
    /// The names of the calendars in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calendars: Vec<String>,
    /// Instead of the task's own.
    pub priority: Option<Priority>,
    pub input: Option<Bytes>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSchedule {
    /// Names its shard, which the server that is asked to create it must own.
    pub id: ScheduleId,
    /// That of its task.
    #[serde(default, skip_serializing_if = "NamespaceId::is_default")]
    pub namespace: NamespaceId,
    /// Names it for people, and feeds its jitter and its hashed slots.
    pub name: String,
    pub edit: ScheduleEdit,
}

/// What changes while the definition stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleState {
    /// Grows with each edit.
    pub revision: u32,
    /// This definition decides about times after this instant; earlier ones have been decided about.
    pub since: Timestamp,
    pub pause: Option<Pause>,
    /// Planned times up to here are skipped.
    pub skip_until: Option<Timestamp>,
    /// How often it has fired by plan, where the spec limits that. Counted by the store, with the verdicts.
    pub runs: u32,
    /// Jobs that failed in a row; kept up where the spec asks for it.
    pub failures: u16,
    /// The latest planned time whose run has succeeded. Kept by the store, with the ends of jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success: Option<Timestamp>,
}

impl ScheduleState {
    pub fn new(since: Timestamp) -> Self {
        Self { revision: 1, since, pause: None, skip_until: None, runs: 0, failures: 0, last_success: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    pub by: By,
    pub note: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleRow {
    pub id: ScheduleId,
    /// That of its task.
    pub namespace: NamespaceId,
    pub name: String,
    pub edit: ScheduleEdit,
    pub state: ScheduleState,
    pub created: By,
    pub changed: By,
}

impl ScheduleRow {
    pub fn new(new: NewSchedule, created: By) -> Self {
        let NewSchedule { id, namespace, name, edit } = new;
        Self { id, namespace, name, edit, state: ScheduleState::new(created.at), changed: created.clone(), created }
    }
}

/// What somebody, or the scheduler itself, did to a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleChange {
    pub by: By,
    pub kind: ChangeKind,
    /// Why it was done. Of a deletion, the name that the schedule had: its jobs stay longer than its row.
    pub note: Option<String>,
    /// The spec that was replaced.
    pub former_spec: Option<Arc<str>>,
}

/// Numbers are those in stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum ChangeKind {
    Edited = 1,
    Paused = 2,
    Resumed = 3,
    Skipped = 4,
    Deleted = 5,
    QueueCleared = 6,
}

impl ChangeKind {
    pub const ALL: [Self; 6] =
        [Self::Edited, Self::Paused, Self::Resumed, Self::Skipped, Self::Deleted, Self::QueueCleared];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Edited => "edited",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Skipped => "skipped",
            Self::Deleted => "deleted",
            Self::QueueCleared => "queue_cleared",
        }
    }

    pub fn from_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| i64::from(*kind as u8) == number)
    }
}

/// Dates that schedules refer to by a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCalendar {
    pub namespace: NamespaceId,
    pub name: String,
    pub dates: BTreeSet<jiff::civil::Date>,
    /// Grows with each change.
    pub revision: u32,
    pub changed: By,
}

/// What jitter and hashed slots of a schedule are drawn from: its name, so that they stay when it
/// is made anew under the same name.
pub fn seed_of(name: &str) -> u64 {
    punctual_recurrence::seed(name)
}
