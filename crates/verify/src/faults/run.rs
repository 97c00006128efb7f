//! Runs cells one after the other and tells how they went.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use comfy_table::Table;
use serde::Serialize;
use tokio::time::Instant;

use super::arena::Arena;
use super::{CELLS, Cell, Needs, netns};
use crate::check::late_by_answer;
use crate::clients::{Caller, Mix, MixLoad, define_tasks, dump, wait_until_all_ended};
use crate::cluster::{Cluster, DatabaseKind, Network, Programs, Server, Shape};
use crate::disk::Disk;
use crate::findings::{Findings, summary};
use crate::history::RunFolder;

#[derive(Debug, Clone, Args)]
pub struct Faults {
    /// Only the cells whose names begin so
    #[arg(long, value_name = "NAME")]
    pub cell: Vec<String>,
    #[arg(long, default_value_t = 1)]
    pub rounds: u32,
    /// A few that stand for all
    #[arg(long)]
    pub quick: bool,
    /// Tell which there are
    #[arg(long)]
    pub list: bool,
    /// Jobs a second
    #[arg(long, default_value_t = 50)]
    pub per_second: u64,
    /// One server with the embedded database: the cells of workers and their network, and those of `verify disk`
    #[arg(long)]
    pub embedded: bool,
    /// With TLS and credentials everywhere: at an address that is not loopback, in a network of its own
    #[arg(long)]
    pub tls: bool,
    /// Keep what is known of good runs too
    #[arg(long)]
    pub keep_all: bool,
    /// One JSON line for each cell
    #[arg(long, default_value = "target/verify/faults.jsonl")]
    pub report: std::path::PathBuf,
}

/// How long things may take, and the settings that say so.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    pub lease: Duration,
    pub dead_after: Duration,
    pub heartbeat: Duration,
    /// Load before the fault and after it was healed.
    pub warm_up: Duration,
    pub tail: Duration,
    /// How many times longer than promised things may take, on a machine that does much else.
    pub patience: u32,
}

impl Timing {
    /// The defaults of the system.
    pub const USUAL: Self = Self {
        lease: Duration::from_secs(10),
        dead_after: Duration::from_secs(20),
        heartbeat: Duration::from_secs(5),
        warm_up: Duration::from_secs(6),
        tail: Duration::from_secs(6),
        patience: 1,
    };

    /// For tests: nothing of what is promised depends on these.
    pub const SHORT: Self = Self {
        lease: Duration::from_secs(3),
        dead_after: Duration::from_secs(5),
        heartbeat: Duration::from_secs(1),
        warm_up: Duration::from_millis(1500),
        tail: Duration::from_millis(1500),
        patience: 10,
    };

    /// From the death of a server until others have its shards.
    pub(super) fn takeover(self) -> Duration {
        self.lease + Duration::from_secs(2)
    }

    /// From the death of a worker until its jobs run elsewhere.
    pub(super) fn rerun(self) -> Duration {
        self.dead_after + Duration::from_secs(5)
    }

    fn settings(self) -> Vec<(&'static str, String)> {
        let seconds = |time: Duration| format!("{}s", time.as_secs());
        vec![
            ("PUNCTUAL_LEASE_TTL", seconds(self.lease)),
            ("PUNCTUAL_WORKER_DEAD_AFTER", seconds(self.dead_after)),
            ("PUNCTUAL_HEARTBEAT", seconds(self.heartbeat)),
        ]
    }
}

/// How a cell went.
#[derive(Debug, Clone, Serialize)]
pub struct CellReport {
    pub cell: &'static str,
    pub round: u32,
    pub verdict: &'static str,
    pub seconds: f64,
    pub jobs: usize,
    pub notes: Vec<String>,
    pub wrong: Vec<String>,
}

impl CellReport {
    fn skipped(cell: &Cell, round: u32, why: String) -> Self {
        Self { cell: cell.name, round, verdict: "skipped", seconds: 0.0, jobs: 0, notes: vec![why], wrong: Vec::new() }
    }

    pub fn is_wrong(&self) -> bool {
        !matches!(self.verdict, "good" | "skipped")
    }
}

impl Faults {
    fn chosen(&self) -> impl Iterator<Item = &'static Cell> {
        let is_named = |cell: &&Cell| self.cell.is_empty() || self.cell.iter().any(|name| cell.name.starts_with(name));
        let fits = |cell: &&Cell| !self.embedded || cell.is_about_workers();
        CELLS.iter().filter(|cell| cell.quick || !self.quick).filter(is_named).filter(fits)
    }

    /// The cells of the disk, which only an embedded database has.
    fn disk(&self) -> Option<Disk> {
        let disk = Disk { cell: self.cell.clone(), rounds: self.rounds };
        (self.embedded && disk.chosen().next().is_some()).then_some(disk)
    }

    pub fn print_list(&self) {
        for cell in self.chosen() {
            println!("{:<34} {}", cell.name, cell.about);
        }
        for cell in self.disk().iter().flat_map(Disk::chosen) {
            println!("{:<34} {}", cell.name, cell.about);
        }
    }

    /// Answers whether all went well.
    pub async fn run(&self, keep: &Path, timing: Timing) -> anyhow::Result<bool> {
        let disk = self.disk();
        let is_good = match &disk {
            Some(disk) => disk.run(keep).await?,
            None => true,
        };
        if disk.is_some() && self.chosen().next().is_none() {
            return Ok(is_good);
        }
        Ok(self.run_cells(keep, timing).await? && is_good)
    }

    async fn run_cells(&self, keep: &Path, timing: Timing) -> anyhow::Result<bool> {
        let programs = Programs::find()?;
        let mut reports = Vec::new();
        for round in 1..=self.rounds {
            for cell in self.chosen() {
                eprintln!("{} ({}), round {round} of {}", cell.name, cell.about, self.rounds);
                let report = self.cell(cell, round, keep, timing, &programs).await?;
                for line in &report.notes {
                    eprintln!("  {line}");
                }
                self.write(&report)?;
                reports.push(report);
            }
        }
        anyhow::ensure!(!reports.is_empty(), "no cell has such a name; see --list");
        eprintln!("\n{}", table(&reports));
        Ok(!reports.iter().any(CellReport::is_wrong))
    }

    fn write(&self, report: &CellReport) -> anyhow::Result<()> {
        use std::io::Write;
        if let Some(folder) = self.report.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&self.report)?;
        Ok(writeln!(file, "{}", serde_json::to_string(report)?)?)
    }

    pub async fn cell(
        &self,
        cell: &Cell,
        round: u32,
        keep: &Path,
        timing: Timing,
        programs: &Programs,
    ) -> anyhow::Result<CellReport> {
        if let Some(why) = cell.missing() {
            return Ok(CellReport::skipped(cell, round, format!("skipped: {why}")));
        }
        if self.tls && cell.needs == Needs::PlainHttp {
            return Ok(CellReport::skipped(cell, round, "skipped: its clients speak plain HTTP".to_owned()));
        }
        if self.tls && !netns::is_inside() {
            return Ok(CellReport::skipped(
                cell,
                round,
                "skipped: TLS takes a network of our own, so root and unshare".to_owned(),
            ));
        }
        let begun = Instant::now();
        let folder = RunFolder::fresh(keep, &format!("{}-{round}", cell.name))?;
        let mut shape = cell.shape(timing);
        if self.tls && shape.network == Network::Loopback {
            shape.network = Network::Tls;
        }
        if self.embedded {
            shape = Shape { servers: 1, database: DatabaseKind::Embedded, ..shape };
        }
        let cluster = Cluster::start(shape, folder.clone(), programs.clone()).await?;
        let journal = folder.client_journal()?;
        define_tasks(&cluster.servers[0].client()?, &journal).await?;
        let clients = cluster.servers.iter().map(Server::client).collect::<anyhow::Result<_>>()?;
        let caller = Caller::new(clients, journal);
        let warm_up_ms = timing.warm_up.as_millis() as u64;
        // Jobs are due up to one warm-up ahead, so that the fault meets jobs that wait.
        let (ahead_ms, work_ms) = (warm_up_ms, warm_up_ms / 2);
        let mix = Mix { seed: u64::from(round), per_second: self.per_second, ahead_ms, work_ms };
        let load = MixLoad::start(mix, caller.clone());

        tokio::time::sleep(timing.warm_up).await;
        let mut arena = Arena::new(cluster, timing, caller.clone())?;
        let injected = (cell.inject)(&mut arena).await;
        tokio::time::sleep(timing.tail).await;
        load.stop().await?;
        injected.with_context(|| format!("{}; see {}", cell.name, folder.path().display()))?;

        let running = arena.cluster.clients()?;
        wait_until_all_ended(&running, timing.rerun() + timing.takeover() + Duration::from_secs(20)).await;
        let jobs = dump(running.first().context("a server runs")?).await?;
        let again = dump(running.last().context("a server runs")?).await?;
        folder.write_jobs(&jobs, &again)?;
        let Arena { cluster, measures, mut notes, .. } = arena;
        let stopped = cluster.stop().await;

        let history = folder.read()?;
        let mut findings = Findings::of(&history);
        if let Err(error) = stopped {
            findings.add(format!("{error:#}"));
        }
        let mut has_hit = false;
        for figure in measures.iter().map(|measure| measure.take(&history, timing.patience)) {
            has_hit |= figure.hit;
            notes.push(figure.text);
            findings.faults.extend(figure.wrong);
        }
        notes.push(format!("{} jobs; lateness {}", jobs.len(), summary(&late_by_answer(&history))));
        findings.print(&folder);
        let word = match (findings.is_good(), has_hit) {
            (true, true) => "good",
            (true, false) => "not counted: nothing was hit",
            (false, _) => "WRONG",
        };
        if findings.is_good() && !self.keep_all {
            folder.remove()?;
        }
        Ok(CellReport {
            cell: cell.name,
            round,
            verdict: word,
            seconds: begun.elapsed().as_secs_f64(),
            jobs: jobs.len(),
            notes,
            wrong: findings.faults,
        })
    }
}

impl Cell {
    /// What it needs and this machine has not.
    fn missing(&self) -> Option<String> {
        match self.needs {
            Needs::OwnNetwork | Needs::Hosts => netns::missing(),
            Needs::FakeClock => super::clocks::missing(),
            Needs::Nothing
            | Needs::LoadAtOnce
            | Needs::OneServer
            | Needs::ApiServer
            | Needs::Standby
            | Needs::AsynchronousStandby
            | Needs::DroppedHints
            | Needs::RepeatedHints
            | Needs::PlainHttp => None,
        }
    }

    /// Whether one server is enough.
    fn is_about_workers(&self) -> bool {
        ["worker-", "partition-worker", "partition-owner", "network-"].iter().any(|start| self.name.starts_with(start))
    }

    fn shape(&self, timing: Timing) -> Shape {
        let quick = timing.lease < Timing::USUAL.lease;
        let database = if quick { DatabaseKind::QuickPostgres } else { DatabaseKind::Postgres };
        let mut shape = Shape::new(3, 4, database);
        shape.proxied = true;
        shape.settings = timing.settings();
        match self.needs {
            Needs::Nothing | Needs::OwnNetwork | Needs::PlainHttp => {}
            Needs::Hosts => shape.network = Network::Hosts,
            Needs::LoadAtOnce => shape.balanced = false,
            Needs::OneServer => shape.servers = 1,
            Needs::ApiServer => shape.api_servers = 1,
            Needs::FakeClock => shape.fake_clock = true,
            Needs::Standby => {
                shape.database = DatabaseKind::Replicated;
                shape.proxied = false;
            }
            Needs::AsynchronousStandby => {
                shape.database = DatabaseKind::Lagging;
                shape.proxied = false;
            }
            Needs::DroppedHints => shape.settings.push(("PUNCTUAL_TEST_HINTS", "drop".to_owned())),
            Needs::RepeatedHints => shape.settings.push(("PUNCTUAL_TEST_HINTS", "twice".to_owned())),
        }
        shape
    }
}

fn table(reports: &[CellReport]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["cell", "round", "verdict", "s", "jobs", "what happened"]);
    for report in reports {
        let text = if report.is_wrong() { &report.wrong } else { &report.notes };
        table.add_row([
            report.cell.to_owned(),
            report.round.to_string(),
            report.verdict.to_owned(),
            format!("{:.0}", report.seconds),
            report.jobs.to_string(),
            text.first().cloned().unwrap_or_default(),
        ]);
    }
    table
}
