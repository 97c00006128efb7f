//! Jobs that are runs of workflows: those of schedules, of clients, and of nodes of other runs. Each server is a worker of its own
//! owner for them, as `app` is with its conductor: it starts the run of an attempt, which another server may have started before
//! it, and ends the attempt with the run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use punctual_core::attempt::{AttemptNo, Failure, Outcome};
use punctual_core::namespace::{NamespaceId, ServedNamespaces};
use punctual_core::run::{Run, WorkflowRun};
use punctual_core::schedule::By;
use punctual_core::shard::event::{Assignment, Event, Report, Send, StreamId, WorkerSpec};
use punctual_core::task::{Task, TaskSpec};
use punctual_core::workflow::{Graph, RunEvent, RunJob, RunState, RunStatus, WorkflowSpec};
use punctual_core::{JobId, RunId, TaskId, WorkerId};
use punctual_promises::StartRecord;
use punctual_store::RunRow;

use crate::coverage::Window;
use crate::graphs::{Drawing, draw_definition};
use crate::history::{ExecutionEnd, Fact};
use crate::plan::START;
use crate::rng::Rng;
use crate::server::ServerStep;
use crate::simulation::{Action, Node, Simulation};
use crate::storage::StoreCall;

/// As in `app`.
const AT_ONCE_MAX: u32 = 20_000;
/// Any number: it makes another sequence of the same seed.
const SEED: u64 = 0x666c_6f77_6a6f_6273;
/// The tasks of the plan have lower ones.
const FIRST_TASK: u64 = 100;

type Attempt = (JobId, AttemptNo);

/// A task that runs a workflow.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    pub(crate) task: Arc<Task>,
    pub(crate) definition: Arc<str>,
}

/// What there is of such jobs in the whole cluster.
pub(crate) struct Flows {
    rng: Rng,
    flows: Vec<Flow>,
    /// Of the jobs of nodes.
    inputs: BTreeMap<JobId, Bytes>,
    /// Attempts whose ends were written down.
    ended: BTreeSet<Attempt>,
}

/// The part of one server.
#[derive(Default)]
pub(crate) struct Conductor {
    streams: u64,
    is_connected: bool,
    /// Attempts that are to end.
    cancelled: BTreeSet<Attempt>,
}

impl Conductor {
    pub(crate) fn is_connected(&self) -> bool {
        self.is_connected
    }

    fn stream(&self) -> StreamId {
        StreamId(self.streams)
    }
}

impl Flows {
    /// One of eight seeds has them, so that the others mean what they meant.
    pub(crate) fn draw(seed: u64, has_runs: bool, tasks: &[Arc<Task>]) -> Self {
        let mut rng = Rng::new(seed ^ SEED);
        let mut flows = Vec::new();
        if has_runs && seed % 8 == 3 {
            for number in 0..rng.range(1, 3) as u64 {
                let namespace = rng.pick(tasks).namespace;
                flows.push(draw_flow(&mut rng, FIRST_TASK + number, namespace));
            }
        }
        Self { rng, flows, inputs: BTreeMap::new(), ended: BTreeSet::new() }
    }

    pub(crate) fn tasks(&self) -> impl Iterator<Item = &Arc<Task>> {
        self.flows.iter().map(|flow| &flow.task)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    pub(crate) fn is_flow(task: &Task) -> bool {
        matches!(task.spec.run, Run::Workflow(_))
    }

    /// Now and then, one of them in place of another task.
    pub(crate) fn instead(&mut self, percent: u32, namespace: Option<NamespaceId>) -> Option<Arc<Task>> {
        let fits = |flow: &&Flow| namespace.is_none_or(|namespace| flow.task.namespace == namespace);
        let fitting: Vec<&Flow> = self.flows.iter().filter(fits).collect();
        if fitting.is_empty() || !self.rng.percent(percent) {
            return None;
        }
        Some(Arc::clone(&self.rng.pick(&fitting).task))
    }

    pub(crate) fn keep_input(&mut self, job: JobId, input: Option<&Bytes>) {
        if let Some(input) = input.filter(|_| !self.flows.is_empty()) {
            self.inputs.insert(job, input.clone());
        }
    }

    fn of_task(&self, id: TaskId) -> Option<Flow> {
        self.flows.iter().find(|flow| flow.task.id == id).cloned()
    }
}

/// Its runs use other tasks of the namespace.
fn draw_flow(rng: &mut Rng, number: u64, namespace: NamespaceId) -> Flow {
    let nodes_max = *rng.pick(&[1, 3, 8]);
    let drawing = Drawing { nodes_max, gate_secs_max: 10, run_secs_max: 100 };
    let definition: Arc<str> = draw_definition(rng, &drawing).to_string().into();
    let mut spec = TaskSpec::new(Run::Workflow(WorkflowRun { name: format!("flow-{number}"), version: None }));
    spec.retry.max = rng.range(0, 2) as u16;
    spec.retry.initial = rng.millis(200, 2_000);
    let task = Task {
        namespace,
        id: TaskId::new(START, number),
        name: Some(format!("task-{number}")),
        revision: 1,
        created_at: START,
        updated_at: START,
        spec,
        waits_for: None,
        created_by: None,
        changed_by: None,
    };
    Flow { task: Arc::new(task), definition }
}

impl Simulation {
    pub(crate) fn plan_flows(&mut self) {
        if !self.flows.is_empty() {
            let namespaces = ServedNamespaces::All;
            self.note(Fact::Joined { worker: WorkerId::WORKFLOWS, slots: AT_ONCE_MAX, namespaces });
        }
    }

    /// A server connects to itself, or loses that connection and everything that it knew with it; and it asks again for what
    /// may not have reached the store.
    pub(crate) fn conduct(&mut self, place: usize) {
        let now = self.server_now(place);
        let breaks = !self.is_calm() && self.flows.rng.percent(3);
        let server = &mut self.servers[place];
        if !server.conductor.is_connected {
            server.conductor.streams += 1;
            server.conductor.is_connected = true;
            let stream = server.conductor.stream();
            let spec = WorkerSpec {
                namespaces: ServedNamespaces::All,
                queues: Vec::new(),
                capabilities: vec!["workflow".to_owned()],
                labels: BTreeMap::new(),
                credit: AT_ONCE_MAX,
            };
            server.granted(WorkerId::WORKFLOWS, AT_ONCE_MAX);
            server
                .owner
                .handle(Event::WorkerHello { worker: WorkerId::WORKFLOWS, stream, spec, held: Vec::new() }, now);
        } else if breaks {
            let stream = server.conductor.stream();
            server.conductor = Conductor { streams: server.conductor.streams, ..Conductor::default() };
            server.owner.handle(Event::WorkerDisconnected { worker: WorkerId::WORKFLOWS, stream }, now);
        }
        for attempt in self.servers[place].conductor.cancelled.clone() {
            self.cancel_run_of(place, attempt);
        }
    }

    /// What the owner has to say to the server itself.
    pub(crate) fn conducted(&mut self, place: usize, stream: StreamId, send: Send) {
        let conductor = &mut self.servers[place].conductor;
        if !conductor.is_connected || conductor.stream() != stream {
            return;
        }
        match send {
            Send::Assign(assignment) => self.start_run_of(place, &assignment),
            Send::Cancel { id, attempt } | Send::Stop { id, attempt } => {
                conductor.cancelled.insert((id, attempt));
                self.cancel_run_of(place, (id, attempt));
            }
            Send::Ack { id, attempt } => {
                conductor.cancelled.remove(&(id, attempt));
                if self.flows.ended.contains(&(id, attempt)) {
                    self.note(Fact::Acked { id, attempt });
                }
                self.change_run(place, RunId::of_attempt(id, attempt.0), RunEvent::Reported);
            }
            Send::Credit(_) | Send::Demand { .. } => {}
        }
    }

    fn cancel_run_of(&mut self, place: usize, (job, attempt): Attempt) {
        self.change_run(place, RunId::of_attempt(job, attempt.0), RunEvent::Cancel { by: job.to_string() });
    }

    fn start_run_of(&mut self, place: usize, assignment: &Assignment) {
        let (job, attempt) = (assignment.key.id, assignment.attempt);
        let Some(Flow { task, definition }) = self.flows.of_task(assignment.task.id) else {
            return self.note(Fact::Broken { text: format!("{job} is no run, and a server was to start it") });
        };
        let spec: WorkflowSpec = serde_json::from_str(&definition).expect("definitions are drawn well");
        let graph = Graph::of(&spec).expect("definitions are drawn well");
        let tasks = self.tasks_in(task.namespace);
        let at = self.server_now(place);
        let id = RunId::of_attempt(job, attempt.0);
        let row = RunRow {
            id,
            namespace: task.namespace,
            workflow: id.to_string(),
            version: 1,
            made: By { at, who: job.to_string() },
            input: self.flows.inputs.get(&job).cloned(),
            tasks: graph
                .nodes
                .iter()
                .map(|node| {
                    let task = self.flows.rng.pick(&tasks);
                    (!node.is_gate()).then_some((task.id, task.spec.priority))
                })
                .collect(),
            state: RunState {
                job: Some(RunJob { job, attempt: attempt.0, is_reported: false }),
                ..RunState::new(graph.nodes.len(), at + graph.timeout)
            },
            status: RunStatus::Running,
        };
        let node = self.servers[place].node();
        let delay = self.store_delay();
        self.after(delay, Action::Store(node, StoreCall::StartRun { row: Box::new(row), definition }));
    }

    /// The run of an attempt is in the store: its work has begun.
    pub(crate) fn run_of_job_started(&mut self, RunJob { job, attempt, .. }: RunJob) {
        let attempt = AttemptNo(attempt);
        let start = if self.store.has_start(job, attempt) { StartRecord::Durable } else { StartRecord::Missing };
        self.hit(Window::RunOfJob);
        self.note(Fact::Begin { id: job, attempt, worker: WorkerId::WORKFLOWS, start });
    }

    /// The server has found that a run has ended whose job has not heard of it.
    pub(crate) fn run_of_job_ended(&mut self, place: usize, run: RunId) {
        let Some(row) = self.store.run(run).filter(|row| row.state.awaits_report()) else { return };
        let Some(report) = report(&row) else { return };
        let (id, attempt) = (report.id, report.attempt);
        if self.flows.ended.insert((id, attempt)) {
            let how = ExecutionEnd::Reported { outcome: report.outcome.clone(), timed_out: false, details: None };
            self.note(Fact::End { id, attempt, worker: WorkerId::WORKFLOWS, how });
        } else {
            self.hit(Window::RunOfJobReportedAgain);
        }
        if self.servers[place].conductor.is_connected {
            let now = self.server_now(place);
            let outcomes = Event::Outcomes { worker: WorkerId::WORKFLOWS, reports: vec![report] };
            self.servers[place].owner.handle(outcomes, now);
        }
    }

    /// A server hears of a run that has ended when it looks at due ones.
    pub(crate) fn tell_of_ended_run(&mut self, node: Node, run: RunId) {
        let delay = self.store_delay();
        self.after(delay, Action::Server(node, ServerStep::RunOfJobEnded(run)));
    }
}

/// How the job of a run that has ended ends.
fn report(row: &RunRow) -> Option<Report> {
    let RunJob { job, attempt, .. } = row.state.job?;
    let outcome = match row.status {
        RunStatus::Running => return None,
        RunStatus::Succeeded => {
            Outcome::Succeeded { output: row.state.output.as_ref().map(|output| Bytes::from(output.to_string())) }
        }
        RunStatus::Cancelled => Outcome::Cancelled,
        RunStatus::Failed => Outcome::Failed(Failure::new(format!("{} failed", row.id))),
    };
    Some(Report { id: job, attempt: AttemptNo(attempt), outcome, timed_out: false, details: None })
}
