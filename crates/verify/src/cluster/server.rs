//! A server of a cluster, over all its lives.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use punctual_client::Client;

use super::hosts::{Host, PORT};
use super::network::Access;
use super::{Cluster, Network, PATIENCE, Process};
use crate::proxy::Proxy;

/// Debian's package `faketime` puts it here.
const LIBFAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

pub fn has_libfaketime() -> bool {
    Path::new(LIBFAKETIME).exists()
}

/// What a server is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    All,
    /// It answers clients and owns no shards.
    Api,
}

pub struct Server {
    pub number: usize,
    role: Role,
    access: Access,
    pub process: Option<Process>,
    /// Where it runs, if not beside everything else.
    pub host: Option<Host>,
    /// Where it really listens, since its first start.
    address: Option<SocketAddr>,
    /// Where workers and peers find it.
    pub front: Option<Proxy>,
    /// Where it finds the database.
    pub back: Option<Proxy>,
    clock_file: PathBuf,
}

impl Server {
    pub(super) async fn make(number: usize, role: Role, cluster: &mut Cluster) -> anyhow::Result<Self> {
        let (mut front, mut back) = (None, None);
        let host = cluster.add_host()?;
        let network = cluster.shape.network;
        if cluster.shape.proxied && host.is_none() {
            front = Some(Proxy::start(network.host(), cluster.known.clone()).await?);
        }
        if let Some(database) = cluster.database.address()
            && (cluster.shape.proxied || host.is_some())
        {
            // PostgreSQL itself is on loopback, for which it trusts us.
            let at = if host.is_some() { network.host() } else { Network::Loopback.host() };
            let proxy = Proxy::start(at, cluster.known.clone()).await?;
            proxy.lead_to(database);
            back = Some(proxy);
        }
        let clock_file = cluster.file(&format!("clock-{number}"));
        let access = Access::new(network, &cluster.file("data"));
        let address = host.as_ref().map(|host| SocketAddr::from((host.address, PORT)));
        Ok(Self { number, role, access, process: None, host, address, front, back, clock_file })
    }

    pub fn name(&self) -> String {
        format!("server {}", self.number)
    }

    pub fn is_api_only(&self) -> bool {
        self.role == Role::Api
    }

    pub fn runs(&self) -> bool {
        self.process.is_some()
    }

    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    /// Where it listens, since its first start.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Where workers and peers are sent.
    pub fn advertised(&self) -> anyhow::Result<SocketAddr> {
        match &self.front {
            Some(front) => Ok(front.address()),
            None => self.address.context("the server was never started"),
        }
    }

    pub fn client(&self) -> anyhow::Result<Client> {
        let address = self.address.context("the server was never started")?;
        self.access.client(address)
    }

    fn command(&self, cluster: &Cluster, listen: &str) -> Command {
        let program = &cluster.programs.punctual;
        let mut command = self.host.as_ref().map_or_else(|| Command::new(program), |host| host.program(program));
        command.args(["server", "--exit-with-stdin", "-o", "json", "--listen", listen]);
        command.arg("--data-dir").arg(cluster.file("data"));
        command.current_dir(cluster.path()).stdout(Stdio::piped()).env("PUNCTUAL_LOG", "info");
        if let Some(url) = cluster.database.url(self.back.as_ref().map(Proxy::address)) {
            command.env("PUNCTUAL_DATABASE", url);
        }
        if let Some(front) = &self.front {
            command.env("PUNCTUAL_ADVERTISE", self.access.network.url(front.address()));
        }
        if self.access.network.has_tls() {
            command.env("PUNCTUAL_TLS", "cluster");
        }
        if self.is_api_only() {
            command.env("PUNCTUAL_ROLES", "api");
        }
        for (setting, value) in &cluster.shape.settings {
            command.env(setting, value);
        }
        command
    }

    /// Starts another server with this one's address, as a copied setting would, and answers how it ended.
    pub async fn start_copy(&self, cluster: &Cluster) -> anyhow::Result<ExitStatus> {
        let network = self.access.network;
        let mut command = self.command(cluster, &format!("{}:0", network.host()));
        command.env("PUNCTUAL_ADVERTISE", network.url(self.advertised()?)).stdin(Stdio::piped());
        let log = std::fs::File::create(cluster.file("server-copy.log"))?;
        let mut copy = command.stderr(log).spawn().context("cannot start a copy")?;
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            if let Some(status) = copy.try_wait()? {
                return Ok(status);
            }
            if tokio::time::Instant::now() >= deadline {
                copy.kill()?;
                return Ok(copy.wait()?);
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    pub(super) async fn start(&mut self, cluster: &Cluster) -> anyhow::Result<()> {
        let name = format!("server-{}", self.number);
        // The same address in all its lives, as an operator would have it. The proxy must lead there before the server
        // starts, because it asks for itself at the address of the proxy.
        let address = match self.address {
            Some(address) => address,
            None => free_address(self.access.network.host())?,
        };
        self.address = Some(address);
        if let Some(front) = &self.front {
            front.lead_to(address);
        }
        let mut command = self.command(cluster, &address.to_string());
        if cluster.shape.fake_clock {
            std::fs::write(&self.clock_file, "+0\n")?;
            command.env("LD_PRELOAD", LIBFAKETIME).env("FAKETIME_TIMESTAMP_FILE", &self.clock_file);
            command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        let mut process = Process::start(command, &self.name(), &cluster.file(&format!("{name}.log")))?;
        let stdout = process.stdout().context("stdout is piped")?;
        let first_line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line).map(|_| line)
        });
        let line = tokio::time::timeout(PATIENCE, first_line).await;
        let line = line.with_context(|| format!("{name} is not ready within {PATIENCE:?}"))???;
        let ready: serde_json::Value =
            serde_json::from_str(&line).with_context(|| format!("{name} did not start; see its log: {line:?}"))?;
        let url = ready["url"].as_str().context("the server says its address")?;
        anyhow::ensure!(url.ends_with(&address.to_string()), "{name} listens at {url}, not at {address}");
        cluster.known.add(process.pid());
        self.process = Some(process);
        Ok(())
    }

    /// Sets the clock that the server reads; only of one that was started with a fake clock.
    pub fn set_clock(&self, offset: &str) -> anyhow::Result<()> {
        Ok(std::fs::write(&self.clock_file, format!("{offset}\n"))?)
    }

    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    pub async fn stop(&mut self) -> anyhow::Result<()> {
        match self.process.take() {
            Some(mut process) => process.stop().await,
            None => Ok(()),
        }
    }

    /// What it says of itself, or nothing if it does not answer soon.
    pub async fn stats(&self) -> Option<punctual_api::Stats> {
        let client = self.client().ok()?;
        tokio::time::timeout(Duration::from_secs(1), client.stats()).await.ok()?.ok()
    }

    pub async fn shards_owned(&self) -> Option<u16> {
        let client = self.client().ok()?;
        let node = tokio::time::timeout(Duration::from_secs(1), client.server()).await.ok()?.ok()?;
        Some(node.shards_owned)
    }
}

/// An address that nobody listens at.
fn free_address(host: IpAddr) -> anyhow::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind((host, 0)).context("no free port")?;
    Ok(listener.local_addr()?)
}
