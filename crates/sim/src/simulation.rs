//! The simulation: one queue of things to happen, one clock, one order.
//!
//! Single-threaded, and driven by the seed alone. The clock is the store's, the
//! one that says what is due; servers see it through an error, workers never.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::fmt::Write as _;
use std::sync::Arc;

use punctual_core::task::Task;
use punctual_core::{JobId, JobKey, Span, TaskId, Timestamp};

use crate::agents::Agents;
use crate::audit::AUDIT_EVERY;
use crate::batches::{BatchStep, Batches};
use crate::client::{ClientStep, Clients};
use crate::conductor::Flows;
use crate::coverage::{Coverage, Window};
use crate::history::{Fact, History};
use crate::nemesis::Fault;
use crate::net::{MessageInFlight, Net};
use crate::options::{Database, Options, Planted};
use crate::plan::{Plan, START};
use crate::queues::{QueueStep, Queues};
use crate::rng::Rng;
use crate::runs::{RunStep, Runs, draw_runs};
use crate::schedules::{ScheduleStep, Schedules};
use crate::server::{Server, ServerStep};
use crate::storage::StoreCall;
use crate::store::SimStore;
use crate::worker::{Worker, WorkerStep};
use punctual_store_tests::model::State as Snapshot;

pub(crate) struct Simulation {
    pub(crate) now: Timestamp,
    pub(crate) rng: Rng,
    /// Draws what concerns workers that are connected to some servers only.
    pub(crate) few_rng: Rng,
    /// Draws what concerns runs of workflows.
    pub(crate) run_rng: Rng,
    pub(crate) plan: Plan,
    pub(crate) bug: Option<Planted>,
    pub(crate) store: SimStore,
    pub(crate) servers: Vec<Server>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) net: Net,
    pub(crate) clients: Clients,
    pub(crate) agents: Agents,
    pub(crate) schedules: Schedules,
    pub(crate) runs: Runs,
    pub(crate) flows: Flows,
    pub(crate) batches: Batches,
    pub(crate) queues: Queues,
    /// Whether queues are paused and resumed in this run.
    pub(crate) are_queues_changed: bool,
    pub(crate) history: History,
    pub(crate) seen: Coverage,
    /// What a standby has that receives nothing any more.
    pub(crate) left_behind: Option<Snapshot>,
    /// When the faults stopped.
    pub(crate) healed_at: Option<Timestamp>,
    /// Since when each job has waited although it could start.
    pub(crate) waits: BTreeMap<JobKey, Timestamp>,
    /// For how long each job has waited although a worker could be reached for it.
    pub(crate) far_waits: BTreeMap<JobKey, Span>,
    /// Jobs that run on workers that are gone, and that were reported.
    pub(crate) orphans: BTreeSet<JobId>,
    pub(crate) steps: u64,
    queue: BinaryHeap<Reverse<TimedAction>>,
    planned: u64,
}

/// Names one run of a server or worker process by its place and its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Node {
    pub(crate) place: usize,
    pub(crate) life: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    Up,
    /// Stopped: it does nothing, and later goes on as if nothing had been.
    Paused,
    Down,
}

pub(crate) enum Action {
    Server(Node, ServerStep),
    Store(Node, StoreCall),
    Worker(Node, WorkerStep),
    Deliver(MessageInFlight),
    Client(ClientStep),
    Schedules(ScheduleStep),
    Runs(RunStep),
    Batches(BatchStep),
    Queues(QueueStep),
    Nemesis(Fault),
    /// The file that a task waits for is there.
    Arrive(TaskId),
    /// Looks for what should not be.
    Audit,
}

struct TimedAction {
    at: Timestamp,
    number: u64,
    action: Action,
}

impl PartialEq for TimedAction {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for TimedAction {}
impl PartialOrd for TimedAction {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for TimedAction {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// How long after the faults have stopped everything that is due must have ended.
const QUIET_MAX: Span = Span::from_secs(1800);
/// A run of a schedule may begin just before that, and its nodes take longer than a job.
const RUNS_END_MAX: Span = Span::from_secs(2400);

/// Any numbers: they make other sequences of the same seed.
const FEW_SEED: u64 = 0x6665_7720_6c69_6e6b;
const RUN_SEED: u64 = 0x7275_6e73_2072_756e;

impl Simulation {
    pub(crate) fn new(seed: u64, options: Options) -> Self {
        let mut rng = Rng::new(seed);
        let mut few_rng = Rng::new(seed ^ FEW_SEED);
        let mut run_rng = Rng::new(seed ^ RUN_SEED);
        let mut plan = Plan::draw(&mut rng, &mut few_rng, options);
        plan.runs = draw_runs(seed, &mut run_rng);
        let has_flows = plan.runs > 0 && options.database == Database::KeepsCommits;
        let flows = Flows::draw(seed, has_flows, &plan.tasks);
        let tasks: Vec<Arc<Task>> = plan.tasks.iter().chain(flows.tasks()).map(Arc::clone).collect();
        let store = SimStore::new(plan.shards, &tasks, START, options.bug);
        let mut simulation = Self {
            now: START,
            rng,
            few_rng,
            run_rng,
            bug: options.bug,
            store,
            servers: (0..plan.servers).map(Server::down).collect(),
            workers: (0..plan.workers).map(|place| Worker::down(place, plan.servers)).collect(),
            net: Net::default(),
            clients: Clients::default(),
            agents: Agents::default(),
            schedules: Schedules::default(),
            runs: Runs::default(),
            flows,
            batches: Batches::new(seed),
            queues: Queues::new(seed),
            are_queues_changed: false,
            history: History::default(),
            seen: Coverage::default(),
            left_behind: None,
            healed_at: None,
            waits: BTreeMap::new(),
            far_waits: BTreeMap::new(),
            orphans: BTreeSet::new(),
            steps: 0,
            queue: BinaryHeap::new(),
            planned: 0,
            plan,
        };
        for place in 0..simulation.servers.len() {
            simulation.boot_server(place);
        }
        for place in 0..simulation.workers.len() {
            simulation.boot_worker(place, Vec::new());
        }
        for (task, at) in simulation.plan.arrivals.clone() {
            simulation.at(at, Action::Arrive(task));
        }
        simulation.plan_clients();
        simulation.plan_schedules();
        simulation.plan_calendar();
        simulation.plan_runs();
        simulation.plan_flows();
        simulation.plan_queues();
        simulation.plan_batches();
        simulation.plan_faults();
        if options.database == Database::GoesBack {
            simulation.plan_loss();
        }
        simulation
    }

    pub(crate) fn has(&self, bug: Planted) -> bool {
        self.bug == Some(bug)
    }

    pub(crate) fn after(&mut self, delay: Span, action: Action) {
        self.at(self.now + delay, action);
    }

    pub(crate) fn at(&mut self, at: Timestamp, action: Action) {
        self.planned += 1;
        self.queue.push(Reverse(TimedAction { at: at.max(self.now), number: self.planned, action }));
    }

    pub(crate) fn note(&mut self, fact: Fact) {
        self.history.push(self.now, fact);
    }

    pub(crate) fn hit(&mut self, window: Window) {
        self.seen.hit(window);
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.healed_at.is_some()
    }

    /// Until everything that is due has ended, or the time for that is over.
    pub(crate) fn run(&mut self) {
        while let Some(Reverse(planned)) = self.queue.pop() {
            self.now = planned.at;
            self.store.set_now(self.now);
            self.schedules.set_now(self.now);
            self.steps += 1;
            match planned.action {
                Action::Server(node, step) => self.server_step(node, step),
                Action::Store(node, call) => self.store_call(node, call),
                Action::Worker(node, step) => self.worker_step(node, step),
                Action::Deliver(delivery) => self.deliver(delivery),
                Action::Client(step) => self.client_step(step),
                Action::Schedules(step) => self.schedule_step(step),
                Action::Runs(step) => self.run_step(step),
                Action::Batches(step) => self.batch_step(step),
                Action::Queues(step) => self.queue_step(step),
                Action::Nemesis(fault) => self.strike(fault),
                Action::Arrive(task) => self.arrive(task),
                Action::Audit => {
                    self.audit();
                    if self.is_quiet() || self.is_broken() {
                        return;
                    }
                    self.after(AUDIT_EVERY, Action::Audit);
                }
            }
        }
    }

    fn is_quiet(&self) -> bool {
        let Some(healed_at) = self.healed_at else { return false };
        let calm = self.now.since(healed_at);
        let nothing_waits = || !self.store.has_queued();
        let nothing_due = || self.store.hot().iter().all(|job| job.key.due_at > self.now + Span::from_secs(600));
        (calm > QUIET_MAX && (self.are_runs_over() || calm > RUNS_END_MAX))
            || (calm > Span::from_secs(45)
                && self.clients.are_done()
                && self.schedules.are_over()
                && self.are_runs_over()
                && self.are_batches_over()
                && nothing_due()
                && nothing_waits())
    }

    fn is_broken(&self) -> bool {
        self.history.iter().any(|(_, fact)| matches!(fact, Fact::Broken { .. }))
    }

    /// What the servers think, for whoever looks into a failure.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        for server in &self.servers {
            let (owner, place) = (&server.owner, server.place);
            let _ = writeln!(text, "server {place} {:?} owns {:?}", server.health, owner.owned_shards());
            let _ = writeln!(text, "  {:?}", owner.counts());
            for worker in owner.worker_status() {
                let _ = writeln!(text, "  {worker:?}");
            }
            for running in owner.all_running() {
                let _ = writeln!(text, "  {running:?}");
            }
        }
        text
    }

    /// Writes down how everything ended.
    pub(crate) fn conclude(&mut self) {
        for id in self.schedules.all() {
            let rows = self.store.occurrences(id);
            self.note(Fact::Ledger { id, rows });
        }
        for id in self.clients.all_jobs() {
            let record = self.store.job(id);
            self.note(Fact::Final { id, record });
        }
        for run in self.runs.all() {
            let row = self.store.run(run).map(Box::new);
            self.note(Fact::RunFinal { run, row });
        }
        for (submitted, row) in self.batches_at_end() {
            self.note(Fact::BatchFinal { id: submitted.id, row: row.map(Box::new) });
        }
        let notices = self.store.notices();
        let quiet = self.plan.tasks.iter().filter(|task| task.spec.quiet).map(|task| task.id).collect();
        self.note(Fact::Notices { notices, quiet });
        let count = self.store.job_count();
        self.note(Fact::JobCount(count));
    }
}
