//! Batches on the wire.

use std::collections::BTreeMap;

use punctual_core::batch::{BatchOutcome, BatchStart, OnStartTimeout, Unplaceable};
use punctual_core::task::{Priority, TaskSpec};
use punctual_core::{BatchId, JobId, Span, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::{DoneBy, Warning, schema};

/// `POST /v1/batches`: jobs that are stored, started and ended together. All of its members are accepted, or none.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchRequest {
    /// What to call it; need not be unique.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_length = 128)]
    pub name: Option<String>,
    /// 1 to 10,000; with `start: together`, at most 1,000.
    #[schema(min_items = 1, max_items = 10_000)]
    pub members: Vec<MemberRequest>,
    /// When the members start: each by itself, or all in one transaction once there is a slot for each.
    #[serde(default)]
    pub start: BatchStart,
    /// With `start: together`: how long the batch may take to start after it is due, and other jobs hold back for it; 10 minutes by
    /// default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration", example = "PT10M")]
    pub start_timeout: Option<Span>,
    /// With `start: together`: what happens then; `fail` by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub on_start_timeout: Option<OnStartTimeout>,
    /// With `start: together`: what happens if the connected workers have too few slots, busy ones included; `wait` by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unplaceable: Option<Unplaceable>,
    /// What the permanent failure of a member means for the others.
    #[serde(default)]
    pub outcome: BatchOutcome,
    /// With `outcome: all_or_nothing`: the task that undoes a member that succeeded, for members without one of their own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub compensation: Option<CompensationRequest>,
    /// RFC 3339 with a zone. Absent or in the past: now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub run_at: Option<Timestamp>,
    /// Run this long after the request is accepted, such as `90s` or `2h`. Instead of `run_at`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration", example = "PT1M30S")]
    pub delay: Option<Span>,
}

/// One job of a batch. Either `task` names what it runs, or `inline` defines it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberRequest {
    /// The name of a task.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub task: Option<String>,
    /// A task for this member alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub inline: Option<TaskSpec>,
    /// Any JSON, handed to the task as it is, and to the compensation.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Value, required = false)]
    pub input: Option<Box<RawValue>>,
    /// Instead of the task's own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<i8>, minimum = -100, maximum = 100)]
    pub priority: Option<Priority>,
    /// Instead of that of the batch.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub compensation: Option<CompensationRequest>,
}

/// What undoes a member. Either `task` names it, or `inline` defines it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CompensationRequest {
    /// The name of a task.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub task: Option<String>,
    /// A task for this purpose alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub inline: Option<TaskSpec>,
}

/// A batch as it is now.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BatchView {
    #[schema(schema_with = schema::batch_id)]
    pub id: BatchId,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// `scheduled`, `active`, `stopping`, `compensating`, `succeeded`, `failed` or `cancelled`.
    #[schema(schema_with = schema::batch_state)]
    pub state: String,
    /// Why it is in this state, and what happens next.
    pub explanation: String,
    pub created: DoneBy,
    #[schema(value_type = String, format = DateTime)]
    pub due_at: Timestamp,
    pub start: BatchStart,
    /// With `start: together`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = "x-duration")]
    pub start_timeout: Option<Span>,
    /// With `start: together`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub on_start_timeout: Option<OnStartTimeout>,
    /// With `start: together`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unplaceable: Option<Unplaceable>,
    pub outcome: BatchOutcome,
    /// How many members it has.
    pub members: u32,
    /// How many members are in each state that any of them is in.
    pub counts: BTreeMap<String, u32>,
    /// The first member that failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first_failed: Option<MemberView>,
    /// Why it failed, or is about to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// Who cancelled it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cancelled: Option<DoneBy>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
    /// Why its members may not start when they are due, by the workers of now. Only in the answer to the request that created it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<Warning>,
}

/// A batch in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BatchSummary {
    #[schema(schema_with = schema::batch_id)]
    pub id: BatchId,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    #[schema(schema_with = schema::batch_state)]
    pub state: String,
    pub created: DoneBy,
    #[schema(value_type = String, format = DateTime)]
    pub due_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
    pub members: u32,
    /// Members whose jobs have ended.
    pub members_ended: u32,
}

/// `GET /v1/batches`: a page of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BatchList {
    pub batches: Vec<BatchSummary>,
    /// Send it back as `cursor` to go on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_cursor: Option<String>,
}

/// `GET /v1/batches`
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BatchQuery {
    /// Only batches in this state: `active`, `stopping`, `compensating`, `succeeded`, `failed` or `cancelled`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<String>,
    /// 1 to 1000; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<String>,
    /// `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cursor: Option<String>,
}

/// A member of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemberView {
    /// From 0, in the order of the request.
    pub place: u32,
    /// `active`, `succeeded`, `failed`, `lost`, `quarantined`, `cancelled`, `deleted`, `compensating`, `compensated` or
    /// `compensation_failed`.
    #[schema(schema_with = schema::member_state)]
    pub state: String,
    #[schema(schema_with = schema::job_id)]
    pub job: JobId,
    /// The job that undoes it, once it was stored.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(schema_with = schema::job_id)]
    pub compensation: Option<JobId>,
}

/// `GET /v1/batches/{id}/members`: a page of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemberList {
    pub members: Vec<MemberView>,
    /// Send it back as `cursor` to go on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_cursor: Option<String>,
}

/// `GET /v1/batches/{id}/members`
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MemberQuery {
    /// Only members in this state.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<String>,
    /// 1 to 1000; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<String>,
    /// `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cursor: Option<String>,
}

/// The place of a job in a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobInBatch {
    #[schema(schema_with = schema::batch_id)]
    pub batch: BatchId,
    /// From 0, in the order of the request.
    pub place: u32,
    /// Whether it undoes what the member at its place did.
    pub is_compensation: bool,
}
