//! Changes of jobs, as server-sent events carry them.

use punctual_core::{JobId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// A durable change of a job. A hint to look again, not a record: one may be lost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobChange {
    #[schema(schema_with = schema::job_id)]
    pub id: JobId,
    #[schema(schema_with = schema::job_state)]
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub attempt: Option<u32>,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}
