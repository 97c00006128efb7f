//! Plays runs in tests.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::Value;

use super::env::Known;
use super::evaluate::{GateVerdict, RunEvent, RunHead, Step, step};
use super::graph::Graph;
use super::node_ref::NodeRef;
use super::spec::WorkflowSpec;
use super::state::{NodeState, NodeStatus, RunState, RunStatus};
use crate::id::{JobId, RunId, ShardId, TaskId};
use crate::lifecycle::JobState;
use crate::task::Priority;
use crate::time::{Span, Timestamp};

/// A run, and every job that was released for it. Outputs are kept as a store keeps them.
pub(super) struct Player {
    pub(super) graph: Graph,
    pub(super) input: Value,
    tasks: Vec<Option<(TaskId, Priority)>>,
    pub(super) state: RunState,
    pub(super) step: Option<Step>,
    pub(super) now: Timestamp,
    pub(super) released: Vec<(NodeRef, JobId, Option<Bytes>)>,
    kept: Vec<(NodeRef, Bytes)>,
    last: Option<RunEvent>,
}

impl Player {
    pub(super) fn begin(spec: &WorkflowSpec) -> Self {
        Self::begin_with(spec, Value::Null)
    }

    pub(super) fn begin_with(spec: &WorkflowSpec, input: Value) -> Self {
        let graph = Graph::of(spec).unwrap();
        let task = Some((TaskId::new(Timestamp::EPOCH, 1), Priority::default()));
        let tasks = graph.nodes.iter().map(|node| task.filter(|_| !node.is_gate())).collect();
        let now = Timestamp::EPOCH + Span::from_secs(1);
        let state = RunState::new(graph.nodes.len(), now + graph.timeout);
        let (released, kept) = (Vec::new(), Vec::new());
        let mut player = Self { graph, input, tasks, state, step: None, now, released, kept, last: None };
        player.play(RunEvent::Tick);
        player
    }

    /// Answers the refusal, if there is one.
    pub(super) fn play(&mut self, event: RunEvent) -> Option<super::evaluate::Refusal> {
        let run = RunId::new(Timestamp::EPOCH, ShardId(3), 5);
        let head = RunHead { id: run, input: &self.input, tasks: &self.tasks };
        let mut known = Known::default();
        let events = [event];
        let step = loop {
            match step(&self.graph, head, &known, self.state.clone(), &events, self.now) {
                Ok(step) => break step,
                Err(missing) => {
                    assert!(!missing.0.is_empty(), "it asks for nothing");
                    for node in missing.0 {
                        known.read(node);
                        for (kept, output) in self.kept.iter().filter(|(kept, _)| kept.node == node) {
                            known.put(node, kept.item, output);
                        }
                    }
                }
            }
        };
        self.state = serde_json::from_str(&serde_json::to_string(&step.state).unwrap()).unwrap();
        assert_eq!(self.state, step.state, "it survives the store");
        self.released.extend(step.releases.iter().map(|one| (one.node, one.job, one.input.clone())));
        self.kept.extend(step.kept.iter().cloned());
        let refused = step.refused;
        self.step = Some(step);
        let [event] = events;
        self.last = Some(event);
        refused
    }

    pub(super) fn node(&self, name: &str) -> &NodeState {
        &self.state.nodes[usize::from(self.graph.number(name).unwrap())]
    }

    fn reference(&self, name: &str) -> NodeRef {
        let node = self.graph.number(name).unwrap();
        self.released.iter().rev().find(|(released, ..)| released.node == node).unwrap().0
    }

    pub(super) fn ended(&mut self, name: &str, is_success: bool) {
        let state = if is_success { JobState::Succeeded } else { JobState::Failed };
        let node = self.reference(name);
        self.play(RunEvent::Ended { node, state, output: None });
    }

    pub(super) fn succeeds_with(&mut self, name: &str, output: &str) {
        let node = self.reference(name);
        let output = Some(Bytes::from(output.to_owned()));
        self.play(RunEvent::Ended { node, state: JobState::Succeeded, output });
    }

    pub(super) fn item_ended(&mut self, name: &str, item: u32, state: JobState, output: &str) {
        let node = NodeRef { item, ..self.reference(name) };
        self.play(RunEvent::Ended { node, state, output: Some(Bytes::from(output.to_owned())) });
    }

    /// The last event once more, as after an answer that was lost.
    pub(super) fn repeat(&mut self) {
        let (event, released) = (self.last.clone().unwrap(), self.released.len());
        self.play(event);
        assert_eq!(self.released.len(), released, "a repeated end releases nothing");
    }

    pub(super) fn decide(&mut self, name: &str, verdict: GateVerdict) -> Option<super::evaluate::Refusal> {
        let node = self.graph.number(name).unwrap();
        self.play(RunEvent::Decide { node, verdict, by: "ann".to_owned() })
    }

    pub(super) fn cancel(&mut self) {
        self.play(RunEvent::Cancel { by: "ann".to_owned() });
    }

    pub(super) fn resume(&mut self) {
        assert_eq!(self.play(RunEvent::Resume { skip: Vec::new() }), None);
    }

    pub(super) fn passes(&mut self, time: Span) {
        self.now = self.now + time;
        self.play(RunEvent::Tick);
    }

    pub(super) fn statuses(&self) -> Vec<(String, NodeStatus)> {
        self.graph.nodes.iter().zip(&self.state.nodes).map(|(node, state)| (node.name.clone(), state.status)).collect()
    }

    pub(super) fn status(&self) -> RunStatus {
        self.step.as_ref().unwrap().status
    }

    pub(super) fn active(&self) -> Vec<String> {
        let mut active: Vec<String> = self
            .statuses()
            .into_iter()
            .filter(|(_, status)| *status == NodeStatus::Active)
            .map(|(name, _)| name)
            .collect();
        active.sort_unstable();
        active
    }

    pub(super) fn input_of(&self, name: &str, item: u32) -> Value {
        let node = self.graph.number(name).unwrap();
        let found = self.released.iter().rev().find(|(released, ..)| released.node == node && released.item == item);
        found.unwrap().2.as_deref().map_or(Value::Null, |input| serde_json::from_slice(input).unwrap())
    }

    pub(super) fn is_every_job_released_once(&self) -> bool {
        let nodes: BTreeSet<NodeRef> = self.released.iter().map(|(node, ..)| *node).collect();
        let jobs: BTreeSet<JobId> = self.released.iter().map(|(_, job, _)| *job).collect();
        nodes.len() == self.released.len() && jobs.len() == self.released.len()
    }
}
