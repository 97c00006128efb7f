//! A task: what to run, and by which rules. Reusable; a job is one run of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::TaskId;
use crate::retry::RetryPolicy;
use crate::time::{Span, Timestamp};

/// A stored task. Jobs refer to it by `id`; `revision` grows with each update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub id: TaskId,
    /// `None` for the task of a one-off job.
    pub name: Option<String>,
    pub revision: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub spec: TaskSpec,
}

/// What a user writes down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskSpec {
    pub run: Run,
    /// Workers name the queues that they serve.
    #[serde(default = "default_queue")]
    pub queue: String,
    /// A worker must carry all of these to be given the task.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schema(value_type = i8, minimum = -100, maximum = 100))]
    pub priority: Priority,
    /// After a failure of the task itself.
    #[serde(default)]
    pub retry: RetryPolicy,
    /// After the loss of the worker that ran it.
    #[serde(default = "RetryPolicy::after_node_failure")]
    pub node_retry: RetryPolicy,
    /// No attempt outlives this.
    #[serde(default = "default_timeout")]
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "20m"))]
    pub timeout: Span,
    /// A job that has not started this long after it was due fails instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, example = "1h"))]
    pub queue_timeout: Option<Span>,
    #[serde(default)]
    pub delivery: Delivery,
    #[serde(default)]
    pub on_lost: OnLost,
}

impl TaskSpec {
    /// The spec with every rule at its default.
    pub fn new(run: Run) -> Self {
        Self {
            run,
            queue: default_queue(),
            labels: BTreeMap::new(),
            priority: Priority::default(),
            retry: RetryPolicy::default(),
            node_retry: RetryPolicy::after_node_failure(),
            timeout: default_timeout(),
            queue_timeout: None,
            delivery: Delivery::default(),
            on_lost: OnLost::default(),
        }
    }
}

pub fn default_queue() -> String {
    "default".to_owned()
}

pub const fn default_timeout() -> Span {
    Span::from_secs(20 * 60)
}

/// What an attempt executes. One variant, one executor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Run {
    /// An HTTP request: a ping (GET) or a webhook (POST).
    Http(HttpCall),
    /// Sleeps, fails, prints or crashes on demand, for tests and benchmarks.
    Probe(Probe),
    /// A function in a worker of the user's own.
    Handler(Handler),
}

impl Run {
    /// What a worker must be able to do; workers announce the same words.
    pub fn capability(&self) -> String {
        match self {
            Self::Http(_) => "http".to_owned(),
            Self::Probe(_) => "probe".to_owned(),
            Self::Handler(handler) => format!("handler:{}", handler.name),
        }
    }

    /// The type of task, for people and filters.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Probe(_) => "probe",
            Self::Handler(_) => "handler",
        }
    }

    pub const KINDS: [&'static str; 3] = ["http", "probe", "handler"];
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HttpCall {
    pub url: String,
    #[serde(default)]
    pub method: Method,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Sent as it is. Absent: the job's input, if it has one and the method allows a body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Status codes that count as success. Empty: any 2xx.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect_status: Vec<u16>,
    /// For one request; the task's timeout holds as well.
    #[serde(default = "default_http_timeout")]
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "30s"))]
    pub timeout: Span,
}

impl HttpCall {
    /// Headers that a task may not set, in any case of letters: they belong to the
    /// connection, or the receiver relies on ours.
    pub fn is_reserved_header(name: &str) -> bool {
        const RESERVED: [&str; 11] = [
            "host",
            "connection",
            "content-length",
            "transfer-encoding",
            "upgrade",
            "te",
            "trailer",
            "idempotency-key",
            "punctual-job-id",
            "punctual-attempt",
            "punctual-tracing-id",
        ];
        const RESERVED_START: &str = "proxy-";
        let start = name.get(..RESERVED_START.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(RESERVED_START))
            || RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved))
    }
}

pub const fn default_http_timeout() -> Span {
    Span::from_secs(30)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    pub const fn takes_body(self) -> bool {
        !matches!(self, Self::Get | Self::Head)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Probe {
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "10ms"))]
    pub sleep: Span,
    /// The first so many attempts fail.
    pub fail_times: u32,
    /// Written to the log, and returned as the job's output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Returns the worker's clock at the first instruction, in microseconds.
    pub report_time: bool,
    /// Appends "job attempt begin|end" to this file, as a witness that shares nothing with us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub witness: Option<String>,
    /// Kills the whole worker process with SIGKILL.
    pub crash: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Handler {
    pub name: String,
}

/// What is promised when something is lost. See docs/delivery.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    #[default]
    AtLeastOnce,
    AtMostOnce,
    ExactlyOnce,
}

/// What becomes of an `exactly_once` job when nobody can know whether it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnLost {
    /// It stays `lost` until its result arrives late or an operator decides.
    #[default]
    Hold,
    Fail,
    Rerun,
}

/// Each point is worth [`Priority::STEP`] of waiting: a job of priority 2 goes
/// ahead of a job of priority 0 that is up to two steps older. So urgent work
/// goes first and nothing starves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "i8", into = "i8")]
pub struct Priority(i8);

impl Priority {
    pub const STEP: Span = Span::from_secs(15 * 60);
    pub const MIN: i8 = -100;
    pub const MAX: i8 = 100;

    pub const fn new(value: i8) -> Option<Self> {
        if value < Self::MIN || value > Self::MAX {
            return None;
        }
        Some(Self(value))
    }

    pub const fn get(self) -> i8 {
        self.0
    }

    /// Where a job stands among those that are due: lower goes first.
    pub fn rank(self, due_at: Timestamp) -> i64 {
        due_at.as_micros() - i64::from(self.0) * Self::STEP.as_micros()
    }
}

impl TryFrom<i8> for Priority {
    type Error = &'static str;
    fn try_from(value: i8) -> Result<Self, Self::Error> {
        Self::new(value).ok_or("priority must be between -100 and 100")
    }
}

impl From<Priority> for i8 {
    fn from(priority: Priority) -> Self {
        priority.0
    }
}
