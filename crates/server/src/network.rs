//! How a server may be reached: over TLS or not, by which names, and through which proxies.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use http::uri::{Authority, Scheme};
use punctual_app::SocketUser;
use punctual_core::host;
use punctual_pki::{CertificateName, ServerTls};

use crate::connections::Connection;
use crate::proxies::Proxies;

/// Without TLS, names and proxies, a server is reached on loopback alone.
#[derive(Debug, Clone, Default)]
pub struct Network {
    pub tls: Option<Arc<ServerTls>>,
    /// The names and addresses that people, workers and peers use, beside those of loopback. Without ports and brackets, in lower
    /// case.
    pub hosts: Arc<[String]>,
    /// Those that end TLS in front of this server.
    pub proxies: Proxies,
}

/// A connection, as the transport knows it.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    pub(crate) user: SocketUser,
    /// The other end; a proxy's, if it is one.
    pub(crate) address: Option<IpAddr>,
    /// This end.
    pub(crate) local: Option<IpAddr>,
    pub(crate) encryption: Encryption,
    /// Verified in the handshake.
    pub(crate) certificate: Option<Arc<CertificateName>>,
}

/// The connection of a request. Goes with each of its requests to the guard.
pub(crate) struct Link {
    pub(crate) connection: Connection,
    pub(crate) wire: Wire,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encryption {
    Plain,
    Tls,
}

impl Encryption {
    pub(crate) fn scheme(self) -> Scheme {
        match self {
            Self::Plain => Scheme::HTTP,
            Self::Tls => Scheme::HTTPS,
        }
    }
}

impl Network {
    /// Whether a request for this host is for this server. A web page can make its own name resolve to any address, so names
    /// count only if they were configured; an address that is written as one cannot be made to lead elsewhere.
    pub(crate) fn serves(&self, authority: &Authority, wire: Option<&Wire>) -> bool {
        let Some(host) = plain_host(authority) else { return false };
        if host::is_loopback(host) {
            return true;
        }
        let bare = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inner) if inner.parse::<Ipv6Addr>().is_err() => return false,
            Some(inner) => inner,
            None => host,
        };
        if self.hosts.iter().any(|known| known.eq_ignore_ascii_case(bare)) {
            return true;
        }
        let local = wire.and_then(|wire| wire.local);
        local.is_some_and(|local| bare.parse::<IpAddr>().is_ok_and(|asked| asked.to_canonical() == local))
    }

    /// Whether a connection without TLS may be used: on loopback it always may, from elsewhere only by proxies.
    pub(crate) fn takes_plain_from(&self, address: IpAddr) -> bool {
        address.to_canonical().is_loopback() || self.proxies.contains(address)
    }
}

/// The host without its port. The whole authority is compared: the parser takes `[::1].evil` for the host `[::1]`, and a user
/// name before the host is for readers to trip over.
fn plain_host(authority: &Authority) -> Option<&str> {
    let host = authority.host();
    let port = match authority.as_str().strip_prefix(host)? {
        "" => return Some(host),
        rest => rest.strip_prefix(':')?,
    };
    port.bytes().all(|byte| byte.is_ascii_digit()).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(hosts: &[&str], proxies: &str) -> Network {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        Network { tls: None, hosts, proxies: proxies.parse().unwrap() }
    }

    #[test]
    fn configured_names_and_the_address_of_the_connection_are_served() {
        let network = network(&["punctual.example", "10.0.0.9", "fd00::9"], "");
        let wire = |local: &str| Wire {
            user: SocketUser::Unknown,
            address: None,
            local: Some(local.parse().unwrap()),
            encryption: Encryption::Tls,
            certificate: None,
        };
        let serves = |host: &str| network.serves(&host.parse().unwrap(), Some(&wire("10.0.0.5")));
        for host in
            ["punctual.example", "PUNCTUAL.example:8020", "10.0.0.9:1", "10.0.0.5:8020", "localhost", "[fd00::9]:1"]
        {
            assert!(serves(host), "{host}");
        }
        for host in ["evil.example", "x.punctual.example", "10.0.0.6", "punctual.example.evil", "me@punctual.example"] {
            assert!(!serves(host), "{host}");
        }
    }

    #[test]
    fn plain_connections_are_taken_from_loopback_and_proxies_alone() {
        let network = network(&[], "10.0.0.5");
        let takes = |address: &str| network.takes_plain_from(address.parse().unwrap());
        assert!(takes("127.0.0.1") && takes("::1") && takes("10.0.0.5") && takes("::ffff:127.0.0.1"));
        assert!(!takes("10.0.0.6") && !takes("192.0.2.1"));
    }
}
