//! The system under test: servers and a worker as processes of their own, in a
//! folder of their own, gone at the end; or a server that runs already.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures_util::future::try_join_all;
use punctual_api::Stats;
use punctual_client::{Client, IfMatch};
use punctual_core::task::{Probe, Run, TaskSpec};
use tempfile::TempDir;
use tokio::process::Child;

use super::Options;
use super::database::{Database, Reading};
use super::figure::Figure;
use super::machine::{Steal, cpu_us, rss_mib};
use super::process::{self, START_LIMIT};
use super::secured::{Secured, join_token};
use super::wire::Connection;

/// The task that does nothing.
pub(crate) const NOOP: &str = "bench-noop";
/// The task that returns the worker's clock.
pub(crate) const CLOCK: &str = "bench-clock";

pub(crate) struct Arena {
    /// One client for each server; there is at least one.
    clients: Vec<Client>,
    store: String,
    children: Option<Children>,
    secured: Option<Secured>,
    pub(crate) database: Option<Database>,
}

struct Children {
    dir: TempDir,
    settings: Vec<(String, String)>,
    servers: Vec<Child>,
    worker: Option<Child>,
    join_token: Option<String>,
}

/// What was so when a measurement began.
pub(crate) struct Mark {
    begun: Instant,
    cpu_us: Option<u64>,
    stats: Stats,
    steal: Steal,
    reading: Option<Reading>,
}

impl Arena {
    /// Servers without a worker, or the one that was named.
    pub(crate) async fn start(options: &Options) -> anyhow::Result<Self> {
        if let Some(url) = &options.url {
            return Self::with(vec![Client::new(url)?], None, None, None).await;
        }
        let mut settings = options.settings.clone();
        let database = match settings.iter_mut().find(|(key, value)| key == "database" && !value.is_empty()) {
            Some((_, url)) => {
                let database = Database::create(url).await?;
                url.clone_from(&database.url);
                Some(database)
            }
            None if options.servers > 1 => bail!("several servers need a PostgreSQL: --set database=postgres://…"),
            None => None,
        };
        let dir = tempfile::Builder::new().prefix("punctual-bench-").tempdir()?;
        let (mut servers, mut clients) = (Vec::new(), Vec::new());
        let mut secured = None;
        for place in 0..options.servers {
            let server = process::spawn_server(dir.path(), place, &settings, options.tls).await?;
            servers.push(server.child);
            clients.push(server.client);
            // All servers have one authority, and the token of one is good for all.
            secured = secured.or(server.secured);
        }
        let join_token = if options.tls { Some(join_token(&clients[0]).await?) } else { None };
        let children = Children { dir, settings, servers, worker: None, join_token };
        let arena = Self::with(clients, Some(children), secured, database).await?;
        arena.shards_shared().await?;
        Ok(arena)
    }

    async fn with(
        clients: Vec<Client>,
        children: Option<Children>,
        secured: Option<Secured>,
        database: Option<Database>,
    ) -> anyhow::Result<Self> {
        let store = clients[0].server().await?.store;
        let clock = Probe { report_time: true, ..Probe::default() };
        for (name, probe) in [(NOOP, Probe::default()), (CLOCK, clock)] {
            clients[0].apply_task(name, &TaskSpec::new(Run::Probe(probe)), IfMatch::Any).await?;
        }
        Ok(Self { clients, store, children, secured, database })
    }

    /// Waits until every server has its part of the shards.
    async fn shards_shared(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let nodes = try_join_all(self.clients.iter().map(Client::server)).await?;
            let owned: u16 = nodes.iter().map(|node| node.shards_owned).sum();
            let least = nodes.iter().map(|node| node.shards_owned).min().unwrap_or_default();
            if owned == nodes[0].shards_total && least > 0 {
                return Ok(());
            }
            if begun.elapsed() > START_LIMIT {
                bail!("the servers did not share the shards within {START_LIMIT:?}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn urls(&self) -> impl Iterator<Item = &str> {
        self.clients.iter().map(Client::url)
    }

    /// A connection of client `place` of many to its server.
    pub(crate) async fn connect(&self, place: usize) -> anyhow::Result<Connection> {
        let url = self.clients[place % self.clients.len()].url();
        Connection::open(url, self.secured.as_ref()).await
    }

    /// One connection to each server.
    pub(crate) async fn connect_all(&self) -> anyhow::Result<Vec<Connection>> {
        try_join_all((0..self.clients.len()).map(|place| self.connect(place))).await
    }

    pub(crate) fn is_own(&self) -> bool {
        self.children.is_some()
    }

    /// The figures of all servers together. Those of workers are of the server that has fewest.
    pub(crate) async fn stats(&self) -> anyhow::Result<Stats> {
        Ok(sum(&try_join_all(self.clients.iter().map(Client::stats)).await?))
    }

    /// Starts the worker's process; it connects in its own time.
    pub(crate) fn start_worker(&mut self) -> anyhow::Result<()> {
        let urls = self.urls().collect::<Vec<_>>().join(",");
        let Some(children) = &mut self.children else {
            return Ok(());
        };
        let spool = children.dir.path().join("spool");
        let mut command = process::punctual(children.dir.path(), "worker", "worker", &children.settings)?;
        // Many slots: what is measured is the system, not the wait for a slot.
        command.args(["--server", &urls, "--slots", "4096", "--spool-dir"]).arg(spool).stdout(Stdio::null());
        if let Some(token) = &children.join_token {
            command.env("PUNCTUAL_JOIN_TOKEN", token);
            command.env("PUNCTUAL_IDENTITY_DIR", children.dir.path().join("identity"));
        }
        children.worker = Some(command.spawn().context("cannot start a worker")?);
        Ok(())
    }

    pub(crate) async fn stop_worker(&mut self) -> anyhow::Result<()> {
        if let Some(mut worker) = self.children.as_mut().and_then(|children| children.worker.take()) {
            worker.kill().await?;
        }
        Ok(())
    }

    pub(crate) async fn worker_connected(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while self.stats().await?.workers == 0 {
            if begun.elapsed() > START_LIMIT {
                bail!("no worker connected within {START_LIMIT:?}{}", self.last_words("worker"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Kills the first server and starts it again on the same store; how long until it was ready.
    pub(crate) async fn restart_server(&mut self) -> anyhow::Result<Option<Duration>> {
        let Some(children) = &mut self.children else {
            return Ok(None);
        };
        children.servers[0].kill().await?;
        let begun = Instant::now();
        let tls = self.secured.is_some();
        let server = process::spawn_server(children.dir.path(), 0, &children.settings, tls).await?;
        children.servers[0] = server.child;
        self.clients[0] = server.client;
        Ok(Some(begun.elapsed()))
    }

    fn cpu_us(&self, stats: &Stats) -> Option<u64> {
        let Some(children) = &self.children else {
            return Some(stats.cpu_us);
        };
        let processes = children.servers.iter().chain(&children.worker);
        processes.map(|child| cpu_us(child.id()?)).sum()
    }

    /// Memory of the server that uses most.
    pub(crate) fn rss_mib(&self, stats: &Stats) -> Option<f64> {
        match &self.children {
            Some(children) => children.servers.iter().filter_map(|server| rss_mib(server.id()?)).reduce(f64::max),
            None => Some(stats.rss_bytes as f64 / f64::from(1 << 20)),
        }
    }

    async fn reading(&self) -> anyhow::Result<Option<Reading>> {
        match &self.database {
            Some(database) => Ok(Some(database.reading().await?)),
            None => Ok(None),
        }
    }

    pub(crate) async fn mark(&self) -> anyhow::Result<Mark> {
        let (stats, reading) = (self.stats().await?, self.reading().await?);
        let (cpu_us, steal) = (self.cpu_us(&stats), Steal::now());
        Ok(Mark { begun: Instant::now(), cpu_us, stats, steal, reading })
    }

    /// The figure of a workload that began at `mark` and took `elapsed`.
    pub(crate) async fn figure(
        &self,
        workload: &str,
        mark: &Mark,
        elapsed: Duration,
        jobs: u64,
    ) -> anyhow::Result<Figure> {
        let stats = self.stats().await?;
        let each = |amount: u64| (jobs > 0).then(|| amount as f64 / jobs as f64);
        let cpu = self.cpu_us(&stats).zip(mark.cpu_us).map(|(after, before)| after.saturating_sub(before));
        let seconds = elapsed.as_secs_f64();
        let mut figure = Figure {
            workload: workload.to_owned(),
            store: self.store.clone(),
            jobs,
            seconds,
            per_second: (seconds > 0.0).then(|| jobs as f64 / seconds),
            p50_ms: None,
            p95_ms: None,
            p99_ms: None,
            p999_ms: None,
            max_ms: None,
            early: None,
            cpu_us_per_job: cpu.and_then(each),
            commits_per_job: each(stats.commits.saturating_sub(mark.stats.commits)).filter(|commits| *commits > 0.0),
            rss_mib: self.rss_mib(&stats),
            steal_percent: Steal::now().percent_since(mark.steal),
            more: Default::default(),
        };
        if let Some((after, before)) = self.reading().await?.zip(mark.reading)
            && let Some(wal) = each((after.wal_bytes - before.wal_bytes).max(0).unsigned_abs())
        {
            figure = figure.with("wal_bytes_per_job", wal);
            // All transactions that wrote, those of leases and submissions too.
            let commits = each((after.commits - before.commits).max(0).unsigned_abs());
            figure = figure.with("database_commits_per_job", commits.unwrap_or_default());
        }
        if self.clients.len() > 1 {
            figure = figure.with("servers", self.clients.len() as f64);
        }
        Ok(figure)
    }

    /// Every acknowledged job is there, and no other.
    pub(crate) async fn audit_submitted(&self, mark: &Mark, jobs: u64) -> anyhow::Result<()> {
        let submitted = self.stats().await?.submitted - mark.stats.submitted;
        // A server of someone else may be given other jobs, too.
        if self.is_own() && submitted != jobs {
            bail!("{jobs} jobs were acknowledged and {submitted} accepted");
        }
        Ok(())
    }

    /// The end of a child's log, to say why it did not do its work.
    pub(crate) fn last_words(&self, of: &str) -> String {
        self.children.as_ref().map(|children| process::last_words(children.dir.path(), of)).unwrap_or_default()
    }

    /// Ends the processes and removes their folder and database.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        if let Some(mut children) = self.children {
            if let Some(worker) = &mut children.worker {
                worker.kill().await?;
            }
            for server in &mut children.servers {
                server.kill().await?;
            }
            children.dir.close()?;
        }
        if let Some(database) = self.database {
            database.drop().await?;
        }
        Ok(())
    }
}

impl Mark {
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// Counts add up. A worker is connected to every server, so of those the least counts.
pub(crate) fn sum(all: &[Stats]) -> Stats {
    let mut sum =
        Stats { workers: all.iter().map(|stats| stats.workers).min().unwrap_or_default(), ..Stats::default() };
    for stats in all {
        sum.submitted += stats.submitted;
        sum.started += stats.started;
        sum.succeeded += stats.succeeded;
        sum.failed += stats.failed;
        sum.cancelled += stats.cancelled;
        sum.lost += stats.lost;
        sum.quarantined += stats.quarantined;
        sum.deleted += stats.deleted;
        sum.retried += stats.retried;
        sum.running += stats.running;
        sum.ready += stats.ready;
        sum.waiting += stats.waiting;
        sum.commits += stats.commits;
        sum.cpu_us += stats.cpu_us;
        sum.rss_bytes += stats.rss_bytes;
    }
    sum
}
