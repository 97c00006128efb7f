//! Attempts and what they print, on the wire.

use punctual_core::{ServerId, Timestamp, WorkerId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

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
