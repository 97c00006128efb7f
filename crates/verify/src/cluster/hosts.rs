//! Hosts on a network: each server and each worker in a network namespace with an address and a cable of its own. What is
//! between them is the kernel's, so that a fault here is what a pulled cable or a firewall does, and not what a proxy does.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

/// Where the verifier itself is, and its clients.
const CLIENTS: Ipv4Addr = Ipv4Addr::new(10, 231, 79, 1);
/// Where servers find PostgreSQL.
pub const DATABASE: Ipv4Addr = Ipv4Addr::new(10, 231, 79, 2);
/// Of servers; all have a host of their own.
pub(super) const PORT: u16 = 7070;

const BRIDGE: &str = "verify-hosts";

/// The network of one cluster. Removed with this.
pub(super) struct Hosts {
    prefix: String,
    namespaces: Vec<String>,
}

/// One host.
#[derive(Debug, Clone)]
pub struct Host {
    namespace: String,
    cable: String,
    pub address: Ipv4Addr,
}

fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(program).args(arguments).output().with_context(|| format!("cannot run {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    anyhow::ensure!(output.status.success(), "{program} {}: {said}", arguments.join(" "));
    Ok(())
}

fn ip(arguments: &str) -> anyhow::Result<()> {
    run("ip", &arguments.split(' ').collect::<Vec<_>>())
}

impl Hosts {
    pub(super) fn make() -> anyhow::Result<Self> {
        let hosts = Self { prefix: format!("verify-{}", std::process::id()), namespaces: Vec::new() };
        ip(&format!("link add {BRIDGE} type bridge"))?;
        for address in [CLIENTS, DATABASE] {
            ip(&format!("address add {address}/24 dev {BRIDGE}"))?;
        }
        ip(&format!("link set {BRIDGE} up"))?;
        Ok(hosts)
    }

    pub(super) fn add(&mut self) -> anyhow::Result<Host> {
        let number = self.namespaces.len() + 1;
        let last = u8::try_from(number + 10).context("a cluster has less than 200 hosts")?;
        let address = Ipv4Addr::new(10, 231, 79, last);
        let (namespace, cable) = (format!("{}-{number}", self.prefix), format!("cable{number}"));
        ip(&format!("netns add {namespace}"))?;
        self.namespaces.push(namespace.clone());
        ip(&format!("link add {cable} type veth peer name eth0 netns {namespace}"))?;
        ip(&format!("link set {cable} master {BRIDGE} up"))?;
        ip(&format!("-n {namespace} address add {address}/24 dev eth0"))?;
        ip(&format!("-n {namespace} link set eth0 up"))?;
        ip(&format!("-n {namespace} link set lo up"))?;
        Ok(Host { namespace, cable, address })
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // The cables go with the namespaces. What cannot be removed goes with the network around it.
        for namespace in &self.namespaces {
            let _ = ip(&format!("netns delete {namespace}"));
        }
        let _ = ip(&format!("link delete {BRIDGE}"));
    }
}

impl Host {
    /// The program as a process of this host.
    pub(super) fn program(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.namespace)).arg("--").arg(program);
        command
    }

    pub fn pull_cable(&self) -> anyhow::Result<()> {
        ip(&format!("link set {} down", self.cable))
    }

    pub fn plug_cable(&self) -> anyhow::Result<()> {
        ip(&format!("link set {} up", self.cable))
    }

    /// Its firewall drops what arrives from these hosts.
    pub fn drop_from(&self, others: &[Ipv4Addr]) -> anyhow::Result<()> {
        self.nft("add table inet verify")?;
        self.nft("add chain inet verify arriving { type filter hook input priority 0 ; }")?;
        for other in others {
            self.nft(&format!("add rule inet verify arriving ip saddr {other} drop"))?;
        }
        Ok(())
    }

    /// Its firewall lets everything pass again.
    pub fn drop_nothing(&self) -> anyhow::Result<()> {
        self.nft("delete table inet verify")
    }

    fn nft(&self, rule: &str) -> anyhow::Result<()> {
        let net = format!("--net=/run/netns/{}", self.namespace);
        let mut arguments = vec![net.as_str(), "--", "nft"];
        arguments.extend(rule.split(' '));
        run("nsenter", &arguments)
    }
}
