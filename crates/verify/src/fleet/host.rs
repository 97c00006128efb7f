//! `verify fleet-workers`: many workers in one process, each with streams of its own, as a fleet has them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use punctual_worker::{AttemptLog, Worker};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cluster::{Cluster, Process};
use crate::worker::stdin_closed;

/// Workers begin so far apart, so that one process does not open hundreds of connections in one moment.
const APART: Duration = Duration::from_millis(3);

#[derive(Debug, Clone, Args)]
pub struct FleetWorkers {
    /// Addresses of servers, with commas
    #[arg(long, value_delimiter = ',', required = true)]
    servers: Vec<String>,
    #[arg(long)]
    name: String,
    #[arg(long)]
    workers: usize,
    /// How many servers each connects to
    #[arg(long)]
    connections: u32,
    #[arg(long)]
    slots: u32,
    /// A label, as key=value
    #[arg(long)]
    label: Option<String>,
}

impl FleetWorkers {
    pub(super) fn start(&self, cluster: &Cluster) -> anyhow::Result<Process> {
        let mut command = Command::new(&cluster.programs.verify);
        command.args(["fleet-workers", "--name", &self.name, "--servers", &self.servers.join(",")]);
        command.args(["--workers", &self.workers.to_string(), "--connections", &self.connections.to_string()]);
        command.args(["--slots", &self.slots.to_string()]);
        if let Some(label) = &self.label {
            command.args(["--label", label]);
        }
        command.stdout(Stdio::null());
        let log = cluster.file(&format!("{}.log", self.name));
        Process::start(command, &self.name, Path::new(&log))
    }

    pub(super) fn new(cluster: &Cluster, name: &str, workers: usize, connections: u32) -> anyhow::Result<Self> {
        let servers = cluster.advertised()?.iter().map(|server| format!("http://{server}")).collect();
        Ok(Self { servers, name: name.to_owned(), workers, connections, slots: 4, label: None })
    }

    pub(super) fn labelled(self, label: &str) -> Self {
        Self { label: Some(label.to_owned()), ..self }
    }

    fn worker(&self, number: usize) -> Worker {
        // Each knows another server first, as a fleet that is configured by several people.
        let first = &self.servers[number % self.servers.len()];
        let worker = Worker::connect(first)
            .name(format!("{}-{number}", self.name))
            .slots(self.slots)
            .servers_max(self.connections)
            .log_attempts(AttemptLog::Off)
            .standard_executors();
        match self.label.as_deref().and_then(|label| label.split_once('=')) {
            Some((key, value)) => worker.label(key, value),
            None => worker,
        }
    }
}

/// Works until stdin ends.
pub async fn run(args: FleetWorkers) -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .init();
    let (stop, stopped) = watch::channel(false);
    let mut workers = JoinSet::new();
    for number in 0..args.workers {
        let (worker, mut stopped) = (args.worker(number), stopped.clone());
        workers.spawn(worker.run_until(async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        }));
        tokio::time::sleep(APART).await;
    }
    stdin_closed().await;
    stop.send_replace(true);
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    Ok(())
}
