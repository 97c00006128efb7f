//! Jobs on the wire.

use punctual_core::task::{Priority, TaskSpec};
use punctual_core::{ArtifactId, JobId, ScheduleId, ServerId, Span, TaskId, Timestamp, WorkerId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{JobNotification, LateOutcome, RetryCount, TaskDefinition, Warning, schema};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

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
    #[schema(value_type = Option<String>, format = "x-duration", example = "90s")]
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
    /// Why it may not start when it is due. Only for jobs that are due soon; a repeated request gets none.
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
        let itself = format!("/v1/jobs/{id}");
        Self { logs: format!("{itself}/logs"), events: format!("{itself}/events"), itself }
    }
}

/// All jobs of the request are durable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BulkSubmitted {
    /// In the order of the request.
    #[schema(schema_with = schema::job_ids)]
    pub ids: Vec<JobId>,
    /// Why some may not start when they are due, each reason once.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<Warning>,
}

/// The task of a job, in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskRef {
    #[schema(schema_with = schema::task_id)]
    pub id: TaskId,
    /// Absent for a one-off job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// The type of task: binary, http, email, slack, telegram, probe, handler or command.
    pub kind: String,
    pub queue: String,
}

/// One job with everything that is recorded of it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Job {
    #[schema(schema_with = schema::job_id)]
    pub id: JobId,
    /// What to call it: the name of its task; of a one-off task, that of its schedule, or what it runs, such as `backup.sh`
    /// or `GET example.com/health`.
    #[serde(default)]
    pub title: String,
    pub task: TaskRef,
    /// What it runs, as it was defined; absent if that is not on record any more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub definition: Option<TaskDefinition>,
    /// After failures of the task itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retries: Option<RetryCount>,
    /// After losses of the worker that ran it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node_retries: Option<RetryCount>,
    /// Of a job that delivers a notification.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub notification: Option<JobNotification>,
    #[schema(schema_with = schema::job_state)]
    pub state: String,
    /// The server that knows whether it runs could not be asked: `scheduled` may mean running.
    #[serde(skip_serializing_if = "is_false", default)]
    pub uncertain: bool,
    /// Why it is in this state, and what happens next, for people.
    pub explanation: String,
    /// What it waits for, if it is due and has not started.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub waiting_for: Option<String>,
    #[schema(value_type = i8)]
    pub priority: Priority,
    #[schema(value_type = String, format = DateTime)]
    pub submitted_at: Timestamp,
    /// The time that was asked for. It never changes.
    #[schema(value_type = String, format = DateTime)]
    pub scheduled_at: Timestamp,
    /// When the next attempt is due, or when the last one was. A retry moves it.
    #[schema(value_type = String, format = DateTime)]
    pub due_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<Timestamp>,
    /// How much later than `scheduled_at` the job started first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, example = "2ms")]
    pub late_by: Option<Span>,
    /// The schedule that made it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub schedule: Option<JobSchedule>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tracing_id: Option<String>,
    /// It was asked to end and has not ended yet.
    pub cancel_requested: bool,
    /// How many attempts were started.
    #[serde(default)]
    pub attempt_count: u32,
    /// Every attempt that is on record, the first one first.
    pub attempts: Vec<Attempt>,
    /// When somebody had it run again after it had finished, the first time first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub reruns: Vec<Rerun>,
    /// Outcomes that came too late to count, in order of attempt.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub late_outcomes: Vec<LateOutcome>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Value, required = false)]
    pub input: Option<Box<RawValue>>,
    /// JSON as the task returned it; anything else, and JSON of more than 64 levels, as a string.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Value, required = false)]
    pub output: Option<Box<RawValue>>,
}

/// A finished job was made eligible again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rerun {
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// What it had been.
    #[schema(schema_with = schema::job_state)]
    pub from: String,
    /// The number of the attempt that came next.
    pub next_attempt: u32,
}

/// One try at a job, by one worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    pub attempt: u32,
    #[schema(schema_with = schema::attempt_state)]
    pub state: String,
    /// Absent if the record does not say it any more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(schema_with = schema::worker_id)]
    pub worker: Option<WorkerId>,
    /// The name that the worker had, also if it is gone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub worker_name: Option<String>,
    /// The machine that the worker ran on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub worker_host: Option<String>,
    /// Absent if the record does not say it any more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(schema_with = schema::server_id)]
    pub server: Option<ServerId>,
    /// When this attempt was due.
    #[schema(value_type = String, format = DateTime)]
    pub due_at: Timestamp,
    /// When the server took the job in hand.
    #[schema(value_type = String, format = DateTime)]
    pub picked_up_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub details: Option<AttemptDetails>,
    /// Where object storage has its log, some seconds after the end: `s3://bucket/…`, or a path in the server's
    /// storage folder. Absent if it printed nothing, or is not there yet.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub log_path: Option<String>,
    /// The length of the log that is there.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub log_bytes: Option<u64>,
}

/// What is known of an attempt besides how it ended. Not every kind of task knows all of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct AttemptDetails {
    /// What failed, unless it succeeded. A task's `retry.except` names those that are not worth a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::failure_class)]
    pub class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The limit that it hit: `oom`, `pids`, `output` or `disk`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// Time on processors, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<u64>,
    /// The sandbox level, such as `full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// The environment that was made for this attempt alone, where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

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
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// What it waits for, if it is due and has not started.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub waiting_for: Option<String>,
    /// The schedule that made it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub schedule: Option<JobSchedule>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tracing_id: Option<String>,
}

/// The schedule that made a job, and the planned time that it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobSchedule {
    #[schema(schema_with = schema::schedule_id)]
    pub id: ScheduleId,
    /// Absent if the schedule is gone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    #[schema(schema_with = schema::source_kind)]
    pub kind: String,
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

/// The answer to a command on a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Answered {
    #[schema(schema_with = schema::job_id)]
    pub id: JobId,
    /// The job's state now.
    #[schema(schema_with = schema::job_state)]
    pub state: String,
    /// True when a running attempt was asked to end and has yet to do so.
    pub pending: bool,
}

/// A line of a log, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogLine {
    /// The place of its first byte in the log.
    pub offset: u64,
    /// When it was written. Absent in logs of older workers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub time: Option<Timestamp>,
    /// `stdout`, `stderr`, or `system` for what the worker says of the log itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "stderr")]
    pub stream: Option<String>,
    /// Without its line break.
    pub text: String,
    /// It does not end with a line break: the other stream goes on, or the log ends.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub partial: bool,
}

/// Some lines of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LogLines {
    /// Whose log it is; 0 when there is no attempt yet.
    pub attempt: u32,
    /// Where the next lines begin.
    pub next_offset: u64,
    pub lines: Vec<LogLine>,
}
