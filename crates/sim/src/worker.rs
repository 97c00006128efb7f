//! A worker process: slots, a stream to each server that it has chosen or that asked for it, and what it holds until
//! somebody acknowledges it. It is also the witness: it writes down when an
//! execution really begins and ends.
//!
//! Keeps three promises that the core relies on: an attempt is held from the
//! moment its assignment was read until its outcome is acknowledged; a hello
//! names everything that is held; and after a hello to a shard's new owner,
//! nothing that an older owner assigned is begun.

use std::collections::BTreeMap;

use punctual_core::attempt::Outcome;
use punctual_core::credits::{Credits, Expected};
use punctual_core::namespace::{NamespaceId, ServedNamespaces};
use punctual_core::shard::Answer;
use punctual_core::shard::event::{Assignment, Report, StreamId, WorkerSpec};
use punctual_core::shard::write::Epoch;
use punctual_core::{AttemptNo, JobId, ShardId, Span, Timestamp, WorkerId};
use punctual_promises::StartRecord;

use crate::agents;
use crate::coverage::Window;
use crate::history::{ExecutionEnd, Fact};
use crate::net::{ToServer, ToWorker};
use crate::options::Planted;
use crate::plan::{QUEUES, START, TENANT, TaskBehavior};
use crate::server::ServerStep;
use crate::simulation::{Action, Health, Node, Simulation};

type Key = (JobId, AttemptNo);

pub(crate) struct Worker {
    pub(crate) place: usize,
    pub(crate) id: WorkerId,
    pub(crate) life: u64,
    pub(crate) health: Health,
    pub(crate) frozen: Vec<WorkerStep>,
    pub(crate) slots: u32,
    pub(crate) queues: Vec<String>,
    pub(crate) namespaces: ServedNamespaces,
    /// By the place of the server.
    pub(crate) links: Vec<Link>,
    pub(crate) held: BTreeMap<Key, HeldAttempt>,
    /// The newest owner of each shard that it heard of, by the place of the server.
    pub(crate) owners: BTreeMap<ShardId, (Epoch, usize)>,
    pub(crate) credits: Credits<usize>,
    /// When the credits are looked at again.
    pub(crate) plan_at: Option<Timestamp>,
    runs: u64,
    /// When each former worker at this place died.
    pub(crate) died: BTreeMap<WorkerId, Timestamp>,
}

#[derive(Default)]
pub(crate) struct Link {
    pub(crate) stream: Option<StreamId>,
    pub(crate) is_ready: bool,
    pub(crate) is_partitioned: bool,
    /// The worker keeps a stream to the server.
    pub(crate) is_wanted: bool,
    /// When the server last asked for the worker, if the worker did not choose it.
    pub(crate) asked_at: Option<Timestamp>,
}

pub(crate) enum HeldAttempt {
    Running {
        run: u64,
        report: Report,
        by_agent: bool,
    },
    /// Its agent has ended it and says so to servers.
    ReportedByAgent(Report),
    Finished(Report),
}

pub(crate) enum WorkerStep {
    Connect { server: usize },
    Broken { stream: StreamId },
    Message { stream: StreamId, message: ToWorker },
    Finish { key: Key, run: u64 },
    AgentAnswered { key: Key, answer: Answer },
    Plan { planned: Timestamp },
    Repeat,
    Beat,
}

const BEAT_EVERY: Span = Span::from_secs(5);
const REPEAT_EVERY: Span = Span::from_secs(5);

impl Worker {
    pub(crate) fn down(place: usize, servers: usize) -> Self {
        Self {
            place,
            id: WorkerId::new(START, place as u64),
            life: 0,
            health: Health::Down,
            frozen: Vec::new(),
            slots: 0,
            queues: Vec::new(),
            namespaces: ServedNamespaces::All,
            links: (0..servers).map(|_| Link::default()).collect(),
            held: BTreeMap::new(),
            owners: BTreeMap::new(),
            credits: Credits::new(0),
            plan_at: None,
            runs: 0,
            died: BTreeMap::new(),
        }
    }

    pub(crate) fn node(&self) -> Node {
        Node { place: self.place, life: self.life }
    }

    pub(crate) fn running(&self) -> usize {
        self.held.values().filter(|held| held.is_in_use()).count()
    }

    pub(crate) fn is_connected_to(&self, server: usize) -> bool {
        self.links[server].is_ready
    }

    fn finished(&self) -> Vec<Report> {
        let finished = |held: &HeldAttempt| match held {
            HeldAttempt::Finished(report) => Some(report.clone()),
            HeldAttempt::Running { .. } | HeldAttempt::ReportedByAgent(_) => None,
        };
        self.held.values().filter_map(finished).collect()
    }

    /// What a worker process leaves on disk when it dies.
    pub(crate) fn spool(&self) -> Vec<Report> {
        self.finished()
    }

    pub(crate) fn running_keys(&self) -> Vec<Key> {
        let running = |(key, held): (&Key, &HeldAttempt)| held.is_in_use().then_some(*key);
        self.held.iter().filter_map(running).collect()
    }
}

impl HeldAttempt {
    /// Whether it has a slot.
    fn is_in_use(&self) -> bool {
        match self {
            Self::Running { .. } | Self::ReportedByAgent(_) => true,
            Self::Finished(_) => false,
        }
    }
}

impl Simulation {
    pub(crate) fn boot_worker(&mut self, place: usize, spool: Vec<Report>) {
        let id = WorkerId::new(self.now, self.rng.next());
        let servers = self.servers.len();
        let chosen = self.choose_servers(id);
        // Now and then fewer than there are servers.
        let slots = if self.rng.percent(15) { 1 } else { servers as i64 * self.rng.range(2, 5) } as u32;
        // Two serve every queue and every namespace, so that no job waits in vain.
        let queues = if place < 2 || self.rng.percent(50) { &QUEUES[..] } else { &QUEUES[..1] };
        let namespaces = match place < 2 || self.rng.percent(50) {
            true => ServedNamespaces::All,
            false => ServedNamespaces::Only([*self.rng.pick(&[NamespaceId::DEFAULT, TENANT])].into()),
        };
        let worker = &mut self.workers[place];
        let mut links: Vec<Link> = (0..servers).map(|_| Link::default()).collect();
        for (link, before) in links.iter_mut().zip(&worker.links) {
            link.is_partitioned = before.is_partitioned;
        }
        for server in &chosen {
            links[*server].is_wanted = true;
        }
        let mut died = std::mem::take(&mut worker.died);
        died.insert(worker.id, self.now);
        let life = worker.life + 1;
        let held =
            spool.into_iter().map(|report| ((report.id, report.attempt), HeldAttempt::Finished(report))).collect();
        let queues = queues.iter().map(|queue| (*queue).to_owned()).collect();
        let mut credits = Credits::new(slots);
        for &server in &chosen {
            credits.add(server, Expected::Yes, self.now);
        }
        let down = Worker::down(place, servers);
        *worker = Worker {
            id,
            life,
            health: Health::Up,
            slots,
            queues,
            namespaces: namespaces.clone(),
            links,
            held,
            died,
            credits,
            ..down
        };
        let node = worker.node();
        self.note(Fact::Joined { worker: id, slots, namespaces });
        for server in chosen {
            let delay = self.rng.millis(0, 1000);
            self.after(delay, Action::Worker(node, WorkerStep::Connect { server }));
        }
        self.after(Span::ZERO, Action::Worker(node, WorkerStep::Beat));
        self.after(REPEAT_EVERY, Action::Worker(node, WorkerStep::Repeat));
    }

    pub(crate) fn worker_step(&mut self, node: Node, step: WorkerStep) {
        let worker = &mut self.workers[node.place];
        if worker.life != node.life || worker.health == Health::Down {
            return;
        }
        if worker.health == Health::Paused {
            worker.frozen.push(step);
            return;
        }
        let place = node.place;
        match step {
            WorkerStep::Connect { server } => self.connect(place, server),
            WorkerStep::Broken { stream } => {
                let link = worker.links.iter().position(|link| link.stream == Some(stream));
                if let Some(server) = link {
                    worker.links[server].stream = None;
                    worker.links[server].is_ready = false;
                    worker.credits.close(server, self.now);
                    let delay = self.rng.millis(50, 2_000);
                    self.after(delay, Action::Worker(node, WorkerStep::Connect { server }));
                }
            }
            WorkerStep::Message { stream, message } => {
                // Nothing is read from a stream after it was closed.
                if let Some(server) = worker.links.iter().position(|link| link.stream == Some(stream)) {
                    self.worker_message(place, server, stream, message);
                }
            }
            WorkerStep::Finish { key, run } => self.finish(place, key, run),
            WorkerStep::AgentAnswered { key, answer } => self.agent_answered(place, key, &answer),
            WorkerStep::Plan { planned } => {
                if worker.plan_at != Some(planned) {
                    return;
                }
                worker.plan_at = None;
            }
            WorkerStep::Repeat => {
                if !worker.finished().is_empty() {
                    self.hit(Window::OutcomeRepeated);
                }
                let reports = self.workers[place].finished();
                self.report(place, reports);
                self.agents_tell_again(place);
                self.maybe_rest(place);
                self.leave_servers(place);
                self.after(REPEAT_EVERY, Action::Worker(node, WorkerStep::Repeat));
            }
            WorkerStep::Beat => self.beat(place),
        }
        self.divide_slots(place);
    }

    fn connect(&mut self, place: usize, server: usize) {
        let node = self.workers[place].node();
        let link = &self.workers[place].links[server];
        if link.stream.is_some() || !link.is_wanted {
            return;
        }
        if self.servers[server].health == Health::Down || self.workers[place].links[server].is_partitioned {
            let delay = self.rng.millis(300, 2_000);
            self.after(delay, Action::Worker(node, WorkerStep::Connect { server }));
            return;
        }
        let stream = self.open_stream(self.servers[server].node(), node);
        self.workers[place].links[server].stream = Some(stream);
        self.send_to_server(stream, ToServer::Opened);
    }

    fn worker_message(&mut self, place: usize, server: usize, stream: StreamId, message: ToWorker) {
        match message {
            ToWorker::Greeting { acquired, epochs } => {
                for (shard, epoch) in epochs {
                    self.workers[place].hear(shard, epoch, server);
                }
                self.workers[place].recount();
                self.say_hello(place, server, stream, acquired);
            }
            ToWorker::Assign(assignment) => self.assigned(place, server, assignment),
            ToWorker::Credit(kept) => self.workers[place].credits.kept(server, kept),
            ToWorker::Demand(demand) => {
                let credits = &mut self.workers[place].credits;
                credits.demand(server, demand.jobs);
                credits.demand_of_gang(server, demand.gang);
            }
            ToWorker::Invitation { server } => self.invited(place, server),
            ToWorker::Ack { id, attempt } => {
                let worker = &mut self.workers[place];
                // An acknowledgement of an attempt that still runs is meant for an older outcome.
                if let Some(HeldAttempt::Finished(report)) = worker.held.get(&(id, attempt)) {
                    let is_shrug = agents::is_shrug(report);
                    worker.held.remove(&(id, attempt));
                    if !is_shrug {
                        self.note(Fact::Acked { id, attempt });
                    }
                }
            }
            ToWorker::Cancel { id, attempt } => self.cancel(place, (id, attempt)),
            ToWorker::Stop { id, attempt } => {
                let worker = &mut self.workers[place];
                let held = worker.held.remove(&(id, attempt));
                if matches!(held, Some(HeldAttempt::Running { .. })) {
                    let worker = worker.id;
                    self.note(Fact::End { id, attempt, worker, how: ExecutionEnd::Killed });
                }
            }
        }
    }

    fn say_hello(&mut self, place: usize, server: usize, stream: StreamId, acquired: u64) {
        let forgets = self.has(Planted::HelloForgetsFinished);
        let worker = &mut self.workers[place];
        let is_named = |held: &HeldAttempt| !forgets || held.is_in_use();
        let held = worker.held.iter().filter(|(_, held)| is_named(held)).map(|(key, _)| *key).collect();
        let spec = WorkerSpec {
            namespaces: worker.namespaces.clone(),
            queues: worker.queues.clone(),
            capabilities: vec!["probe".to_owned()],
            labels: BTreeMap::new(),
            credit: worker.credits.open(server, self.now),
        };
        worker.links[server].is_ready = true;
        let (worker, reports) = (worker.id, worker.finished());
        self.send_to_server(stream, ToServer::Hello { worker, acquired, spec, held });
        if !reports.is_empty() {
            self.send_to_server(stream, ToServer::Outcomes { worker, reports });
        }
    }

    fn assigned(&mut self, place: usize, server: usize, assignment: Assignment) {
        let key = (assignment.key.id, assignment.attempt);
        if !self.workers[place].hear(assignment.key.shard(), assignment.epoch, server) {
            self.hit(Window::StaleAssignmentRefused);
            if !self.has(Planted::WorkerIgnoresEpochs) {
                return;
            }
        }
        let worker = &self.workers[place];
        if worker.held.contains_key(&key) {
            return;
        }
        if worker.running() >= worker.slots as usize {
            self.hit(Window::NoFreeSlot);
            self.workers[place].credits.refused(server, 1);
            return self.give_back(place, key, "no free slot");
        }
        if self.rng.percent(3) {
            return self.give_back(place, key, "the worker is about to leave");
        }
        if matches!(self.plan.behavior_of(assignment.task.id), TaskBehavior::Unstartable) {
            return self.give_back(place, key, "its environment cannot be used");
        }
        self.begin(place, &assignment);
    }

    fn give_back(&mut self, place: usize, (id, attempt): Key, reason: &str) {
        let outcome = Outcome::NotStarted { reason: reason.to_owned() };
        let report = Report { id, attempt, outcome, timed_out: false, details: None };
        self.workers[place].held.insert((id, attempt), HeldAttempt::Finished(report.clone()));
        self.report(place, vec![report]);
    }

    fn begin(&mut self, place: usize, assignment: &Assignment) {
        let (id, attempt) = (assignment.key.id, assignment.attempt);
        let start = if self.store.has_start(id, attempt) { StartRecord::Durable } else { StartRecord::Missing };
        let (report, ends_at) = self.draw_execution(assignment);
        let by_agent = self.draw_agent();
        let worker = &mut self.workers[place];
        worker.runs += 1;
        let (run, node, worker_id) = (worker.runs, worker.node(), worker.id);
        worker.held.insert((id, attempt), HeldAttempt::Running { run, report, by_agent });
        self.note(Fact::Begin { id, attempt, worker: worker_id, start });
        self.at(ends_at, Action::Worker(node, WorkerStep::Finish { key: (id, attempt), run }));
    }

    fn cancel(&mut self, place: usize, key: Key) {
        if self.rng.percent(15) {
            return;
        }
        let takes = self.rng.millis(0, 800);
        let worker = &mut self.workers[place];
        let node = worker.node();
        worker.runs += 1;
        let now_run = worker.runs;
        if let Some(HeldAttempt::Running { run, report, .. }) = worker.held.get_mut(&key) {
            *run = now_run;
            report.outcome = Outcome::Cancelled;
            report.timed_out = false;
            self.after(takes, Action::Worker(node, WorkerStep::Finish { key, run: now_run }));
        }
    }

    fn finish(&mut self, place: usize, key: Key, run: u64) {
        let worker = &mut self.workers[place];
        let (report, by_agent) = match worker.held.get(&key) {
            Some(HeldAttempt::Running { run: current, report, by_agent }) if *current == run => {
                (report.clone(), *by_agent)
            }
            _ => return,
        };
        let held = if by_agent { HeldAttempt::ReportedByAgent } else { HeldAttempt::Finished };
        worker.held.insert(key, held(report.clone()));
        let Report { outcome, timed_out, details, .. } = report.clone();
        let how = ExecutionEnd::Reported { outcome, timed_out, details };
        let worker = worker.id;
        self.note(Fact::End { id: key.0, attempt: key.1, worker, how });
        if by_agent {
            self.agent_tells(place, &report);
        } else {
            self.report(place, vec![report]);
        }
    }

    fn agents_tell_again(&mut self, place: usize) {
        let told = |held: &HeldAttempt| match held {
            HeldAttempt::ReportedByAgent(report) => Some(report.clone()),
            HeldAttempt::Running { .. } | HeldAttempt::Finished(_) => None,
        };
        let told: Vec<Report> = self.workers[place].held.values().filter_map(told).collect();
        for report in told {
            self.agent_tells(place, &report);
        }
    }

    /// Tells every server; the one that owns the shard answers.
    pub(crate) fn report(&mut self, place: usize, reports: Vec<Report>) {
        if reports.is_empty() {
            return;
        }
        let worker = self.workers[place].id;
        for stream in self.ready_streams(place) {
            self.send_to_server(stream, ToServer::Outcomes { worker, reports: reports.clone() });
        }
    }

    fn ready_streams(&self, place: usize) -> Vec<StreamId> {
        let ready = |link: &Link| link.stream.filter(|_| link.is_ready);
        self.workers[place].links.iter().filter_map(ready).collect()
    }

    fn beat(&mut self, place: usize) {
        let (node, id) = (self.workers[place].node(), self.workers[place].id);
        for server in 0..self.servers.len() {
            let link = &self.workers[place].links[server];
            if link.is_partitioned || !link.is_wanted || (!self.is_calm() && self.rng.percent(5)) {
                continue;
            }
            let to = self.servers[server].node();
            let copies = if self.rng.percent(5) { 2 } else { 1 };
            for _ in 0..copies {
                let is_late = !self.is_calm() && self.rng.percent(5);
                let delay = if is_late { self.rng.millis(100, 10_000) } else { self.rng.millis(0, 100) };
                self.after(delay, Action::Server(to, ServerStep::Heartbeat { worker: id }));
            }
        }
        self.after(BEAT_EVERY, Action::Worker(node, WorkerStep::Beat));
    }
}
