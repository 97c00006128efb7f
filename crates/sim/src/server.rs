//! A server process: it drives an owner the way the engine does. Leases, loads,
//! batches of at most two in flight, and what the owner wants to be sent.
//!
//! Never looks at the store except through calls that take time, and can be
//! crashed, paused or cut off between any two steps.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::shard::event::{Adopted, Command, Event, Found, Load, Loaded, Send, StreamId, Token};
use punctual_core::shard::write::StartsId;
use punctual_core::shard::{Config, Owner};
use punctual_core::{AttemptNo, JobId, ServerId, ShardId, Span, Timestamp, WorkerId};
use punctual_store::Owned;

use crate::client::ClientStep;
use crate::coverage::Window;
use crate::history::Fact;
use crate::net::{ToServer, ToWorker};
use crate::options::Planted;
use crate::plan::{CLOCK_LAG_MAX_MS, RENEW_EVERY_MS, START};
use crate::storage::StoreCall;
use crate::world::{Action, Health, Node, World};

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
    /// Shards taken so far. A hello must answer a greeting that knows them all.
    acquired: u64,
    streams: BTreeMap<WorkerId, StreamId>,
    credits: BTreeMap<WorkerId, u32>,
    adopted: BTreeSet<(JobId, AttemptNo)>,
    assigned: BTreeMap<WorkerId, Vec<ToWorker>>,
    connection: u64,
    /// The connection to the store that broke last.
    pub(crate) cut_connection: Option<u64>,
    applied_at: Timestamp,
    pub(crate) answered_at: Timestamp,
    /// Batches that the store has taken and not answered.
    pub(crate) unanswered: u32,
}

pub(crate) enum ServerStep {
    Pump { planned: Timestamp },
    RenewLeases,
    Leased { kept: Vec<Owned>, taken: Vec<Adoption> },
    Written(Written),
    Paged { load: Load, jobs: Vec<Loaded> },
    Found { token: Token, id: JobId, found: Found },
    Hinted(Vec<Loaded>),
    Message { stream: StreamId, message: ToServer },
    Broken { stream: StreamId },
    Heartbeat { worker: WorkerId },
    Command { token: Token, id: JobId, command: Command },
}

pub(crate) enum Written {
    Done { void: Vec<JobId> },
    Fenced(Vec<ShardId>),
    Unknown,
}

pub(crate) struct Adoption {
    pub(crate) owned: Owned,
    pub(crate) running: Vec<Adopted>,
    pub(crate) spent: Vec<StartsId>,
}

/// More would only make the pipeline longer, not the store faster.
const BATCHES_IN_FLIGHT_MAX: usize = 2;

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
            acquired: 0,
            streams: BTreeMap::new(),
            credits: BTreeMap::new(),
            adopted: BTreeSet::new(),
            assigned: BTreeMap::new(),
            connection: 0,
            cut_connection: None,
            applied_at: START,
            answered_at: START,
            unanswered: 0,
        }
    }

    pub(crate) fn node(&self) -> Node {
        Node { place: self.place, life: self.life }
    }
}

impl World {
    pub(crate) fn boot_server(&mut self, place: usize) {
        let id = ServerId::new(self.now, self.rng.next());
        let owner = Owner::new(id, self.plan.config.clone(), self.rng.next());
        let lag = self.rng.millis(0, CLOCK_LAG_MAX_MS);
        let life = self.servers[place].life + 1;
        self.servers[place] = Server { id, life, health: Health::Up, owner, lag, ..Server::down(place) };
        let node = self.servers[place].node();
        self.after(Span::ZERO, Action::Server(node, ServerStep::RenewLeases));
    }

    fn server_now(&self, place: usize) -> Timestamp {
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
                return;
            }
            ServerStep::Leased { kept, taken } => self.leased(place, &kept, taken),
            ServerStep::Written(written) => self.written(place, written),
            ServerStep::Paged { load, jobs } => {
                if self.is_outdated(&jobs) {
                    self.hit(Window::StaleRead);
                }
                self.servers[place].owner.handle(Event::Page { load, jobs }, now);
            }
            ServerStep::Found { token, id, found } => {
                self.servers[place].owner.handle(Event::Found { token, id, found }, now);
            }
            ServerStep::Hinted(jobs) => self.servers[place].owner.handle(Event::Submitted { jobs }, now),
            ServerStep::Message { stream, message } => self.server_message(place, stream, message),
            ServerStep::Broken { stream } => {
                let gone = self.servers[place].streams.iter().find(|(_, open)| **open == stream);
                if let Some(worker) = gone.map(|(worker, _)| *worker) {
                    self.hang_up(place, worker);
                }
            }
            ServerStep::Heartbeat { worker } => {
                self.servers[place].owner.handle(Event::WorkerAlive { worker }, now);
            }
            ServerStep::Command { token, id, command } => {
                self.servers[place].owner.handle(Event::Command { token, id, command }, now);
            }
        }
        self.flush(place);
        let soon = self.now + Span::from_micros(self.rng.range(0, 500));
        self.pump_by(place, soon);
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
        let server = &mut self.servers[place];
        server.pump_at = None;
        server.owner.tick(now);
        let counts = server.owner.counts();
        if (counts.waiting + counts.ready) as usize >= self.plan.config.window_max {
            self.hit(Window::FullWindow);
        }
        self.flush(place);
        self.send_batches(place);
        let wake = self.servers[place].owner.next_wake() + self.servers[place].lag;
        self.pump_by(place, wake.max(self.now + Span::from_micros(1)));
    }

    fn send_batches(&mut self, place: usize) {
        let now = self.server_now(place);
        while self.servers[place].owner.batches_in_flight() < BATCHES_IN_FLIGHT_MAX {
            let Some(batch) = self.servers[place].owner.take_batch(now) else { return };
            let at = self.now + self.store_delay();
            let server = &mut self.servers[place];
            server.applied_at = server.applied_at.max(at);
            let (at, node, connection) = (server.applied_at, server.node(), server.connection);
            self.at(at, Action::Store(node, StoreCall::Apply { batch, connection }));
        }
    }

    fn written(&mut self, place: usize, written: Written) {
        let now = self.server_now(place);
        let server = &mut self.servers[place];
        server.unanswered -= 1;
        match written {
            Written::Done { void } => server.owner.committed(&void, now),
            Written::Fenced(shards) => server.owner.fenced(&shards, now),
            Written::Unknown => {
                let shards = server.owner.unknown(now);
                server.take_over.extend(shards);
                server.connection += 1;
                self.lease(place);
            }
        }
    }

    /// One call about leases at a time, so that answers cannot overtake each other.
    pub(crate) fn lease(&mut self, place: usize) {
        let server = &mut self.servers[place];
        if server.is_leasing {
            return;
        }
        server.is_leasing = true;
        let take_over = std::mem::take(&mut server.take_over).into_iter().collect();
        let node = server.node();
        let delay = self.store_delay();
        self.after(delay, Action::Store(node, StoreCall::Lease { take_over }));
    }

    fn leased(&mut self, place: usize, kept: &[Owned], taken: Vec<Adoption>) {
        let lag = self.rng.millis(0, CLOCK_LAG_MAX_MS);
        self.servers[place].lag = lag;
        let now = self.server_now(place);
        self.servers[place].is_leasing = false;
        for (shard, epoch) in self.servers[place].owner.owned_shards() {
            if !kept.contains(&Owned { shard, epoch }) {
                self.hit(Window::ShardLeft);
                self.servers[place].owner.handle(Event::Released { shard }, now);
            }
        }
        for Adoption { owned: Owned { shard, epoch }, running, spent } in taken {
            let server = &mut self.servers[place];
            server.acquired += 1;
            for adopted in &running {
                server.adopted.insert((adopted.start.start.key.id, adopted.start.start.attempt));
                self.seen.hit(Window::StartAdopted);
            }
            server.owner.handle(Event::Acquired { shard, epoch, running, spent }, now);
        }
        if !self.servers[place].take_over.is_empty() {
            self.lease(place);
        }
    }

    fn server_message(&mut self, place: usize, stream: StreamId, message: ToServer) {
        if self.net.is_broken(stream) {
            return;
        }
        let now = self.server_now(place);
        let server = &mut self.servers[place];
        match message {
            ToServer::Opened => {
                let greeting = ToWorker::Greeting { acquired: server.acquired, epochs: server.owner.owned_shards() };
                self.send_to_worker(stream, greeting);
            }
            ToServer::Hello { acquired, .. } if acquired != server.acquired => {
                self.hit(Window::HelloOutdated);
                self.break_stream(stream);
            }
            ToServer::Hello { worker, spec, held, .. } => {
                let adopted = held.iter().filter(|attempt| server.adopted.contains(attempt)).count();
                server.credits.insert(worker, spec.credit);
                let before = server.streams.insert(worker, stream);
                server.owner.handle(Event::WorkerHello { worker, stream, spec, held }, now);
                for _ in 0..adopted {
                    self.hit(Window::AdoptedStartHeld);
                }
                if let Some(before) = before {
                    self.break_stream(before);
                }
                if self.has(Planted::AssignedAgain) {
                    for again in self.servers[place].assigned.remove(&worker).unwrap_or_default() {
                        self.send_to_worker(stream, again);
                    }
                }
            }
            ToServer::Outcomes { worker, reports } if server.streams.get(&worker) == Some(&stream) => {
                server.owner.handle(Event::Outcomes { worker, reports }, now);
            }
            ToServer::Credit { worker, credit } => {
                server.owner.handle(Event::WorkerCredit { worker, stream, credit }, now);
            }
            ToServer::Outcomes { .. } => {}
        }
    }

    fn hang_up(&mut self, place: usize, worker: WorkerId) {
        let now = self.server_now(place);
        let server = &mut self.servers[place];
        let Some(stream) = server.streams.remove(&worker) else { return };
        server.owner.handle(Event::WorkerDisconnected { worker, stream }, now);
        self.break_stream(stream);
    }

    /// Does what the owner decided. Taken after every call of the owner, so that an
    /// assignment goes out under the epoch that it was started under.
    fn flush(&mut self, place: usize) {
        loop {
            let effects = self.servers[place].owner.take_effects();
            if effects.is_empty() {
                return;
            }
            let node = self.servers[place].node();
            for load in effects.loads {
                let delay = self.store_delay();
                self.after(delay, Action::Store(node, StoreCall::Load(load)));
            }
            for (token, id) in effects.lookups {
                let delay = self.store_delay();
                self.after(delay, Action::Store(node, StoreCall::Find { token, id }));
            }
            for (worker, stream, send) in effects.sends {
                self.send(place, worker, stream, send);
            }
            for (token, reply) in effects.replies {
                let delay = self.rng.millis(0, self.plan.message_ms_max);
                self.after(delay, Action::Client(ClientStep::Answered { token, reply }));
            }
            for worker in effects.disconnects {
                self.hang_up(place, worker);
            }
        }
    }

    fn send(&mut self, place: usize, worker: WorkerId, stream: StreamId, send: Send) {
        let message = match send {
            Send::Assign(assignment) => {
                self.check_credit(place, worker);
                let shard = assignment.key.shard();
                let owned = self.servers[place].owner.owned_shards().into_iter().find(|(id, _)| *id == shard);
                let Some((_, epoch)) = owned else { return };
                let message = ToWorker::Assign { assignment, epoch };
                if self.has(Planted::AssignedAgain) {
                    self.servers[place].assigned.entry(worker).or_default().push(message.clone());
                }
                message
            }
            Send::Ack { id, attempt } => ToWorker::Ack { id, attempt },
            Send::Cancel { id, attempt } => ToWorker::Cancel { id, attempt },
            Send::Stop { id, attempt } => ToWorker::Stop { id, attempt },
        };
        self.send_to_worker(stream, message);
    }

    /// What this server itself started on a worker never exceeds what it was granted.
    fn check_credit(&mut self, place: usize, worker: WorkerId) {
        let server = &self.servers[place];
        let started = |view: &&punctual_core::shard::LiveView| {
            view.worker == worker && !server.adopted.contains(&(view.key.id, view.attempt))
        };
        let running = server.owner.all_running().iter().filter(started).count();
        let credit = server.credits.get(&worker).copied().unwrap_or(0);
        if running > credit as usize {
            self.note(Fact::OverCredit { worker, running, credit });
        }
    }
}
