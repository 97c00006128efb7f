//! Runs of workflows, and those who start, steer and resume them while servers come and go.
//!
//! What follows from the end of a job is worked out by the core in the store's transaction, as in production. Servers advance the
//! runs of their shards once a second, as the duty `workflows` does, and ask owners to cancel jobs of runs that end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use punctual_core::attempt::Outcome;
use punctual_core::job::Input;
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::By;
use punctual_core::shard::event::{Command, Loaded};
use punctual_core::shard::write::{JobWrite, SharedBatch, Write};
use punctual_core::task::Task;
use punctual_core::workflow::{GateVerdict, Graph, NodeStatus, RunEvent, RunState, RunStatus, WorkflowSpec};
use punctual_core::{Counters, JobId, JobKey, JobRow, RunId, ShardId, Span, Timestamp};
use punctual_store::{NewJob, RunChange, RunRow, Submission};
use punctual_store_tests::model::JobOfRun;

use crate::coverage::Window;
use crate::graphs::{Drawing, EVENTS, draw_definition, draw_input, draw_output};
use crate::history::Fact;
use crate::options::Planted;
use crate::plan::TaskBehavior;
use crate::rng::Rng;
use crate::server::ServerStep;
use crate::simulation::{Action, Health, Node, Simulation};
use crate::storage::StoreCall;

/// Servers look at due runs as often as the duty `workflows` does.
pub(crate) const ADVANCE_EVERY: Span = Span::from_secs(1);
/// Runs that one look advances, as in `app`.
const DUE_RUNS_MAX: usize = 500;
/// How often a run is resumed at most: in the end all of them have ended for good.
const RESUMES_MAX: u32 = 3;
/// People resume runs until this long after the faults, and decide every gate from then on.
const TENDED_AFTER: Span = Span::from_secs(20);

#[derive(Default)]
pub(crate) struct Runs {
    /// How many are still to be started.
    unstarted: usize,
    /// Those that are in the store, with how often they may still be resumed.
    started: BTreeMap<RunId, u32>,
    /// Their jobs.
    jobs: BTreeSet<JobId>,
    /// From here on nothing is done to them that need not be.
    end: Timestamp,
}

pub(crate) enum RunStep {
    Start,
    /// People look at the runs, and do something about some of them.
    Tend,
    /// The store has answered the server that asked for a change of a run.
    Changed {
        by: Node,
        rows: Vec<Loaded>,
        cancels: Vec<JobId>,
    },
}

/// How many runs a seed has. Half of the seeds have none, so that they mean what they meant before there were any.
pub(crate) fn draw_runs(seed: u64, rng: &mut Rng) -> usize {
    if seed.is_multiple_of(2) { 0 } else { rng.range(1, 4) as usize }
}

impl Runs {
    pub(crate) fn all(&self) -> Vec<RunId> {
        self.started.keys().copied().collect()
    }

    fn resumes_left(&self, run: RunId) -> u32 {
        self.started.get(&run).copied().unwrap_or(0)
    }
}

impl Simulation {
    pub(crate) fn plan_runs(&mut self) {
        let chaos_ms = self.plan.chaos.as_micros() / 1000;
        self.runs.unstarted = self.plan.runs;
        self.runs.end = self.now + self.plan.chaos + TENDED_AFTER;
        if self.plan.runs == 0 {
            return;
        }
        for _ in 0..self.plan.runs {
            let at = self.run_rng.millis(0, chaos_ms / 2);
            self.after(at, Action::Runs(RunStep::Start));
        }
        self.after(ADVANCE_EVERY, Action::Runs(RunStep::Tend));
    }

    /// Whether all runs have ended, and nobody will resume one.
    pub(crate) fn are_runs_over(&self) -> bool {
        let has_ended = |run: &RunId| self.store.run(*run).is_none_or(|row| row.status != RunStatus::Running);
        self.plan.runs == 0
            || (self.now > self.runs.end && self.runs.unstarted == 0 && self.runs.started.keys().all(has_ended))
    }

    pub(crate) fn run_step(&mut self, step: RunStep) {
        match step {
            RunStep::Start => self.start_run(),
            RunStep::Tend => {
                for run in self.runs.all() {
                    self.tend(run);
                }
                let soon = self.run_rng.millis(500, 3_000);
                self.after(soon, Action::Runs(RunStep::Tend));
            }
            RunStep::Changed { by, rows, cancels } => {
                if self.is_server_alive(by) && self.servers[by.place].health == Health::Up {
                    self.hint(rows);
                    for job in cancels {
                        self.order(job, Command::Cancel);
                    }
                }
            }
        }
    }

    fn draw_server(&mut self) -> Option<Node> {
        let up: Vec<Node> =
            self.servers.iter().filter(|server| server.health == Health::Up).map(|server| server.node()).collect();
        self.run_rng.pick_or_none(&up).copied()
    }

    fn start_run(&mut self) {
        let Some(by) = self.draw_server() else {
            return self.after(Span::from_secs(1), Action::Runs(RunStep::Start));
        };
        self.runs.unstarted -= 1;
        let nodes_max = *self.run_rng.pick(&[4, 12, 12, 12, 12, 12, 40, 40, 200]);
        let drawing = Drawing { nodes_max, gate_secs_max: 30, run_secs_max: 200 };
        let definition: Arc<str> = draw_definition(&mut self.run_rng, &drawing).to_string().into();
        let spec: WorkflowSpec = serde_json::from_str(&definition).expect("definitions are drawn well");
        let graph = Graph::of(&spec).expect("definitions are drawn well");
        let tasks = self.draw_tasks();
        let namespace = tasks[0].namespace;
        let (rng, flows) = (&mut self.run_rng, &mut self.flows);
        let task_of = |is_gate: bool| {
            let drawn = rng.pick(&tasks);
            let task = flows.instead(20, Some(namespace)).unwrap_or_else(|| Arc::clone(drawn));
            (!is_gate).then_some((task.id, task.spec.priority))
        };
        let tasks_of_nodes = graph.nodes.iter().map(|node| node.is_gate()).map(task_of).collect();
        let shard = ShardId(self.run_rng.below(usize::from(self.plan.shards)) as u16);
        let id = RunId::new(self.now, shard, self.run_rng.next());
        let at = self.server_now(by.place);
        let row = RunRow {
            id,
            namespace,
            workflow: id.to_string(),
            version: 1,
            made: By { at, who: "client".to_owned() },
            input: draw_input(&mut self.run_rng),
            tasks: tasks_of_nodes,
            state: RunState::new(graph.nodes.len(), at + graph.timeout),
            status: RunStatus::Running,
        };
        let stored_at = self.now + self.run_rng.millis(0, self.plan.message_ms_max) + self.store_delay();
        self.at(stored_at, Action::Store(by, StoreCall::StartRun { row: Box::new(row), definition }));
    }

    /// Tasks of one namespace, most of whose jobs can succeed.
    fn draw_tasks(&mut self) -> Vec<Arc<Task>> {
        let namespace = self.run_rng.pick(&self.plan.tasks).namespace;
        self.tasks_in(namespace)
    }

    pub(crate) fn tasks_in(&mut self, namespace: NamespaceId) -> Vec<Arc<Task>> {
        let mut tasks: Vec<Arc<Task>> =
            self.plan.tasks.iter().filter(|task| task.namespace == namespace).map(Arc::clone).collect();
        let is_sound = |task: &Arc<Task>| matches!(self.plan.behavior_of(task.id), TaskBehavior::Mixed);
        if tasks.iter().any(is_sound) && self.run_rng.percent(80) {
            tasks.retain(is_sound);
        }
        tasks
    }

    fn tend(&mut self, run: RunId) {
        let Some(row) = self.store.run(run) else { return };
        let is_late = self.now > self.runs.end;
        let nodes = row.state.nodes.len();
        let open: Vec<u16> =
            (0..nodes as u16).filter(|node| row.state.nodes[usize::from(*node)].status == NodeStatus::Open).collect();
        let by = "client".to_owned();
        match row.status {
            RunStatus::Running if !open.is_empty() && (is_late || self.run_rng.percent(30)) => {
                if !is_late && self.run_rng.percent(40) {
                    let event = (*self.run_rng.pick(&EVENTS)).to_owned();
                    let payload = draw_output(&mut self.run_rng);
                    return self.ask_run(run, RunEvent::Arrived { event, payload, by });
                }
                let node = *self.run_rng.pick(&open);
                let verdict =
                    *self.run_rng.pick(&[GateVerdict::Approved, GateVerdict::Approved, GateVerdict::Rejected]);
                self.ask_run(run, RunEvent::Decide { node, verdict, by });
            }
            RunStatus::Running if !is_late => match self.run_rng.below(200) {
                0..6 => {
                    let node = self.run_rng.below(nodes) as u16;
                    self.ask_run(run, RunEvent::Skip { node, by });
                }
                6 => self.ask_run(run, RunEvent::Cancel { by }),
                7 => self.ask_run(run, RunEvent::Resume { skip: vec![] }),
                _ => {}
            },
            // One whose job is still to hear of its end is left alone.
            RunStatus::Failed | RunStatus::Cancelled
                if !is_late
                    && !row.state.awaits_report()
                    && self.runs.resumes_left(run) > 0
                    && self.run_rng.percent(25) =>
            {
                let skip = if self.run_rng.percent(20) { vec![self.run_rng.below(nodes) as u16] } else { Vec::new() };
                if let Some(left) = self.runs.started.get_mut(&run) {
                    *left -= 1;
                }
                self.ask_run(run, RunEvent::Resume { skip });
            }
            RunStatus::Running | RunStatus::Succeeded | RunStatus::Failed | RunStatus::Cancelled => {}
        }
    }

    fn ask_run(&mut self, run: RunId, event: RunEvent) {
        let Some(by) = self.draw_server() else { return };
        let delay = self.run_rng.millis(0, self.plan.message_ms_max);
        self.after(delay, Action::Server(by, ServerStep::ChangeRun { run, event }));
    }

    /// A server has the store change a run.
    pub(crate) fn change_run(&mut self, place: usize, run: RunId, event: RunEvent) {
        let (node, at) = (self.servers[place].node(), self.server_now(place));
        let delay = self.store_delay();
        self.after(delay, Action::Store(node, StoreCall::ChangeRun { run, event, at }));
    }

    /// A server looks at the runs of its shards whose time has come.
    pub(crate) fn advance_runs(&mut self, place: usize) {
        let node = self.servers[place].node();
        self.after(ADVANCE_EVERY, Action::Server(node, ServerStep::AdvanceRuns));
        let owned = self.servers[place].owner.owned_shards().into_iter().map(|(shard, _)| shard).collect();
        let (delay, at) = (self.store_delay(), self.server_now(place));
        self.after(delay, Action::Store(node, StoreCall::DueRuns { owned, at }));
    }

    pub(crate) fn store_due_runs(&mut self, node: Node, owned: &BTreeSet<ShardId>, at: Timestamp) {
        let due = self.store.due_runs(at, DUE_RUNS_MAX);
        for run in due.into_iter().filter(|run| owned.contains(&run.shard())) {
            if self.store.run(run).is_some_and(|row| row.state.awaits_report()) {
                self.tell_of_ended_run(node, run);
                continue;
            }
            let delay = self.store_delay();
            self.after(delay, Action::Store(node, StoreCall::ChangeRun { run, event: RunEvent::Tick, at }));
        }
    }

    pub(crate) fn store_start_run(&mut self, by: Node, row: RunRow, definition: Arc<str>) {
        let (run, input, at, job) = (row.id, row.input.clone(), row.made.at, row.state.job);
        if job.is_some() && self.store.run(run).is_some() {
            // Another server was quicker, or this one in another life.
            return self.hit(Window::RunOfJobStartedBefore);
        }
        match self.store.start_run(row, &definition) {
            Ok(change) => {
                self.runs.started.insert(run, RESUMES_MAX);
                self.note(Fact::RunStarted { run, definition, input, at });
                job.into_iter().for_each(|job| self.run_of_job_started(job));
                self.run_changed(by, run, change);
            }
            Err(text) => self.note(Fact::Broken { text }),
        }
    }

    pub(crate) fn store_change_run(&mut self, by: Node, run: RunId, event: RunEvent, at: Timestamp) {
        match self.store.change_run(run, event.clone(), at) {
            // It is lost with the commits that a standby did not have.
            Ok(None) => {}
            Ok(Some(change)) => {
                let is_refused = change.refused.is_some();
                self.count_run_change(&event, is_refused);
                self.note(Fact::RunChanged { run, event, at, is_refused });
                self.run_changed(by, run, change);
            }
            Err(text) => self.note(Fact::Broken { text }),
        }
    }

    fn count_run_change(&mut self, event: &RunEvent, is_refused: bool) {
        match event {
            _ if is_refused => self.hit(Window::RunRequestRefused),
            RunEvent::Decide { .. } | RunEvent::Arrived { .. } => self.hit(Window::RunGateDecided),
            RunEvent::Skip { .. } => self.hit(Window::RunNodeSkipped),
            RunEvent::Cancel { .. } => self.hit(Window::RunCancelled),
            RunEvent::Resume { .. } => self.hit(Window::RunResumed),
            RunEvent::Tick | RunEvent::Ended { .. } | RunEvent::Reported => {}
        }
    }

    /// What the server does with the answer, if it lives to hear it.
    fn run_changed(&mut self, by: Node, run: RunId, change: RunChange) {
        let rows = self.jobs_of_run(run);
        let delay = self.store_delay();
        self.after(delay, Action::Runs(RunStep::Changed { by, rows, cancels: change.cancels }));
    }

    /// Writes down the jobs of a run that are new. They are jobs like others: everything that is promised of jobs is promised
    /// of them.
    fn jobs_of_run(&mut self, run: RunId) -> Vec<Loaded> {
        let mut rows = Vec::new();
        for released in self.store.jobs_of_run(run) {
            if !self.runs.jobs.insert(released.job) {
                continue;
            }
            let (job, node) = (released.job, released.node);
            let request = self.clients.add(job);
            self.flows.keep_input(job, released.input.as_ref());
            let task = Arc::clone(self.store.task(released.task));
            self.note(Fact::Submit { request, jobs: vec![job], task: Arc::clone(&task) });
            self.note(Fact::SubmitOk { request, jobs: vec![job] });
            self.note(Fact::Released { run, node, job, input: released.input });
            if node.item > 0 {
                self.hit(Window::RunListFannedOut);
            }
            if node.round > 0 {
                self.hit(Window::RunNodeAgain);
            }
            let row = JobRow {
                key: JobKey::original(job),
                task: task.id,
                priority: task.spec.priority,
                counters: Counters::NEW,
                submitted_at: self.now,
                tracing_id: None,
                source: None,
                node: Some(Box::new(node)),
                member: None,
                give_backs: None,
                input: Input::None,
            };
            rows.push(Loaded { row, task });
        }
        rows
    }

    /// What the ends of jobs in a batch have released.
    pub(crate) fn jobs_of_ended_nodes(&mut self, batch: &SharedBatch) {
        let ended = |write: &Write| match write {
            Write::Job(JobWrite::Settle(settle)) => settle.node.as_ref().map(|node| node.run),
            _ => None,
        };
        let runs: BTreeSet<RunId> = batch.writes.iter().filter_map(ended).collect();
        for run in runs {
            // The answer to the batch has them, or the owner reads them.
            self.jobs_of_run(run);
        }
    }

    /// Does what a planted bug does to the runs of a shard that is taken over. Nobody writes it down.
    pub(crate) fn spoil_runs_at_takeover(&mut self, shard: ShardId) {
        for run in self.runs.all().into_iter().filter(|run| run.shard() == shard) {
            if self.has(Planted::TakeoverReleasesAgain) {
                let again: Vec<NewJob> =
                    self.store.jobs_of_run(run).into_iter().map(|job| self.released_again(job)).collect();
                if !again.is_empty() {
                    self.store.submit(Submission { jobs: again, idempotency: None, batch: None });
                }
            }
            let row = self.store.run(run).filter(|_| self.has(Planted::GatePassesAtTakeover));
            let nodes = row.map(|row| row.state.nodes).unwrap_or_default();
            let open = (0..).zip(&nodes).find(|(_, node)| node.status == NodeStatus::Open);
            if let Some((node, _)) = open {
                let event = RunEvent::Decide { node, verdict: GateVerdict::Approved, by: "nobody".to_owned() };
                self.store.change_run(run, event, self.now).expect("the gate is open");
            }
        }
    }

    fn released_again(&mut self, job: JobOfRun) -> NewJob {
        let task = self.store.task(job.task);
        NewJob {
            id: JobId::new(self.now, job.job.shard(), self.run_rng.next()),
            namespace: task.namespace,
            task: task.id,
            priority: task.spec.priority,
            submitted_at: self.now,
            tracing_id: None,
            source: None,
            requester: None,
            node: Some(job.node),
            member: None,
            input: job.input,
        }
    }

    /// What a job of a run says, most of which succeed, or no graph would get far.
    pub(crate) fn draw_node_outcome(&mut self, id: JobId) -> Option<Outcome> {
        let is_of_run = self.runs.jobs.contains(&id);
        (is_of_run && self.run_rng.percent(80)).then(|| {
            let output: Option<Bytes> = draw_output(&mut self.run_rng);
            Outcome::Succeeded { output }
        })
    }
}
