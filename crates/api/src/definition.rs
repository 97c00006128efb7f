//! What a job runs and by which rules, and what is known of it beside its attempts.

use punctual_core::task::TaskSpec;
use punctual_core::{Timestamp, WorkerId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// The task of a job as it is now. An attempt that starts runs this.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskDefinition {
    /// Grows with each update of the task.
    pub revision: u32,
    /// The task was updated after the job's last attempt started: that attempt may have run something else.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub changed_since: bool,
    /// With its defaults filled in; `start_retry` only where it differs from the default. Secrets are shown as `***`: addresses of Slack webhooks, header values such as that
    /// of `Authorization`, user info and secret-looking parameters of URLs, values of environment variables, standard
    /// input.
    pub spec: TaskSpec,
}

/// How many retries a job has used, and how many its task allows. A failure that ends a job uses none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetryCount {
    /// Since it was submitted, or since somebody had it run again.
    pub used: u16,
    pub max: u16,
}

/// The job delivers a message of a notification rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobNotification {
    pub rule: String,
    /// What the message is about, in a line; absent if that is not on record any more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub summary: Option<String>,
}

/// An outcome that arrived when it could not count any more. It is kept for the record and changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LateOutcome {
    pub attempt: u32,
    #[schema(schema_with = schema::worker_id)]
    pub worker: WorkerId,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub worker_name: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Such as `succeeded` or `failed: exit code 1`.
    pub outcome: String,
}
