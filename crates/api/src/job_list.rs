//! Lists of jobs, on the wire.

use punctual_core::task::Priority;
use punctual_core::{JobId, Span, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::is_false;
use crate::{JobSchedule, TaskRef, schema};

/// A job in a list: no payloads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobSummary {
    #[schema(schema_with = schema::job_id)]
    pub id: JobId,
    /// What to call it: the name of its task; of a one-off task, that of its schedule, or what it runs, such as `backup.sh`
    /// or `GET example.com/health`.
    #[serde(default)]
    pub title: String,
    pub task: TaskRef,
    #[schema(schema_with = schema::job_state)]
    pub state: String,
    #[schema(value_type = i8)]
    pub priority: Priority,
    #[schema(value_type = String, format = DateTime)]
    pub submitted_at: Timestamp,
    /// The time that was asked for. It never changes, and lists are sorted by it.
    #[schema(value_type = String, format = DateTime)]
    pub scheduled_at: Timestamp,
    /// When the next attempt is due, or when the last one was. A retry moves it.
    #[schema(value_type = String, format = DateTime)]
    pub due_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<Timestamp>,
    /// How many attempts were started.
    pub attempt_count: u32,
    /// Why it ended so; of a job that waits, why workers gave it back or why its last attempt failed. A page names the last
    /// failures of 50 jobs at most.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// What it waits for, if it is due and has not started, or if workers could not start it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub waiting_for: Option<String>,
    /// How long it has been due, if it waits for a start and that is more than a second.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, pattern = "^-?P", example = "PT5M")]
    pub late_by: Option<Span>,
    /// The schedule that made it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub schedule: Option<JobSchedule>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tracing_id: Option<String>,
}

/// A page of jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobList {
    pub jobs: Vec<JobSummary>,
    /// Pass as `cursor` for the next page; absent on the last. A page may be short,
    /// even empty, and not be the last: a filter may have to look far.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_cursor: Option<String>,
    /// A server that knows what runs could not be asked: running jobs may be missing, or be
    /// shown as scheduled.
    #[serde(skip_serializing_if = "is_false", default)]
    pub uncertain: bool,
}

/// `GET /v1/jobs?…`
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// One state, or several with commas.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<String>,
    /// The name of a task.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub task: Option<String>,
    /// The type of task: binary, http, email, slack, telegram, probe, handler or command.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queue: Option<String>,
    /// Only jobs with exactly this tracing id.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tracing_id: Option<String>,
    /// Only jobs whose `scheduled_at` is this time or later.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scheduled_from: Option<String>,
    /// Only jobs whose `scheduled_at` is before this time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scheduled_before: Option<String>,
    /// By `scheduled_at`: `desc` (the latest first, the default) or `asc`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub order: Option<String>,
    /// 1 to 1000; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cursor: Option<String>,
}
