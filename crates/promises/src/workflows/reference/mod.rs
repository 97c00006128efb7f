//! What must follow from what happened in a run, by docs/workflows.md.
//!
//! Shares no code with the core: it reads the definition by itself, looks for the next thing that must follow until nothing
//! does, and knows jobs only as tries that it numbers. Slow where that is plainer.

mod starting;
mod words;

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::{Span, Timestamp};
use serde_json::Value;

use super::definition::{After, Definition, Node, OnNodeFailure, OnTimeout, When};
use super::values::output_value;
pub use words::{Due, Happening, JobEnd, NodeStatus, Refused, RunStatus, Try};

/// Outputs of at most this are there for other nodes.
const OUTPUT_MAX: usize = 64 * 1024;
/// What the outputs of one list share.
const LIST_OUTPUTS_MAX: usize = 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Nodes,
    Handlers,
    Ended,
}

#[derive(Debug)]
struct Rules {
    /// The nodes, then what runs after them.
    nodes: Vec<Node>,
    needs: Vec<Vec<usize>>,
    order: Vec<usize>,
    handlers: Vec<After>,
    stops: bool,
    timeout: Span,
    output: Option<BTreeMap<String, Value>>,
}

#[derive(Debug, Clone)]
enum Element {
    Waiting,
    Active(Try),
    Succeeded,
    Failed,
}

#[derive(Debug, Clone)]
struct Course {
    status: NodeStatus,
    job: Option<Try>,
    /// How many of its retries are used.
    retried: u32,
    opened_at: Option<Timestamp>,
    list: Option<Vec<Element>>,
    /// What other nodes may read, by element.
    outputs: BTreeMap<u32, Value>,
}

const NEW: Course = Course {
    status: NodeStatus::Waiting,
    job: None,
    retried: 0,
    opened_at: None,
    list: None,
    outputs: BTreeMap::new(),
};

/// What follows next.
enum Consequence {
    Start(usize),
    StartElement(usize, u32),
    End(usize, NodeStatus),
    /// The nodes have ended, and what runs after them begins.
    Handlers,
    EndRun,
}

/// A run, and what it must have come to.
#[derive(Debug, Clone)]
pub struct Reference {
    rules: Arc<Rules>,
    input: Value,
    phase: Phase,
    nodes: Vec<Course>,
    deadline: Timestamp,
    is_cancelled: bool,
    is_timed_out: bool,
    /// Its nodes have succeeded, and what it returns cannot be made.
    is_without_output: bool,
    returned: Option<Value>,
    tries: u64,
}

impl Reference {
    /// A run that starts now, and its first jobs.
    pub fn begin(definition: &Definition, input: Value, now: Timestamp) -> (Self, Vec<Due>) {
        let rules = Rules {
            nodes: definition.all().cloned().collect(),
            needs: definition.nodes.iter().map(|node| definition.places(&node.needs)).collect(),
            order: definition.order(),
            handlers: definition.handlers().map(|(after, _)| after).collect(),
            stops: definition.on_node_failure == OnNodeFailure::Stop,
            timeout: definition.timeout,
            output: definition.output.clone(),
        };
        let mut run = Self {
            phase: Phase::Nodes,
            nodes: vec![NEW; rules.nodes.len()],
            deadline: now + rules.timeout,
            rules: Arc::new(rules),
            input,
            is_cancelled: false,
            is_timed_out: false,
            is_without_output: false,
            returned: None,
            tries: 0,
        };
        let due = run.follow(now);
        (run, due)
    }

    /// What must start because of what happened, all of it at the same moment.
    pub fn apply(&mut self, happenings: &[Happening], now: Timestamp) -> Result<Vec<Due>, Refused> {
        let is_end = |happening: &Happening| matches!(happening, Happening::Ended { .. });
        // Only what somebody asks for can be refused.
        let before = (!happenings.iter().all(is_end)).then(|| self.clone());
        self.times_pass(now);
        for happening in happenings {
            if let Err(refused) = self.happens(happening, now) {
                *self = before.expect("the end of a job is never refused");
                return Err(refused);
            }
        }
        Ok(self.follow(now))
    }

    pub fn status(&self) -> RunStatus {
        if self.phase == Phase::Ended { self.outcome() } else { RunStatus::Running }
    }

    pub fn node_statuses(&self) -> impl Iterator<Item = NodeStatus> + '_ {
        self.nodes.iter().map(|node| node.status)
    }

    /// What the run returns.
    pub fn returned(&self) -> Option<&Value> {
        self.returned.as_ref()
    }

    /// The jobs that have started and not ended, as far as the run knows.
    pub fn under_way(&self) -> Vec<Try> {
        let of_node = |node: &Course| match &node.list {
            _ if node.status != NodeStatus::Active => Vec::new(),
            None => node.job.into_iter().collect(),
            Some(list) => list.iter().filter_map(Element::job).collect(),
        };
        self.nodes.iter().flat_map(of_node).collect()
    }

    /// The jobs that must be cancelled: those of nodes, once the run is cancelled or timed out.
    pub fn to_cancel(&self) -> Vec<Try> {
        let ends = self.phase == Phase::Nodes && (self.is_cancelled || self.is_timed_out);
        if ends { self.under_way() } else { Vec::new() }
    }

    /// When something follows from time alone: a gate that nobody decides, or the end of the run's time.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        if self.phase != Phase::Nodes {
            return None;
        }
        let open = self.rules.nodes.iter().zip(self.main()).filter(|(_, gate)| gate.status == NodeStatus::Open);
        let times_out = open.filter_map(|(rule, gate)| Some(gate.opened_at? + rule.gate.as_ref()?.timeout?));
        let is_over = self.is_cancelled || self.is_timed_out;
        times_out.chain((!is_over).then_some(self.deadline)).min()
    }

    fn main(&self) -> &[Course] {
        &self.nodes[..self.rules.order.len()]
    }

    fn outcome(&self) -> RunStatus {
        let has_failed = self.main().iter().any(|node| node.status.counts_as_failed());
        match () {
            () if self.is_cancelled => RunStatus::Cancelled,
            () if self.is_timed_out || self.is_without_output || has_failed => RunStatus::Failed,
            () => RunStatus::Succeeded,
        }
    }

    /// Nothing more starts.
    fn is_stopping(&self) -> bool {
        let has_failed = || self.main().iter().any(|node| node.status.counts_as_failed());
        self.is_cancelled || self.is_timed_out || (self.rules.stops && has_failed())
    }

    fn times_pass(&mut self, now: Timestamp) {
        if self.phase != Phase::Nodes {
            return;
        }
        self.is_timed_out |= !self.is_cancelled && now >= self.deadline;
        for place in 0..self.rules.order.len() {
            let Some(gate) = &self.rules.nodes[place].gate else { continue };
            let (Some(timeout), Some(opened_at)) = (gate.timeout, self.nodes[place].opened_at) else { continue };
            if self.nodes[place].status == NodeStatus::Open && now >= opened_at + timeout {
                self.nodes[place].status = match gate.on_timeout {
                    OnTimeout::Fail => NodeStatus::Failed,
                    OnTimeout::Approve => NodeStatus::Succeeded,
                    OnTimeout::Skip => NodeStatus::Skipped,
                };
            }
        }
    }

    fn happens(&mut self, happening: &Happening, now: Timestamp) -> Result<(), Refused> {
        match happening {
            Happening::Ended { number, end, output } => self.job_ends(*number, *end, output.as_deref()),
            Happening::Decided { node, is_approved } => {
                let gate = self.nodes.get_mut(*node).filter(|gate| gate.status == NodeStatus::Open).ok_or(Refused)?;
                gate.status = if *is_approved { NodeStatus::Succeeded } else { NodeStatus::Failed };
            }
            Happening::Arrived { event, payload } => {
                let rules = Arc::clone(&self.rules);
                let waits = |place: &usize| {
                    let gate = rules.nodes[*place].gate.as_ref();
                    gate.is_some_and(|gate| gate.event.as_ref() == Some(event))
                };
                let gates: Vec<usize> = (0..rules.order.len())
                    .filter(waits)
                    .filter(|place| self.nodes[*place].status == NodeStatus::Open)
                    .collect();
                if gates.is_empty() {
                    return Err(Refused);
                }
                for gate in gates {
                    self.keep(gate, 0, payload.as_deref());
                    self.nodes[gate].status = NodeStatus::Succeeded;
                }
            }
            Happening::Skipped { node } => {
                let is_main = *node < self.rules.order.len();
                let has_not_started =
                    is_main && matches!(self.nodes[*node].status, NodeStatus::Waiting | NodeStatus::Open);
                if self.phase != Phase::Nodes || !has_not_started {
                    return Err(Refused);
                }
                self.nodes[*node].status = NodeStatus::Skipped;
            }
            Happening::Cancelled => {
                if self.phase != Phase::Nodes {
                    return Err(Refused);
                }
                self.is_cancelled = true;
            }
            Happening::Resumed { skip } => return self.resume(skip, now),
        }
        Ok(())
    }

    /// What failed begins again, what succeeded or was skipped stays.
    fn resume(&mut self, skip: &[usize], now: Timestamp) -> Result<(), Refused> {
        let main = self.rules.order.len();
        let begins_again = |node: &Course| node.status.counts_as_failed() || node.status == NodeStatus::NotRun;
        let may_go_on = matches!(self.status(), RunStatus::Failed | RunStatus::Cancelled);
        if !may_go_on || !skip.iter().all(|place| *place < main && begins_again(&self.nodes[*place])) {
            return Err(Refused);
        }
        for (place, node) in self.nodes.iter_mut().enumerate() {
            if skip.contains(&place) {
                node.status = NodeStatus::Skipped;
            } else if place >= main {
                *node = NEW;
            } else if begins_again(node) {
                let again = |element: Element| match element {
                    Element::Succeeded => Element::Succeeded,
                    Element::Waiting | Element::Active(_) | Element::Failed => Element::Waiting,
                };
                let list = node.list.take().map(|list| list.into_iter().map(again).collect());
                let outputs = std::mem::take(&mut node.outputs);
                *node = Course { retried: node.retried, list, outputs, ..NEW };
            }
        }
        self.phase = Phase::Nodes;
        (self.is_cancelled, self.is_timed_out, self.is_without_output) = (false, false, false);
        self.returned = None;
        self.deadline = now + self.rules.timeout;
        Ok(())
    }

    /// An end counts once, and only that of a job that the run waits for.
    fn job_ends(&mut self, number: Try, end: JobEnd, output: Option<&[u8]>) {
        let Some((place, element)) = self.find_job(number) else { return };
        if end == JobEnd::Succeeded {
            self.keep(place, element, output);
        }
        let has_retries = self.nodes[place].retried < self.rules.nodes[place].retries && !self.is_stopping();
        let node = &mut self.nodes[place];
        if let Some(list) = &mut node.list {
            let ended = if end == JobEnd::Succeeded { Element::Succeeded } else { Element::Failed };
            list[element as usize] = ended;
            return;
        }
        node.status = match end {
            JobEnd::Succeeded => NodeStatus::Succeeded,
            JobEnd::Cancelled => NodeStatus::Cancelled,
            JobEnd::Failed if has_retries => {
                node.retried += 1;
                NodeStatus::Waiting
            }
            JobEnd::Failed => NodeStatus::Failed,
        };
    }

    fn find_job(&self, number: Try) -> Option<(usize, u32)> {
        self.nodes.iter().enumerate().find_map(|(place, node)| match &node.list {
            _ if node.status != NodeStatus::Active => None,
            None => (node.job == Some(number)).then_some((place, 0)),
            Some(list) => {
                list.iter().position(|element| element.job() == Some(number)).map(|element| (place, element as u32))
            }
        })
    }

    fn keep(&mut self, place: usize, element: u32, output: Option<&[u8]>) {
        let node = &mut self.nodes[place];
        let share = node.list.as_ref().map_or(OUTPUT_MAX, |list| LIST_OUTPUTS_MAX / list.len().max(1));
        if let Some(output) = output.filter(|output| output.len() <= share.min(OUTPUT_MAX)) {
            node.outputs.insert(element, output_value(output));
        }
    }

    fn follow(&mut self, now: Timestamp) -> Vec<Due> {
        let mut due = Vec::new();
        while let Some(consequence) = self.next() {
            match consequence {
                Consequence::Start(place) => self.start(place, now, &mut due),
                Consequence::StartElement(place, element) => self.start_element(place, element, &mut due),
                Consequence::End(place, status) => self.nodes[place].status = status,
                Consequence::Handlers => self.nodes_are_over(now, &mut due),
                Consequence::EndRun => self.phase = Phase::Ended,
            }
        }
        due
    }

    fn next(&self) -> Option<Consequence> {
        let main = self.rules.order.len();
        match self.phase {
            Phase::Nodes => {
                let mut order = self.rules.order.iter();
                let next = if self.is_stopping() {
                    order.find_map(|place| self.next_of_stopping(*place))
                } else {
                    order.find_map(|place| self.next_of_node(*place))
                };
                let are_over = || self.main().iter().all(|node| node.status.is_end());
                next.or_else(|| are_over().then_some(Consequence::Handlers))
            }
            Phase::Handlers => {
                let are_over = self.nodes[main..].iter().all(|node| node.status.is_end());
                are_over.then_some(Consequence::EndRun)
            }
            Phase::Ended => None,
        }
    }

    fn next_of_node(&self, place: usize) -> Option<Consequence> {
        let node = &self.nodes[place];
        match (node.status, &node.list) {
            (NodeStatus::Waiting, _) => self.verdict(place),
            (NodeStatus::Active, Some(list)) => {
                let at_once = self.rules.nodes[place].for_each.as_ref().map_or(0, |list| list.at_once);
                let waiting = list.iter().position(|element| matches!(element, Element::Waiting));
                let active = list.iter().filter(|element| element.job().is_some()).count();
                let has_failed = list.iter().any(|element| matches!(element, Element::Failed));
                match waiting {
                    Some(next) if !has_failed => {
                        (active < at_once).then_some(Consequence::StartElement(place, next as u32))
                    }
                    _ => self.end_of_list(place, list),
                }
            }
            _ => None,
        }
    }

    /// The node has ended with the last job that is under way.
    fn end_of_list(&self, place: usize, list: &[Element]) -> Option<Consequence> {
        let is_any = |is: fn(&Element) -> bool| list.iter().any(is);
        if is_any(|element| element.job().is_some()) {
            return None;
        }
        let end = if is_any(|element| matches!(element, Element::Failed)) {
            NodeStatus::Failed
        } else if is_any(|element| matches!(element, Element::Waiting)) {
            NodeStatus::Cancelled
        } else {
            NodeStatus::Succeeded
        };
        Some(Consequence::End(place, end))
    }

    /// What runs goes on to its end. What waits does not start any more.
    fn next_of_stopping(&self, place: usize) -> Option<Consequence> {
        let node = &self.nodes[place];
        let runs = |node: &Course| match (&node.list, node.status) {
            (Some(list), NodeStatus::Active) => list.iter().any(|element| element.job().is_some()),
            (_, status) => status == NodeStatus::Active,
        };
        match (node.status, &node.list) {
            (NodeStatus::Open, _) => Some(Consequence::End(place, NodeStatus::Cancelled)),
            (NodeStatus::Active, Some(list)) => self.end_of_list(place, list),
            (NodeStatus::Waiting, _) if !self.main().iter().any(runs) => {
                Some(Consequence::End(place, NodeStatus::NotRun))
            }
            _ => None,
        }
    }

    /// The table of trigger rules.
    fn verdict(&self, place: usize) -> Option<Consequence> {
        let parents = || self.rules.needs[place].iter().map(|need| self.nodes[*need].status);
        let one_succeeded = parents().any(|parent| parent == NodeStatus::Succeeded);
        let one_failed = parents().any(NodeStatus::counts_as_failed);
        let all_done = parents().all(NodeStatus::is_end);
        let starts = match self.rules.nodes[place].when {
            When::AllSucceeded => parents().all(|parent| parent == NodeStatus::Succeeded),
            When::AllDone => all_done,
            When::OneFailed => one_failed,
            When::OneSucceeded => one_succeeded,
            When::NoneFailed => all_done && !one_failed,
            When::NoneFailedOneSucceeded => all_done && !one_failed && one_succeeded,
        };
        let waits_for_a_failure = self.rules.nodes[place].when == When::OneFailed;
        match () {
            () if starts => Some(Consequence::Start(place)),
            () if !all_done => None,
            () if one_failed && !waits_for_a_failure => Some(Consequence::End(place, NodeStatus::UpstreamFailed)),
            () => Some(Consequence::End(place, NodeStatus::Skipped)),
        }
    }
}

impl Element {
    fn job(&self) -> Option<Try> {
        match self {
            Self::Active(number) => Some(*number),
            Self::Waiting | Self::Succeeded | Self::Failed => None,
        }
    }
}
