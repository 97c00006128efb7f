//! Queues on the wire.

use punctual_core::retry::RetryPolicy;
use punctual_core::task::Priority;
use punctual_core::{ServerId, Span, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{DoneBy, schema};

/// What tasks of a queue are given whose definition does not say otherwise. It is copied into a task when the task is created
/// or applied.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueDefaults {
    /// From -100 to 100.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<i8>, minimum = -100, maximum = 100)]
    pub priority: Option<Priority>,
    /// After a failure of the task itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retry: Option<RetryPolicy>,
    /// After the loss of the worker that ran it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub node_retry: Option<RetryPolicy>,
    /// No attempt outlives this.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration", example = "PT20M")]
    pub timeout: Option<Span>,
    /// A job that has not started this long after it was due fails instead.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration", example = "PT1H")]
    pub queue_timeout: Option<Span>,
}

impl QueueDefaults {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// `PUT /v1/queues/{name}`. What is left out is removed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueRequest {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_length = 1000)]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "QueueDefaults::is_empty", default)]
    pub defaults: QueueDefaults,
}

/// A queue, and what waits and runs in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueueView {
    pub name: String,
    /// `active`: jobs are accepted and start. `paused`: jobs are accepted and do not start. `draining`: jobs that wait start,
    /// and nobody can submit more.
    #[schema(example = "active")]
    pub state: String,
    /// Who brought it into this state, and when. Absent if nobody ever paused it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state_changed: Option<DoneBy>,
    /// Why, in their words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub description: Option<String>,
    /// What its tasks are given whose definition does not say otherwise.
    #[serde(skip_serializing_if = "QueueDefaults::is_empty", default)]
    pub defaults: QueueDefaults,
    /// Grows with each change of the state, the description and the defaults; 0 if there was none.
    pub revision: u32,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub changed: Option<DoneBy>,
    /// Jobs that are due and have not started.
    pub waiting: u64,
    /// There are more than `waiting`: servers have only so many of them in memory, and do not count the others.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub has_more_waiting: bool,
    /// Since when the job has been due that has waited the longest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub waiting_since: Option<Timestamp>,
    /// Attempts that run.
    pub running: u64,
    /// Whether a worker is connected that serves the queue.
    pub is_served: bool,
    /// Some servers did not answer: more may wait and run than is shown.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub uncertain: bool,
    /// Only in the answer to a change of the state: servers that have not confirmed it within a second. Absent if all have.
    /// Each follows as soon as it can read the database; without the database it starts nothing.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(schema_with = schema::server_ids, required = false)]
    pub unconfirmed_servers: Vec<ServerId>,
}

/// `GET /v1/queues?…`
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct QueueQuery {
    /// 1 to 1000; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cursor: Option<String>,
}

/// A page of queues.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueueList {
    /// In order of name: those that tasks, jobs or workers name, and those that were paused or described.
    pub queues: Vec<QueueView>,
    /// Pass as `cursor` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_cursor: Option<String>,
}
