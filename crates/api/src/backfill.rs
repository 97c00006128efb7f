//! Backfills on the wire: planned times of the past that are run now.

use punctual_core::{BackfillId, JobId, ScheduleId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{DoneBy, schema};

/// `POST /v1/schedules/{name}/backfills`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackfillRequest {
    /// The first time, included: RFC 3339, or a date, which is its first moment in the schedule's zone.
    #[schema(example = "2026-11-01")]
    pub from: String,
    /// The end, not included, and not in the future. Without it: now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "2026-11-08T12:00:00Z")]
    pub to: Option<String>,
    /// `queue_all`, the default: one run after the other, in the order of their times. `allow`: up to `max_active`
    /// side by side.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(schema_with = schema::backfill_overlap, required = false)]
    pub overlap: Option<String>,
    /// With `allow`: how many runs there are at a time; 10 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(minimum = 1, maximum = 1000)]
    pub max_active: Option<u32>,
    #[serde(default)]
    pub include: BackfillInclude,
    /// With `not_run`: what becomes of times that are older than the record, so that nobody knows whether they ran.
    /// Without it, a range that has some is refused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unknown: Option<OlderTimes>,
    /// Only say what would be run.
    #[serde(default)]
    pub dry_run: bool,
}

/// Which times of the range are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackfillInclude {
    /// Not those for which the schedule made a job, nor those that another backfill ran without failing.
    #[default]
    NotRun,
    All,
}

/// What becomes of times that are older than the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OlderTimes {
    /// They are run, perhaps for the second time.
    Run,
    /// They are passed over, although they may not have run.
    Skip,
}

/// Times of a range that are older than the record: whether they ran is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnknownTimes {
    /// How many. Not those from before the schedule was created.
    pub times: u32,
    /// What became of earlier times is no longer kept.
    #[schema(value_type = String, format = DateTime)]
    pub record_begins_at: Timestamp,
    /// What becomes of them. Only a dry run may leave that open.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub decision: Option<OlderTimes>,
}

/// How a backfill stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackfillStanding {
    Running,
    /// All its times are dealt with, and all its runs have ended.
    Done,
    /// It makes no more jobs. Those that it made may still run.
    Aborted,
}

impl BackfillStanding {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Aborted => "aborted",
        }
    }
}

/// A backfill and how far it has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BackfillView {
    #[schema(schema_with = schema::backfill_id)]
    pub id: BackfillId,
    /// The schedule's name when the backfill was made.
    pub schedule: String,
    #[schema(schema_with = schema::schedule_id)]
    pub schedule_id: ScheduleId,
    #[schema(value_type = String, format = DateTime)]
    pub from: Timestamp,
    /// Not included.
    #[schema(value_type = String, format = DateTime)]
    pub to: Timestamp,
    #[schema(schema_with = schema::backfill_overlap)]
    pub overlap: String,
    /// How many runs there are at a time.
    pub max_active: u32,
    pub include: BackfillInclude,
    /// Times that were older than the record when the backfill was made, if there are any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unknown: Option<UnknownTimes>,
    pub state: BackfillStanding,
    /// Times in the range.
    pub total: u32,
    /// Times that got a job.
    pub made: u32,
    /// Times that were left out because they had run before, or are older than the record.
    pub passed_over: u32,
    /// Jobs that have not ended.
    pub running: u32,
    pub succeeded: u32,
    /// Also those that were lost or quarantined.
    pub failed: u32,
    /// Also those that were deleted.
    pub cancelled: u32,
    /// Times that were not dealt with.
    pub remaining: u32,
    /// All times up to here were dealt with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub reached: Option<Timestamp>,
    pub created: DoneBy,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended: Option<DoneBy>,
    /// Why it ended so, or what holds it up, for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
}

/// What a backfill would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BackfillPlan {
    /// The schedule's zone.
    pub zone: String,
    /// Times in the range.
    pub total: u32,
    /// Times that would get a job, unless what is under way deals with them.
    pub runs: u32,
    /// Times that would be left out because they have run before, or are older than the record.
    pub passed_over: u32,
    /// Times that are older than the record, if there are any. Without a decision about them they count neither as run
    /// nor as passed over.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unknown: Option<UnknownTimes>,
    /// The first ten that would get a job.
    pub first: Vec<BackfillTime>,
    /// The last one that would get a job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last: Option<BackfillTime>,
}

/// A time in the range of a backfill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackfillTime {
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// `at` in the schedule's zone.
    #[schema(example = "2026-12-24T18:00:00+01:00")]
    pub local: String,
}

/// A page of backfills.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BackfillList {
    pub backfills: Vec<BackfillView>,
    /// Pass as `cursor` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_cursor: Option<String>,
}

/// `GET /v1/backfills?…`
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BackfillQuery {
    /// Only those of this schedule: its name, or its id, also when it is gone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub schedule: Option<String>,
    /// 1 to 1000; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cursor: Option<String>,
}

/// One time of a backfill that got a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BackfillRunView {
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// `at` in the schedule's zone.
    #[schema(example = "2026-12-24T18:00:00+01:00")]
    pub local: String,
    #[schema(schema_with = schema::job_id)]
    pub job: JobId,
    /// The state of the job.
    #[schema(schema_with = schema::job_state)]
    pub state: String,
}

/// A page of the runs of a backfill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BackfillRunList {
    /// The schedule's zone.
    pub zone: String,
    /// The runs in the order of their planned times.
    pub runs: Vec<BackfillRunView>,
    /// Pass as `cursor` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_cursor: Option<String>,
}

/// `GET /v1/backfills/{id}/runs?…`
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BackfillRunQuery {
    /// 1 to 1000; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cursor: Option<String>,
}

/// `POST /v1/backfills/{id}/abort`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AbortRequest {
    /// Also cancel the jobs that have not ended.
    #[serde(default)]
    pub cancel: bool,
}

/// A backfill that ran a planned time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BackfilledBy {
    #[schema(schema_with = schema::backfill_id)]
    pub backfill: BackfillId,
    #[schema(schema_with = schema::job_id)]
    pub job: JobId,
    /// The state of the job.
    #[schema(schema_with = schema::job_state)]
    pub state: String,
}

/// A time that a backfill ran and that is not on record by itself: it is from before the schedule was created, older than
/// the record, or within a stretch of missed times that has one row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BackfilledTime {
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// `at` in the schedule's zone.
    #[schema(example = "2026-12-24T18:00:00+01:00")]
    pub local: String,
    /// The latest ten.
    pub backfilled: Vec<BackfilledBy>,
}
