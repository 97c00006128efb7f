//! Workflows and their runs on the wire.

use punctual_core::workflow::WorkflowSpec;
use punctual_core::{JobId, RunId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::{DoneBy, schema};

/// One version of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowView {
    pub name: String,
    /// Grows by one with each definition that differs from the one before it.
    pub version: u32,
    pub created: DoneBy,
    pub spec: WorkflowSpec,
}

/// What became of a definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowApplied {
    pub name: String,
    pub version: u32,
    /// Whether this version is new. Otherwise the newest one has the same definition.
    pub is_new: bool,
}

/// A workflow in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowSummary {
    pub name: String,
    pub version: u32,
    pub created: DoneBy,
    pub nodes: u32,
}

/// `GET /v1/workflows`: a page of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WorkflowList {
    pub workflows: Vec<WorkflowSummary>,
    /// Send it back as `cursor` to go on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_cursor: Option<String>,
}

/// `GET /v1/workflows`
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WorkflowQuery {
    /// 1 to 1000; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<String>,
    /// `next_cursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cursor: Option<String>,
}

/// `GET /v1/workflows/{name}`
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct VersionQuery {
    /// The newest one without it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version: Option<String>,
}

/// `POST /v1/workflows/{name}/runs`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkflowRunRequest {
    /// Any JSON value.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Value, required = false)]
    pub input: Option<Box<RawValue>>,
    /// The newest one without it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub version: Option<u32>,
}

/// `POST /v1/runs/{id}/resume`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// Nodes that failed and are passed over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<String>,
}

/// `POST /v1/runs/{id}/skip`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SkipNodeRequest {
    pub node: String,
}

/// `POST /v1/runs/{id}/decide`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecideRequest {
    /// A gate that waits.
    pub node: String,
    pub decision: GateDecision,
}

/// `POST /v1/runs/{id}/events`
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RunEventRequest {
    /// What gates wait for: `gate: { event: NAME }`.
    pub event: String,
    /// Any JSON value of at most 64 KiB: the output of the gates.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Value, required = false)]
    pub payload: Option<Box<RawValue>>,
}

/// What somebody decides about a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateDecision {
    Approve,
    Reject,
}

/// `GET /v1/runs`
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunQuery {
    /// Only runs of this workflow.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub workflow: Option<String>,
    /// 1 to 1000; 50 by default.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cursor: Option<String>,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunSummary {
    #[schema(schema_with = schema::run_id)]
    pub id: RunId,
    pub workflow: String,
    pub version: u32,
    /// `running`, `succeeded`, `failed` or `cancelled`.
    pub state: String,
    pub created: DoneBy,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
    /// Nodes that have ended, skipped ones included.
    pub nodes_ended: u32,
    pub nodes: u32,
}

/// `GET /v1/runs`: a page of them, the latest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RunList {
    pub runs: Vec<RunSummary>,
    /// Send it back as `cursor` to go on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_cursor: Option<String>,
}

/// A run with its nodes.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct RunView {
    #[schema(schema_with = schema::run_id)]
    pub id: RunId,
    pub workflow: String,
    pub version: u32,
    /// `running`, `succeeded`, `failed` or `cancelled`.
    pub state: String,
    pub created: DoneBy,
    /// When it times out, or would have.
    #[schema(value_type = String, format = DateTime)]
    pub deadline: Timestamp,
    pub timed_out: bool,
    /// The job that ends with it, if a schedule, a job or a node of another workflow runs it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(schema_with = schema::job_id)]
    pub job: Option<JobId>,
    /// What it returns by its definition. That is not shown to whoever may not see outputs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Value, required = false)]
    pub output: Option<serde_json::Value>,
    /// Why it failed, if it could not go on and no node says so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// Why it is in its state, and which nodes it waits for.
    #[serde(default)]
    pub explanation: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
    /// Who asked for its end.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cancelled: Option<DoneBy>,
    /// Whether it has an input. That is not shown to whoever may not see inputs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Value, required = false)]
    pub input: Option<Box<RawValue>>,
    /// The nodes as they stand in the definition, then what runs after them.
    pub nodes: Vec<NodeView>,
}

/// A node of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeView {
    pub name: String,
    /// `task`, `workflow`, `gate`, `on_failure`, `on_success` or `on_end`.
    pub kind: String,
    pub needs: Vec<String>,
    /// `waiting`, `active` (its job waits for its start or runs), `open` (a gate that waits for a decision), `succeeded`,
    /// `failed`, `cancelled`, `skipped`, `upstream_failed` or `not_run`.
    pub state: String,
    /// The last job that was made for it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(schema_with = schema::job_id)]
    pub job: Option<JobId>,
    /// How often it was started before.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub round: u16,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub released_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
    /// Why it came to this. Of nodes whose jobs failed, the first five quote them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// What people are to decide about, as the definition of the gate says.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
    /// The nodes before it that have not ended, the decision that it waits for, or why its job waits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub waiting_for: Option<String>,
    /// Who approved, rejected or skipped it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub decided: Option<DoneBy>,
    /// Its output was longer than what is kept for other nodes.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub output_too_long: bool,
    /// The jobs of a node with `for_each`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub items: Option<ItemsView>,
}

fn is_zero(number: &u16) -> bool {
    *number == 0
}

/// The jobs of a node with `for_each`, by what became of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ItemsView {
    pub total: u32,
    pub waiting: u32,
    pub active: u32,
    pub succeeded: u32,
    pub failed: u32,
    /// Some of those that failed.
    #[schema(value_type = Vec<String>)]
    pub failed_jobs: Vec<JobId>,
}

/// The place of a job in a run of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobInRun {
    #[schema(schema_with = schema::run_id)]
    pub run: RunId,
    pub workflow: String,
    pub version: u32,
    pub node: String,
    /// The place in the list of a node with `for_each`, from 0.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub item: Option<u32>,
    /// All nodes that come before it, the first ones first.
    pub before: Vec<RelatedNode>,
    /// All nodes that come after it, the first ones first.
    pub after: Vec<RelatedNode>,
}

/// A node that comes before or after a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RelatedNode {
    pub node: String,
    /// One of the states of nodes.
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(schema_with = schema::job_id)]
    pub job: Option<JobId>,
}
