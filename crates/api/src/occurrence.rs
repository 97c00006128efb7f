//! What became of a schedule's planned times, and what is to come.

use punctual_core::schedule::Marks;
use punctual_core::{JobId, Span, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{BackfilledBy, BackfilledTime, schema};

/// The names of an occurrence's marks.
pub const MARKS: [(Marks, &str); 9] = [
    (Marks::SHIFTED, "shifted"),
    (Marks::FIRST_OF_FOLD, "first_of_fold"),
    (Marks::SECOND_OF_FOLD, "second_of_fold"),
    (Marks::MOVED, "moved"),
    (Marks::REPLAYED, "replayed"),
    (Marks::MANUAL, "manual"),
    (Marks::LATE, "late"),
    (Marks::STRETCH, "stretch"),
    (Marks::CANCELS_PREVIOUS, "cancels_previous"),
];

/// A planned time and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OccurrenceView {
    /// The instant that was planned.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// `at` in the schedule's zone.
    #[schema(example = "2026-12-24T18:00:00+01:00")]
    pub local: String,
    /// When it was to start, with jitter.
    #[schema(value_type = String, format = DateTime)]
    pub start_at: Timestamp,
    #[schema(schema_with = schema::verdict)]
    pub verdict: String,
    /// What became of it and why, for people.
    pub explanation: String,
    #[schema(value_type = String, format = DateTime)]
    pub decided_at: Timestamp,
    /// How long after `start_at` its run started, if it was later; of a run that still waits to start,
    /// or for the run before it, how late it is by now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, pattern = "^-?P", example = "PT5S")]
    pub late_by: Option<Span>,
    /// The job that was made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(schema_with = schema::job_id, required = false)]
    pub job: Option<JobId>,
    /// Who asked for it, if it was not planned.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "user:ana")]
    pub requested_by: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(schema_with = schema::marks, required = false)]
    pub marks: Vec<String>,
    /// How many other planned times it stands for.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub merged: u32,
    /// Other planned times on this instant, which have no row of their own: the first 24.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub left_out: Vec<LeftOutTime>,
    /// Backfills that ran it, whatever its verdict; the latest ten.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub backfilled: Vec<BackfilledBy>,
}

/// A planned time that fell on the instant of another, because the clocks left it out or a calendar moved it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LeftOutTime {
    /// On the schedule's wall clock.
    #[schema(example = "2027-03-28T02:30:00")]
    pub local: String,
    /// `merged`: the run at that instant stands for it. `skipped_gap` and `skipped_calendar`: it did not run.
    #[schema(example = "merged")]
    pub verdict: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A page of planned times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OccurrenceList {
    /// The schedule's zone.
    pub zone: String,
    pub occurrences: Vec<OccurrenceView>,
    /// Times of the range that backfills ran and that are not on record by themselves, in the order that was asked for.
    /// Only on the first page of a list with `from` or `before` and without `verdict`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub backfilled_only: Vec<BackfilledTime>,
    /// There may be more of those, at later times than the ones that are here.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub backfilled_only_is_partial: bool,
    /// Pass as `cursor` for the next page; absent on the last. A page may be short and not be the last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_cursor: Option<String>,
}

/// `GET /v1/schedules/{name}/occurrences?…`
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OccurrenceQuery {
    /// At or after: an RFC 3339 time, or a date, which is its first moment in the schedule's zone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from: Option<String>,
    /// Before: an RFC 3339 time or a date.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub before: Option<String>,
    /// One verdict, or several with commas.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verdict: Option<String>,
    /// `desc` (latest first, the default) or `asc`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub order: Option<String>,
    /// 1 to 1000; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cursor: Option<String>,
}

/// `GET /v1/schedules/{name}/preview?…` and `POST /v1/schedules/preview?…`
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PreviewQuery {
    /// 1 to 1000; 10 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub count: Option<String>,
    /// At or after: an RFC 3339 time, or a date, which is its first moment in the schedule's zone. Now by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from: Option<String>,
}

/// What is to come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Preview {
    /// When it fires, for people.
    pub explanation: String,
    pub zone: String,
    /// Why none of these times fires as things are: the schedule is paused, or has ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    pub occurrences: Vec<PreviewedTime>,
    /// The clock changes of the coming 12 months that touch it.
    pub clock_changes: Vec<ClockChangeView>,
}

/// A planned time that is to come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PreviewedTime {
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// `at` in the schedule's zone.
    #[schema(example = "2026-12-24T18:00:00+01:00")]
    pub local: String,
    /// When the run starts, with jitter.
    #[schema(value_type = String, format = DateTime)]
    pub start_at: Timestamp,
    /// What a clock change, a calendar or jitter has to do with it, for people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
    /// It is planned and does not fire; this is why.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unfired: Option<UnfiredBy>,
    /// How many other planned times fall on it.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub merged: u32,
}

/// Why a planned time does not fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnfiredBy {
    /// A calendar closes its date.
    Calendar,
    /// The clocks leave it out.
    Gap,
    /// Somebody asked to skip it.
    Request,
}

/// A change of the clocks that touches a schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ClockChangeView {
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// What the clocks do, for people.
    pub explanation: String,
    /// What that does to planned times, one sentence each; at most 100.
    pub effects: Vec<String>,
    /// How many more there are.
    #[serde(skip_serializing_if = "is_zero_u64", default)]
    pub more_effects: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero_u64(count: &u64) -> bool {
    *count == 0
}
