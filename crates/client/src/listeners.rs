//! Refuses programs of other users that listen at a server's address on this machine.
//!
//! The check runs before and after each connection is made, and before anything is sent on it.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use reqwest::Url;
use tower::{Layer, Service};

/// Returns why nothing may be sent to whoever listens at an address of this machine.
pub(crate) type ListenerCheck = Arc<dyn Fn(SocketAddr) -> Option<String> + Send + Sync>;

/// A listener that must not receive anything.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UntrustedListener(pub(crate) String);

/// The addresses of this machine that a URL leads to. What is no URL leads nowhere.
pub fn loopback_addresses(url: &str) -> Vec<SocketAddr> {
    let Ok(url) = Url::parse(url) else { return Vec::new() };
    let port = url.port_or_known_default().unwrap_or(80);
    let ips: Vec<IpAddr> = match url.host_str().unwrap_or_default() {
        "localhost" => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        host => host.trim_start_matches('[').trim_end_matches(']').parse().into_iter().collect(),
    };
    ips.into_iter().filter(|ip| ip.to_canonical().is_loopback()).map(|ip| SocketAddr::new(ip, port)).collect()
}

/// Wraps the connections to one server.
#[derive(Clone)]
pub(crate) struct ListenerLayer {
    pub(crate) addresses: Arc<[SocketAddr]>,
    pub(crate) distrust: ListenerCheck,
}

impl<S> Layer<S> for ListenerLayer {
    type Service = CheckedConnector<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CheckedConnector { inner, rule: self.clone() }
    }
}

impl ListenerLayer {
    fn check(&self) -> Result<(), BoxError> {
        match self.addresses.iter().find_map(|address| (self.distrust)(*address)) {
            Some(reason) => Err(UntrustedListener(reason).into()),
            None => Ok(()),
        }
    }
}

type BoxError = Box<dyn Error + Send + Sync>;

#[derive(Clone)]
pub(crate) struct CheckedConnector<S> {
    inner: S,
    rule: ListenerLayer,
}

impl<S, R> Service<R> for CheckedConnector<S>
where
    S: Service<R, Error = BoxError>,
    S::Future: Send + 'static,
    S::Response: 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let rule = self.rule.clone();
        if let Err(refused) = rule.check() {
            return Box::pin(async { Err(refused) });
        }
        let connecting = self.inner.call(request);
        Box::pin(async move {
            let connection = connecting.await?;
            rule.check()?;
            Ok(connection)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_of_this_machine_have_loopback_addresses() {
        for (url, addresses) in [
            ("http://127.0.0.1:8020", &["127.0.0.1:8020"][..]),
            ("http://127.0.0.1:8020/prefix", &["127.0.0.1:8020"]),
            ("http://localhost:1", &["127.0.0.1:1", "[::1]:1"]),
            ("http://[::1]:8020", &["[::1]:8020"]),
            ("http://[::1]", &["[::1]:80"]),
            ("https://127.0.0.2", &["127.0.0.2:443"]),
            ("http://[::ffff:127.0.0.1]:1", &["[::ffff:127.0.0.1]:1"]),
            ("https://example.org", &[]),
            ("http://10.0.0.1:8020", &[]),
            ("", &[]),
        ] {
            let found = loopback_addresses(url);
            let found: Vec<String> = found.iter().map(SocketAddr::to_string).collect();
            assert_eq!(found, addresses, "{url}");
        }
    }
}
