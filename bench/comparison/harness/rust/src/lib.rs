//! The workloads, once for every system that is written in Rust. A driver says how its system
//! submits, works and counts what is unfinished; everything that is measured is here.

mod args;
mod figure;
mod log;
mod workloads;

use std::time::SystemTime;

use anyhow::Context;
pub use args::Workload;
pub use log::started;

/// One job to submit. Its place, from zero, is its payload: it proves that each ran once.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    pub place: u32,
    pub due: Option<SystemTime>,
}

pub trait System: Sized + Send + Sync + 'static {
    /// What was set for this workload, printed with every figure.
    fn settings(workload: Workload) -> &'static str;

    /// Connects and creates what the system needs in the empty database.
    fn open(url: &str, workload: Workload) -> impl Future<Output = anyhow::Result<Self>>;

    /// One job; returns after its commit.
    fn submit(&self, job: Job) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Many jobs in one request; returns after their commit.
    fn submit_bulk(&self, jobs: &[Job]) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Starts the workers in the background. Each handler calls [`started`] first.
    fn work(&self) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Jobs whose completion is not durable yet.
    fn unfinished(&self) -> impl Future<Output = anyhow::Result<u64>> + Send;
}

/// The driver's whole `main`.
pub fn main<P: System>() -> anyhow::Result<()> {
    let options = args::parse(std::env::args().skip(1))?;
    log::prepare(options.jobs);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(workloads::run::<P>(&options)).with_context(|| options.workload.name());
    // Workers never end by themselves.
    runtime.shutdown_background();
    result
}
