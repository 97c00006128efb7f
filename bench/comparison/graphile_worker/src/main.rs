//! graphile_worker, the port of Graphile Worker to Rust. It deletes jobs when they are done.

use std::sync::Arc;
use std::time::Duration;

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, TaskHandler, Worker, WorkerContext, WorkerOptions,
};
use harness::{Job, System, Workload};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

#[derive(Clone, Serialize, Deserialize)]
struct Noop {
    place: u32,
}

impl TaskHandler for Noop {
    const IDENTIFIER: &'static str = "noop";

    async fn run(self, _: WorkerContext) -> impl IntoTaskHandlerResult {
        harness::started(self.place);
        Ok::<(), String>(())
    }
}

struct Graphile {
    pool: PgPool,
    worker: Arc<Worker>,
}

fn spec(job: &Job) -> JobSpec {
    let mut spec = JobSpec::default();
    spec.run_at = job.due.map(chrono::DateTime::from);
    spec
}

impl System for Graphile {
    fn settings(workload: Workload) -> &'static str {
        match workload {
            Workload::Drain | Workload::Pickup | Workload::Precision => {
                "concurrency 100, local queue 5000, completions batched over 5 ms, poll 100 ms, 1 process"
            }
            Workload::SubmitSingle => "add_job, a connection for each client",
            Workload::SubmitBulk => "add_jobs",
        }
    }

    async fn open(url: &str, _: Workload) -> anyhow::Result<Self> {
        let pool = PgPoolOptions::new().max_connections(64).connect(url).await?;
        let options = WorkerOptions::default()
            .concurrency(100)
            .poll_interval(Duration::from_millis(100))
            .local_queue(LocalQueueConfig::default().with_size(5000))
            .complete_job_batch_delay(Duration::from_millis(5))
            .define_job::<Noop>()
            .pg_pool(pool.clone());
        Ok(Self { pool, worker: Arc::new(options.init().await?) })
    }

    async fn submit(&self, job: Job) -> anyhow::Result<()> {
        self.worker.create_utils().add_job(Noop { place: job.place }, spec(&job)).await?;
        Ok(())
    }

    async fn submit_bulk(&self, jobs: &[Job]) -> anyhow::Result<()> {
        let specs: Vec<_> = jobs.iter().map(|job| (Noop { place: job.place }, spec(job))).collect();
        let jobs: Vec<_> = specs.iter().map(|(noop, spec)| (noop.clone(), spec)).collect();
        self.worker.create_utils().add_jobs(&jobs).await?;
        Ok(())
    }

    async fn work(&self) -> anyhow::Result<()> {
        let worker = self.worker.clone();
        tokio::spawn(async move {
            if let Err(error) = worker.run().await {
                eprintln!("the worker ended: {error}");
            }
        });
        Ok(())
    }

    async fn unfinished(&self) -> anyhow::Result<u64> {
        let count: i64 =
            sqlx::query_scalar("select count(*) from graphile_worker._private_jobs").fetch_one(&self.pool).await?;
        Ok(count as u64)
    }
}

fn main() -> anyhow::Result<()> {
    harness::main::<Graphile>()
}
