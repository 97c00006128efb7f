//! A definition of a workflow, as docs/workflows.md describes it. Read from the text that users write, and not by the types of
//! the core, so that a field that the core misreads shows.

use std::collections::BTreeMap;

use punctual_core::Span;
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    pub(super) nodes: Vec<Node>,
    #[serde(default)]
    pub(super) on_node_failure: OnNodeFailure,
    #[serde(default = "seven_days")]
    pub(super) timeout: Span,
    #[serde(default)]
    on_failure: Vec<Node>,
    #[serde(default)]
    on_success: Vec<Node>,
    #[serde(default)]
    on_end: Vec<Node>,
    #[serde(default)]
    pub(super) output: Option<BTreeMap<String, Value>>,
}

fn seven_days() -> Span {
    Span::from_secs(7 * 24 * 3600)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnNodeFailure {
    #[default]
    Stop,
    Continue,
}

/// A node, or a task to run after the nodes.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Node {
    pub(super) name: String,
    #[serde(default)]
    pub(super) needs: Vec<String>,
    #[serde(default)]
    pub(super) when: When,
    #[serde(default, rename = "if")]
    pub(super) condition: Option<Value>,
    #[serde(default)]
    pub(super) input: Option<BTreeMap<String, Value>>,
    #[serde(default)]
    pub(super) retries: u32,
    #[serde(default)]
    pub(super) for_each: Option<ForEach>,
    #[serde(default)]
    pub(super) gate: Option<Gate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum When {
    #[default]
    AllSucceeded,
    AllDone,
    OneFailed,
    OneSucceeded,
    NoneFailed,
    NoneFailedOneSucceeded,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct ForEach {
    pub(super) from: String,
    #[serde(default = "ten_thousand")]
    pub(super) max: usize,
    #[serde(default = "a_hundred")]
    pub(super) at_once: usize,
}

fn ten_thousand() -> usize {
    10_000
}

fn a_hundred() -> usize {
    100
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Gate {
    #[serde(default)]
    pub(super) event: Option<String>,
    #[serde(default)]
    pub(super) timeout: Option<Span>,
    #[serde(default)]
    pub(super) on_timeout: OnTimeout,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OnTimeout {
    #[default]
    Fail,
    Approve,
    Skip,
}

/// Which ends of a run a task after the nodes is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    Failure,
    Success,
    Any,
}

impl Definition {
    /// An error says what is not as the docs have it.
    pub fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// All nodes, and after them the tasks that run after the nodes: jobs name their nodes by the place in this list.
    pub(super) fn all(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().chain(self.handlers().map(|(_, handler)| handler))
    }

    pub(super) fn handlers(&self) -> impl Iterator<Item = (After, &Node)> {
        let of = |after: After| move |handler| (after, handler);
        let failure = self.on_failure.iter().map(of(After::Failure));
        failure.chain(self.on_success.iter().map(of(After::Success))).chain(self.on_end.iter().map(of(After::Any)))
    }

    pub fn name(&self, place: usize) -> &str {
        self.all().nth(place).map_or("?", |node| &node.name)
    }

    /// The nodes in an order in which they could run: always the first in the definition of which all needs are there.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = Vec::with_capacity(self.nodes.len());
        let mut is_placed = vec![false; self.nodes.len()];
        let needs: Vec<Vec<usize>> = self.nodes.iter().map(|node| self.places(&node.needs)).collect();
        while let Some(next) =
            (0..needs.len()).find(|place| !is_placed[*place] && needs[*place].iter().all(|need| is_placed[*need]))
        {
            is_placed[next] = true;
            order.push(next);
        }
        order
    }

    pub(super) fn places(&self, names: &[String]) -> Vec<usize> {
        let place = |name: &String| self.nodes.iter().position(|node| node.name == *name);
        names.iter().map(|name| place(name).expect("a stored definition needs nodes that there are")).collect()
    }
}

impl Definition {
    /// The nodes that one needs.
    pub(super) fn needs(&self, place: usize) -> Vec<usize> {
        self.nodes.get(place).map(|node| self.places(&node.needs)).unwrap_or_default()
    }

    pub(super) fn is_list(&self, place: usize) -> bool {
        self.nodes.get(place).is_some_and(|node| node.for_each.is_some())
    }

    /// Whether a node runs once for each element of a list, or is given the results of one.
    pub(super) fn reads_list(&self, place: usize) -> bool {
        let reads = |field: &Value| {
            let path = field.get("from").and_then(Value::as_str).unwrap_or_default();
            let root = path.split('.').next().unwrap_or_default();
            self.nodes.iter().any(|node| node.name == root && node.for_each.is_some())
        };
        let input = self.all().nth(place).and_then(|node| node.input.as_ref());
        self.is_list(place) || input.is_some_and(|fields| fields.values().any(reads))
    }
}
