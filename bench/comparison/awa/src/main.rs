//! awa on its queue storage. It appends one row for each batch of claims and completions,
//! and truncates old partitions instead of deleting rows.

use std::time::Duration;

use awa::{Client, InsertOpts, InsertParams, JobArgs, JobResult, QueueConfig, QueueStorage, QueueStorageConfig};
use harness::{Job, System, Workload};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::sync::Mutex;

const QUEUE: &str = "bench";

#[derive(Debug, Serialize, Deserialize, JobArgs)]
struct Noop {
    place: u32,
}

struct Awa {
    pool: PgPool,
    store: QueueStorage,
    // Its workers stop when it is dropped.
    client: Mutex<Option<Client>>,
}

fn options(job: &Job) -> InsertOpts {
    InsertOpts { queue: QUEUE.into(), run_at: job.due.map(Into::into), ..Default::default() }
}

impl System for Awa {
    fn settings(workload: Workload) -> &'static str {
        match workload {
            Workload::Drain => "256 workers, deadline 0, claims of 512, 1 process",
            Workload::Pickup | Workload::Precision => "256 workers, deadline 0, poll 50 ms, promotion 50 ms, 1 process",
            Workload::SubmitSingle => "insert_with, a connection for each client",
            Workload::SubmitBulk => "enqueue_params_copy",
        }
    }

    async fn open(url: &str, _: Workload) -> anyhow::Result<Self> {
        let pool = PgPoolOptions::new().max_connections(64).connect(url).await?;
        awa::migrations::run(&pool).await?;
        let store = QueueStorage::new(QueueStorageConfig::default())?;
        store.install(&pool).await?;
        Ok(Self { pool, store, client: Mutex::new(None) })
    }

    async fn submit(&self, job: Job) -> anyhow::Result<()> {
        awa::insert_with(&self.pool, &Noop { place: job.place }, options(&job)).await?;
        Ok(())
    }

    async fn submit_bulk(&self, jobs: &[Job]) -> anyhow::Result<()> {
        let params = jobs.iter().map(|job| awa::model::insert::params_with(&Noop { place: job.place }, options(job)));
        let params = params.collect::<Result<Vec<InsertParams>, _>>()?;
        self.store.enqueue_params_copy(&self.pool, &params).await?;
        Ok(())
    }

    async fn work(&self) -> anyhow::Result<()> {
        let queue = QueueConfig {
            max_workers: 256,
            claim_batch_size: 512,
            poll_interval: Duration::from_millis(50),
            deadline_duration: Duration::ZERO,
            ..Default::default()
        };
        let client = Client::builder(self.pool.clone())
            .queue(QUEUE, queue)
            .queue_storage(QueueStorageConfig::default(), Duration::from_secs(1), Duration::from_millis(50))
            .promote_interval(Duration::from_millis(50))
            .register::<Noop, _, _>(|noop, _| async move {
                harness::started(noop.place);
                Ok(JobResult::Completed)
            })
            .build()?;
        client.start().await?;
        *self.client.lock().await = Some(client);
        Ok(())
    }

    async fn unfinished(&self) -> anyhow::Result<u64> {
        let counts = self.store.queue_counts(&self.pool, QUEUE).await?;
        Ok((counts.available + counts.running) as u64)
    }
}

fn main() -> anyhow::Result<()> {
    harness::main::<Awa>()
}
