//! `verify floods`: clients that send bodies slowly, keep connections idle, leave answers unread or list without pause, thousands
//! of them. Starts and submissions stay within twice of what they take on an idle server, and the memory comes back.
//!
//! The clients are a process of their own, so that their memory is not the server's, and of the lowest priority: the figures are
//! about what they cost the server, not about a machine that they share with it.

mod client;
mod measure;
mod unread;

use std::process::{Command, Stdio};
use std::time::Duration;

use clap::{Args, ValueEnum};
use comfy_table::Table;
use punctual_client::Client;
use tokio::time::Instant;

pub use client::{FloodArgs, flood, lower_priority, raise_open_files};

use crate::clients::{Order, define_tasks};
use crate::cluster::{Cluster, DatabaseKind, Process, Programs, Shape};
use crate::findings::Findings;
use crate::history::RunFolder;
use crate::witness::Work;
use measure::{Figures, TASK};

#[derive(Debug, Clone, Args)]
pub struct Floods {
    /// How long each flood is measured
    #[arg(long, default_value_t = 20)]
    pub seconds: u64,
    /// One server with PostgreSQL instead of the embedded database
    #[arg(long)]
    pub postgres: bool,
    /// Jobs that lists have to go through
    #[arg(long, default_value_t = 20_000)]
    pub jobs: usize,
    /// Only this kind; may be repeated
    #[arg(long)]
    pub only: Vec<Kind>,
    #[arg(long, default_value_t = 1)]
    pub rounds: u32,
    /// Of so many clients of the usual number, in percent
    #[arg(long, default_value_t = 100)]
    pub scale: usize,
    /// Judge nothing that depends on the speed of the machine
    #[arg(long)]
    pub untimed: bool,
}

/// What the clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Send the headers of a submission, and a byte of its body now and then
    SlowBodies,
    /// Ask once and keep the connection
    IdleConnections,
    /// Ask for long lists over HTTP/2 and read nothing
    UnreadAnswers,
    /// List jobs without pause
    Lists,
}

impl Kind {
    const ALL: [Self; 4] = [Self::SlowBodies, Self::IdleConnections, Self::UnreadAnswers, Self::Lists];

    fn name(self) -> String {
        self.to_possible_value().expect("all kinds are values").get_name().to_owned()
    }

    /// Connections of the whole flood.
    const fn connections(self) -> usize {
        match self {
            Self::SlowBodies => 4_200,
            Self::IdleConnections => 10_000,
            Self::UnreadAnswers => 20,
            Self::Lists => 64,
        }
    }
}

/// What is allowed of starts and submissions while a flood lasts.
const FACTOR: f64 = 2.0;
/// Below this a difference is the machine's.
const FLOOR_MS: f64 = 1.0;
/// Memory is within this part of what it was before, after so long.
const MEMORY_FACTOR: f64 = 1.2;
const MEMORY_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Probes are answered within this.
const PROBE_WITHIN: Duration = Duration::from_secs(2);
const BULK_LEN: usize = 1000;

impl Floods {
    /// One round in `folder`. An error is a fault of the machine, not of the system.
    pub async fn round(&self, folder: &RunFolder) -> anyhow::Result<Findings> {
        let database = if self.postgres { DatabaseKind::Postgres } else { DatabaseKind::Embedded };
        let cluster = Cluster::start(Shape::new(1, 1, database), folder.clone(), Programs::find()?).await?;
        let client = cluster.servers[0].client()?;
        define_tasks(&client, &folder.client_journal()?).await?;
        self.fill(&client).await?;
        let stage = Stage { cluster, client, seconds: self.seconds };
        // Caches and connections have their size after this.
        stage.measure().await?;
        let idle = stage.measure().await?;
        let mut findings = Findings::default();
        let mut table = Table::new();
        table.set_header([
            "",
            "submit p50",
            "p90",
            "p99 ms",
            "start p50",
            "p90",
            "p99 ms",
            "MiB before",
            "most",
            "after",
        ]);
        table.add_row(idle.row("idle", None));
        for kind in Kind::ALL {
            if self.only.is_empty() || self.only.contains(&kind) {
                let (figures, memory) = self.flood(kind, &stage, &mut findings).await?;
                table.add_row(figures.row(&kind.name(), Some(&memory)));
                findings.expect(figures.refused == 0, || {
                    format!("{}: {} submissions were refused", kind.name(), figures.refused)
                });
                if !self.untimed {
                    judge(kind, &idle, &figures, &memory, &mut findings);
                }
            }
        }
        eprintln!("{table}");
        stage.cluster.stop().await?;
        Ok(findings)
    }

    async fn fill(&self, client: &Client) -> anyhow::Result<()> {
        let order = Order { key: "floods".to_owned(), task: TASK, run_at: None, work: Work::default() };
        let far = punctual_core::Timestamp::parse("2099-01-01T00:00:00Z")?;
        let waiting = punctual_api::JobRequest { run_at: Some(far), ..order.request() };
        for _ in 0..self.jobs.div_ceil(BULK_LEN) {
            client.submit_bulk(&punctual_api::BulkRequest { jobs: vec![waiting.clone(); BULK_LEN] }).await?;
        }
        Ok(())
    }

    async fn flood(&self, kind: Kind, stage: &Stage, findings: &mut Findings) -> anyhow::Result<(Figures, Memory)> {
        let before = stage.memory()?;
        let connections = (kind.connections() * self.scale / 100).max(1);
        let mut flood = stage.start(kind, connections)?;
        let ready = flood.stdout().ok_or_else(|| anyhow::anyhow!("stdout is piped"))?;
        let ready = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            std::io::BufRead::read_line(&mut std::io::BufReader::new(ready), &mut line).map(|_| line)
        });
        tokio::time::timeout(Duration::from_secs(120), ready).await???;
        let watch = stage.watch();
        let figures = stage.measure().await;
        let (most, unanswered) = watch.stop().await?;
        flood.kill();
        findings
            .expect(unanswered == 0, || format!("{}: {unanswered} probes of /livez were not answered", kind.name()));
        let ended = Instant::now();
        let mut after = stage.memory()?;
        while after as f64 > before as f64 * MEMORY_FACTOR && ended.elapsed() < MEMORY_WITHIN {
            tokio::time::sleep(LOOK_EVERY).await;
            after = stage.memory()?;
        }
        Ok((figures?, Memory { before, most, after, took: ended.elapsed() }))
    }
}

/// Resident memory of the server, in bytes.
struct Memory {
    before: u64,
    most: u64,
    after: u64,
    took: Duration,
}

fn judge(kind: Kind, idle: &Figures, figures: &Figures, memory: &Memory, findings: &mut Findings) {
    let name = kind.name();
    for (what, idle, now) in
        [("submissions", &idle.submits, &figures.submits), ("starts", &idle.starts, &figures.starts)]
    {
        for part in [0.5, 0.9] {
            let (idle, now) = (idle.at(part), now.at(part));
            let allowed = idle.max(FLOOR_MS) * FACTOR;
            findings.expect(now <= allowed, || {
                format!("{name}: p{:.0} of {what} is {now:.1} ms, and {idle:.1} ms on an idle server", part * 100.0)
            });
        }
    }
    let allowed = (memory.before as f64 * MEMORY_FACTOR) as u64;
    findings.expect(memory.after <= allowed, || {
        format!("{name}: {} MiB are left, of {} before", memory.after >> 20, memory.before >> 20)
    });
}

struct Stage {
    cluster: Cluster,
    client: Client,
    seconds: u64,
}

impl Stage {
    async fn measure(&self) -> anyhow::Result<Figures> {
        measure::measure(&self.client, self.seconds, &self.cluster.folder.witness("worker-1")).await
    }

    fn start(&self, kind: Kind, connections: usize) -> anyhow::Result<Process> {
        let mut command = Command::new(&self.cluster.programs.verify);
        command.args(["flood", &kind.name(), "--connections", &connections.to_string()]);
        command.args(["--server", self.client.url().trim_start_matches("http://").trim_end_matches('/')]);
        command.stdout(Stdio::piped());
        Process::start(command, "flood", &self.cluster.file(&format!("flood-{}.log", kind.name())))
    }

    fn memory(&self) -> anyhow::Result<u64> {
        memory_of(self.cluster.servers[0].pid().ok_or_else(|| anyhow::anyhow!("the server runs"))?)
    }

    fn watch(&self) -> Watch {
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let (client, pid) = (self.client.clone(), self.cluster.servers[0].pid().unwrap_or_default());
        let task = tokio::spawn(async move {
            let (mut most, mut unanswered) = (0, 0);
            loop {
                most = most.max(memory_of(pid).unwrap_or(0));
                let probe = tokio::time::timeout(PROBE_WITHIN, client.live()).await;
                unanswered += u32::from(!matches!(probe, Ok(Ok(()))));
                tokio::select! {
                    _ = &mut stopped => return (most, unanswered),
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                }
            }
        });
        Watch { stop, task }
    }
}

/// Looks at the server's memory and asks whether it lives.
struct Watch {
    stop: tokio::sync::oneshot::Sender<()>,
    task: tokio::task::JoinHandle<(u64, u32)>,
}

impl Watch {
    async fn stop(self) -> anyhow::Result<(u64, u32)> {
        let _ = self.stop.send(());
        Ok(self.task.await?)
    }
}

fn memory_of(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    Ok(kib << 10)
}
