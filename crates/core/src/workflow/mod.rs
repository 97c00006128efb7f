//! Workflows: graphs of tasks that run in an order.
//!
//! A [`Graph`] is a definition that was checked. [`step`] answers what follows from an event in a run of it, such as the end
//! of a job: the new state of the run, and the jobs to release. It is pure; a store calls it in the transaction that applies
//! the event, on the state that this transaction has locked, so that the end of a job and the release of those that wait for
//! it are durable together or not at all. Nothing of a run is kept in memory.

#[cfg(feature = "planted-bugs")]
mod bug;
mod check;
mod condition;
mod env;
mod evaluate;
mod fan_out;
mod graph;
mod node_ref;
mod packed;
mod path;
mod planted;
mod release;
mod spec;
mod state;

#[cfg(test)]
mod evaluate_tests;
#[cfg(test)]
mod testing;

#[cfg(feature = "planted-bugs")]
pub use bug::{RunBug, plant};
pub use check::{EDGES_MAX, GraphFault, NODES_MAX};
pub use env::{Known, OUTPUT_KEPT_MAX};
pub use evaluate::{GateVerdict, Missing, Refusal, Release, RunEvent, RunHead, Step, step};
pub use graph::{Graph, GraphNode, HandlerKind, NodeKind};
pub use node_ref::NodeRef;
pub use spec::{
    ConditionSpec, ForEach, GateSpec, GateTimeout, HandlerSpec, InputSpec, NodeSpec, OnNodeFailure, Trigger,
    WorkflowSpec,
};
pub use state::{FanState, ItemStatus, NodeState, NodeStatus, Note, Phase, RunJob, RunState, RunStatus};
