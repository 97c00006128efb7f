//! Faults between hosts: cables and firewalls.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Context;
use tokio::time::Instant;

use super::Injecting;
use super::arena::{Arena, Most};
use super::measure::Measure;
use crate::cluster::{DATABASE, Host};
use crate::history::FaultEvent;

/// How soon after its limit everything that was held up has begun: connections that broke without a word are still found out.
const CATCH_UP: Duration = Duration::from_secs(15);

impl Arena {
    fn host_of_server(&self, place: usize) -> anyhow::Result<Host> {
        self.cluster.servers[place].host.clone().context("servers have hosts in this cell")
    }

    fn servers_but(&self, place: usize) -> Vec<Ipv4Addr> {
        let others = self.cluster.servers.iter().enumerate().filter(|(other, _)| *other != place);
        others.filter_map(|(_, server)| Some(server.host.as_ref()?.address)).collect()
    }

    fn workers(&self) -> Vec<Ipv4Addr> {
        self.cluster.workers.iter().filter_map(|worker| Some(worker.host.as_ref()?.address)).collect()
    }

    fn longer_than_a_lease(&self) -> Duration {
        self.timing.lease + Duration::from_secs(5)
    }

    /// The owner's shards are taken by the others, and it comes back as somebody who knows that.
    async fn lose_owner(&mut self, note: &str, fault: Fault) -> anyhow::Result<()> {
        let place = self.server_by_shards(Most::Shards).await?;
        let (host, name) = (self.host_of_server(place)?, self.cluster.servers[place].name());
        let from = self.begin(name.clone(), note);
        fault.begin(&host)?;
        let lasts = self.longer_than_a_lease();
        tokio::time::sleep(lasts).await;
        fault.end(&host)?;
        let since = self.end(name, "mended");
        let limit = self.timing.takeover() + CATCH_UP;
        self.healed(limit);
        self.measure(Measure::Latest { what: "latest begin meanwhile", from, within: lasts, limit });
        self.measure(Measure::Recovered { since, limit });
        let shared = Instant::now();
        self.cluster.wait_for_shards(self.timing.lease * 2).await?;
        self.note(format!("all shards owned {:.1} s after it was mended", shared.elapsed().as_secs_f64()));
        tokio::time::sleep(limit.saturating_sub(shared.elapsed())).await;
        Ok(())
    }
}

/// What a host does not get any more.
enum Fault {
    Cable,
    From(Vec<Ipv4Addr>),
}

impl Fault {
    fn begin(&self, host: &Host) -> anyhow::Result<()> {
        match self {
            Self::Cable => host.pull_cable(),
            Self::From(others) => host.drop_from(others),
        }
    }

    fn end(&self, host: &Host) -> anyhow::Result<()> {
        match self {
            Self::Cable => host.plug_cable(),
            Self::From(_) => host.drop_nothing(),
        }
    }
}

pub(super) fn server_cable(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(arena.lose_owner("the cable is pulled of", Fault::Cable))
}

pub(super) fn server_database(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(arena.lose_owner("nothing from the database arrives at", Fault::From(vec![DATABASE])))
}

/// What it says still arrives: a lease that it cannot renew, and workers that it cannot hear.
pub(super) fn server_deaf(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        let place = arena.server_by_shards(Most::Shards).await?;
        let mut all = arena.servers_but(place);
        all.extend(arena.workers());
        all.push(DATABASE);
        arena.lose_owner("nothing from any host arrives at", Fault::From(all)).await
    })
}

/// All servers still have the database, so nobody is given up.
pub(super) fn peers(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        let from = arena.begin("servers", "nothing passes between");
        for place in 0..arena.cluster.servers.len() {
            arena.host_of_server(place)?.drop_from(&arena.servers_but(place))?;
        }
        let lasts = arena.longer_than_a_lease();
        tokio::time::sleep(lasts).await;
        for place in 0..arena.cluster.servers.len() {
            arena.host_of_server(place)?.drop_nothing()?;
        }
        let since = arena.end("servers", "reach each other");
        arena.healed(CATCH_UP);
        arena.measure(Measure::Latest { what: "latest begin meanwhile", from, within: lasts, limit: CATCH_UP });
        arena.measure(Measure::Recovered { since, limit: CATCH_UP });
        tokio::time::sleep(CATCH_UP).await;
        Ok(())
    })
}

pub(super) fn worker_cable(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        let worker = &arena.cluster.workers[0];
        let (pid, name) = (worker.pid(), worker.name());
        let host = worker.host.clone().context("workers have hosts in this cell")?;
        let at = arena.record(FaultEvent::WorkerOutOfReach { pid }, name.clone(), "its cable is pulled");
        host.pull_cable()?;
        arena.measure(Measure::Hits { what: format!("pulled the cable of {name}"), at, of: Some(pid) });
        arena.measure(Measure::Again { pid, since: at, limit: arena.timing.rerun() });
        tokio::time::sleep(arena.timing.rerun()).await;
        host.plug_cable()?;
        arena.record(FaultEvent::WorkerInReach { pid }, name, "its cable is plugged in");
        arena.healed(arena.timing.rerun());
        tokio::time::sleep(arena.timing.lease).await;
        arena.cluster.wait_for_workers().await
    })
}
