//! A workflow as a user writes it down.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::task::TaskSpec;
use crate::time::Span;

/// The definition of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkflowSpec {
    /// What to run, and what has to come before it.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub nodes: Vec<NodeSpec>,
    /// What a failed node means for the others.
    #[serde(default)]
    pub on_node_failure: OnNodeFailure,
    /// A run that takes longer fails: its jobs are cancelled, and nothing more of it starts.
    #[serde(default = "default_timeout")]
    #[cfg_attr(feature = "schema", schema(value_type = String, format = "x-duration", example = "P7D"))]
    pub timeout: Span,
    /// What to run after a run that failed or timed out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub on_failure: Vec<HandlerSpec>,
    /// What to run after a run that succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub on_success: Vec<HandlerSpec>,
    /// What to run after every run, a cancelled one included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Object>))]
    pub on_end: Vec<HandlerSpec>,
    /// The fields of what a run returns when its nodes have succeeded: the output of the job that it was run for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub output: Option<BTreeMap<String, InputSpec>>,
}

impl WorkflowSpec {
    /// The tasks of a run are kept for longer than this.
    pub const TIMEOUT_MAX: Span = Span::from_secs(90 * 24 * 3600);
}

fn default_timeout() -> Span {
    Span::from_secs(7 * 24 * 3600)
}

/// Exactly one of `task`, `inline`, `workflow` and `gate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    pub name: String,
    /// The name of a stored task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// A task that is defined here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<Box<TaskSpec>>,
    /// The name of another workflow, of which the newest version is run. Its output is the output of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// The node runs nothing and waits for a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateSpec>,
    /// The nodes that come before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// What the ends of those nodes must be.
    #[serde(default)]
    pub when: Trigger,
    /// If it does not hold, the node is skipped.
    #[serde(default, rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<ConditionSpec>,
    /// The fields of its input. Without it, the node is given the input of the run, or its element of `for_each`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<BTreeMap<String, InputSpec>>,
    /// How often the node is started again after its job has failed for good.
    #[serde(default)]
    pub retries: u16,
    /// One job for each element of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_each: Option<ForEach>,
}

/// Runs after the nodes. Exactly one of `task` and `inline`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandlerSpec {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<Box<TaskSpec>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<BTreeMap<String, InputSpec>>,
}

/// What the failure of a node means for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnNodeFailure {
    /// Nothing more starts; what runs goes on to its end, and then the run fails.
    #[default]
    Stop,
    /// Only the trigger rules of the other nodes count. The run fails when all have ended.
    Continue,
}

/// When a node starts, by the ends of those that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    #[default]
    AllSucceeded,
    /// Whatever their ends are.
    AllDone,
    /// As soon as one has failed.
    OneFailed,
    /// Each one succeeded or was skipped.
    NoneFailed,
    /// As soon as one has succeeded.
    OneSucceeded,
    /// None failed, and at least one was not skipped.
    NoneFailedOneSucceeded,
}

impl Trigger {
    pub const ALL: [Self; 6] = [
        Self::AllSucceeded,
        Self::AllDone,
        Self::OneFailed,
        Self::NoneFailed,
        Self::OneSucceeded,
        Self::NoneFailedOneSucceeded,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AllSucceeded => "all_succeeded",
            Self::AllDone => "all_done",
            Self::OneFailed => "one_failed",
            Self::NoneFailed => "none_failed",
            Self::OneSucceeded => "one_succeeded",
            Self::NoneFailedOneSucceeded => "none_failed_one_succeeded",
        }
    }
}

/// Exactly one comparison with a `path`, or exactly one of `all`, `any` and `not`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConditionSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub eq: Option<Value>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub ne: Option<Value>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub lt: Option<Value>,
    #[serde(default, rename = "in", skip_serializing_if = "Option::is_none")]
    pub one_of: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<Vec<ConditionSpec>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub any: Option<Vec<ConditionSpec>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not: Option<Box<ConditionSpec>>,
}

/// Exactly one of `from` and `value`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputSpec {
    /// A path, such as `extract.rows.0.id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// If there is nothing at the path. Without it, the node fails then.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
}

/// Tells a field that is null from one that is missing.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForEach {
    /// The path of the list.
    pub from: String,
    /// A longer list fails the node.
    #[serde(default = "ForEach::default_max")]
    pub max: u32,
    /// How many of its jobs are under way at a time.
    #[serde(default = "ForEach::default_at_once")]
    pub at_once: u32,
}

impl ForEach {
    pub const LIST_MAX: u32 = 10_000;
    /// The jobs that are under way are named in the state of the run.
    pub const AT_ONCE_MAX: u32 = 1_000;

    fn default_max() -> u32 {
        Self::LIST_MAX
    }

    fn default_at_once() -> u32 {
        100
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateSpec {
    /// It waits for an outside event of this name, whose payload is its output. Without it, for a decision of a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// What people are to decide about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Without it, the gate waits until the run times out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    #[serde(default)]
    pub on_timeout: GateTimeout,
}

/// What it means that nobody decided in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateTimeout {
    #[default]
    Fail,
    Approve,
    Skip,
}
