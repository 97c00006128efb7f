//! The system under test: a server and a worker as processes of their own, in a
//! folder of their own, gone at the end; or a server that runs already.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use punctual_api::Stats;
use punctual_client::{Client, IfMatch};
use punctual_core::task::{Probe, Run, TaskSpec};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::Options;
use super::figure::Figure;
use super::machine::{Steal, cpu_us, rss_mib};

/// The task that does nothing.
pub(crate) const NOOP: &str = "bench-noop";
/// The task that returns the worker's clock.
pub(crate) const CLOCK: &str = "bench-clock";

const START_LIMIT: Duration = Duration::from_secs(120);

pub(crate) struct Arena {
    pub(crate) client: Client,
    store: String,
    children: Option<Children>,
}

struct Children {
    dir: TempDir,
    settings: Vec<(String, String)>,
    server: Child,
    worker: Option<Child>,
}

/// What was so when a measurement began.
pub(crate) struct Mark {
    begun: Instant,
    cpu_us: Option<u64>,
    stats: Stats,
    steal: Steal,
}

impl Arena {
    /// A server without a worker, or the one that was named.
    pub(crate) async fn start(options: &Options) -> anyhow::Result<Self> {
        if let Some(url) = &options.url {
            return Self::with(Client::new(url)?, None).await;
        }
        let dir = tempfile::Builder::new().prefix("punctual-bench-").tempdir()?;
        let (server, url) = spawn_server(dir.path(), &options.settings).await?;
        let children = Children { dir, settings: options.settings.clone(), server, worker: None };
        Self::with(Client::new(&url)?, Some(children)).await
    }

    async fn with(client: Client, children: Option<Children>) -> anyhow::Result<Self> {
        let store = client.server().await?.store;
        let clock = Probe { report_time: true, ..Probe::default() };
        for (name, probe) in [(NOOP, Probe::default()), (CLOCK, clock)] {
            client.apply_task(name, &TaskSpec::new(Run::Probe(probe)), IfMatch::Any).await?;
        }
        Ok(Self { client, store, children })
    }

    pub(crate) fn url(&self) -> &str {
        self.client.url()
    }

    pub(crate) fn is_own(&self) -> bool {
        self.children.is_some()
    }

    /// Starts the worker's process; it connects in its own time.
    pub(crate) fn start_worker(&mut self) -> anyhow::Result<()> {
        let url = self.client.url().to_owned();
        let Some(children) = &mut self.children else {
            return Ok(());
        };
        let spool = children.dir.path().join("spool");
        let mut command = punctual(children.dir.path(), "worker", &children.settings)?;
        // Many slots: what is measured is the system, not the wait for a slot.
        command.args(["--server", &url, "--slots", "4096", "--spool-dir"]).arg(spool).stdout(Stdio::null());
        children.worker = Some(command.spawn().context("cannot start a worker")?);
        Ok(())
    }

    pub(crate) async fn worker_connected(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while self.client.stats().await?.workers == 0 {
            if begun.elapsed() > START_LIMIT {
                bail!("no worker connected within {START_LIMIT:?}{}", self.last_words("worker"));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Kills the server and starts it again on the same folder; how long until it was ready.
    pub(crate) async fn restart_server(&mut self) -> anyhow::Result<Option<Duration>> {
        let Some(children) = &mut self.children else {
            return Ok(None);
        };
        children.server.kill().await?;
        let begun = Instant::now();
        let (server, url) = spawn_server(children.dir.path(), &children.settings).await?;
        children.server = server;
        self.client = Client::new(&url)?;
        Ok(Some(begun.elapsed()))
    }

    fn cpu_us(&self, stats: &Stats) -> Option<u64> {
        let Some(children) = &self.children else {
            return Some(stats.cpu_us);
        };
        let server = cpu_us(children.server.id()?)?;
        let worker = children.worker.as_ref().and_then(|worker| cpu_us(worker.id()?));
        Some(server + worker.unwrap_or_default())
    }

    pub(crate) fn rss_mib(&self, stats: &Stats) -> Option<f64> {
        match &self.children {
            Some(children) => rss_mib(children.server.id()?),
            None => Some(stats.rss_bytes as f64 / f64::from(1 << 20)),
        }
    }

    pub(crate) async fn mark(&self) -> anyhow::Result<Mark> {
        let stats = self.client.stats().await?;
        let (cpu_us, steal) = (self.cpu_us(&stats), Steal::now());
        Ok(Mark { begun: Instant::now(), cpu_us, stats, steal })
    }

    /// The figure of a workload that began at `mark` and took `elapsed`.
    pub(crate) async fn figure(
        &self,
        workload: &str,
        mark: &Mark,
        elapsed: Duration,
        jobs: u64,
    ) -> anyhow::Result<Figure> {
        let stats = self.client.stats().await?;
        let each = |amount: u64| (jobs > 0).then(|| amount as f64 / jobs as f64);
        let cpu = self.cpu_us(&stats).zip(mark.cpu_us).map(|(after, before)| after.saturating_sub(before));
        let seconds = elapsed.as_secs_f64();
        Ok(Figure {
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
        })
    }

    /// Every acknowledged job is there, and no other.
    pub(crate) async fn audit_submitted(&self, mark: &Mark, jobs: u64) -> anyhow::Result<()> {
        let submitted = self.client.stats().await?.submitted - mark.stats.submitted;
        // A server of someone else may be given other jobs, too.
        if self.is_own() && submitted != jobs {
            bail!("{jobs} jobs were acknowledged and {submitted} accepted");
        }
        Ok(())
    }

    /// The end of a child's log, to say why it did not do its work.
    pub(crate) fn last_words(&self, of: &str) -> String {
        self.children.as_ref().map(|children| last_words(children.dir.path(), of)).unwrap_or_default()
    }

    /// Ends the processes and removes their folder.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        if let Some(mut children) = self.children {
            if let Some(worker) = &mut children.worker {
                worker.kill().await?;
            }
            children.server.kill().await?;
            children.dir.close()?;
        }
        Ok(())
    }
}

impl Mark {
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// Our own executable, blind to the settings of this machine and this user.
fn punctual(dir: &Path, verb: &str, settings: &[(String, String)]) -> anyhow::Result<Command> {
    let nothing = dir.join("empty.toml");
    std::fs::write(&nothing, "")?;
    let log = std::fs::File::create(log_path(dir, verb))?;
    let mut command = Command::new(std::env::current_exe()?);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PUNCTUAL_") {
            command.env_remove(name);
        }
    }
    command
        .arg(verb)
        .arg("--config")
        .arg(nothing)
        .args(["--quiet", "--output", "json", "--exit-with-stdin"])
        .envs(settings.iter().map(|(key, value)| (crate::config::variable(key), value)))
        // Its end tells the child that we are gone, even if we were killed.
        .stdin(Stdio::piped())
        .stderr(log)
        .kill_on_drop(true);
    Ok(command)
}

async fn spawn_server(dir: &Path, settings: &[(String, String)]) -> anyhow::Result<(Child, String)> {
    let mut command = punctual(dir, "server", settings)?;
    command.args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(dir.join("data")).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start a server")?;
    let stdout = child.stdout.take().expect("it was just piped");
    let mut lines = BufReader::new(stdout).lines();
    let line = tokio::time::timeout(START_LIMIT, lines.next_line()).await.context("the server is not ready")??;
    let line = line.with_context(|| format!("the server ended at once{}", last_words(dir, "server")))?;
    let ready: serde_json::Value = serde_json::from_str(&line)?;
    let url = ready["url"].as_str().context("the server did not name its address")?.to_owned();
    let client = Client::new(&url)?.with_repeat_budget(Duration::ZERO);
    let begun = Instant::now();
    while let Err(error) = client.ready().await {
        if begun.elapsed() > START_LIMIT {
            return Err(error).context("the server is not ready");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok((child, url))
}

fn log_path(dir: &Path, of: &str) -> PathBuf {
    dir.join(format!("{of}.log"))
}

fn last_words(dir: &Path, of: &str) -> String {
    let log = std::fs::read_to_string(log_path(dir, of)).unwrap_or_default();
    let lines: Vec<_> = log.lines().rev().take(5).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("; its log ends with:\n{}", lines.into_iter().rev().collect::<Vec<_>>().join("\n"))
}
