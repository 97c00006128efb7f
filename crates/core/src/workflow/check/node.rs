//! Nodes and handlers: what each is, and whether it could ever start.

use std::collections::{BTreeMap, HashMap};

use super::{Faults, NAME_CHARS_MAX, NOTE_CHARS_MAX, RETRIES_MAX, is_name};
use crate::characters::{misleading, named};
use crate::time::Span;
use crate::workflow::graph::{FanOut, GraphNode, HandlerKind, NodeKind};
use crate::workflow::spec::{ForEach, HandlerSpec, InputSpec, NodeSpec, OnNodeFailure, Trigger, WorkflowSpec};

/// What the paths of a node may begin with.
#[derive(Clone, Copy)]
pub(super) struct Scope {
    /// The node that reads; handlers read every node.
    pub(super) node: Option<usize>,
    pub(super) has_item: bool,
}

pub(super) struct Reader<'a> {
    pub(super) spec: &'a WorkflowSpec,
    pub(super) names: &'a HashMap<&'a str, usize>,
    pub(super) ancestors: &'a [Vec<u64>],
    pub(super) faults: &'a mut Faults,
}

impl Reader<'_> {
    pub(super) fn node(&mut self, place: usize, node: &NodeSpec, needs: &[usize]) -> GraphNode {
        let at = format!("/nodes/{place}");
        let scope = Scope { node: Some(place), has_item: node.for_each.is_some() };
        self.check_kind(&at, node);
        self.check_trigger(&at, node);
        let outside = Scope { has_item: false, ..scope };
        GraphNode {
            name: node.name.clone(),
            kind: self.kind(&at, node),
            needs: needs.iter().map(|&need| need as u16).collect(),
            when: node.when,
            retries: node.retries,
            condition: node.condition.as_ref().map(|one| self.condition(&format!("{at}/if"), one, outside, 1)),
            input: node.input.as_ref().map(|input| self.input(&at, input, scope)),
            fan_out: node.for_each.as_ref().and_then(|for_each| self.fan_out(&at, for_each, outside)),
            is_read: false,
            event: node.gate.as_ref().and_then(|gate| gate.event.clone()),
            runs_workflow: node.workflow.is_some(),
        }
    }

    pub(super) fn output(&mut self, output: &BTreeMap<String, InputSpec>) -> GraphNode {
        let scope = Scope { node: None, has_item: false };
        let fields = self.fields("/output", output, scope);
        GraphNode {
            name: "output".to_owned(),
            kind: NodeKind::Work,
            needs: Vec::new(),
            when: Trigger::AllDone,
            retries: 0,
            condition: None,
            input: Some(fields),
            fan_out: None,
            is_read: false,
            event: None,
            runs_workflow: false,
        }
    }

    pub(super) fn handler(&mut self, field: &str, place: usize, kind: HandlerKind, handler: &HandlerSpec) -> GraphNode {
        let at = format!("/{field}/{place}");
        if handler.task.is_some() == handler.inline.is_some() {
            self.faults.add(&at, "must have exactly one of `task` and `inline`");
        }
        let scope = Scope { node: None, has_item: false };
        GraphNode {
            name: handler.name.clone(),
            kind: NodeKind::Handler(kind),
            needs: Vec::new(),
            when: Trigger::AllDone,
            retries: 0,
            condition: None,
            input: handler.input.as_ref().map(|input| self.input(&at, input, scope)),
            fan_out: None,
            is_read: false,
            event: None,
            runs_workflow: false,
        }
    }

    fn check_kind(&mut self, at: &str, node: &NodeSpec) {
        let kinds = [node.task.is_some(), node.inline.is_some(), node.gate.is_some(), node.workflow.is_some()];
        if kinds.into_iter().filter(|has| *has).count() != 1 {
            self.faults.add(at, "must have exactly one of `task`, `inline`, `workflow` and `gate`");
        }
        if node.retries > RETRIES_MAX {
            self.faults.add(format!("{at}/retries"), format!("must be at most {RETRIES_MAX}"));
        }
        if node.retries > 0 && (node.gate.is_some() || node.for_each.is_some()) {
            let hint = "give the task itself a `retry` policy";
            self.faults.add_with_hint(format!("{at}/retries"), "only a node with a single job has `retries`", hint);
        }
        if node.gate.is_some() && (node.input.is_some() || node.for_each.is_some()) {
            self.faults.add(at, "a gate runs nothing, so it has no `input` and no `for_each`");
        }
    }

    /// Nodes that could never start.
    fn check_trigger(&mut self, at: &str, node: &NodeSpec) {
        let when = node.when;
        let place = format!("{at}/when");
        match when {
            Trigger::AllSucceeded | Trigger::AllDone | Trigger::NoneFailed => {}
            Trigger::OneFailed | Trigger::OneSucceeded | Trigger::NoneFailedOneSucceeded if node.needs.is_empty() => {
                let detail = format!("the node could never start: `{}` asks for nodes in `needs`", when.as_str());
                self.faults.add(place, detail);
            }
            Trigger::OneFailed if self.spec.on_node_failure == OnNodeFailure::Stop => {
                self.faults.add_with_hint(
                    place,
                    "the node could never start: after a failure, nothing more of the run starts",
                    "set `on_node_failure: continue`, or move the node to `on_failure`",
                );
            }
            Trigger::OneFailed | Trigger::OneSucceeded | Trigger::NoneFailedOneSucceeded => {}
        }
    }

    fn kind(&mut self, at: &str, node: &NodeSpec) -> NodeKind {
        let Some(gate) = &node.gate else { return NodeKind::Work };
        if gate.timeout.is_some_and(|timeout| timeout <= Span::ZERO || timeout > WorkflowSpec::TIMEOUT_MAX) {
            let detail = format!("must be more than 0 and at most {}", WorkflowSpec::TIMEOUT_MAX);
            self.faults.add(format!("{at}/gate/timeout"), detail);
        }
        if gate.event.as_ref().is_some_and(|event| !is_name(event)) {
            let detail = format!("must be 1 to {NAME_CHARS_MAX} letters, digits, `-` or `_`");
            self.faults.add(format!("{at}/gate/event"), detail);
        }
        if gate.note.as_ref().is_some_and(|note| note.chars().count() > NOTE_CHARS_MAX) {
            self.faults.add(format!("{at}/gate/note"), format!("must be at most {NOTE_CHARS_MAX} characters"));
        }
        if let Some(character) = gate.note.as_deref().and_then(misleading) {
            self.faults.add(format!("{at}/gate/note"), format!("must not contain {}", named(character)));
        }
        NodeKind::Gate { timeout: gate.timeout, on_timeout: gate.on_timeout }
    }

    fn fan_out(&mut self, at: &str, for_each: &ForEach, scope: Scope) -> Option<FanOut> {
        let at = format!("{at}/for_each");
        if for_each.max == 0 || for_each.max > ForEach::LIST_MAX {
            self.faults.add(format!("{at}/max"), format!("must be 1 to {}", ForEach::LIST_MAX));
        }
        if for_each.at_once == 0 || for_each.at_once > ForEach::AT_ONCE_MAX {
            self.faults.add(format!("{at}/at_once"), format!("must be 1 to {}", ForEach::AT_ONCE_MAX));
        }
        let list = self.path(&format!("{at}/from"), &for_each.from, scope)?;
        Some(FanOut { list, max: for_each.max, at_once: for_each.at_once })
    }
}
