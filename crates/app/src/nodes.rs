//! This server and its workers, as people see them.

use std::sync::atomic::Ordering;

use punctual_api::{Node, Stats, WorkerList, WorkerView};
use punctual_core::shard::event::WorkerSpec;

use crate::{App, Result};

impl App {
    pub async fn workers(&self) -> Result<WorkerList> {
        let workers = self.0.engine.workers().await?.into_iter().map(|(status, info)| WorkerView {
            id: status.id,
            name: info.name,
            version: info.version,
            state: match (status.is_connected, status.credit) {
                (false, _) => "silent",
                (true, 0) => "draining",
                (true, _) => "connected",
            }
            .to_owned(),
            queues: info.spec.queues,
            capabilities: info.spec.capabilities,
            labels: info.spec.labels,
            slots: status.credit,
            running: status.running,
            last_seen_at: status.seen_at,
        });
        Ok(WorkerList { workers: workers.collect() })
    }

    /// What the workers that are connected now can do.
    pub(crate) async fn connected_workers(&self) -> Result<Vec<WorkerSpec>> {
        let workers = self.0.engine.workers().await?.into_iter();
        Ok(workers.filter(|(status, _)| status.is_connected).map(|(_, info)| info.spec).collect())
    }

    pub async fn node(&self) -> Result<Node> {
        let owned = self.0.engine.owned_shards().await?;
        Ok(Node {
            id: self.0.engine.server(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            store: self.0.store.description(),
            shards_total: self.0.store.shard_count(),
            shards_owned: owned as u16,
            started_at: self.0.started_at,
            now: self.now(),
        })
    }

    pub async fn stats(&self) -> Result<Stats> {
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

    /// Whether requests can be served: the engine runs and the store answers.
    pub async fn ready(&self) -> Result<()> {
        self.0.engine.owned_shards().await?;
        self.0.store.list_tasks(None, 1).await?;
        Ok(())
    }
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
