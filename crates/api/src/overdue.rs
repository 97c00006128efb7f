//! What should have started and has not, on the wire.

use punctual_core::{JobId, Span, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// What is late now, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Overdue {
    /// Jobs that are due and wait, the oldest first; at most 100.
    pub jobs: Vec<OverdueJob>,
    /// How many there are.
    pub jobs_total: u64,
    /// There are more than `jobs_total`: not all were looked at.
    pub jobs_total_is_minimum: bool,
    /// Planned times that are past and of which nobody has decided what becomes of them; at most 100.
    pub planned: Vec<OverdueTime>,
    /// Not all schedules were looked at.
    pub planned_is_partial: bool,
    /// Shards that no server owned when this one looked last: their jobs wait.
    pub shards_without_owner: Vec<u16>,
    /// Tasks that have failed and not succeeded since, the latest failure first; at most 100.
    pub ailing: Vec<AilingTask>,
}

/// A job that is due and has not started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OverdueJob {
    #[schema(schema_with = schema::job_id)]
    pub job: JobId,
    /// What to call it; see `title` of a job.
    pub task: String,
    pub queue: String,
    #[schema(value_type = String, format = DateTime)]
    pub due_at: Timestamp,
    #[schema(value_type = String, pattern = "^-?P", example = "PT6M12S")]
    pub late_by: Span,
    /// A description for people.
    pub why: String,
    /// No connected worker can run it, whether it is busy or not.
    #[serde(default)]
    pub unserved: bool,
    /// Workers gave it back because they could not start it, last for the reason that is given here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub could_not_start: Option<String>,
}

/// A planned time without a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OverdueTime {
    pub schedule: String,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// `at` in the schedule's zone.
    #[schema(example = "2026-12-24T18:00:00+01:00")]
    pub local: String,
    #[schema(value_type = String, pattern = "^-?P", example = "PT6M12S")]
    pub late_by: Span,
    /// A description for people.
    pub why: String,
}

/// A task whose last runs have failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AilingTask {
    /// Its name, or what it runs if it has none.
    pub task: String,
    /// Its first failure since it was well.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub last: Timestamp,
    pub failures: u32,
}

/// `GET /v1/overdue?…`
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OverdueQuery {
    /// From which lateness on; 60s by default, at most 7d.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub after: Option<String>,
}
