//! Faults of the network between two kinds of parts.

use std::time::Duration;

use super::Injecting;
use super::arena::{Arena, Most};
use super::measure::Measure;
use crate::history::FaultEvent;
use crate::proxy::{Counts, Flow, Link};

/// After a partition that nobody was given up for.
const RECOVERY: Duration = Duration::from_secs(5);

/// What lies between which parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    /// One worker and all servers.
    Worker,
    /// All workers and the server with the most shards.
    Owner,
    /// The server with the most shards and the database.
    Database,
    /// That server and the other servers.
    Peers,
}

impl Between {
    fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker and servers",
            Self::Owner => "workers and the owner",
            Self::Database => "the owner and the database",
            Self::Peers => "the owner and its peers",
        }
    }
}

impl Arena {
    /// Sets the link; `OPEN` mends it.
    fn link(&self, between: Between, owner: usize, link: Link) {
        let servers = &self.cluster.servers;
        match between {
            Between::Worker => {
                let pid = self.cluster.workers[0].pid();
                servers.iter().filter_map(|server| server.front.as_ref()).for_each(|front| front.set_for(pid, link));
            }
            Between::Owner => {
                for pid in self.cluster.workers.iter().map(|worker| worker.pid()) {
                    servers[owner].front.iter().for_each(|front| front.set_for(pid, link));
                }
            }
            Between::Database => servers[owner].back.iter().for_each(|back| back.set(link)),
            Between::Peers => {
                let owner_pid = servers[owner].pid();
                for server in servers.iter().filter(|server| server.number != servers[owner].number) {
                    if let (Some(front), Some(pid)) = (&server.front, owner_pid) {
                        front.set_for(pid, link);
                    }
                    if let (Some(front), Some(pid)) = (&servers[owner].front, server.pid()) {
                        front.set_for(pid, link);
                    }
                }
            }
        }
    }

    fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        let proxies = self.cluster.servers.iter().flat_map(|server| [&server.front, &server.back]).flatten();
        for counts in proxies.map(|proxy| proxy.counts()) {
            sum.opened += counts.opened;
            sum.cut += counts.cut;
            sum.held += counts.held;
        }
        sum
    }

    /// The worker of the cell cannot be reached, or can again.
    fn worker_reach(&self, between: Between, what: fn(u32) -> FaultEvent) {
        if between == Between::Worker {
            let worker = &self.cluster.workers[0];
            self.record(what(worker.pid()), worker.name(), "");
        }
    }

    async fn cut(&mut self, between: Between, link: Link, lasts: Duration, note: &str) -> anyhow::Result<()> {
        let owner = self.server_by_shards(Most::Shards).await?;
        let before = self.counts();
        let from = self.begin(between.name(), format!("{note} between"));
        self.worker_reach(between, |pid| FaultEvent::WorkerOutOfReach { pid });
        self.link(between, owner, link);
        tokio::time::sleep(lasts).await;
        self.link(between, owner, Link::OPEN);
        self.worker_reach(between, |pid| FaultEvent::WorkerInReach { pid });
        let since = self.end(between.name(), "mended");
        let held = self.counts().held - before.held;
        self.note(format!("{held} bytes were held back for {} s", lasts.as_secs()));
        let within = match between {
            Between::Worker => self.timing.rerun(),
            Between::Database => RECOVERY + self.timing.takeover(),
            Between::Owner | Between::Peers => RECOVERY,
        };
        self.healed(within);
        self.measure(Measure::Recovered { since, limit: within });
        // The shards of an owner without a database are taken by the others meanwhile.
        if between == Between::Database && lasts > self.timing.takeover() {
            let limit = self.timing.takeover() + Duration::from_secs(3);
            self.measure(Measure::Latest { what: "latest begin meanwhile", from, within: lasts, limit });
        }
        tokio::time::sleep(RECOVERY).await;
        Ok(())
    }
}

macro_rules! cuts {
    ($($name:ident: $between:ident $link:ident $lasts:expr, $note:literal;)*) => {
        $(pub(super) fn $name(arena: &mut Arena) -> Injecting<'_> {
            Box::pin(async {
                let lasts: fn(&Arena) -> Duration = $lasts;
                let lasts = lasts(arena);
                arena.cut(Between::$between, Link::$link, lasts, $note).await
            })
        })*
    };
}

/// Longer than a silent worker is waited for.
fn longer_than_a_worker(arena: &Arena) -> Duration {
    arena.timing.dead_after + Duration::from_secs(5)
}

/// Longer than a silent server is waited for.
fn longer_than_a_lease(arena: &Arena) -> Duration {
    arena.timing.lease + Duration::from_secs(5)
}

/// Nobody may be given up yet.
fn shorter_than_a_worker(arena: &Arena) -> Duration {
    arena.timing.dead_after / 2
}

cuts! {
    worker: Worker CUT longer_than_a_worker, "nothing passed";
    worker_requests: Worker NO_REQUESTS longer_than_a_worker, "no requests passed";
    worker_answers: Worker NO_ANSWERS longer_than_a_worker, "no answers passed";
    owner: Owner CUT shorter_than_a_worker, "nothing passed";
    database: Database CUT longer_than_a_lease, "nothing passed";
    database_requests: Database NO_REQUESTS longer_than_a_lease, "no requests passed";
    database_answers: Database NO_ANSWERS longer_than_a_lease, "no answers passed";
    peers: Peers CUT longer_than_a_lease, "nothing passed";
    peers_requests: Peers NO_REQUESTS longer_than_a_lease, "no requests passed";
    peers_answers: Peers NO_ANSWERS longer_than_a_lease, "no answers passed";
}

/// Everything is cut and mended, again and again, faster than anybody is given up.
pub(super) fn flapping(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        let owner = arena.server_by_shards(Most::Shards).await?;
        arena.begin("all links of the owner", "cut and mended every second:");
        for _ in 0..8 {
            for link in [Link::CUT, Link::OPEN] {
                for between in [Between::Owner, Between::Database, Between::Peers] {
                    arena.link(between, owner, link);
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
        let since = arena.end("all links of the owner", "mended");
        arena.healed(RECOVERY);
        arena.measure(Measure::Recovered { since, limit: RECOVERY });
        Ok(())
    })
}

/// Every connection of every kind is reset, again and again.
pub(super) fn resets(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        let before = arena.counts().cut;
        arena.begin("all connections", "reset every 700 ms:");
        // About a lease long.
        for _ in 0..arena.timing.lease.as_millis() / 700 + 1 {
            for server in &arena.cluster.servers {
                server.front.iter().chain(&server.back).for_each(|proxy| proxy.reset_all());
            }
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
        let since = arena.end("all connections", "left alone");
        arena.note(format!("{} connections were reset", arena.counts().cut - before));
        arena.healed(RECOVERY);
        arena.measure(Measure::Recovered { since, limit: RECOVERY });
        Ok(())
    })
}

/// What workers and servers send each other arrives in small pieces.
pub(super) fn drip(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        let flow = Flow::Drip { bytes: 200, pause: Duration::from_millis(5) };
        let from = arena.begin("all that workers and servers say", "dripping:");
        for front in arena.cluster.servers.iter().filter_map(|server| server.front.as_ref()) {
            front.set(Link { there: flow, back: flow, refuses: false });
        }
        let within = Duration::from_secs(12);
        tokio::time::sleep(within).await;
        for front in arena.cluster.servers.iter().filter_map(|server| server.front.as_ref()) {
            front.heal();
        }
        arena.end("all that workers and servers say", "flows");
        arena.healed(RECOVERY);
        arena.measure(Measure::Latest { what: "latest begin meanwhile", from, within, limit: RECOVERY });
        Ok(())
    })
}

/// Nobody can ask a server anything but the clients: no hints, and no word about commands.
pub(super) fn peers_refused(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        let from = arena.begin("servers", "no server could reach another:");
        let pids: Vec<u32> = arena.cluster.servers.iter().filter_map(|server| server.pid()).collect();
        for front in arena.cluster.servers.iter().filter_map(|server| server.front.as_ref()) {
            for pid in &pids {
                front.set_for(*pid, Link { refuses: true, ..Link::OPEN });
            }
            front.cut_of(&pids);
        }
        let within = Duration::from_secs(12);
        tokio::time::sleep(within).await;
        for front in arena.cluster.servers.iter().filter_map(|server| server.front.as_ref()) {
            front.heal();
        }
        arena.end("servers", "reach each other");
        arena.healed(RECOVERY);
        arena.measure(Measure::Latest { what: "latest begin meanwhile", from, within, limit: Duration::from_secs(3) });
        Ok(())
    })
}

impl Arena {
    /// What the cell is about is so from the start.
    async fn leave_alone(&mut self, target: &str, note: &str, limit: Duration) -> anyhow::Result<()> {
        let from = self.begin(target, note);
        let within = Duration::from_secs(12);
        tokio::time::sleep(within).await;
        self.healed(Duration::ZERO);
        self.measure(Measure::Latest { what: "latest begin meanwhile", from, within, limit });
        Ok(())
    }
}

/// The sweeps have to find new jobs: one every second, and one from the floor every ten.
pub(super) fn hints_dropped(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(arena.leave_alone("hints between servers", "dropped:", Duration::from_secs(3)))
}

pub(super) fn hints_repeated(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(arena.leave_alone("hints between servers", "sent twice:", Duration::from_secs(1)))
}

/// What happened before is what the cell is about.
pub(super) fn nothing(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(arena.leave_alone("the cluster", "just started:", Duration::from_secs(1)))
}
