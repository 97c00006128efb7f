//! `verify fleet`: many servers and many more workers, each connected to a few of them. The jobs of every shard run; one
//! worker with a rare label serves every server; and the connections of a server that dies move to the others, and back.

mod figures;
mod host;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use futures_util::{StreamExt, TryStreamExt, stream};
use punctual_api::{JobRequest, WorkerView};
use punctual_client::{Client, Waited};
use punctual_core::server_choice::preferred;
use punctual_core::task::{Probe, Run, TaskSpec};
use punctual_core::{JobId, ShardId, Timestamp};
use tokio::time::Instant;

use self::figures::{idle_cost, least_expected, memory_mib, spread, workers_of_servers};
pub use self::host::{FleetWorkers, run as run_workers};
use crate::cluster::{Cluster, DatabaseKind, Process, Programs, Shape, eventually};
use crate::findings::Findings;
use crate::history::RunFolder;

/// Most of the time goes into starting the fleet on a machine that is too small for it.
const PATIENCE: Duration = Duration::from_secs(180);
/// The workers of one process.
const HOSTED_MAX: usize = 500;
/// Calls at a time.
const CALLS_MAX: usize = 32;
const SHARDS_EACH: usize = 5;
const RARE: &str = "rare=yes";

#[derive(Debug, Clone, Args)]
pub struct Fleet {
    #[arg(long, default_value_t = 20)]
    pub servers: usize,
    #[arg(long, default_value_t = 2000)]
    pub workers: usize,
    /// How many servers a worker connects to
    #[arg(long, default_value_t = 5)]
    pub connections: u32,
    /// Jobs for each server, before and after one is killed
    #[arg(long, default_value_t = 200)]
    pub jobs: usize,
    /// How long the idle fleet is measured
    #[arg(long, default_value_t = 20)]
    pub seconds: u64,
    /// The longest that the first jobs with the rare label may wait, in seconds
    #[arg(long, default_value_t = 5.0)]
    pub rare_within: f64,
    #[arg(long, default_value_t = 1)]
    pub rounds: u32,
}

impl Fleet {
    /// One round in `folder`. An error is a fault of the machine, not of the system.
    pub async fn round(&self, folder: &RunFolder) -> anyhow::Result<Findings> {
        let mut shape = Shape::new(self.servers, 0, DatabaseKind::QuickPostgres);
        // As many shards for each server: of 64 shards, 16 servers take 4 each, and 4 of 20 servers get none.
        let shards = (self.servers * SHARDS_EACH).min(usize::from(ShardId::COUNT_MAX));
        shape.settings.push(("PUNCTUAL_SHARDS", shards.to_string()));
        let mut cluster = Cluster::start(shape, folder.clone(), Programs::find()?).await?;
        let mut findings = Findings::default();
        let bare_mib = memory_mib(&cluster).await;
        eprintln!("  {:.0} MiB for each server before workers connect", bare_mib / self.servers as f64);
        let mut hosts = self.start_workers(&cluster).await?;
        let client = cluster.clients()?.remove(0);
        self.check_spread(&client, self.servers, &mut findings).await;
        let per_stream_kib =
            (memory_mib(&cluster).await - bare_mib) * 1024.0 / (self.workers as f64 * f64::from(self.connections));
        eprintln!("  {per_stream_kib:.0} KiB of the servers' memory for each worker that is connected");
        eprintln!("  {}", idle_cost(&cluster, self.seconds).await);
        self.run_everywhere(&cluster, "all servers", &mut findings).await?;

        let rare = FleetWorkers::new(&cluster, "rare", 1, 1)?.labelled(RARE);
        hosts.push(rare.start(&cluster)?);
        self.run_rare(&cluster, &mut findings).await?;

        let killed = self.servers - 1;
        cluster.servers[killed].kill();
        let begun = Instant::now();
        self.wait_for_streams(&client, self.servers - 1).await?;
        eprintln!("  a server was killed: its workers had found others after {:.1?}", begun.elapsed());
        cluster.wait_for_shards(PATIENCE).await?;
        self.run_everywhere(&cluster, "the servers that are left", &mut findings).await?;
        let begun = Instant::now();
        cluster.start_server(killed).await?;
        eventually("the server that is back to have its workers", PATIENCE, async || {
            let workers = workers_of_servers(&client).await;
            workers.len() == self.servers
                && f64::from(workers[0]) >= least_expected(self.workers, self.connections, self.servers)
        })
        .await?;
        eprintln!("  it was back with its share of workers after {:.1?}", begun.elapsed());
        eprintln!("  {}", spread(&workers_of_servers(&client).await));
        for host in &mut hosts {
            host.ask_to_end();
        }
        for host in &mut hosts {
            host.stop().await?;
        }
        cluster.stop().await?;
        Ok(findings)
    }

    async fn start_workers(&self, cluster: &Cluster) -> anyhow::Result<Vec<Process>> {
        let begun = Instant::now();
        let mut hosts = Vec::new();
        let mut left = self.workers;
        while left > 0 {
            let count = left.min(HOSTED_MAX);
            let name = format!("host-{}", hosts.len() + 1);
            hosts.push(FleetWorkers::new(cluster, &name, count, self.connections)?.start(cluster)?);
            left -= count;
        }
        let client = cluster.clients()?.remove(0);
        self.wait_for_streams(&client, self.servers).await?;
        eprintln!("  {} workers were connected after {:.1?}", self.workers, begun.elapsed());
        Ok(hosts)
    }

    /// Until every worker is connected to as many servers as it should be.
    async fn wait_for_streams(&self, client: &Client, servers: usize) -> anyhow::Result<()> {
        let wanted = self.workers as u32 * self.connections;
        eventually("every worker to have its connections", PATIENCE, async || {
            let workers = workers_of_servers(client).await;
            workers.len() == servers && workers.iter().sum::<u32>() >= wanted
        })
        .await
    }

    async fn check_spread(&self, client: &Client, servers: usize, findings: &mut Findings) {
        let wanted = self.workers as u32 * self.connections;
        // Links to the servers that workers knew first are released.
        let mut workers = Vec::new();
        let _ = eventually("links that are not needed to be closed", PATIENCE, async || {
            workers = workers_of_servers(client).await;
            workers.iter().sum::<u32>() == wanted
        })
        .await;
        eprintln!("  {}", spread(&workers));
        let least = least_expected(self.workers, self.connections, servers);
        findings.expect(workers.iter().all(|count| f64::from(*count) >= least), || {
            format!("a server has fewer than {least:.0} workers: {workers:?}")
        });
        findings
            .expect(workers.iter().sum::<u32>() == wanted, || format!("{wanted} streams are expected: {workers:?}"));
    }

    /// Jobs in the shards of every server that runs: all succeed at the first attempt.
    async fn run_everywhere(&self, cluster: &Cluster, whose: &str, findings: &mut Findings) -> anyhow::Result<()> {
        let begun = Instant::now();
        let ids = submit_to_each(cluster, self.jobs, &TaskSpec::new(Run::Probe(Probe::default()))).await?;
        let total = ids.len();
        let ended = wait_for_all(&cluster.clients()?[0], ids).await?;
        eprintln!("  {total} jobs of {whose} ended after {:.1?}", begun.elapsed());
        let bad = ended.iter().filter(|job| job.state != "succeeded" || job.attempts != 1).count();
        findings.expect(bad == 0, || format!("{bad} of {total} jobs did not succeed at the first attempt"));
        Ok(())
    }

    /// Jobs that only one worker can run, in the shards of every server.
    async fn run_rare(&self, cluster: &Cluster, findings: &mut Findings) -> anyhow::Result<()> {
        let (key, value) = RARE.split_once('=').context("a label")?;
        let labels = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let spec = TaskSpec { labels, ..TaskSpec::new(Run::Probe(Probe::default())) };
        let client = cluster.clients()?.remove(0);
        // Before that, a server that it leaves could run its job without asking for it.
        eventually(
            "the rare worker to be connected to the server that it chose, and to no other",
            PATIENCE,
            async || {
                let servers = client.servers().await.map(|list| list.servers).unwrap_or_default();
                rare_worker(&client).await.is_some_and(|rare| {
                    let first =
                        preferred(rare.id, servers.iter().map(|server| server.address.as_str())).first().copied();
                    let chosen = servers.iter().filter(|server| Some(server.address.as_str()) == first);
                    rare.servers == chosen.map(|server| server.id).collect::<Vec<_>>()
                })
            },
        )
        .await?;
        let ids = submit_to_each(cluster, 1, &spec).await?;
        let ended = wait_for_all(&client, ids).await?;
        let owners: BTreeSet<u16> = ended.iter().map(|job| job.id.shard().0).collect();
        let mut waits: Vec<f64> = ended.iter().map(|job| job.waited_secs).collect();
        waits.sort_by(f64::total_cmp);
        let (median, longest) = (waits[waits.len() / 2], waits[waits.len() - 1]);
        eprintln!(
            "  the first job with a rare label of each of {} servers started after {median:.2} s (median), {longest:.2} s (longest)",
            owners.len()
        );
        findings.expect(owners.len() == self.servers, || {
            format!("jobs of {} servers ran on the rare worker, of {}", owners.len(), self.servers)
        });
        findings.expect(longest <= self.rare_within, || {
            format!("a job with a rare label waited for {longest:.2} s, more than {} s", self.rare_within)
        });
        let connections = rare_worker(&client).await.map_or(0, |worker| worker.servers.len());
        findings.expect(connections == self.servers, || {
            format!("the worker with the rare label is connected to {connections} servers of {}", self.servers)
        });
        Ok(())
    }
}

/// The only worker that has a label.
async fn rare_worker(client: &Client) -> Option<WorkerView> {
    let workers = client.workers().await.map(|list| list.workers).unwrap_or_default();
    workers.into_iter().find(|worker| !worker.labels.is_empty())
}

struct EndedJob {
    id: JobId,
    state: String,
    attempts: usize,
    /// From when it was due until its first attempt started.
    waited_secs: f64,
}

/// A new job stays at the server that took it.
async fn submit_to_each(cluster: &Cluster, jobs: usize, spec: &TaskSpec) -> anyhow::Result<Vec<JobId>> {
    let request = JobRequest { inline: Some(spec.clone()), ..JobRequest::default() };
    let calls = cluster.clients()?.into_iter().flat_map(|client| std::iter::repeat_n(client, jobs));
    let submitted = stream::iter(calls).map(|client| {
        let request = request.clone();
        async move { client.submit(&request).await.map(|job| job.id) }
    });
    Ok(submitted.buffer_unordered(CALLS_MAX).try_collect().await?)
}

async fn wait_for_all(client: &Client, ids: Vec<JobId>) -> anyhow::Result<Vec<EndedJob>> {
    let waits = stream::iter(ids).map(|id| async move {
        let Waited::Finished(job) = client.wait_finished(id, Some(PATIENCE)).await? else {
            anyhow::bail!("{id} has not ended within {PATIENCE:?}");
        };
        let started: Option<Timestamp> = job.attempts.first().map(|attempt| attempt.started_at);
        let waited = started.map_or(0.0, |at| at.since(job.due_at).as_micros() as f64 / 1e6);
        Ok(EndedJob { id, state: job.state.clone(), attempts: job.attempts.len(), waited_secs: waited })
    });
    waits.buffer_unordered(CALLS_MAX).try_collect().await
}
