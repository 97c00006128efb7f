//! What follows from an event in a run.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde_json::Value;

use super::env::Known;
use super::graph::{Graph, HandlerKind, NodeKind};
use super::node_ref::NodeRef;
use super::planted::planted;
use super::spec::{GateTimeout, OnNodeFailure, Trigger};
use super::state::{NodeState, NodeStatus, Note, Phase, RunState, RunStatus};
use crate::id::{JobId, RunId, TaskId};
use crate::lifecycle::JobState;
use crate::task::Priority;
use crate::time::Timestamp;

/// What of a run never changes.
#[derive(Debug, Clone, Copy)]
pub struct RunHead<'a> {
    pub id: RunId,
    /// Null if it has none.
    pub input: &'a Value,
    /// The task of each node; none for gates.
    pub tasks: &'a [Option<(TaskId, Priority)>],
}

#[derive(Debug, Clone, PartialEq)]
pub enum RunEvent {
    /// Nothing happened but that time went by. Begins a run that is new.
    Tick,
    /// The end of a job is durable.
    Ended { node: NodeRef, state: JobState, output: Option<Bytes> },
    /// Somebody decided a gate.
    Decide { node: u16, verdict: GateVerdict, by: String },
    /// Something happened outside that gates wait for.
    Arrived { event: String, payload: Option<Bytes>, by: String },
    /// Somebody skips a node that has not started.
    Skip { node: u16, by: String },
    /// Somebody ends the run.
    Cancel { by: String },
    /// Somebody has a run that did not succeed go on. What failed begins again, but for nodes that are to be skipped.
    Resume { skip: Vec<u16> },
    /// Its job has heard of its end.
    Reported,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateVerdict {
    Approved,
    Rejected,
}

/// Why a request about a run is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The gate does not wait for a decision, or is none.
    NotOpen,
    /// No gate waits for this event now.
    NoSuchEvent,
    /// The node has started or ended, or it runs after the others.
    NotSkippable,
    /// The run has ended, or only what comes after its nodes still runs.
    Ended,
    /// Only a run that failed or was cancelled goes on.
    NotResumable,
}

/// The outputs of these nodes have to be read first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing(pub BTreeSet<u16>);

/// A job to be stored in the transaction of the step. It is due at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Release {
    pub job: JobId,
    pub node: NodeRef,
    pub task: TaskId,
    pub priority: Priority,
    pub input: Option<Bytes>,
}

/// What follows.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub state: RunState,
    pub status: RunStatus,
    pub releases: Vec<Release>,
    /// Outputs to be kept: nodes that have not started read them.
    pub kept: Vec<(NodeRef, Bytes)>,
    /// Jobs that are to be cancelled, as long as they are named here.
    pub cancels: Vec<JobId>,
    /// When the run is to be looked at, whatever happens until then.
    pub wake_at: Option<Timestamp>,
    /// The request was refused, and nothing follows from it.
    pub refused: Option<Refusal>,
}

pub(super) struct Work<'a> {
    pub(super) graph: &'a Graph,
    pub(super) head: RunHead<'a>,
    pub(super) known: &'a Known,
    pub(super) now: Timestamp,
    pub(super) state: RunState,
    pub(super) releases: Vec<Release>,
    /// The inputs of `releases` together.
    pub(super) released_bytes: usize,
    pub(super) kept: Vec<(NodeRef, Bytes)>,
    /// Outputs that came with these events.
    pub(super) fresh: BTreeMap<u16, BTreeMap<u32, Value>>,
}

/// Works out what follows from `events`, which happened at once. `state` is the state of the run before them.
pub fn step(
    graph: &Graph,
    head: RunHead<'_>,
    known: &Known,
    state: RunState,
    events: &[RunEvent],
    now: Timestamp,
) -> Result<Step, Missing> {
    let fresh = BTreeMap::new();
    let (releases, kept, released_bytes) = (Vec::new(), Vec::new(), 0);
    let mut work = Work { graph, head, known, now, state, releases, released_bytes, kept, fresh };
    let mut refused = None;
    work.time_out();
    for event in events {
        refused = refused.or(work.take(event).err());
    }
    // Once for all of them: a list of 10,000 is gone through once for a batch, and not with each end of a job.
    work.propagate()?;
    let cancels = work.cancels();
    let is_awaited = !cancels.is_empty() || work.state.awaits_report();
    let wake_at = if is_awaited { Some(now) } else { work.next_deadline() };
    let status = work.state.status(work.handlers_from());
    Ok(Step { status, releases: work.releases, kept: work.kept, cancels, wake_at, refused, state: work.state })
}

impl Work<'_> {
    pub(super) fn handlers_from(&self) -> usize {
        self.graph.order.len()
    }

    pub(super) fn node_mut(&mut self, node: u16) -> &mut NodeState {
        &mut self.state.nodes[usize::from(node)]
    }

    fn status(&self, node: u16) -> NodeStatus {
        self.state.nodes[usize::from(node)].status
    }

    /// Nothing more of the nodes is to start.
    pub(super) fn is_stopping(&self) -> bool {
        let failed = || self.state.nodes[..self.handlers_from()].iter().any(|node| node.status.is_failure());
        let stops = self.graph.on_node_failure == OnNodeFailure::Stop;
        self.state.cancelled.is_some() || self.state.timed_out || (stops && failed())
    }

    fn take(&mut self, event: &RunEvent) -> Result<(), Refusal> {
        match event {
            RunEvent::Tick => {}
            RunEvent::Ended { node, state, output } => self.job_ended(*node, *state, output.as_ref()),
            RunEvent::Decide { node, verdict, by } => return self.decide_gate(*node, *verdict, by),
            RunEvent::Arrived { event, payload, by } => return self.event_arrived(event, payload.as_ref(), by),
            RunEvent::Skip { node, by } => return self.skip(*node, by),
            RunEvent::Cancel { by } => {
                if self.state.phase != Phase::Nodes {
                    return Err(Refusal::Ended);
                }
                let note = Note { at: self.now, by: by.clone() };
                self.state.cancelled.get_or_insert(note);
            }
            RunEvent::Resume { skip } => return self.resume(skip),
            RunEvent::Reported => {
                if let Some(job) = &mut self.state.job {
                    job.is_reported = true;
                }
            }
        }
        Ok(())
    }

    fn job_ended(&mut self, ended: NodeRef, state: JobState, output: Option<&Bytes>) {
        let Some(node) = self.state.nodes.get(usize::from(ended.node)) else { return };
        if node.status != NodeStatus::Active || node.round != ended.round {
            return;
        }
        // A job of the list that has ended, and that somebody runs again, changes nothing.
        if node.fan.as_ref().is_some_and(|fan| !fan.active.contains_key(&ended.item)) {
            return;
        }
        let (jobs, retried) = (node.fan.as_ref().map_or(1, |fan| fan.len()), node.retried);
        if state == JobState::Succeeded {
            self.keep(ended, output, jobs);
        }
        if node_fans_out(&self.state, ended.node) {
            return self.item_ended(ended, state);
        }
        let graph = self.graph;
        let (round, retries) = (ended.round, graph.node(ended.node).retries);
        match state {
            JobState::Succeeded => self.finish(ended.node, NodeStatus::Succeeded, None),
            JobState::Cancelled | JobState::Deleted => self.finish(ended.node, NodeStatus::Cancelled, None),
            JobState::Failed | JobState::Lost | JobState::Quarantined => {
                let limit = retries + u16::from(planted!(NodeRetriedTooOften));
                if retried < limit && !self.is_stopping() {
                    *self.node_mut(ended.node) = NodeState { retried: retried + 1, ..NodeState::waiting(round + 1) };
                } else {
                    self.finish(ended.node, NodeStatus::Failed, None);
                }
            }
            JobState::Scheduled | JobState::Running => {}
        }
    }

    pub(super) fn finish(&mut self, node: u16, status: NodeStatus, reason: Option<String>) {
        let now = self.now;
        let node = self.node_mut(node);
        node.status = status;
        node.ended_at = Some(now);
        node.reason = reason;
    }

    fn decide_gate(&mut self, node: u16, verdict: GateVerdict, by: &str) -> Result<(), Refusal> {
        if self.state.nodes.get(usize::from(node)).is_none_or(|node| node.status != NodeStatus::Open) {
            return Err(Refusal::NotOpen);
        }
        let status = match verdict {
            GateVerdict::Approved => NodeStatus::Succeeded,
            GateVerdict::Rejected => NodeStatus::Failed,
        };
        let reason = (verdict == GateVerdict::Rejected).then(|| "rejected".to_owned());
        self.finish(node, status, reason);
        self.node_mut(node).decided = Some(Note { at: self.now, by: by.to_owned() });
        Ok(())
    }

    fn event_arrived(&mut self, event: &str, payload: Option<&Bytes>, by: &str) -> Result<(), Refusal> {
        let waiting: Vec<u16> =
            self.open_gates().filter(|&gate| self.graph.node(gate).event.as_deref() == Some(event)).collect();
        if waiting.is_empty() {
            return Err(Refusal::NoSuchEvent);
        }
        for gate in waiting {
            let round = self.node_mut(gate).round;
            self.keep(NodeRef { run: self.head.id, node: gate, round, item: 0 }, payload, 1);
            self.finish(gate, NodeStatus::Succeeded, None);
            self.node_mut(gate).decided = Some(Note { at: self.now, by: by.to_owned() });
        }
        Ok(())
    }

    fn skip(&mut self, node: u16, by: &str) -> Result<(), Refusal> {
        if self.state.phase != Phase::Nodes {
            return Err(Refusal::Ended);
        }
        let skippable = usize::from(node) < self.handlers_from()
            && matches!(self.status(node), NodeStatus::Waiting | NodeStatus::Open);
        if !skippable {
            return Err(Refusal::NotSkippable);
        }
        self.finish(node, NodeStatus::Skipped, None);
        self.node_mut(node).decided = Some(Note { at: self.now, by: by.to_owned() });
        Ok(())
    }

    fn resume(&mut self, skip: &[u16]) -> Result<(), Refusal> {
        let main = self.handlers_from();
        if self.state.phase != Phase::Ended || self.state.outcome(main) == RunStatus::Succeeded {
            return Err(Refusal::NotResumable);
        }
        let goes_on = |node: &NodeState| node.status.is_failure() || node.status == NodeStatus::NotRun;
        if skip.iter().any(|&node| usize::from(node) >= main || !goes_on(&self.state.nodes[usize::from(node)])) {
            return Err(Refusal::NotSkippable);
        }
        for (place, node) in self.state.nodes.iter_mut().enumerate() {
            if skip.contains(&(place as u16)) {
                node.status = NodeStatus::Skipped;
                node.ended_at = Some(self.now);
                node.reason = None;
            } else if place >= main || goes_on(node) || (planted!(ResumeRerunsSuccess) && node.fan.is_none()) {
                // One that was never started has no job of its present round.
                let was_started = node.released_at.is_some() || node.fan.is_some();
                let round = if was_started { node.round.saturating_add(1) } else { node.round };
                let fan = node.fan.take().map(|fan| Box::new(fan.again()));
                *node = NodeState { fan, retried: node.retried, ..NodeState::waiting(round) };
            }
        }
        self.state.phase = Phase::Nodes;
        self.state.cancelled = None;
        self.state.timed_out = false;
        self.state.broken = None;
        self.state.output = None;
        self.state.ended_at = None;
        self.state.deadline = self.now + self.graph.timeout;
        Ok(())
    }

    fn time_out(&mut self) {
        if self.state.phase == Phase::Nodes && self.now >= self.state.deadline && self.state.cancelled.is_none() {
            self.state.timed_out = true;
        }
        let open: Vec<u16> = self.open_gates().collect();
        for node in open {
            let NodeKind::Gate { timeout: Some(timeout), on_timeout } = self.graph.node(node).kind else { continue };
            let since = self.state.nodes[usize::from(node)].released_at.unwrap_or(self.now);
            if self.now < since + timeout {
                continue;
            }
            let status = match on_timeout {
                GateTimeout::Fail => NodeStatus::Failed,
                GateTimeout::Approve => NodeStatus::Succeeded,
                GateTimeout::Skip => NodeStatus::Skipped,
            };
            self.finish(node, status, Some(format!("nobody decided within {timeout}")));
        }
    }

    fn open_gates(&self) -> impl Iterator<Item = u16> + '_ {
        self.graph.order.iter().copied().filter(|&node| self.status(node) == NodeStatus::Open)
    }

    /// Everything that follows from the states of the nodes.
    fn propagate(&mut self) -> Result<(), Missing> {
        if self.state.phase == Phase::Nodes {
            let graph = self.graph;
            let mut is_stopping = self.is_stopping();
            for &node in &graph.order {
                if is_stopping {
                    break;
                }
                match self.status(node) {
                    NodeStatus::Waiting => self.decide(node)?,
                    NodeStatus::Active if graph.node(node).fans_out() => self.release_items(node)?,
                    _ => continue,
                }
                // Only this one has changed. To look at all of them each time is a million looks for a thousand nodes.
                is_stopping = self.status(node).is_failure() && self.is_stopping();
            }
            if is_stopping {
                self.stop_rest();
            }
            let is_active = self.is_any(&[NodeStatus::Active]) && !planted!(EndsBeforeItsNodes);
            if !is_active && !self.is_any(&[NodeStatus::Open, NodeStatus::Waiting]) {
                self.begin_handlers()?;
            }
        }
        if self.state.phase == Phase::Handlers {
            let handlers = &self.state.nodes[self.handlers_from()..];
            if handlers.iter().all(|node| node.status.is_final()) {
                self.state.phase = Phase::Ended;
                self.state.ended_at = Some(self.now);
            }
        }
        Ok(())
    }

    fn is_any(&self, statuses: &[NodeStatus]) -> bool {
        self.state.nodes[..self.handlers_from()].iter().any(|node| statuses.contains(&node.status))
    }

    /// What waits does not start any more; what runs ends by itself.
    fn stop_rest(&mut self) {
        for node in 0..self.handlers_from() as u16 {
            match self.status(node) {
                NodeStatus::Open => self.finish(node, NodeStatus::Cancelled, Some("the run stopped".to_owned())),
                NodeStatus::Active => self.end_fan_out_if_idle(node),
                _ => {}
            }
        }
        if !self.is_any(&[NodeStatus::Active]) {
            for node in 0..self.handlers_from() as u16 {
                if self.status(node) == NodeStatus::Waiting {
                    self.node_mut(node).status = NodeStatus::NotRun;
                }
            }
        }
    }

    /// Whether a node starts, if that is clear.
    fn decide(&mut self, node: u16) -> Result<(), Missing> {
        let parents = self.graph.node(node).needs.iter().map(|&parent| self.status(parent));
        match judge(self.graph.node(node).when, parents) {
            Decision::Wait => Ok(()),
            Decision::Go => self.start(node),
            Decision::Skip => {
                self.finish(node, NodeStatus::Skipped, None);
                Ok(())
            }
            Decision::UpstreamFailed => {
                self.finish(node, NodeStatus::UpstreamFailed, None);
                Ok(())
            }
        }
    }

    fn start(&mut self, node: u16) -> Result<(), Missing> {
        if !self.condition_holds(node)? {
            self.finish(node, NodeStatus::Skipped, Some("its condition did not hold".to_owned()));
            return Ok(());
        }
        let now = self.now;
        match self.graph.node(node).kind {
            NodeKind::Gate { .. } => {
                let gate = self.node_mut(node);
                gate.status = NodeStatus::Open;
                gate.released_at = Some(now);
                Ok(())
            }
            NodeKind::Work if self.graph.node(node).fans_out() => self.begin_fan_out(node),
            NodeKind::Work | NodeKind::Handler(_) => self.release(node),
        }
    }

    fn begin_handlers(&mut self) -> Result<(), Missing> {
        if self.state.outcome(self.handlers_from()) == RunStatus::Succeeded {
            self.set_output()?;
        }
        self.state.phase = Phase::Handlers;
        let outcome = self.state.outcome(self.handlers_from());
        for node in self.handlers_from() as u16..self.graph.nodes.len() as u16 {
            let NodeKind::Handler(kind) = self.graph.node(node).kind else { continue };
            let fits = match kind {
                HandlerKind::Failure => outcome == RunStatus::Failed,
                HandlerKind::Success => outcome == RunStatus::Succeeded,
                HandlerKind::End => true,
            };
            if fits {
                self.start(node)?;
            } else {
                self.finish(node, NodeStatus::Skipped, None);
            }
        }
        Ok(())
    }

    fn cancels(&self) -> Vec<JobId> {
        let ends = self.state.phase == Phase::Nodes && (self.state.cancelled.is_some() || self.state.timed_out);
        let nodes = self.state.nodes[..self.handlers_from()].iter().filter(|_| ends);
        nodes.flat_map(NodeState::live_jobs).collect()
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        if self.state.phase != Phase::Nodes {
            return None;
        }
        let gate = |node: u16| match self.graph.node(node).kind {
            NodeKind::Gate { timeout: Some(timeout), .. } => {
                Some(self.state.nodes[usize::from(node)].released_at? + timeout)
            }
            _ => None,
        };
        self.open_gates().filter_map(gate).chain([self.state.deadline]).min()
    }
}

fn node_fans_out(state: &RunState, node: u16) -> bool {
    state.nodes[usize::from(node)].fan.is_some()
}

enum Decision {
    Wait,
    Go,
    Skip,
    UpstreamFailed,
}

fn judge(trigger: Trigger, parents: impl Iterator<Item = NodeStatus>) -> Decision {
    let (mut all, mut succeeded, mut failed, mut done) = (0, 0, 0, 0);
    for parent in parents {
        all += 1;
        succeeded += usize::from(parent == NodeStatus::Succeeded);
        failed += usize::from(parent.is_failure());
        done += usize::from(parent.is_final());
    }
    let goes = match trigger {
        Trigger::OneFailed if failed > 0 => return Decision::Go,
        Trigger::OneSucceeded if succeeded > 0 => return Decision::Go,
        _ if done < all => return Decision::Wait,
        Trigger::AllSucceeded => succeeded == all || (planted!(SkippedTakenForSucceeded) && failed == 0),
        Trigger::AllDone => true,
        Trigger::NoneFailed => failed == 0,
        Trigger::NoneFailedOneSucceeded => failed == 0 && succeeded > 0,
        Trigger::OneFailed => return Decision::Skip,
        Trigger::OneSucceeded => false,
    };
    match (goes, failed) {
        (true, _) => Decision::Go,
        (false, 0) => Decision::Skip,
        (false, _) => Decision::UpstreamFailed,
    }
}
