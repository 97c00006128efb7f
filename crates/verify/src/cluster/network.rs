//! Where the parts of a cluster listen, and how they know each other: on loopback, where the kernel says who connects, or at
//! an address that is not loopback, where nobody is admitted without TLS and a credential.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context;
use punctual_api::WorkerTokenRequest;
use punctual_client::Client;
use punctual_pki::{ClientTls, Trust, certificates_from_pem};

use super::hosts::DATABASE;

/// An address of the network that `verify faults` makes for itself.
pub const OWN_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 231, 78, 1);

/// The workers of all runs of a cluster.
const JOINS_MAX: u32 = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Plain HTTP on loopback, without credentials.
    Loopback,
    /// TLS by the cluster's own authority, an access token for clients, and certificates for workers that joined.
    Tls,
    /// The same, with each server and each worker on a host of its own.
    Hosts,
}

impl Network {
    pub fn has_tls(self) -> bool {
        self != Self::Loopback
    }

    /// Where proxies listen, and servers that have no host of their own.
    pub fn host(self) -> IpAddr {
        match self {
            Self::Loopback => Ipv4Addr::LOCALHOST.into(),
            Self::Tls => OWN_ADDRESS.into(),
            Self::Hosts => DATABASE.into(),
        }
    }

    pub fn url(self, address: SocketAddr) -> String {
        let scheme = if self.has_tls() { "https" } else { "http" };
        format!("{scheme}://{address}")
    }

    pub fn urls(self, addresses: &[SocketAddr]) -> String {
        addresses.iter().map(|address| self.url(*address)).collect::<Vec<_>>().join(",")
    }
}

/// What clients need to know of a server: its network, and the data folder with the access token and the authority.
#[derive(Debug, Clone)]
pub(super) struct Access {
    pub(super) network: Network,
    data: PathBuf,
}

impl Access {
    pub(super) fn new(network: Network, data: &Path) -> Self {
        Self { network, data: data.to_owned() }
    }

    pub(super) fn client(&self, address: SocketAddr) -> anyhow::Result<Client> {
        let client = Client::new(&self.network.url(address))?;
        if !self.network.has_tls() {
            return Ok(client);
        }
        let read =
            |name: &str| std::fs::read(self.data.join(name)).with_context(|| format!("no {name} in the data folder"));
        let roots = Trust::Roots(certificates_from_pem(&read("ca.pem")?)?);
        let tls = ClientTls::new(&roots, None, &[b"http/1.1"])?;
        let token = String::from_utf8(read("token")?)?.trim().to_owned();
        Ok(client.with_tls(tls.config().as_ref().clone())?.with_tokens(|_| Some(token.clone())))
    }
}

/// The token with which all workers of a cluster join.
pub(super) async fn join_token(client: &Client) -> anyhow::Result<String> {
    let request = WorkerTokenRequest {
        queues: vec!["default".to_owned()],
        kinds: vec!["handler".to_owned(), "binary".to_owned()],
        uses: Some(JOINS_MAX),
        ..WorkerTokenRequest::default()
    };
    Ok(client.create_worker_token(&request).await.context("no join token")?.token)
}
