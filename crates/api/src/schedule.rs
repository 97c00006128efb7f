//! Schedules on the wire: when a task runs, again and again.

use punctual_core::schedule::Overlap;
use punctual_core::{JobId, ScheduleId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;
use crate::{ScheduleRequest, TaskRef, Warning};

/// Schedules that are created together.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleBulkRequest {
    /// 1 to 10,000. If anything is wrong with one of them, none is stored.
    #[schema(min_items = 1, max_items = 10_000)]
    pub schedules: Vec<ScheduleRequest>,
    #[serde(default)]
    pub if_exists: IfExists,
}

/// What becomes of a schedule whose name is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IfExists {
    /// The whole request is refused.
    #[default]
    Fail,
    /// The one that exists stays as it is.
    Skip,
    /// The one that exists gets the new definition.
    Replace,
}

/// What became of the schedules of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ScheduleBulkAnswer {
    pub created: usize,
    pub replaced: usize,
    pub skipped: usize,
    /// Somebody else took these names meanwhile: those schedules were not stored. At most 100 are named.
    pub names_taken: Vec<String>,
    /// What has to be done before their runs can start.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<Warning>,
}

/// Whether a schedule fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleStanding {
    Active,
    Paused,
    /// It will not fire again.
    Ended,
    /// It cannot fire: `reason` says why.
    Broken,
}

impl ScheduleStanding {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Ended => "ended",
            Self::Broken => "broken",
        }
    }
}

/// One schedule with everything that is known of it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ScheduleView {
    #[schema(schema_with = schema::schedule_id)]
    pub id: ScheduleId,
    pub name: String,
    pub task: TaskRef,
    /// What was written, in plain form; good for a `PUT`.
    pub definition: ScheduleRequest,
    /// When it fires, for people.
    pub explanation: String,
    /// An IANA name.
    pub zone: String,
    pub state: ScheduleStanding,
    /// Why it is not active.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The next five starts, if it is active.
    pub next: Vec<PlannedStart>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pause: Option<PauseView>,
    /// Planned times up to here are skipped.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub skip_until: Option<Timestamp>,
    /// How often it has fired by plan, where `max_runs` limits that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub runs: Option<u32>,
    /// Jobs that failed in a row, where `pause_after_failures` asks for it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failures: Option<u16>,
    pub created: DoneBy,
    pub changed: DoneBy,
    /// Grows with each change of the definition.
    pub revision: u32,
    /// What was done to it, the latest first; at most 20.
    pub changes: Vec<ScheduleChangeView>,
    /// Only in the answer to a `PUT` that replaced a definition.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub moves: Option<Moves>,
    /// What has to be done before its runs can start, if it is active.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<Warning>,
}

/// A start that is planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlannedStart {
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// `at` in the schedule's zone.
    #[schema(example = "2026-12-24T18:00:00+01:00")]
    pub local: String,
    /// When the run starts, with jitter.
    #[schema(value_type = String, format = DateTime)]
    pub start_at: Timestamp,
}

/// The next starts by the definition that was replaced and by the new one; five of each at most.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Moves {
    pub before: Vec<PlannedStart>,
    pub after: Vec<PlannedStart>,
}

/// Who did something, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DoneBy {
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    pub who: String,
}

/// Since when a schedule is paused, and by whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PauseView {
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    pub who: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
}

/// What somebody did to a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScheduleChangeView {
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    pub who: String,
    #[schema(schema_with = schema::change_kind)]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
    /// When it fired by the definition that was replaced, for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub former: Option<String>,
}

/// A schedule in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScheduleSummary {
    #[schema(schema_with = schema::schedule_id)]
    pub id: ScheduleId,
    pub name: String,
    pub task: TaskRef,
    /// When it fires, for people.
    pub explanation: String,
    pub zone: String,
    pub state: ScheduleStanding,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The next start, if it is active; at most one.
    pub next: Vec<PlannedStart>,
    pub changed: DoneBy,
    pub revision: u32,
}

/// A page of schedules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScheduleList {
    pub schedules: Vec<ScheduleSummary>,
    /// Pass as `cursor` for the next page; absent on the last. A page may be short and not be the last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_cursor: Option<String>,
}

/// `GET /v1/schedules?…`
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ScheduleQuery {
    /// The name of a task.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub task: Option<String>,
    /// `true` for those that are paused, `false` for the others.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub paused: Option<String>,
    /// What the name begins with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prefix: Option<String>,
    /// 1 to 1000; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cursor: Option<String>,
}

/// Why it is paused or resumed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NoteRequest {
    /// At most 256 characters.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_length = 256)]
    pub note: Option<String>,
}

/// How many planned times to skip.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SkipRequest {
    /// How many planned times are skipped; 1 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(minimum = 1, maximum = 1000)]
    pub count: Option<u32>,
}

/// What is skipped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SkipAnswer {
    /// Planned times up to here are skipped.
    #[schema(value_type = String, format = DateTime)]
    pub until: Timestamp,
    /// Those times.
    pub skipped: Vec<PlannedStart>,
}

/// A run outside the plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// What happens if a run of the schedule has not ended; the schedule's own policy by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub overlap: Option<Overlap>,
}

/// What became of a run that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// `job` is durable and starts.
    Started,
    /// It waits for the end of the run before it.
    Queued,
    /// The run before it is being cancelled; it starts when that has ended.
    CancelsPrevious,
    /// It does not run, because another run has not ended: `reason` names it.
    Skipped,
}

/// A run outside the plan; what is said here is durable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunAnswer {
    pub outcome: RunOutcome,
    /// The job, if it started.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(schema_with = schema::job_id, required = false)]
    pub job: Option<JobId>,
    /// Where it is in the record, if it waits or was skipped: `at` of an occurrence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Timestamp>,
    /// Why it was skipped.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// What has to be done before it can start.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<Warning>,
}

/// Runs that waited for the one before them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueCleared {
    /// How many of them are skipped.
    pub skipped: u32,
}
