//! Whole clusters of real processes on this machine: a database, servers and workers, with
//! proxies in between where a run wants to break the network.

mod binary;
mod database;
mod hosts;
mod network;
mod process;
mod server;
mod worker;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use punctual_client::Client;
use tokio::time::Instant;

pub use binary::{punctual_binary, verify_binary};
pub use database::{Database, DatabaseKind};
pub use hosts::{DATABASE, Host};
pub use network::{Network, OWN_ADDRESS};
pub use process::Process;
pub use server::{Role, Server, has_libfaketime};
pub use worker::Worker;

use hosts::Hosts;

use crate::history::RunFolder;
use crate::proxy::Known;

/// A condition that has not come true by then never will.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What a cluster is made of.
#[derive(Debug, Clone)]
pub struct Shape {
    pub servers: usize,
    /// Servers beside those that only answer clients.
    pub api_servers: usize,
    pub workers: usize,
    /// The slots of each worker.
    pub slots: u32,
    pub database: DatabaseKind,
    /// Whether to wait until the servers have shared out the shards.
    pub balanced: bool,
    pub network: Network,
    /// Whether the network is made of proxies.
    pub proxied: bool,
    /// Whether servers read a clock that can be set.
    pub fake_clock: bool,
    /// Settings of every server, by their names in the environment.
    pub settings: Vec<(&'static str, String)>,
}

impl Shape {
    pub fn new(servers: usize, workers: usize, database: DatabaseKind) -> Self {
        Self {
            servers,
            api_servers: 0,
            workers,
            slots: 200,
            database,
            balanced: true,
            network: Network::Loopback,
            proxied: false,
            fake_clock: false,
            settings: Vec::new(),
        }
    }
}

/// The programs that a cluster runs.
#[derive(Debug, Clone)]
pub struct Programs {
    pub punctual: PathBuf,
    pub verify: PathBuf,
}

impl Programs {
    pub fn find() -> anyhow::Result<Self> {
        Ok(Self { punctual: punctual_binary()?, verify: verify_binary()? })
    }
}

pub struct Cluster {
    pub folder: RunFolder,
    pub shape: Shape,
    pub programs: Programs,
    /// The processes that proxies tell apart.
    pub known: Known,
    pub servers: Vec<Server>,
    pub workers: Vec<Worker>,
    workers_made: usize,
    /// With which workers join, where they have to.
    join_token: Option<String>,
    // Dropped last: the others use them.
    hosts: Option<Hosts>,
    pub database: Database,
}

impl Cluster {
    /// Starts everything and waits until all workers are known to all servers.
    pub async fn start(shape: Shape, folder: RunFolder, programs: Programs) -> anyhow::Result<Self> {
        let database = Database::start(&shape.database, folder.path())?;
        let known = Known::default();
        let hosts = (shape.network == Network::Hosts).then(Hosts::make).transpose()?;
        let mut cluster = Self {
            folder,
            shape,
            programs,
            known,
            servers: Vec::new(),
            workers: Vec::new(),
            workers_made: 0,
            join_token: None,
            hosts,
            database,
        };
        for number in 1..=cluster.shape.servers + cluster.shape.api_servers {
            let role = if number > cluster.shape.servers { Role::Api } else { Role::All };
            let server = Server::make(number, role, &mut cluster).await?;
            cluster.servers.push(server);
            cluster.start_server(number - 1).await?;
        }
        if cluster.shape.network.has_tls() {
            cluster.join_token = Some(network::join_token(&cluster.servers[0].client()?).await?);
        }
        for _ in 0..cluster.shape.workers {
            cluster.add_worker()?;
        }
        cluster.wait_for_workers().await?;
        if cluster.shape.balanced {
            cluster.wait_for_balance().await?;
        } else {
            cluster.wait_for_shards(PATIENCE).await?;
        }
        Ok(cluster)
    }

    pub async fn start_server(&mut self, place: usize) -> anyhow::Result<()> {
        let mut server = self.servers.remove(place);
        let started = server.start(self).await;
        self.servers.insert(place, server);
        started
    }

    /// One more, if parts have hosts of their own.
    fn add_host(&mut self) -> anyhow::Result<Option<Host>> {
        self.hosts.as_mut().map(Hosts::add).transpose()
    }

    /// A worker with a spool and a witness of its own.
    pub fn add_worker(&mut self) -> anyhow::Result<usize> {
        self.workers_made += 1;
        let worker = Worker::start(self.workers_made, self)?;
        self.known.add(worker.pid());
        self.workers.push(worker);
        Ok(self.workers.len() - 1)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.file(name)
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Of the servers that run.
    pub fn clients(&self) -> anyhow::Result<Vec<Client>> {
        self.servers.iter().filter(|server| server.runs()).map(Server::client).collect()
    }

    /// Tells a worker's command where the servers are, and with what it joins them.
    pub fn lead_worker(&self, command: &mut Command, number: &str) -> anyhow::Result<()> {
        command.env("PUNCTUAL_SERVER", self.shape.network.urls(&self.advertised()?));
        if let Some(token) = &self.join_token {
            command.env("PUNCTUAL_JOIN_TOKEN", token);
            command.env("PUNCTUAL_IDENTITY_DIR", self.file(&format!("identity-{number}")));
        }
        Ok(())
    }

    /// Where workers and peers find the servers.
    pub fn advertised(&self) -> anyhow::Result<Vec<SocketAddr>> {
        self.servers.iter().map(Server::advertised).collect()
    }

    pub async fn wait_for_workers(&self) -> anyhow::Result<()> {
        let wanted = self.workers.len();
        for server in self.servers.iter().filter(|server| server.runs() && !server.is_api_only()) {
            let client = server.client()?;
            let what = format!("{wanted} workers at {}", client.url());
            eventually(&what, PATIENCE, async || {
                let list = client.workers().await.map(|list| list.workers).unwrap_or_default();
                list.iter().filter(|worker| worker.state == "connected").count() >= wanted
            })
            .await?;
        }
        Ok(())
    }

    /// How many shards the running servers own together, and how many there are.
    pub async fn shards(&self) -> anyhow::Result<(u16, u16)> {
        let (mut owned, mut total) = (0, 0);
        for client in self.clients()? {
            if let Ok(Ok(node)) = tokio::time::timeout(Duration::from_millis(500), client.server()).await {
                owned += node.shards_owned;
                total = total.max(node.shards_total);
            }
        }
        Ok((owned, total))
    }

    /// Until every shard has an owner that runs. Answers how long that took.
    pub async fn wait_for_shards(&self, limit: Duration) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        eventually("every shard to have an owner", limit, async || {
            self.shards().await.is_ok_and(|(owned, total)| total > 0 && owned >= total)
        })
        .await?;
        Ok(begun.elapsed())
    }

    /// Until every server has about its share of the shards.
    pub async fn wait_for_balance(&self) -> anyhow::Result<()> {
        let schedulers = self.servers.iter().filter(|server| server.runs() && !server.is_api_only());
        let schedulers: Vec<_> = schedulers.collect();
        eventually("the shards to be shared out", PATIENCE, async || {
            let mut owned = Vec::new();
            for server in &schedulers {
                owned.push(server.shards_owned().await.unwrap_or(0));
            }
            let (total, share) = (self.shards().await.map_or(0, |(_, total)| total), schedulers.len() as u16);
            total > 0 && owned.iter().sum::<u16>() == total && owned.iter().all(|owned| owned + 1 >= total / share)
        })
        .await
    }

    /// One more, which takes its share of the shards by and by.
    pub async fn add_server(&mut self) -> anyhow::Result<usize> {
        let server = Server::make(self.servers.len() + 1, Role::All, self).await?;
        self.servers.push(server);
        self.start_server(self.servers.len() - 1).await?;
        Ok(self.servers.len() - 1)
    }

    /// Ends everything in order.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        for worker in &mut self.workers {
            worker.process.ask_to_end();
        }
        for worker in &mut self.workers {
            worker.stop().await.context("a worker does not leave")?;
        }
        for server in &mut self.servers {
            server.stop().await.context("a server does not stop")?;
        }
        Ok(())
    }
}

/// Waits until `condition` holds; says what it waited for if it never does.
pub async fn eventually(what: &str, limit: Duration, mut condition: impl AsyncFnMut() -> bool) -> anyhow::Result<()> {
    let deadline = Instant::now() + limit;
    while !condition().await {
        anyhow::ensure!(Instant::now() < deadline, "waited {limit:?} for {what}");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    Ok(())
}
