//! Breaks things for a while, and then mends all of them.

use punctual_core::{ShardId, Span};
use punctual_store::Owned;

use crate::coverage::Window;
use crate::history::{ExecutionEnd, Fact};
use crate::plan::FaultKind;
use crate::server::ServerStep;
use crate::simulation::{Action, Health, Node, Simulation};
use crate::storage::StoreCall;

pub(crate) enum Fault {
    Strike(FaultKind),
    ResumeServer(Node),
    RestartServer {
        place: usize,
    },
    ResumeWorker(Node),
    RestartWorker {
        place: usize,
    },
    Mend {
        worker: usize,
        server: usize,
    },
    /// From here on what is committed will be lost.
    StopReplication,
    LoseCommits,
    Heal,
}

impl Simulation {
    pub(crate) fn plan_faults(&mut self) {
        let chaos = self.plan.chaos;
        for (kind, mean) in self.plan.faults.clone() {
            let mut at = self.now;
            loop {
                at = at + self.rng.millis(0, mean.as_micros() / 500);
                if at >= self.now + chaos {
                    break;
                }
                self.at(at, Action::Nemesis(Fault::Strike(kind)));
            }
        }
        self.after(chaos, Action::Nemesis(Fault::Heal));
        self.after(Span::ZERO, Action::Audit);
    }

    pub(crate) fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::Strike(kind) => self.strike_kind(kind),
            Fault::ResumeServer(node) => self.resume_server(node),
            Fault::RestartServer { place } => {
                if self.servers[place].health == Health::Down {
                    self.boot_server(place);
                }
            }
            Fault::ResumeWorker(node) => self.resume_worker(node),
            Fault::RestartWorker { place } => {
                if self.workers[place].health == Health::Down {
                    let spool = if self.rng.percent(60) { self.workers[place].spool() } else { Vec::new() };
                    if !spool.is_empty() {
                        self.hit(Window::SpoolReplayed);
                    }
                    self.boot_worker(place, spool);
                }
            }
            Fault::Mend { worker, server } => self.workers[worker].links[server].is_partitioned = false,
            Fault::StopReplication => self.left_behind = Some(self.store.snapshot()),
            Fault::LoseCommits => self.lose_commits(),
            Fault::Heal => self.heal(),
        }
    }

    pub(crate) fn plan_loss(&mut self) {
        let chaos_ms = self.plan.chaos.as_micros() / 1_000;
        let from = self.rng.millis(chaos_ms / 5, chaos_ms * 4 / 5);
        let lasts = self.rng.millis(100, 6_000);
        let from = self.now + from;
        self.at(from, Action::Nemesis(Fault::StopReplication));
        self.at(from + lasts, Action::Nemesis(Fault::LoseCommits));
    }

    /// The standby takes over. Whoever asks has to connect anew, and nobody owns a shard.
    fn lose_commits(&mut self) {
        let Some(snapshot) = self.left_behind.take() else { return };
        let servers = self.servers.iter().map(|server| server.id).collect();
        self.store.go_back_to(snapshot, servers);
        let open = self.store.all_open_starts(self.plan.shards);
        self.note(Fact::WentBack { open });
    }

    fn strike_kind(&mut self, kind: FaultKind) {
        let server = self.rng.below(self.servers.len());
        let worker = self.rng.below(self.workers.len());
        match kind {
            FaultKind::ServerCrash => self.crash_server(server),
            FaultKind::ServerPause => self.pause_server(server),
            FaultKind::ServerLeaves => self.dismiss_server(server),
            FaultKind::Steal => self.steal(server),
            FaultKind::Rebalance => self.rebalance(server),
            FaultKind::WorkerCrash => self.crash_worker(worker),
            FaultKind::WorkerPause => self.pause_worker(worker),
            FaultKind::LinkCut => {
                let open = self.net.open();
                if !open.is_empty() {
                    let (stream, server, worker) = *self.rng.pick(&open);
                    self.note(Fact::Fault(format!("cut worker {worker} from server {server}")));
                    self.break_stream(stream);
                }
            }
            FaultKind::Partition => self.partition(worker, server),
        }
    }

    /// Crashes or stops a server between the store's decision and its answer.
    pub(crate) fn maybe_strike_at_commit(&mut self, node: Node) {
        if self.is_calm() || !self.rng.per_mille(self.plan.struck_at_commit_per_mille) {
            return;
        }
        if self.rng.percent(60) {
            self.crash_server(node.place);
        } else {
            self.pause_server(node.place);
        }
    }

    fn crash_server(&mut self, place: usize) {
        if self.servers[place].health == Health::Down {
            return;
        }
        self.note(Fact::Fault(format!("crash server {place}")));
        if self.servers[place].unanswered > 0 {
            self.hit(Window::CrashBetweenApplyAndAnswer);
        }
        self.end_server(place);
    }

    fn end_server(&mut self, place: usize) {
        self.servers[place].health = Health::Down;
        for (stream, server, _) in self.net.open() {
            if server == place {
                self.break_stream(stream);
            }
        }
        let delay = self.rng.millis(200, 20_000);
        self.after(delay, Action::Nemesis(Fault::RestartServer { place }));
    }

    /// Lets a server give up its shards and shut down.
    fn dismiss_server(&mut self, place: usize) {
        if self.servers[place].health != Health::Up {
            return;
        }
        self.note(Fact::Fault(format!("server {place} leaves")));
        let (node, id) = (self.servers[place].node(), self.servers[place].id);
        let delay = self.store_delay();
        self.after(delay, Action::Store(node, StoreCall::Release(id)));
        self.end_server(place);
    }

    fn pause_server(&mut self, place: usize) {
        if self.servers[place].health != Health::Up {
            return;
        }
        self.servers[place].health = Health::Paused;
        let lasts = if self.rng.percent(50) { self.rng.millis(500, 5_000) } else { self.rng.millis(10_000, 40_000) };
        self.note(Fact::Fault(format!("pause server {place} for {lasts}")));
        let node = self.servers[place].node();
        self.after(lasts, Action::Nemesis(Fault::ResumeServer(node)));
    }

    fn resume_server(&mut self, node: Node) {
        let server = &mut self.servers[node.place];
        if server.life != node.life || server.health != Health::Paused {
            return;
        }
        server.health = Health::Up;
        let frozen = std::mem::take(&mut server.frozen);
        let owned = server.owner.owned_shards();
        let is_zombie = |&(shard, epoch): &(ShardId, _)| self.store.epoch(shard) != Some(Owned { shard, epoch });
        if owned.iter().any(is_zombie) {
            self.hit(Window::ZombieWoke);
        }
        for (delay, step) in (0..).zip(frozen) {
            self.after(Span::from_micros(delay), Action::Server(node, step));
        }
    }

    fn steal(&mut self, place: usize) {
        if self.servers.len() < 2 || self.servers[place].health != Health::Up {
            return;
        }
        let shard = ShardId(self.rng.below(usize::from(self.plan.shards)) as u16);
        self.note(Fact::Fault(format!("server {place} steals shard {shard}")));
        self.hit(Window::ShardStolen);
        self.servers[place].take_over.insert(shard);
        self.lease(place);
    }

    fn rebalance(&mut self, place: usize) {
        let shard = ShardId(self.rng.below(usize::from(self.plan.shards)) as u16);
        self.note(Fact::Fault(format!("server {place} retires shard {shard}")));
        let node = self.servers[place].node();
        self.after(Span::ZERO, Action::Server(node, ServerStep::Retire(shard)));
    }

    fn crash_worker(&mut self, place: usize) {
        if self.workers[place].health == Health::Down {
            return;
        }
        self.note(Fact::Fault(format!("crash worker {place}")));
        let worker = self.workers[place].id;
        for (id, attempt) in self.workers[place].running_keys() {
            self.note(Fact::End { id, attempt, worker, how: ExecutionEnd::Killed });
        }
        self.workers[place].health = Health::Down;
        let now = self.now;
        self.workers[place].died.insert(worker, now);
        for (stream, _, of) in self.net.open() {
            if of == place {
                self.break_stream(stream);
            }
        }
        let delay = self.rng.millis(500, 30_000);
        self.after(delay, Action::Nemesis(Fault::RestartWorker { place }));
    }

    fn pause_worker(&mut self, place: usize) {
        if self.workers[place].health != Health::Up {
            return;
        }
        self.workers[place].health = Health::Paused;
        let lasts = self.rng.millis(500, 45_000);
        self.note(Fact::Fault(format!("pause worker {place} for {lasts}")));
        let node = self.workers[place].node();
        self.after(lasts, Action::Nemesis(Fault::ResumeWorker(node)));
    }

    fn resume_worker(&mut self, node: Node) {
        let worker = &mut self.workers[node.place];
        if worker.life != node.life || worker.health != Health::Paused {
            return;
        }
        worker.health = Health::Up;
        for (delay, step) in (0..).zip(std::mem::take(&mut worker.frozen)) {
            self.after(Span::from_micros(delay), Action::Worker(node, step));
        }
    }

    fn partition(&mut self, worker: usize, server: usize) {
        let lasts = self.rng.millis(1_000, 40_000);
        self.note(Fact::Fault(format!("part worker {worker} and server {server} for {lasts}")));
        self.workers[worker].links[server].is_partitioned = true;
        for (stream, of_server, of_worker) in self.net.open() {
            if (of_server, of_worker) == (server, worker) {
                self.break_stream(stream);
            }
        }
        self.after(lasts, Action::Nemesis(Fault::Mend { worker, server }));
    }

    fn heal(&mut self) {
        self.healed_at = Some(self.now);
        self.note(Fact::Healed);
        for place in 0..self.servers.len() {
            let node = self.servers[place].node();
            self.resume_server(node);
            self.strike(Fault::RestartServer { place });
        }
        for place in 0..self.workers.len() {
            let node = self.workers[place].node();
            self.resume_worker(node);
            self.strike(Fault::RestartWorker { place });
            for server in 0..self.servers.len() {
                self.workers[place].links[server].is_partitioned = false;
            }
        }
    }
}
