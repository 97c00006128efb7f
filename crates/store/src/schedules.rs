//! Schedules, the ledger of their occurrences, and calendars.
//!
//! Schedules and occurrences are written by the owner of their shard alone, through
//! [`Transitions::apply`](crate::Transitions::apply). Calendars belong to no shard.

use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::{
    OccurrenceRow, ScheduleChange, ScheduleRow, ScheduleState, Source, StoredCalendar, Verdict,
};
use punctual_core::task::Priority;
use punctual_core::{JobId, ScheduleId, ShardId, TaskId, Timestamp};

use crate::{Order, Result};

/// What a takeover has to know before it plans anything.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ShardSchedules {
    /// Up to here every planned time has its verdict.
    pub watermark: Timestamp,
    /// Times that wait for the run before them, in order of (schedule, time).
    pub queued: Vec<OccurrenceRow>,
    /// Hot jobs whose source is tracked, in order of id.
    pub tracked: Vec<(Source, JobId)>,
}

/// What an owner keeps of a schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedRow {
    pub id: ScheduleId,
    pub namespace: NamespaceId,
    pub name: String,
    pub task: TaskId,
    pub spec: Arc<str>,
    pub priority: Option<Priority>,
    pub has_input: bool,
    pub state: ScheduleState,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScheduleFilter {
    pub namespace: NamespaceId,
    pub task: Option<TaskId>,
    /// Only those that are paused, or only those that are not.
    pub is_paused: Option<bool>,
    /// Only names that begin so.
    pub prefix: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct OccurrenceFilter {
    /// At or after.
    pub from: Option<Timestamp>,
    /// Before.
    pub before: Option<Timestamp>,
    /// Empty: all.
    pub verdicts: Vec<Verdict>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CalendarUpdate {
    /// The calendar is stored and has this revision.
    Done { revision: u32 },
    /// The calendar has this revision, not the expected one; 0: it does not exist.
    Conflict { revision: u32 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CalendarDeletion {
    Done,
    Absent,
    /// The calendar has this revision, not the one that the deletion was based on.
    Conflict {
        revision: u32,
    },
    /// These schedules refer to it; some of their names.
    InUse(Vec<String>),
}

#[async_trait]
pub trait Schedules: Send + Sync + 'static {
    async fn shard_schedules(&self, shard: ShardId) -> Result<ShardSchedules>;

    /// The schedules of a shard in order of id, after `after`.
    async fn load_schedules(&self, shard: ShardId, after: Option<ScheduleId>, limit: usize) -> Result<Vec<LoadedRow>>;

    /// Up to where every planned time of each shard has its verdict, in order of shard. One without any verdict is
    /// left out.
    async fn watermarks(&self) -> Result<Vec<(ShardId, Timestamp)>>;

    async fn schedule(&self, id: ScheduleId) -> Result<Option<ScheduleRow>>;

    /// The ids of those that there are in a namespace, by name, in no order.
    async fn schedule_ids(&self, namespace: NamespaceId, names: Vec<String>) -> Result<Vec<(String, ScheduleId)>>;

    /// In order of name, after `after`; without inputs. A page may be short and still not be the last:
    /// the second part is the name to go on after, `None` at the end.
    async fn list_schedules(
        &self,
        filter: ScheduleFilter,
        after: Option<String>,
        limit: usize,
    ) -> Result<(Vec<ScheduleRow>, Option<String>)>;

    /// The names of up to `limit` schedules of a task, in order of name.
    async fn schedules_of_task(&self, task: TaskId, limit: usize) -> Result<Vec<String>>;

    /// What was done to it, the latest first. Also of one that is gone.
    async fn schedule_changes(&self, id: ScheduleId, limit: usize) -> Result<Vec<ScheduleChange>>;

    /// One schedule's occurrences by their time, after `after`. A page may be short and still not be
    /// the last: the second part is the time to go on after, `None` at the end.
    async fn occurrences(
        &self,
        schedule: ScheduleId,
        filter: OccurrenceFilter,
        after: Option<Timestamp>,
        order: Order,
        limit: usize,
    ) -> Result<(Vec<OccurrenceRow>, Option<Timestamp>)>;

    /// Stores a calendar, or replaces the dates of the one with its name. The revision that it gets
    /// is one more than that of any calendar before, so that the largest tells whether any changed. `expected` is the revision that the calendar must have; 0: that it must
    /// not exist; `None`: whatever there is. Revisions that are refused are not used up.
    async fn put_calendar(&self, calendar: StoredCalendar, expected: Option<u32>) -> Result<CalendarUpdate>;

    /// Deletes a calendar that no schedule refers to. `expected` is the revision that it must have; `None`: whatever it
    /// has.
    async fn delete_calendar(
        &self,
        namespace: NamespaceId,
        name: &str,
        expected: Option<u32>,
    ) -> Result<CalendarDeletion>;

    async fn calendar(&self, namespace: NamespaceId, name: &str) -> Result<Option<StoredCalendar>>;

    /// All of a namespace, or of all for servers that plan, in order of (namespace, name).
    async fn calendars(&self, namespace: Option<NamespaceId>) -> Result<Vec<StoredCalendar>>;

    /// The largest revision of a calendar of any namespace; 0 without any.
    async fn calendars_revision(&self) -> Result<u32>;

    /// The schedules of these shards that refer to any of these calendars, in order of id, after `after`.
    async fn schedules_with_calendars(
        &self,
        names: Vec<(NamespaceId, String)>,
        after: Option<ScheduleId>,
        limit: usize,
    ) -> Result<Vec<LoadedRow>>;
}
