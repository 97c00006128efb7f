//! apalis with its PostgreSQL storage. Due times are whole seconds, rounded down, so jobs may
//! start up to a second early.

use std::time::Duration;

use apalis::prelude::*;
use apalis_postgres::{Config, PgTask, PostgresStorage};
use harness::{Job, System, Workload};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

const QUEUE: &str = "bench";

struct Apalis {
    pool: PgPool,
    workload: Workload,
}

async fn noop(place: u32) -> Result<(), BoxDynError> {
    harness::started(place);
    Ok(())
}

fn task(job: &Job) -> PgTask {
    let builder = TaskBuilder::new(job.place.to_string().into_bytes());
    match job.due {
        Some(due) => builder.run_at_time(due).build(),
        None => builder.build(),
    }
}

impl System for Apalis {
    fn settings(workload: Workload) -> &'static str {
        match workload {
            Workload::Drain => "batch 500, pubsub, heartbeat 1 s, 1 process",
            Workload::Pickup | Workload::Precision => "batch 500, pubsub, heartbeat 100 ms, 1 process",
            Workload::SubmitSingle | Workload::SubmitBulk => "push_tasks, a connection for each client",
        }
    }

    async fn open(url: &str, workload: Workload) -> anyhow::Result<Self> {
        let pool = PgPoolOptions::new().max_connections(64).connect(url).await?;
        PostgresStorage::setup(&pool).await?;
        Ok(Self { pool, workload })
    }

    async fn submit(&self, job: Job) -> anyhow::Result<()> {
        self.submit_bulk(&[job]).await
    }

    async fn submit_bulk(&self, jobs: &[Job]) -> anyhow::Result<()> {
        let mut connection = self.pool.acquire().await?;
        apalis_postgres::queries::push_tasks(&mut *connection, QUEUE, jobs.iter().map(task).collect()).await?;
        Ok(())
    }

    async fn work(&self) -> anyhow::Result<()> {
        // Future jobs are not announced, and the interval of `poll_with_interval` may lose a wake-up while a
        // fetch is under way; the heartbeat's timer does not, and each heartbeat fetches.
        let heartbeat = Duration::from_millis(if self.workload == Workload::Drain { 1000 } else { 100 });
        let config =
            Config::default().queue(QUEUE).batch_size(500).heartbeat_interval(heartbeat).missed_heartbeats(600);
        let backend = PostgresStorage::<u32>::new(&self.pool).with_config(config).with_pubsub();
        let worker = WorkerBuilder::new("bench-worker").backend(backend).build(noop);
        tokio::spawn(async move {
            if let Err(error) = worker.run().await {
                eprintln!("the worker ended: {error}");
            }
        });
        Ok(())
    }

    async fn unfinished(&self) -> anyhow::Result<u64> {
        let count: i64 =
            sqlx::query_scalar("select count(*) from apalis.jobs where status <> 'Done'").fetch_one(&self.pool).await?;
        Ok(count as u64)
    }
}

fn main() -> anyhow::Result<()> {
    harness::main::<Apalis>()
}
