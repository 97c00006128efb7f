//! This server and the workers of all, as people see them.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;
use punctual_api::{Node, Stats, WorkerList, WorkerQuery, WorkerView};
use punctual_core::namespace::ServedNamespaces;
use punctual_core::schedule::recurrence::ZoneData;
use punctual_core::shard::WorkerStatus;
use punctual_core::{ServerId, WorkerId};
use punctual_engine::WorkerInfo;
use tokio::time::timeout;

use crate::cluster::Place;
use crate::known_workers::GoneWorkers;
use crate::peers::WorkersThere;
use crate::principal::By;
use crate::principal::permission::{ViewCluster, ViewWorkers};
use crate::route::LOOK_LIMIT;
use crate::{App, Result};

impl App {
    pub fn server_id(&self) -> ServerId {
        self.0.engine.server()
    }

    /// The workers that any server knows, each once; then those that are gone.
    pub async fn workers(&self, _: &By<ViewWorkers>, query: &WorkerQuery) -> Result<WorkerList> {
        let gone = GoneWorkers::read(query)?;
        let places = self.0.cluster.schedulers();
        let mut workers: BTreeMap<WorkerId, WorkerView> = BTreeMap::new();
        let answers = join_all(places.iter().map(|place| self.workers_at(place))).await;
        // One that is connected to a server that does not answer must not pass for gone.
        let gone = if answers.iter().all(Option::is_some) { gone } else { GoneWorkers::None };
        for (place, there) in places.iter().zip(answers) {
            let server = match place {
                Place::At(peer) => peer.id,
                Place::Here | Place::Nowhere => self.server_id(),
            };
            for (status, info) in there.unwrap_or_default().known {
                let view = self.worker_view(server, status, info);
                workers.entry(view.id).and_modify(|seen| join_views(seen, &view)).or_insert(view);
            }
        }
        let gone = self.workers_gone(&workers, gone).await?;
        Ok(WorkerList { workers: workers.into_values().chain(gone).collect() })
    }

    /// None if the server does not answer in time.
    pub(crate) async fn workers_at(&self, place: &Place) -> Option<WorkersThere> {
        match place {
            Place::Here => self.workers_here().await.ok(),
            Place::At(peer) => match timeout(LOOK_LIMIT, self.0.peers.workers(peer)).await {
                Ok(Ok(workers)) => Some(workers),
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a peer did not name its workers");
                    None
                }
                Err(_) => None,
            },
            Place::Nowhere => None,
        }
    }

    /// The workers that this server knows, and those that it lacks.
    pub async fn workers_here(&self) -> Result<WorkersThere> {
        Ok(WorkersThere { known: self.0.engine.workers().await?, requests: self.worker_requests_here() })
    }

    fn worker_view(&self, server: ServerId, status: WorkerStatus, info: WorkerInfo) -> WorkerView {
        let namespaces = match &info.spec.namespaces {
            ServedNamespaces::All => None,
            ServedNamespaces::Only(served) => {
                Some(served.iter().filter_map(|id| self.0.namespaces.name_of(*id)).collect())
            }
        };
        WorkerView {
            id: status.id,
            name: info.name,
            host: info.host,
            version: info.version,
            state: match (status.is_connected, status.credit) {
                (false, _) => SILENT,
                (true, 0) => DRAINING,
                (true, _) => CONNECTED,
            }
            .to_owned(),
            namespaces,
            queues: info.spec.queues,
            capabilities: info.spec.capabilities,
            labels: info.spec.labels,
            slots: status.credit,
            running: status.running,
            servers: if status.is_connected { vec![server] } else { Vec::new() },
            last_seen_at: status.seen_at,
            commands_as: Some(info.commands_as).filter(|user| !user.is_empty()),
        }
    }

    pub async fn node(&self, _: &By<ViewCluster>) -> Result<Node> {
        let owned = self.0.engine.owned_shards().await?;
        Ok(Node {
            id: self.0.engine.server(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            roles: self.0.settings.roles.names(),
            store: self.0.store.description(),
            database_file: self.0.store.location().map(|path| path.display().to_string()),
            shards_total: self.0.store.shard_count(),
            shards_owned: owned as u16,
            started_at: self.0.started_at,
            now: self.now(),
            zone_data: Some(ZoneData::in_use().to_string()),
        })
    }

    pub async fn stats(&self, _: &By<ViewCluster>) -> Result<Stats> {
        let counts = self.0.engine.counts().await?;
        let usage = usage();
        Ok(Stats {
            submitted: self.0.submitted.load(Ordering::Relaxed),
            started: counts.started,
            succeeded: counts.succeeded,
            failed: counts.failed,
            cancelled: counts.cancelled,
            lost: counts.lost,
            quarantined: counts.quarantined,
            deleted: counts.deleted,
            retried: counts.retried,
            running: counts.running,
            ready: counts.ready,
            waiting: counts.waiting,
            workers: counts.workers,
            commits: counts.commits,
            cpu_us: usage.cpu_us,
            rss_bytes: usage.rss_bytes,
        })
    }
}

const SILENT: &str = "silent";
const DRAINING: &str = "draining";
const CONNECTED: &str = "connected";

/// One worker as two servers see it: it shares its slots out among them.
fn join_views(seen: &mut WorkerView, other: &WorkerView) {
    // From the least to the most that a worker does for any server.
    let rank = |state: &str| [SILENT, DRAINING, CONNECTED].iter().position(|known| *known == state);
    if rank(&other.state) > rank(&seen.state) {
        seen.state.clone_from(&other.state);
    }
    seen.slots += other.slots;
    seen.running += other.running;
    seen.servers.extend_from_slice(&other.servers);
    seen.servers.sort_unstable();
    seen.last_seen_at = seen.last_seen_at.max(other.last_seen_at);
}

#[derive(Default)]
struct Usage {
    cpu_us: u64,
    rss_bytes: u64,
}

/// From the kernel; zero where it does not tell.
fn usage() -> Usage {
    /// Linux counts CPU time in hundredths of a second for every program.
    const TICK_US: u64 = 10_000;
    const PAGE_BYTES: u64 = 4096;
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return Usage::default() };
    // The name of the program stands in brackets and may hold anything, spaces too.
    let Some((_, fields)) = stat.rsplit_once(')') else { return Usage::default() };
    let fields: Vec<u64> = fields.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    let field = |place: usize| fields.get(place).copied().unwrap_or(0);
    Usage { cpu_us: (field(11) + field(12)) * TICK_US, rss_bytes: field(21) * PAGE_BYTES }
}
