//! Checks a definition, and says of each fault where it is.

mod condition;
mod node;
mod order;
mod reads;

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use self::node::Reader;
use self::order::{ancestors, order, read_needs};
use super::graph::{Graph, GraphNode, HandlerKind};
use super::path::{ITEM, RUN};
use super::spec::{HandlerSpec, WorkflowSpec};
use crate::time::Span;

/// The state of a run is one row, which is read and written with each end of a job.
pub const NODES_MAX: usize = 1_000;
/// Pairs of nodes of which one needs the other.
pub const EDGES_MAX: usize = 10_000;
const HANDLERS_MAX: usize = 20;
const NAME_CHARS_MAX: usize = 64;
const RETRIES_MAX: u16 = 100;
/// Fields of one input.
const FIELDS_MAX: usize = 100;
/// Comparisons of one condition, and how deep they nest.
const COMPARISONS_MAX: usize = 100;
const CONDITION_DEPTH_MAX: usize = 10;
const NOTE_CHARS_MAX: usize = 256;
/// More faults than this are not looked for.
const FAULTS_MAX: usize = 50;

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphFault {
    /// A JSON pointer, such as `/nodes/2/needs/0`.
    pub place: String,
    pub detail: String,
    pub hint: Option<String>,
}

#[derive(Default)]
struct Faults(Vec<GraphFault>);

impl Faults {
    fn add(&mut self, place: impl Into<String>, detail: impl Into<String>) {
        self.push(place.into(), detail.into(), None);
    }

    fn add_with_hint(&mut self, place: impl Into<String>, detail: impl Into<String>, hint: &str) {
        self.push(place.into(), detail.into(), Some(hint.to_owned()));
    }

    fn push(&mut self, place: String, detail: String, hint: Option<String>) {
        if self.0.len() < FAULTS_MAX {
            self.0.push(GraphFault { place, detail, hint });
        }
    }
}

impl Graph {
    /// Checks everything that can be known without the tasks that the nodes name.
    pub fn of(spec: &WorkflowSpec) -> Result<Self, Vec<GraphFault>> {
        let mut faults = Faults::default();
        check_sizes(spec, &mut faults);
        if !faults.0.is_empty() {
            return Err(faults.0);
        }
        let names = check_names(spec, &mut faults);
        let needs = read_needs(spec, &names, &mut faults);
        let order = match order(&needs) {
            Ok(order) => order,
            Err(cycle) => {
                let names: Vec<&str> = cycle.iter().map(|&node| spec.nodes[node].name.as_str()).collect();
                let detail = format!("the nodes form a cycle: {}", names.join(" > "));
                faults.add_with_hint(
                    format!("/nodes/{}/needs", cycle[0]),
                    detail,
                    "remove one of these `needs`: a node cannot come before itself",
                );
                return Err(faults.0);
            }
        };
        let ancestors = ancestors(&needs, &order);
        let mut reader = Reader { spec, names: &names, ancestors: &ancestors, faults: &mut faults };
        let mut nodes: Vec<GraphNode> =
            spec.nodes.iter().enumerate().map(|(place, node)| reader.node(place, node, &needs[place])).collect();
        for (field, kind, handlers) in handlers(spec) {
            nodes.extend(handlers.iter().enumerate().map(|(place, one)| reader.handler(field, place, kind, one)));
        }
        let output = spec.output.as_ref().map(|output| reader.output(output));
        let read: BTreeSet<u16> = nodes.iter().chain(&output).flat_map(GraphNode::reads).collect();
        for node in read {
            nodes[usize::from(node)].is_read = true;
        }
        if !faults.0.is_empty() {
            return Err(faults.0);
        }
        let order = order.into_iter().map(|node| node as u16).collect();
        Ok(Self { nodes, order, on_node_failure: spec.on_node_failure, timeout: spec.timeout, output })
    }
}

fn handlers(spec: &WorkflowSpec) -> [(&'static str, HandlerKind, &[HandlerSpec]); 3] {
    [
        ("on_failure", HandlerKind::Failure, &spec.on_failure),
        ("on_success", HandlerKind::Success, &spec.on_success),
        ("on_end", HandlerKind::End, &spec.on_end),
    ]
}

fn check_sizes(spec: &WorkflowSpec, faults: &mut Faults) {
    let nodes = spec.nodes.len();
    if nodes == 0 || nodes > NODES_MAX {
        faults.add("/nodes", format!("must be 1 to {NODES_MAX} nodes, not {nodes}"));
    }
    let edges: usize = spec.nodes.iter().map(|node| node.needs.len()).sum();
    if edges > EDGES_MAX {
        faults.add("/nodes", format!("all `needs` together must be at most {EDGES_MAX}, not {edges}"));
    }
    for (field, _, handlers) in handlers(spec) {
        if handlers.len() > HANDLERS_MAX {
            faults.add(format!("/{field}"), format!("must be at most {HANDLERS_MAX}, not {}", handlers.len()));
        }
    }
    if spec.timeout <= Span::ZERO || spec.timeout > WorkflowSpec::TIMEOUT_MAX {
        faults.add("/timeout", format!("must be more than 0 and at most {}", WorkflowSpec::TIMEOUT_MAX));
    }
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(fits)
}

/// The first node of each name.
fn check_names<'s>(spec: &'s WorkflowSpec, faults: &mut Faults) -> HashMap<&'s str, usize> {
    let mut names: HashMap<&str, usize> = HashMap::new();
    let nodes = spec.nodes.iter().enumerate().map(|(place, node)| (format!("/nodes/{place}/name"), &node.name));
    let handlers = handlers(spec).into_iter().flat_map(|(field, _, handlers)| {
        handlers.iter().enumerate().map(move |(place, one)| (format!("/{field}/{place}/name"), &one.name))
    });
    for (number, (place, name)) in nodes.chain(handlers).enumerate() {
        if !is_name(name) {
            faults.add(place, format!("must be 1 to {NAME_CHARS_MAX} letters, digits, `-` or `_`"));
        } else if name == RUN || name == ITEM {
            let hint = "paths begin with it; use another name";
            faults.add_with_hint(place, format!("`{name}` cannot be the name of a node"), hint);
        } else if names.contains_key(name.as_str()) {
            faults.add(place, format!("another node is called `{name}`"));
        } else {
            names.insert(name, number);
        }
    }
    names
}
