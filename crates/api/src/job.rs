//! A job on the wire.

use punctual_core::task::Priority;
use punctual_core::{JobId, RunId, ScheduleId, Span, TaskId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{Attempt, JobInBatch, JobInRun, JobNotification, LateOutcome, RetryCount, TaskDefinition, schema};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}

/// The task of a job, in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskRef {
    #[schema(schema_with = schema::task_id)]
    pub id: TaskId,
    /// Absent for a one-off job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// The type of task: binary, http, email, slack, telegram, probe, handler, command or workflow.
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
    /// What the message says, if the job delivers a notification.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub notification: Option<JobNotification>,
    #[schema(schema_with = schema::job_state)]
    pub state: String,
    /// The server that knows whether it runs could not be asked: `scheduled` may mean running.
    #[serde(skip_serializing_if = "is_false", default)]
    pub uncertain: bool,
    /// Why it is in this state, and what happens next, for people.
    pub explanation: String,
    /// What it waits for, if it is due and has not started, or if workers could not start it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub waiting_for: Option<String>,
    #[schema(value_type = i8)]
    pub priority: Priority,
    #[schema(value_type = String, format = DateTime)]
    pub submitted_at: Timestamp,
    /// Who asked for it; absent for jobs of before this was recorded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub submitted_by: Option<RequestedBy>,
    /// The time that was asked for. It never changes.
    #[schema(value_type = String, format = DateTime)]
    pub scheduled_at: Timestamp,
    /// When the next attempt is due, or when the last one was. A retry moves it.
    #[schema(value_type = String, format = DateTime)]
    pub due_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub finished_at: Option<Timestamp>,
    /// How much later than `scheduled_at` the job started first; a run of a schedule counts from its planned time plus
    /// jitter, as in the schedule's record. While it waits for a start and has been due for more than a second: how late it
    /// is by now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, pattern = "^-?P", example = "PT0.002S")]
    pub late_by: Option<Span>,
    /// The schedule that made it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub schedule: Option<JobSchedule>,
    /// The run of a workflow that made it, and what comes before and after it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub workflow: Option<Box<JobInRun>>,
    /// The batch that it is of.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub batch: Option<Box<JobInBatch>>,
    /// The run of a workflow that it started last, if that is what it runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(schema_with = schema::run_id)]
    pub run: Option<RunId>,
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
    /// The commands on it, the earliest first; the latest 100.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub actions: Vec<JobAction>,
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

/// Who asked for something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestedBy {
    /// `person`, `key`, `local_user`, `cluster_token`, `worker` or `server`; and `schedule` and `notification_rule`, which make
    /// jobs by themselves.
    #[schema(example = "person")]
    pub kind: String,
    /// As records show it.
    #[schema(example = "user:ana")]
    pub name: String,
}

/// A command on a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobAction {
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// `cancel`, `delete`, `retry` or `run`.
    #[schema(example = "cancel")]
    pub action: String,
    pub by: RequestedBy,
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

/// The schedule that made a job, and the planned time that it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobSchedule {
    #[schema(schema_with = schema::schedule_id)]
    pub id: ScheduleId,
    /// Also of a schedule that was deleted, as long as the record of that is kept (`retention`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    #[schema(schema_with = schema::source_kind)]
    pub kind: String,
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
