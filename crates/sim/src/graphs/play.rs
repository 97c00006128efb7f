//! Plays random runs by the core and by the reference evaluator, and compares them after each step: the state of each node and
//! of the run, which jobs start with which input, which are cancelled, what the run returns, and when it is looked at again.
//!
//! Under faults two servers play one run, each by a clock of its own, and each with what it knows of the run. Steps are lost on
//! their way to the store, with or without the knowledge of the server; answers are lost after the commit; the other server takes
//! over; ends are told again, in other batches; people cancel and resume at any moment. The reference sees none of that: it is
//! told what was committed, once.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use punctual_core::task::Priority;
use punctual_core::workflow::{
    self as core, GateVerdict, Graph, Known, NodeRef, RunEvent, RunHead, RunState, Step, WorkflowSpec,
};
use punctual_core::{JobId, JobState, RunId, ShardId, Span, TaskId, Timestamp};
use punctual_promises::workflows::{Definition, Due, Happening, JobEnd, NodeStatus, Reference, RunStatus, Try};
use serde_json::Value;

use super::draw::{Drawing, EVENTS, draw_definition, draw_input, draw_output};
use super::servers::{Faults, Servers, Stored};
use crate::plan::START;
use crate::rng::Rng;

/// What one run showed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Played {
    pub nodes: usize,
    pub jobs: usize,
    pub steps: usize,
    pub resumes: usize,
    pub refusals: usize,
    /// Steps that were lost, or that were worked out on what was not there any more.
    pub undone: usize,
    pub takeovers: usize,
}

impl std::ops::Add for Played {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            nodes: self.nodes + other.nodes,
            jobs: self.jobs + other.jobs,
            steps: self.steps + other.steps,
            resumes: self.resumes + other.resumes,
            refusals: self.refusals + other.refusals,
            undone: self.undone + other.undone,
            takeovers: self.takeovers + other.takeovers,
        }
    }
}

/// A run ends long before. One that does not is an error of the core or of this test.
const STEPS_MAX: usize = 20_000;

/// A job that has not ended.
#[derive(Debug, Clone, Copy)]
struct Open {
    node: NodeRef,
    number: Try,
}

struct Game {
    rng: Rng,
    graph: Graph,
    input: Value,
    tasks: Vec<Option<(TaskId, Priority)>>,
    store: Rc<Stored>,
    servers: Servers,
    reference: Reference,
    now: Timestamp,
    /// By the clock of the server that works out a step.
    at: Timestamp,
    open: Vec<Open>,
    /// Ends that were told, to tell them again.
    told: Vec<(Open, JobState)>,
    /// What each job is a try of.
    jobs: BTreeMap<JobId, Try>,
    nodes: BTreeSet<NodeRef>,
    played: Played,
}

/// Plays the run of a seed. An error says what differs.
pub fn play(seed: u64, faults: Faults) -> Result<Played, String> {
    let mut rng = Rng::new(seed);
    let nodes_max = if rng.percent(10) { 200 } else { 15 };
    let drawing = Drawing { nodes_max, gate_secs_max: 30, run_secs_max: 400 };
    let text = draw_definition(&mut rng, &drawing).to_string();
    let fails = |what: String| format!("seed {seed}: {what}\n{text}");
    let spec: WorkflowSpec = serde_json::from_str(&text).map_err(|error| fails(error.to_string()))?;
    let graph = Graph::of(&spec).map_err(|faults| fails(format!("{faults:?}")))?;
    let definition = Definition::read(&text).map_err(fails)?;
    let input = draw_input(&mut rng);
    let input = input.map_or(Value::Null, |input| serde_json::from_slice(&input).expect("it was drawn as JSON"));
    let task = Some((TaskId::new(START, 1), Priority::default()));
    let tasks = graph.nodes.iter().map(|node| task.filter(|_| !node.is_gate())).collect();
    let (reference, due) = Reference::begin(&definition, input.clone(), START);
    let state = RunState::new(graph.nodes.len(), START + graph.timeout);
    let game = Game {
        servers: Servers::new(faults, &mut rng),
        store: Rc::new(Stored { state: state.to_bytes(run()), outputs: BTreeMap::new() }),
        rng,
        played: Played { nodes: graph.nodes.len(), ..Played::default() },
        graph,
        input,
        tasks,
        reference,
        now: START,
        at: START,
        open: Vec::new(),
        told: Vec::new(),
        jobs: BTreeMap::new(),
        nodes: BTreeSet::new(),
    };
    game.play(due).map_err(fails)
}

/// Any: nothing depends on it.
fn run() -> RunId {
    RunId::new(START, ShardId(3), 5)
}

impl Game {
    fn play(mut self, due: Vec<Due>) -> Result<Played, String> {
        let step = self.step(&Rc::clone(&self.store), &[RunEvent::Tick])?;
        self.compare(step, due)?;
        let failure_percent = *self.rng.pick(&[0, 5, 15, 40]);
        let mut resumes = self.rng.range(0, 3);
        while self.played.steps < STEPS_MAX {
            if self.reference.status() != RunStatus::Running && self.open.is_empty() {
                if resumes == 0 || self.reference.status() == RunStatus::Succeeded {
                    return Ok(self.played);
                }
                resumes -= 1;
                self.resume()?;
                continue;
            }
            self.now = self.now + self.rng.millis(0, 2_000);
            match self.rng.below(100) {
                0..80 if !self.open.is_empty() => self.end_jobs(failure_percent)?,
                80..86 => self.repeat_end()?,
                86..88 => self.ask_person()?,
                88..91 if self.servers.have_faults() => self.interfere()?,
                _ => self.pass()?,
            }
        }
        Err(format!("it does not end: {:?}", self.store.state(run())))
    }

    /// What follows from events on what a server knows of the run.
    fn step(&mut self, from: &Stored, events: &[RunEvent]) -> Result<Step, String> {
        let head = RunHead { id: run(), input: &self.input, tasks: &self.tasks };
        let state = from.state(run())?;
        let mut known = Known::default();
        self.played.steps += 1;
        loop {
            match core::step(&self.graph, head, &known, state.clone(), events, self.at) {
                Ok(step) => return Ok(step),
                Err(missing) if missing.0.is_empty() => return Err("it asks for nothing".to_owned()),
                Err(missing) => {
                    for node in missing.0 {
                        known.read(node);
                        from.of_node(node).for_each(|(item, output)| known.put(node, item, output));
                    }
                }
            }
        }
    }

    /// Tells both of them, and compares. Until a step is committed, it is worked out again, perhaps by the other server, and
    /// perhaps in parts.
    fn happen(&mut self, events: &[RunEvent], happenings: &[Happening]) -> Result<(), String> {
        self.played.takeovers += usize::from(self.servers.take_turns(&mut self.rng));
        self.at = self.now - self.servers.lag();
        let from = self.servers.known().unwrap_or_else(|| Rc::clone(&self.store));
        let step = self.step(&from, events)?;
        if step.refused.is_none() && self.servers.lose(&from, &step, run(), &mut self.rng) {
            self.played.undone += 1;
            let parts = if events.len() > 1 && self.rng.percent(50) { 1 } else { events.len() };
            let ((first, rest), (then, others)) =
                (events.split_at(parts), happenings.split_at(parts.min(happenings.len())));
            self.happen(first, then)?;
            return if rest.is_empty() { Ok(()) } else { self.happen(rest, others) };
        }
        if !self.servers.may_commit(&from, &self.store) {
            // Somebody else was there since, or what this server knows never happened.
            self.played.undone += 1;
            self.servers.forget();
            return self.happen(events, happenings);
        }
        self.servers.learn(&from, &step, run(), &mut self.rng);
        match (self.reference.apply(happenings, self.at), step.refused) {
            (Err(_), Some(_)) => {
                self.played.refusals += 1;
                Ok(())
            }
            (Ok(due), None) => {
                self.compare(step, due).map_err(|what| format!("{what}\nat {} after {events:?}", self.at))
            }
            (ours, theirs) => Err(format!("{events:?}: the core answers {theirs:?}, the reference {ours:?}")),
        }
    }

    fn compare(&mut self, step: Step, mut due: Vec<Due>) -> Result<(), String> {
        let mut releases = step.releases.clone();
        due.sort_by_key(|one| (one.node, one.element));
        releases.sort_by_key(|one| one.node);
        let place = |node: NodeRef| (usize::from(node.node), node.item);
        let ours: Vec<_> = due.iter().map(|one| ((one.node, one.element), one.input.clone())).collect();
        let input = |input: &Option<Bytes>| input.as_deref().map_or(Ok(Value::Null), serde_json::from_slice);
        let theirs: Result<Vec<_>, _> =
            releases.iter().map(|one| input(&one.input).map(|input| (place(one.node), input))).collect();
        let theirs = theirs.map_err(|error| format!("an input is no JSON: {error}"))?;
        if ours != theirs {
            return Err(format!("the core starts {theirs:?}\nand the reference {ours:?}"));
        }
        for (release, due) in releases.iter().zip(&due) {
            if self.jobs.insert(release.job, due.number).is_some() || !self.nodes.insert(release.node) {
                return Err(format!("{:?} starts twice", release.node));
            }
            self.open.push(Open { node: release.node, number: due.number });
        }
        self.played.jobs += due.len();
        let words: Vec<&str> = step.state.nodes.iter().map(|node| node.status.as_str()).collect();
        let expected: Vec<&str> = self.reference.node_statuses().map(NodeStatus::word).collect();
        if words != expected {
            let differ = words.iter().zip(&expected).position(|(one, other)| one != other);
            return Err(format!("node {differ:?} differs: the core says\n{words:?}\nand the reference\n{expected:?}"));
        }
        if step.status.as_str() != self.reference.status().word() {
            return Err(format!("the run is {:?}, and by the reference {:?}", step.status, self.reference.status()));
        }
        if step.state.output.as_ref() != self.reference.returned() {
            return Err(format!("it returns {:?}, not {:?}", step.state.output, self.reference.returned()));
        }
        let ours: BTreeSet<Try> = self.reference.to_cancel().into_iter().collect();
        let theirs: BTreeSet<Try> = step.cancels.iter().filter_map(|job| self.jobs.get(job).copied()).collect();
        if ours != theirs {
            return Err(format!("the core cancels {theirs:?}, the reference {ours:?}"));
        }
        let wakes_at = self.reference.wakes_at().into_iter().chain((!ours.is_empty()).then_some(self.at)).min();
        if wakes_at.is_some_and(|at| step.wake_at.is_none_or(|wake_at| wake_at > at)) {
            return Err(format!("it wakes at {:?}, not at {wakes_at:?}", step.wake_at));
        }
        // What a store keeps is what it gives back.
        Rc::make_mut(&mut self.store).write(&step, run());
        match self.store.state(run())? == step.state {
            true => Ok(()),
            false => Err(format!("the store changes {:?}", step.state)),
        }
    }

    /// Some jobs end, in one batch.
    fn end_jobs(&mut self, failure_percent: u32) -> Result<(), String> {
        let (mut events, mut happenings) = (Vec::new(), Vec::new());
        let cancelled: BTreeSet<Try> = self.reference.to_cancel().into_iter().collect();
        for _ in 0..*self.rng.pick(&[1, 1, 1, 2, 4]) {
            if self.open.is_empty() {
                break;
            }
            let place = self.rng.below(self.open.len());
            let open = self.open.swap_remove(place);
            let state = if cancelled.contains(&open.number) && self.rng.percent(80) {
                JobState::Cancelled
            } else if self.rng.percent(failure_percent) {
                *self.rng.pick(&[JobState::Failed, JobState::Failed, JobState::Lost, JobState::Quarantined])
            } else if self.rng.percent(2) {
                *self.rng.pick(&[JobState::Cancelled, JobState::Deleted])
            } else {
                JobState::Succeeded
            };
            self.end(open, state, &mut events, &mut happenings);
        }
        self.happen(&events, &happenings)
    }

    fn end(&mut self, open: Open, state: JobState, events: &mut Vec<RunEvent>, happenings: &mut Vec<Happening>) {
        let output = if state == JobState::Succeeded { draw_output(&mut self.rng) } else { None };
        let end = match state {
            JobState::Succeeded => JobEnd::Succeeded,
            JobState::Cancelled | JobState::Deleted => JobEnd::Cancelled,
            _ => JobEnd::Failed,
        };
        self.told.push((open, state));
        happenings.push(Happening::Ended {
            number: open.number,
            end,
            output: output.as_ref().map(|output| output.to_vec()),
        });
        events.push(RunEvent::Ended { node: open.node, state, output });
    }

    /// A job that has ended ends again: its end was told twice, or somebody ran it again.
    fn repeat_end(&mut self) -> Result<(), String> {
        let Some(&(open, state)) = self.rng.pick_or_none(&self.told) else { return Ok(()) };
        let state = *self.rng.pick(&[state, JobState::Succeeded, JobState::Failed]);
        let (mut events, mut happenings) = (Vec::new(), Vec::new());
        self.end(open, state, &mut events, &mut happenings);
        self.happen(&events, &happenings)
    }

    fn draw_node(&mut self) -> u16 {
        self.rng.below(self.graph.nodes.len()) as u16
    }

    /// An open gate, or any node.
    fn draw_gate(&mut self) -> u16 {
        let is_open = |(_, status): &(usize, NodeStatus)| *status == NodeStatus::Open;
        let open: Vec<(usize, NodeStatus)> = self.reference.node_statuses().enumerate().filter(is_open).collect();
        match self.rng.pick_or_none(&open) {
            Some(&(gate, _)) if !self.rng.percent(5) => gate as u16,
            _ => self.draw_node(),
        }
    }

    /// Somebody asks for something that may be refused.
    fn ask_person(&mut self) -> Result<(), String> {
        let by = "ann".to_owned();
        match self.rng.below(10) {
            0 => self.happen(&[RunEvent::Cancel { by }], &[Happening::Cancelled]),
            1..5 => {
                let node = self.draw_node();
                self.happen(&[RunEvent::Skip { node, by }], &[Happening::Skipped { node: node.into() }])
            }
            5 => self.resume(),
            _ => self.decide(),
        }
    }

    fn decide(&mut self) -> Result<(), String> {
        let by = "ann".to_owned();
        if self.rng.percent(40) {
            let event = (*self.rng.pick(&EVENTS)).to_owned();
            let payload = draw_output(&mut self.rng);
            let arrived =
                Happening::Arrived { event: event.clone(), payload: payload.as_ref().map(|payload| payload.to_vec()) };
            return self.happen(&[RunEvent::Arrived { event, payload, by }], &[arrived]);
        }
        let node = self.draw_gate();
        let is_approved = self.rng.percent(70);
        let verdict = if is_approved { GateVerdict::Approved } else { GateVerdict::Rejected };
        let decided = Happening::Decided { node: node.into(), is_approved };
        self.happen(&[RunEvent::Decide { node, verdict, by }], &[decided])
    }

    /// Somebody cancels the run or resumes it, whatever it is doing.
    fn interfere(&mut self) -> Result<(), String> {
        if self.rng.percent(70) {
            return self.resume();
        }
        self.happen(&[RunEvent::Cancel { by: "ann".to_owned() }], &[Happening::Cancelled])
    }

    fn resume(&mut self) -> Result<(), String> {
        let mut skip = Vec::new();
        if self.rng.percent(30) {
            skip.push(self.draw_node());
        }
        self.played.resumes += 1;
        let resumed = Happening::Resumed { skip: skip.iter().map(|node| usize::from(*node)).collect() };
        self.happen(&[RunEvent::Resume { skip }], &[resumed])
    }

    /// Time passes, most often to the moment when something follows from that; or a gate is decided.
    fn pass(&mut self) -> Result<(), String> {
        if self.rng.percent(50) {
            return self.decide();
        }
        if self.open.is_empty() || self.rng.percent(5) {
            let wakes_at = self.reference.wakes_at().filter(|_| self.rng.percent(70));
            let soon = self.now + Span::from_secs(self.rng.range(0, 10));
            self.now = wakes_at.unwrap_or(soon).max(self.now);
        }
        self.happen(&[RunEvent::Tick], &[])
    }
}
