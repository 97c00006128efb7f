//! Tasks on the wire.

use punctual_core::task::TaskSpec;
use punctual_core::{ArtifactId, TaskId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Warning, schema};

/// Defines a task. `PUT /v1/tasks/{name}` takes the spec alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskRequest {
    pub name: String,
    pub spec: TaskSpec,
}

/// A stored task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskView {
    #[schema(schema_with = schema::task_id)]
    pub id: TaskId,
    pub name: String,
    /// Grows by one with each update; also the ETag.
    pub revision: u32,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
    /// Absent for tasks of before this was recorded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "user:ana")]
    pub created_by: Option<String>,
    /// Who changed the definition last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(example = "user:ana")]
    pub changed_by: Option<String>,
    pub spec: TaskSpec,
    /// The artifact that has not arrived; until then none of its jobs starts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(schema_with = schema::artifact_id, required = false)]
    pub waits_for: Option<ArtifactId>,
    /// What should be done about the definition, such as about credentials in plain text.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<Warning>,
}

/// `GET /v1/tasks?…`
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TaskQuery {
    /// 1 to 1000; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cursor: Option<String>,
}

/// A page of tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TaskList {
    pub tasks: Vec<TaskView>,
    /// Pass as `cursor` for the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_cursor: Option<String>,
}
