//! Jobs that are submitted, on the wire.

use punctual_core::task::{Priority, TaskSpec};
use punctual_core::{ArtifactId, JobId, Span, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{Job, TaskRef, Warning, schema};

/// Asks for one run of a task. Either `task` names it, or `inline` defines it for
/// this job alone.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// The name of a task.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub task: Option<String>,
    /// A task for this job alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub inline: Option<TaskSpec>,
    /// RFC 3339 with a zone. Absent or in the past: now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub run_at: Option<Timestamp>,
    /// Run this long after the request is accepted, such as `90s` or `2h`. Instead of `run_at`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration", example = "PT1M30S")]
    pub delay: Option<Span>,
    /// Any JSON, handed to the task as it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Value, required = false)]
    pub input: Option<Box<RawValue>>,
    /// Instead of the task's own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<i8>, minimum = -100, maximum = 100)]
    pub priority: Option<Priority>,
    /// An id of your own that the job carries into logs, calls and messages; at most 256 characters.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_length = 256)]
    pub tracing_id: Option<String>,
}

/// Jobs that are submitted together.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BulkRequest {
    /// 1 to 10,000. All of them are accepted, or none.
    #[schema(min_items = 1, max_items = 10_000)]
    pub jobs: Vec<JobRequest>,
}

/// The job is durable.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct JobSubmitted {
    #[schema(schema_with = schema::job_id)]
    pub id: JobId,
    /// `scheduled`; after a `wait`, or of a repeated request, the state that the job has by now.
    #[serde(default)]
    #[schema(schema_with = schema::job_state)]
    pub state: String,
    /// What to call it: the name of its task; of a one-off job, what it runs.
    #[serde(default)]
    pub title: String,
    /// Absent in the answer to a repeated request whose job is not on record any more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub task: Option<TaskRef>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tracing_id: Option<String>,
    /// The time that was asked for: `run_at`, the end of the `delay`, or when the request was accepted.
    #[schema(value_type = String, format = DateTime)]
    pub scheduled_at: Timestamp,
    /// When its next attempt is due.
    #[schema(value_type = String, format = DateTime)]
    pub due_at: Timestamp,
    /// The uploaded files that it runs or reads.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub content: Vec<JobContent>,
    #[serde(default)]
    pub links: JobLinks,
    /// Why it may not start when it is due, by the workers of now. A repeated request gets none.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<Warning>,
    /// The whole job after the `wait`, if the request asked for one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub job: Option<Box<Job>>,
}

/// A file that a job runs or reads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobContent {
    #[schema(schema_with = schema::artifact_id)]
    pub artifact: ArtifactId,
    /// Where object storage has it: `s3://bucket/…`, or a path in the server's storage folder.
    #[schema(example = "artifacts/artifact_06bpwz2d0e5kx8r4n7v1t3m9qc")]
    pub path: String,
    /// What is known of the file.
    #[schema(example = "/v1/artifacts/artifact_06bpwz2d0e5kx8r4n7v1t3m9qc")]
    pub link: String,
}

/// Where to go on, on the server that answered or any other.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobLinks {
    /// The job.
    #[serde(rename = "self")]
    #[schema(example = "/v1/jobs/job_06bpwz2d0e5kx8r4n7v1t3m9qc")]
    pub itself: String,
    /// What it prints.
    #[schema(example = "/v1/jobs/job_06bpwz2d0e5kx8r4n7v1t3m9qc/logs")]
    pub logs: String,
    /// Its changes, as server-sent events.
    #[schema(example = "/v1/jobs/job_06bpwz2d0e5kx8r4n7v1t3m9qc/events")]
    pub events: String,
}

impl JobLinks {
    pub fn new(id: JobId) -> Self {
        let itself = id.with_text(|id| ["/v1/jobs/", id].concat());
        Self { logs: [&itself, "/logs"].concat(), events: [&itself, "/events"].concat(), itself }
    }
}

/// All jobs of the request are durable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BulkSubmitted {
    /// The answers in the order of the request.
    #[schema(schema_with = schema::job_ids)]
    pub ids: Vec<JobId>,
    /// Why some may not start when they are due, each reason once.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<Warning>,
}
