//! A definition that was checked, with nodes by number.

use serde_json::Value;

use super::condition::Condition;
use super::path::{Path, Root};
use super::spec::{GateTimeout, OnNodeFailure, Trigger};
use crate::time::Span;

#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// The nodes as they stand in the definition, then the handlers.
    pub nodes: Vec<GraphNode>,
    /// The nodes without handlers, each after all that it needs; otherwise as they stand in the definition.
    pub(super) order: Vec<u16>,
    pub(super) on_node_failure: OnNodeFailure,
    pub timeout: Span,
    /// What a run returns, as the input of a node that runs nothing.
    pub(super) output: Option<GraphNode>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct GraphNode {
    pub name: String,
    pub kind: NodeKind,
    pub needs: Vec<u16>,
    pub when: Trigger,
    pub retries: u16,
    pub(super) condition: Option<Condition>,
    /// `None`: it is given the input of the run, or its element.
    pub(super) input: Option<Vec<InputField>>,
    pub(super) fan_out: Option<FanOut>,
    /// Another node reads its output.
    pub(super) is_read: bool,
    /// The outside event that the gate waits for.
    pub event: Option<String>,
    /// It runs another workflow.
    pub runs_workflow: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    Work,
    Gate { timeout: Option<Span>, on_timeout: GateTimeout },
    Handler(HandlerKind),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandlerKind {
    Failure,
    Success,
    End,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct InputField {
    pub(super) name: String,
    pub(super) source: InputSource,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum InputSource {
    Value(Value),
    From { path: Path, default: Option<Value> },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct FanOut {
    pub(super) list: Path,
    pub(super) max: u32,
    pub(super) at_once: u32,
}

impl Graph {
    pub(super) fn node(&self, node: u16) -> &GraphNode {
        &self.nodes[usize::from(node)]
    }

    pub fn number(&self, name: &str) -> Option<u16> {
        self.nodes.iter().position(|node| node.name == name).map(|place| place as u16)
    }

    /// The nodes without handlers, in an order in which they could run.
    pub fn in_order(&self) -> impl Iterator<Item = &GraphNode> {
        self.order.iter().map(|&node| self.node(node))
    }

    /// All nodes that come before one, in an order in which they could run. Everything comes before a handler.
    pub fn before(&self, node: u16) -> Vec<u16> {
        if self.node(node).is_handler() {
            return self.order.clone();
        }
        let mut found = std::collections::BTreeSet::from([node]);
        for &one in self.order.iter().rev() {
            if found.contains(&one) {
                found.extend(&self.node(one).needs);
            }
        }
        self.order.iter().copied().filter(|one| *one != node && found.contains(one)).collect()
    }

    /// All nodes that come after one, in an order in which they could run.
    pub fn after(&self, node: u16) -> Vec<u16> {
        let mut found = std::collections::BTreeSet::from([node]);
        for &one in &self.order {
            if self.node(one).needs.iter().any(|need| found.contains(need)) {
                found.insert(one);
            }
        }
        self.order.iter().copied().filter(|one| *one != node && found.contains(one)).collect()
    }

    pub fn numbers(&self) -> std::ops::Range<u16> {
        0..self.nodes.len() as u16
    }
}

impl GraphNode {
    pub fn is_handler(&self) -> bool {
        matches!(self.kind, NodeKind::Handler(_))
    }

    pub fn is_gate(&self) -> bool {
        matches!(self.kind, NodeKind::Gate { .. })
    }

    pub fn fans_out(&self) -> bool {
        self.fan_out.is_some()
    }

    pub fn has_condition(&self) -> bool {
        self.condition.is_some()
    }

    /// All paths that it reads.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        let inputs = self.input.iter().flatten().filter_map(|field| match &field.source {
            InputSource::From { path, .. } => Some(path),
            InputSource::Value(_) => None,
        });
        let condition = self.condition.iter().flat_map(Condition::paths);
        condition.chain(self.fan_out.iter().map(|fan_out| &fan_out.list)).chain(inputs)
    }

    /// The nodes whose outputs it reads.
    pub(super) fn reads(&self) -> impl Iterator<Item = u16> + '_ {
        self.paths().filter_map(|path| match path.root {
            Root::Node(node) => Some(node),
            Root::Run | Root::Item => None,
        })
    }
}
