//! What is done to the servers of a run: killed, stopped and cut off, one after the other and all at once.

use std::time::Duration;

use punctual_core::random::SplitMix64;
use rustix::process::Signal;
use tokio::time::Instant;

use crate::clock::Moment;
use crate::cluster::{Cluster, Process};
use crate::history::{Fault, FaultEvent, Journal};
use crate::proxy::Link;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ServerFault {
    Kill,
    KillTwo,
    /// Nobody is there.
    KillAll,
    /// Shorter than a lease.
    StopBriefly,
    /// Until others have taken over.
    Stop,
    CutFromDatabase,
    CutFromPeers,
    /// Shorter than workers are waited for.
    CutFromWorkers,
}

impl ServerFault {
    /// A short run comes to the first ones.
    pub(super) const ALL: [Self; 8] = [
        Self::Kill,
        Self::CutFromDatabase,
        Self::KillAll,
        Self::Stop,
        Self::CutFromPeers,
        Self::StopBriefly,
        Self::KillTwo,
        Self::CutFromWorkers,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Kill => "server killed",
            Self::KillTwo => "two servers killed",
            Self::KillAll => "all servers killed",
            Self::StopBriefly => "server stopped briefly",
            Self::Stop => "server stopped until others took over",
            Self::CutFromDatabase => "server cut off from the database",
            Self::CutFromPeers => "server cut off from its peers",
            Self::CutFromWorkers => "server cut off from the workers",
        }
    }
}

pub(super) struct Nemesis {
    pub(super) lease: Duration,
    pub(super) missed_after: Duration,
    pub(super) chance: SplitMix64,
    pub(super) journal: Journal,
    pub(super) faults: Vec<(ServerFault, Moment, Moment)>,
}

impl Nemesis {
    /// Goes on until `until`, with pauses in which the cluster comes to itself.
    pub(super) async fn work(&mut self, cluster: &mut Cluster, until: Instant) -> anyhow::Result<()> {
        for round in 0.. {
            let fault = ServerFault::ALL[round % ServerFault::ALL.len()];
            let from = Moment::now();
            self.tell(FaultEvent::Begin, fault);
            self.strike(cluster, fault).await?;
            self.tell(FaultEvent::End, fault);
            self.faults.push((fault, from, Moment::now()));
            let rest = Duration::from_millis(1500 + self.chance.below(4000));
            if Instant::now() + rest > until {
                break;
            }
            tokio::time::sleep(rest).await;
        }
        Ok(())
    }

    fn tell(&self, what: FaultEvent, fault: ServerFault) {
        self.journal.write(&Fault { at: Moment::now(), what, target: fault.name().to_owned(), note: String::new() });
    }

    async fn strike(&mut self, cluster: &mut Cluster, fault: ServerFault) -> anyhow::Result<()> {
        let servers = cluster.servers.len();
        let first = self.chance.below(servers as u64) as usize;
        match fault {
            ServerFault::Kill => self.kill(cluster, &[first]).await,
            ServerFault::KillTwo => self.kill(cluster, &[first, (first + 1) % servers]).await,
            ServerFault::KillAll => self.kill(cluster, &(0..servers).collect::<Vec<_>>()).await,
            ServerFault::StopBriefly => self.stop(cluster, first, self.lease / 2).await,
            ServerFault::Stop => self.stop(cluster, first, self.lease * 2 + self.missed_after).await,
            ServerFault::CutFromDatabase => {
                let back = |link| cluster.servers[first].back.iter().for_each(|back| back.set(link));
                self.cut(back, self.lease + self.missed_after).await
            }
            ServerFault::CutFromPeers => {
                let pids: Vec<_> = cluster.servers.iter().filter_map(|server| server.pid()).collect();
                let front = |link| cut_from(cluster, first, &pids, link);
                self.cut(front, self.lease + self.missed_after).await
            }
            ServerFault::CutFromWorkers => {
                let pids: Vec<_> = cluster.workers.iter().map(|worker| worker.pid()).collect();
                let front = |link| pids.iter().for_each(|pid| set(cluster, first, *pid, link));
                self.cut(front, self.lease).await
            }
        }
    }

    /// They come back after others have noticed, or before.
    async fn kill(&mut self, cluster: &mut Cluster, places: &[usize]) -> anyhow::Result<()> {
        for place in places {
            cluster.servers[*place].kill();
        }
        let longest = self.lease + self.missed_after * 2;
        let away = self.chance.below(longest.as_millis() as u64);
        tokio::time::sleep(Duration::from_millis(500 + away)).await;
        for place in places {
            cluster.start_server(*place).await?;
        }
        Ok(())
    }

    async fn stop(&self, cluster: &Cluster, place: usize, lasts: Duration) -> anyhow::Result<()> {
        let signal =
            |signal| cluster.servers[place].process.iter().for_each(|process: &Process| process.signal(signal));
        signal(Signal::STOP);
        tokio::time::sleep(lasts).await;
        signal(Signal::CONT);
        Ok(())
    }

    async fn cut(&self, set: impl Fn(Link), lasts: Duration) -> anyhow::Result<()> {
        set(Link::CUT);
        tokio::time::sleep(lasts).await;
        set(Link::OPEN);
        Ok(())
    }
}

fn set(cluster: &Cluster, place: usize, pid: u32, link: Link) {
    cluster.servers[place].front.iter().for_each(|front| front.set_for(pid, link));
}

/// Both ways between one server and the others.
fn cut_from(cluster: &Cluster, place: usize, pids: &[u32], link: Link) {
    let own = cluster.servers[place].pid();
    for pid in pids.iter().filter(|pid| Some(**pid) != own) {
        set(cluster, place, *pid, link);
    }
    for (other, _) in cluster.servers.iter().enumerate().filter(|(other, _)| *other != place) {
        own.iter().for_each(|pid| set(cluster, other, *pid, link));
    }
}
