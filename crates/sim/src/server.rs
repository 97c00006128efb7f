//! A server process: it drives an owner the way the engine does. Leases, loads,
//! batches in lanes that are answered independently, and what the owner wants to be sent.
//!
//! Never looks at the store except through calls that take time, and can be
//! crashed, paused or cut off between any two steps.

mod effects;
mod owning;
mod worker_messages;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_core::schedule::ScheduleCommand;
use punctual_core::shard::event::{
    Adopted, Command, Event, Found, Load, Loaded, LoadedSchedule, Released, Report, ScheduleLoad, StreamId,
    TakenSchedules, Token, Watch,
};
use punctual_core::shard::write::{BatchSeq, Epoch, StartsId, Void};
use punctual_core::shard::{Ask, Config, Owner, WorkersWanted};
use punctual_core::task::Task;
use punctual_core::workflow::RunEvent;
use punctual_core::{
    AttemptNo, JobId, JobKey, RunId, ScheduleId, ServerId, ShardId, Span, TaskId, Timestamp, WorkerId,
};
use punctual_store::Owned;

use crate::conductor::Conductor;
use crate::coverage::Window;
use crate::few_links::WORKERS_EVERY;
use crate::history::Fact;
use crate::net::{ToServer, ToWorker};
use crate::options::Planted;
use crate::plan::{CLOCK_LAG_MAX_MS, RENEW_EVERY_MS, START};
use crate::queues::QueueSnapshot;
use crate::runs::ADVANCE_EVERY;
use crate::simulation::{Action, Health, Node, Simulation};

/// A job that starts later than this is told to be late.
const LATE_AFTER: Span = Span::from_secs(5);

pub(crate) struct Server {
    pub(crate) place: usize,
    pub(crate) id: ServerId,
    pub(crate) life: u64,
    pub(crate) health: Health,
    pub(crate) owner: Owner,
    /// What arrived while it was paused.
    pub(crate) frozen: Vec<ServerStep>,
    /// How far its idea of the store's clock is behind.
    lag: Span,
    pump_at: Option<Timestamp>,
    is_leasing: bool,
    pub(crate) take_over: BTreeSet<ShardId>,
    streams: BTreeMap<WorkerId, StreamId>,
    credits: BTreeMap<WorkerId, u32>,
    adopted: BTreeSet<(JobId, AttemptNo)>,
    assigned: BTreeMap<WorkerId, Vec<ToWorker>>,
    pub(crate) lanes: Vec<StoreLane>,
    /// It stops acting after this, unless its lease is renewed before.
    acts_until: Timestamp,
    /// When the lease was asked for that is under way.
    lease_asked_at: Timestamp,
    /// The shard that it is about to give up, and when at the latest.
    retiring: Option<(Owned, Timestamp)>,
    /// The newest batch that was answered.
    answered: BatchSeq,
    /// Batches that the store has taken and not answered.
    pub(crate) unanswered: u32,
    /// The queues that the owner was told of last.
    pub(crate) queues_version: Option<(u64, u64)>,
    pub(crate) calendar_changes_seen: u64,
    /// How often the owner is still to be told.
    pub(crate) calendar_tellings: u8,
    pub(crate) conductor: Conductor,
}

/// One of the connections that batches go through.
#[derive(Clone)]
pub(crate) struct StoreLane {
    pub(crate) connection: u64,
    /// The connection that broke last.
    pub(crate) cut_connection: Option<u64>,
    applied_at: Timestamp,
    pub(crate) answered_at: Timestamp,
}

pub(crate) enum ServerStep {
    Pump {
        planned: Timestamp,
    },
    RenewLeases,
    /// Looks whether jobs lack workers.
    RequestWorkers,
    /// Another server lacks workers.
    WorkersWanted {
        by: usize,
        wanted: WorkersWanted,
    },
    Leased {
        kept: Vec<Owned>,
        taken: Vec<Adoption>,
    },
    BatchAnswer {
        seq: BatchSeq,
        lane: usize,
        written: BatchAnswer,
    },
    /// A shard is to be given up.
    Retire(ShardId),
    GivenUp(Owned),
    Paged {
        load: Load,
        jobs: Vec<Loaded>,
        stopped_at: Option<JobKey>,
    },
    Found {
        token: Token,
        id: JobId,
        found: Found,
    },
    SchedulesRead {
        load: ScheduleLoad,
        rows: Vec<LoadedSchedule>,
        next: Option<ScheduleId>,
        calendars: u32,
    },
    /// Looks at runs of workflows whose time has come.
    AdvanceRuns,
    /// A run has ended whose job is to hear of it.
    RunOfJobEnded(RunId),
    ChangeRun {
        run: RunId,
        event: RunEvent,
    },
    Schedule {
        token: Token,
        id: ScheduleId,
        command: ScheduleCommand,
    },
    Hinted(Vec<Loaded>),
    Replanned {
        rows: Vec<LoadedSchedule>,
        calendars: u32,
    },
    TaskChanged(Arc<Task>),
    QueuesRead(QueueSnapshot),
    Watch(Watch),
    Message {
        stream: StreamId,
        message: ToServer,
    },
    Broken {
        stream: StreamId,
    },
    Heartbeat {
        worker: WorkerId,
    },
    AgentReported {
        agent: Node,
        report: Report,
    },
    Command {
        token: Token,
        id: JobId,
        command: Command,
    },
}

pub(crate) enum BatchAnswer {
    Done { void: Void, released: Released },
    Fenced(Vec<ShardId>),
    Unknown,
}

pub(crate) struct Adoption {
    pub(crate) owned: Owned,
    pub(crate) running: Vec<Adopted>,
    pub(crate) spent: Vec<StartsId>,
    pub(crate) whole_since: Epoch,
    pub(crate) schedules: TakenSchedules,
    pub(crate) queues: QueueSnapshot,
}

impl Server {
    pub(crate) fn down(place: usize) -> Self {
        let id = ServerId::new(START, place as u64);
        Self {
            place,
            id,
            life: 0,
            health: Health::Down,
            owner: Owner::new(id, Config::default(), 0),
            frozen: Vec::new(),
            lag: Span::ZERO,
            pump_at: None,
            is_leasing: false,
            take_over: BTreeSet::new(),
            streams: BTreeMap::new(),
            credits: BTreeMap::new(),
            adopted: BTreeSet::new(),
            assigned: BTreeMap::new(),
            lanes: Vec::new(),
            acts_until: START,
            lease_asked_at: START,
            retiring: None,
            answered: BatchSeq(0),
            unanswered: 0,
            queues_version: None,
            calendar_changes_seen: 0,
            calendar_tellings: 0,
            conductor: Conductor::default(),
        }
    }

    pub(crate) fn node(&self) -> Node {
        Node { place: self.place, life: self.life }
    }

    /// The most that a worker ever granted: what was started may be sent after it took some back.
    pub(crate) fn granted(&mut self, worker: WorkerId, credit: u32) {
        let most = self.credits.entry(worker).or_default();
        *most = credit.max(*most);
    }
}

impl Simulation {
    pub(crate) fn boot_server(&mut self, place: usize) {
        let id = ServerId::new(self.now, self.rng.next());
        let owner = Owner::new(id, self.plan.config.clone(), self.rng.next());
        let lag = self.rng.millis(0, CLOCK_LAG_MAX_MS);
        let life = self.servers[place].life + 1;
        let lane = StoreLane { connection: 0, cut_connection: None, applied_at: START, answered_at: START };
        let lanes = vec![lane; self.plan.config.lanes];
        self.servers[place] = Server {
            id,
            life,
            health: Health::Up,
            owner,
            lag,
            lanes,
            calendar_changes_seen: self.store.calendar_changes(),
            ..Server::down(place)
        };
        let node = self.servers[place].node();
        self.after(Span::ZERO, Action::Server(node, ServerStep::RenewLeases));
        if self.plan.runs > 0 {
            self.after(ADVANCE_EVERY, Action::Server(node, ServerStep::AdvanceRuns));
        }
        if self.are_queues_changed {
            self.look_at_queues_later(place);
        }
        if self.plan.links_max < self.servers.len() {
            self.after(WORKERS_EVERY, Action::Server(node, ServerStep::RequestWorkers));
        }
    }

    pub(crate) fn server_now(&self, place: usize) -> Timestamp {
        if self.has(Planted::ClockAhead) {
            return self.now + Span::from_millis(60);
        }
        self.now - self.servers[place].lag
    }

    pub(crate) fn server_step(&mut self, node: Node, step: ServerStep) {
        if !self.is_server_alive(node) {
            return;
        }
        if self.servers[node.place].health == Health::Paused {
            self.servers[node.place].frozen.push(step);
            return;
        }
        let place = node.place;
        let now = self.server_now(place);
        match step {
            ServerStep::Pump { planned } => {
                if self.servers[place].pump_at == Some(planned) {
                    self.pump(place);
                }
                return;
            }
            ServerStep::RenewLeases => {
                self.after(Span::from_millis(RENEW_EVERY_MS), Action::Server(node, ServerStep::RenewLeases));
                self.lease(place);
                self.refresh_tasks(place);
                self.look_what_to_watch(place);
                self.look_at_calendars(place);
                return;
            }
            ServerStep::RequestWorkers => {
                self.request_workers(place);
                return;
            }
            ServerStep::AdvanceRuns => {
                self.advance_runs(place);
                if self.flows.is_empty() {
                    return;
                }
                self.conduct(place);
            }
            ServerStep::RunOfJobEnded(run) => self.run_of_job_ended(place, run),
            ServerStep::ChangeRun { run, event } => {
                self.change_run(place, run, event);
                return;
            }
            ServerStep::WorkersWanted { by, wanted } => {
                self.workers_wanted(place, by, &wanted);
                return;
            }
            ServerStep::Leased { kept, taken } => self.leased(place, &kept, taken),
            ServerStep::BatchAnswer { seq, lane, written } => self.written(place, seq, lane, written),
            ServerStep::Retire(shard) => self.retire(place, shard),
            ServerStep::GivenUp(Owned { shard, epoch }) => {
                let server = &mut self.servers[place];
                if server.owner.owned_shards().contains(&(shard, epoch)) {
                    server.owner.handle(Event::Released { shard }, now);
                }
            }
            ServerStep::Paged { load, jobs, stopped_at } => {
                if self.is_outdated(&jobs) {
                    self.hit(Window::StaleRead);
                }
                self.servers[place].owner.handle(Event::Page { load, jobs, stopped_at }, now);
            }
            ServerStep::Found { token, id, found } => {
                self.servers[place].owner.handle(Event::Found { token, id, found }, now);
            }
            ServerStep::SchedulesRead { load, rows, next, calendars } => {
                self.servers[place].owner.handle(Event::Schedules { load, rows, next, calendars }, now);
            }
            ServerStep::Schedule { token, id, command } => {
                let made = self.made(id, &command);
                let who = "client".to_owned();
                let ask = Ask::Schedule { id, command, who };
                self.servers[place].owner.handle(Event::Ask { token, ask, made }, now);
            }
            ServerStep::TaskChanged(task) => self.servers[place].owner.handle(Event::TaskChanged { task }, now),
            ServerStep::Replanned { rows, calendars } => {
                self.servers[place].owner.handle(Event::Replanned { rows, calendars }, now);
            }
            ServerStep::QueuesRead(snapshot) => {
                self.queues_read(place, snapshot);
                // Without a draw, so that nothing else of the seed changes.
                self.pump_by(place, self.now);
                return;
            }
            ServerStep::Watch(watch) => self.servers[place].owner.handle(Event::Watch(watch), now),
            ServerStep::Hinted(jobs) => self.servers[place].owner.handle(Event::Submitted { jobs }, now),
            ServerStep::Message { stream, message } => self.server_message(place, stream, message),
            ServerStep::Broken { stream } => {
                let gone = self.servers[place].streams.iter().find(|(_, open)| **open == stream);
                if let Some(worker) = gone.map(|(worker, _)| *worker) {
                    self.hang_up(place, worker);
                }
            }
            ServerStep::Heartbeat { worker } => {
                self.servers[place].owner.handle(Event::WorkersAlive { workers: vec![worker] }, now);
            }
            ServerStep::AgentReported { agent, report } => self.agent_reported(place, agent, report),
            ServerStep::Command { token, id, command } => {
                let ask = Ask::Job { id, command };
                self.servers[place].owner.handle(Event::Ask { token, ask, made: None }, now);
            }
        }
        self.flush(place);
        let soon = self.now + Span::from_micros(self.rng.range(0, 500));
        self.pump_by(place, soon);
    }

    /// The file of a task has arrived. Its servers are told; one that is not looks for itself.
    pub(crate) fn arrive(&mut self, id: TaskId) {
        let is_awaited = self.store.hot().iter().any(|job| job.task == id && job.key.due_at <= self.now);
        if is_awaited {
            self.hit(Window::ArrivalAwaited);
        }
        let task = self.store.arrive(id);
        self.note(Fact::Arrived { task: id });
        for place in 0..self.servers.len() {
            if self.rng.percent(self.plan.hints.lost_percent) {
                continue;
            }
            let delay = self.rng.millis(0, self.plan.message_ms_max);
            let node = self.servers[place].node();
            self.after(delay, Action::Server(node, ServerStep::TaskChanged(Arc::clone(&task))));
        }
    }

    /// Reads again what waits for its file.
    fn refresh_tasks(&mut self, place: usize) {
        let node = self.servers[place].node();
        for (id, revision) in self.servers[place].owner.tasks_that_wait() {
            let task = Arc::clone(self.store.task(id));
            if task.revision > revision {
                let delay = self.store_delay();
                self.after(delay, Action::Server(node, ServerStep::TaskChanged(task)));
            }
        }
    }

    /// What is to be noticed, as the store has it now.
    fn look_what_to_watch(&mut self, place: usize) {
        let watch = Watch { ailing: self.store.ailing(), late_after: vec![LATE_AFTER] };
        let (node, delay) = (self.servers[place].node(), self.store_delay());
        self.after(delay, Action::Server(node, ServerStep::Watch(watch)));
    }

    fn pump_by(&mut self, place: usize, planned: Timestamp) {
        let server = &mut self.servers[place];
        if server.pump_at.is_none_or(|at| at > planned) {
            server.pump_at = Some(planned);
            let node = server.node();
            self.at(planned, Action::Server(node, ServerStep::Pump { planned }));
        }
    }

    fn pump(&mut self, place: usize) {
        let now = self.server_now(place);
        self.servers[place].pump_at = None;
        if self.is_suspended(place) {
            self.hit(Window::SelfFenced);
            return;
        }
        let server = &mut self.servers[place];
        server.owner.tick(now);
        let counts = server.owner.counts();
        if (counts.waiting + counts.ready) as usize >= self.plan.config.window_max {
            self.hit(Window::FullWindow);
        }
        self.flush(place);
        self.send_batches(place);
        self.give_up_if_quiet(place);
        let wake = self.servers[place].owner.next_wake() + self.servers[place].lag;
        self.pump_by(place, wake.max(self.now + Span::from_micros(1)));
    }
}
