//! Checks a definition, and says of each fault where it is.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::condition::Condition;
use super::graph::{FanOut, Graph, GraphNode, HandlerKind, InputField, InputSource, NodeKind};
use super::path::{ITEM, PATH_CHARS_MAX, Path, RUN, Root};
use super::spec::{ConditionSpec, ForEach, HandlerSpec, InputSpec, NodeSpec, OnNodeFailure, Trigger, WorkflowSpec};
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

fn read_needs(spec: &WorkflowSpec, names: &HashMap<&str, usize>, faults: &mut Faults) -> Vec<Vec<usize>> {
    let mut all = Vec::with_capacity(spec.nodes.len());
    for (node, one) in spec.nodes.iter().enumerate() {
        let mut needs = Vec::with_capacity(one.needs.len());
        for (place, name) in one.needs.iter().enumerate() {
            let at = format!("/nodes/{node}/needs/{place}");
            match names.get(name.as_str()) {
                None => faults.add(at, format!("there is no node `{name}`")),
                Some(&need) if need >= spec.nodes.len() => {
                    faults.add(at, format!("`{name}` runs after all nodes, so no node can need it"));
                }
                Some(need) if needs.contains(need) => faults.add(at, format!("`{name}` is named twice")),
                Some(&need) => needs.push(need),
            }
        }
        all.push(needs);
    }
    all
}

/// An order in which each node comes after those that it needs; among those that could come next, the one that was written
/// first. An error with the nodes of a cycle, the first one again at its end.
fn order(needs: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut left: Vec<usize> = needs.iter().map(Vec::len).collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); needs.len()];
    for (node, needs) in needs.iter().enumerate() {
        for &need in needs {
            children[need].push(node);
        }
    }
    let mut ready: BTreeSet<usize> = (0..needs.len()).filter(|&node| left[node] == 0).collect();
    let mut order = Vec::with_capacity(needs.len());
    while let Some(node) = ready.pop_first() {
        order.push(node);
        for &child in &children[node] {
            left[child] -= 1;
            if left[child] == 0 {
                ready.insert(child);
            }
        }
    }
    if order.len() == needs.len() { Ok(order) } else { Err(cycle(needs, &left)) }
}

/// Each node that is left needs another that is left, so that whoever follows them comes back.
fn cycle(needs: &[Vec<usize>], left: &[usize]) -> Vec<usize> {
    let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
    let mut path = Vec::new();
    let mut node = left.iter().position(|left| *left > 0).expect("some are left");
    loop {
        if let Some(&from) = seen.get(&node) {
            // From cause to consequence, as the nodes would run.
            let mut cycle = path.split_off(from);
            cycle.push(node);
            cycle.reverse();
            return cycle;
        }
        seen.insert(node, path.len());
        path.push(node);
        node = *needs[node].iter().find(|need| left[**need] > 0).expect("a node of a cycle needs another one");
    }
}

/// A bit for each node that comes before, for each node.
fn ancestors(needs: &[Vec<usize>], order: &[usize]) -> Vec<Vec<u64>> {
    let words = needs.len().div_ceil(64);
    let mut all = vec![vec![0_u64; words]; needs.len()];
    for &node in order {
        let mut mine = vec![0_u64; words];
        for &need in &needs[node] {
            mine.iter_mut().zip(&all[need]).for_each(|(mine, theirs)| *mine |= theirs);
            mine[need / 64] |= 1 << (need % 64);
        }
        all[node] = mine;
    }
    all
}

/// What the paths of a node may begin with.
#[derive(Clone, Copy)]
struct Scope {
    /// The node that reads; handlers read every node.
    node: Option<usize>,
    has_item: bool,
}

struct Reader<'a> {
    spec: &'a WorkflowSpec,
    names: &'a HashMap<&'a str, usize>,
    ancestors: &'a [Vec<u64>],
    faults: &'a mut Faults,
}

impl Reader<'_> {
    fn node(&mut self, place: usize, node: &NodeSpec, needs: &[usize]) -> GraphNode {
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

    fn output(&mut self, output: &BTreeMap<String, InputSpec>) -> GraphNode {
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

    fn handler(&mut self, field: &str, place: usize, kind: HandlerKind, handler: &HandlerSpec) -> GraphNode {
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

    fn input(&mut self, at: &str, input: &BTreeMap<String, InputSpec>, scope: Scope) -> Vec<InputField> {
        self.fields(&format!("{at}/input"), input, scope)
    }

    fn fields(&mut self, at: &str, input: &BTreeMap<String, InputSpec>, scope: Scope) -> Vec<InputField> {
        if input.len() > FIELDS_MAX {
            self.faults.add(at, format!("must be at most {FIELDS_MAX} fields, not {}", input.len()));
            return Vec::new();
        }
        let mut fields = Vec::with_capacity(input.len());
        for (name, spec) in input {
            let at = format!("{at}/{}", escaped(name));
            let source = match (&spec.from, &spec.value) {
                (None, Some(value)) if spec.default.is_none() => Some(InputSource::Value(value.clone())),
                (Some(from), None) => self
                    .path(&format!("{at}/from"), from, scope)
                    .map(|path| InputSource::From { path, default: spec.default.clone() }),
                (None, Some(_)) => {
                    self.faults.add(format!("{at}/default"), "only `from` has a `default`");
                    None
                }
                (Some(_), Some(_)) | (None, None) => {
                    self.faults.add(at, "must have exactly one of `from` and `value`");
                    None
                }
            };
            fields.extend(source.map(|source| InputField { name: name.clone(), source }));
        }
        fields
    }

    fn path(&mut self, at: &str, text: &str, scope: Scope) -> Option<Path> {
        let mut steps = text.split('.');
        let root = steps.next().unwrap_or_default();
        let steps: Vec<String> = steps.map(str::to_owned).collect();
        if text.len() > PATH_CHARS_MAX || root.is_empty() || steps.iter().any(String::is_empty) {
            let detail = format!("must be a path of at most {PATH_CHARS_MAX} characters, such as `extract.rows.0`");
            self.faults.add(at, detail);
            return None;
        }
        let root = match root {
            RUN => Root::Run,
            ITEM if scope.has_item => Root::Item,
            ITEM => {
                self.faults.add(at, "`item` is only there in the `input` of a node with `for_each`");
                return None;
            }
            name => Root::Node(self.readable(at, name, scope)?),
        };
        Some(Path { root, steps, text: text.to_owned() })
    }

    /// A node that has ended whenever the one that reads it starts.
    fn readable(&mut self, at: &str, name: &str, scope: Scope) -> Option<u16> {
        let Some(&read) = self.names.get(name).filter(|read| **read < self.spec.nodes.len()) else {
            let hint = "a path begins with the name of a node, with `run` for the input of the run, or with `item`";
            self.faults.add_with_hint(at, format!("there is no node `{name}`"), hint);
            return None;
        };
        let comes_before = |node: usize| self.ancestors[node][read / 64] & (1 << (read % 64)) != 0;
        if !scope.node.is_none_or(comes_before) {
            let detail = format!("`{name}` does not come before this node, so it may have no output yet");
            self.faults.add_with_hint(at, detail, "add it to `needs`");
            return None;
        }
        if self.spec.nodes[read].gate.as_ref().is_some_and(|gate| gate.event.is_none()) {
            self.faults.add(at, format!("`{name}` is a gate that people decide, which has no output"));
            return None;
        }
        Some(read as u16)
    }

    fn condition(&mut self, at: &str, spec: &ConditionSpec, scope: Scope, depth: usize) -> Condition {
        let nothing = Condition::All(Vec::new());
        if depth > CONDITION_DEPTH_MAX {
            self.faults.add(at, format!("conditions nest at most {CONDITION_DEPTH_MAX} deep"));
            return nothing;
        }
        if let (None, true) = (&spec.path, comparisons(spec) == 0) {
            return self.combination(at, spec, scope, depth).unwrap_or(nothing);
        }
        let combines = spec.all.is_some() || spec.any.is_some() || spec.not.is_some();
        if combines || comparisons(spec) != 1 {
            self.faults.add(at, "must have a `path` and exactly one of `eq`, `ne`, `lt`, `in` and `exists`");
            return nothing;
        }
        let Some(text) = &spec.path else {
            self.faults.add(format!("{at}/path"), "a comparison needs a `path`");
            return nothing;
        };
        let Some(path) = self.path(&format!("{at}/path"), text, scope) else { return nothing };
        match (&spec.eq, &spec.ne, &spec.lt, &spec.one_of, spec.exists) {
            (Some(value), ..) => Condition::Eq(path, value.clone()),
            (_, Some(value), ..) => Condition::Ne(path, value.clone()),
            (_, _, Some(value), ..) => {
                if !value.is_number() && !value.is_string() {
                    self.faults.add(format!("{at}/lt"), "must be a number or a text");
                }
                Condition::Lt(path, value.clone())
            }
            (_, _, _, Some(values), _) => {
                if values.is_empty() || values.len() > COMPARISONS_MAX {
                    self.faults.add(format!("{at}/in"), format!("must be 1 to {COMPARISONS_MAX} values"));
                }
                Condition::In(path, values.clone())
            }
            (_, _, _, _, exists) => Condition::Exists(path, exists.unwrap_or(true)),
        }
    }

    fn combination(&mut self, at: &str, spec: &ConditionSpec, scope: Scope, depth: usize) -> Option<Condition> {
        let mut list = |field: &str, list: &[ConditionSpec]| {
            if list.is_empty() || list.len() > COMPARISONS_MAX {
                self.faults.add(format!("{at}/{field}"), format!("must be 1 to {COMPARISONS_MAX} conditions"));
                return Vec::new();
            }
            let one = |(place, one): (usize, &ConditionSpec)| {
                self.condition(&format!("{at}/{field}/{place}"), one, scope, depth + 1)
            };
            list.iter().enumerate().map(one).collect()
        };
        match (&spec.all, &spec.any, &spec.not) {
            (Some(all), None, None) => Some(Condition::All(list("all", all))),
            (None, Some(any), None) => Some(Condition::Any(list("any", any))),
            (None, None, Some(not)) => {
                Some(Condition::Not(Box::new(self.condition(&format!("{at}/not"), not, scope, depth + 1))))
            }
            _ => {
                self.faults.add(at, "must be a comparison with a `path`, or exactly one of `all`, `any` and `not`");
                None
            }
        }
    }
}

fn comparisons(spec: &ConditionSpec) -> usize {
    let has = [spec.eq.is_some(), spec.ne.is_some(), spec.lt.is_some(), spec.one_of.is_some(), spec.exists.is_some()];
    has.into_iter().filter(|has| *has).count()
}

/// A field as a part of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
