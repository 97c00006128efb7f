//! A task: what to run, and by which rules. Reusable; a job is one run of it.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::id::{ArtifactId, TaskId};
use crate::namespace::NamespaceId;
use crate::retry::RetryPolicy;
pub use crate::run::{
    Binary, Email, Handler, HttpCall, Limits, Method, Network, Probe, Run, Slack, Telegram, default_http_timeout,
};
use crate::task_defaults::TaskDefaults;
use crate::time::{Span, Timestamp};

/// A stored task. Jobs refer to it by `id`; `revision` grows with each update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub id: TaskId,
    /// Its jobs are in the same one.
    #[serde(default, skip_serializing_if = "NamespaceId::is_default")]
    pub namespace: NamespaceId,
    /// `None` for the task of a one-off job.
    pub name: Option<String>,
    pub revision: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub spec: TaskSpec,
    /// The file that it needs and that has not arrived: until then none of its jobs starts. The
    /// store sets and clears it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<ArtifactId>,
    /// Who defined it, and who changed it last, as records show them. `None` for the task of a one-off job, and for what was
    /// stored before this was recorded.
    #[serde(default, skip)]
    pub created_by: Option<Box<str>>,
    #[serde(default, skip)]
    pub changed_by: Option<Box<str>>,
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
    /// After a worker or an agent gave it back before anything ran: a file that it cannot have, an environment that
    /// cannot be used. When no retry is left, the job fails.
    #[serde(
        default = "RetryPolicy::after_give_back",
        deserialize_with = "crate::retry::read_after_give_back",
        skip_serializing_if = "RetryPolicy::is_after_give_back"
    )]
    pub start_retry: RetryPolicy,
    /// No attempt outlives this.
    #[serde(default = "default_timeout")]
    #[cfg_attr(feature = "schema", schema(value_type = String, format = "x-duration", example = "PT20M"))]
    pub timeout: Span,
    /// A job that has not started this long after it was due fails instead. A start that is given back does not count,
    /// and does not move the time that it was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, format = "x-duration", example = "PT1H"))]
    pub queue_timeout: Option<Span>,
    #[serde(default)]
    pub delivery: DeliveryMode,
    #[serde(default)]
    pub on_lost: OnLost,
    /// Nobody is told when its jobs fail, whatever the notification rules say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quiet: bool,
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
            start_retry: RetryPolicy::after_give_back(),
            timeout: default_timeout(),
            queue_timeout: None,
            delivery: DeliveryMode::default(),
            on_lost: OnLost::default(),
            quiet: false,
        }
    }

    /// The time from the start of an attempt until its worker has ended it by force.
    pub fn time_to_end(&self) -> Span {
        Span::from_micros(self.timeout.as_micros().saturating_add(self.run.grace().as_micros()))
    }
}

pub fn default_queue() -> String {
    "default".to_owned()
}

pub fn default_timeout() -> Span {
    TaskDefaults::get().timeout
}

/// What is promised when something is lost. See docs/delivery.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DeliveryMode {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
pub struct Priority(i8);

impl Priority {
    pub const STEP: Span = Span::from_secs(15 * 60);
    pub const MIN: i8 = -100;
    pub const MAX: i8 = 100;
    /// What a priority is, for errors: the only range that they name.
    pub const EXPECTED: &'static str = "a whole number from -100 to 100";

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

// By hand, because the reader of a smaller integer would name the range of that integer.
impl<'de> Deserialize<'de> for Priority {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_i64(PriorityVisitor)
    }
}

struct PriorityVisitor;

impl Visitor<'_> for PriorityVisitor {
    type Value = Priority;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Priority::EXPECTED)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Priority, E> {
        let priority = i8::try_from(value).ok().and_then(Priority::new);
        priority.ok_or_else(|| E::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Priority, E> {
        let priority = i8::try_from(value).ok().and_then(Priority::new);
        priority.ok_or_else(|| E::invalid_value(Unexpected::Unsigned(value), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_has_one_range_whatever_number_is_given() {
        for good in [-100, 0, 100] {
            assert_eq!(serde_json::from_str::<Priority>(&good.to_string()).unwrap().get(), good);
        }
        for bad in ["-129", "-101", "101", "128", "4294967296", "18446744073709551615", "1.5", "1e3", "\"5\"", "true"] {
            let error = serde_json::from_str::<Priority>(bad).unwrap_err().to_string();
            assert!(error.contains("expected a whole number from -100 to 100"), "{bad}: {error}");
        }
    }

    #[test]
    fn what_start_retry_leaves_out_is_as_after_a_give_back() {
        let spec = |start_retry: &str| {
            let text = format!(r#"{{"run":{{"probe":{{}}}}{start_retry}}}"#);
            serde_json::from_str::<TaskSpec>(&text).map(|spec| spec.start_retry)
        };
        let usual = RetryPolicy::after_give_back();
        assert_eq!(spec("").unwrap(), usual);
        assert_eq!(spec(r#","start_retry":{"max":3}"#).unwrap(), RetryPolicy { max: 3, ..usual });
        assert!(spec(r#","start_retry":{"maximum":3}"#).is_err());
        let plain = serde_json::to_string(&TaskSpec::new(Run::Probe(Probe::default()))).unwrap();
        assert!(!plain.contains("start_retry"), "servers of an earlier version read what is usual: {plain}");
    }
}
