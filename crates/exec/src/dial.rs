//! Makes connections, for everything that sends.
//!
//! The addresses of a host are looked up once, the guard checks every one of them, and only those
//! are connected to: what a name means a moment later makes no difference. Nothing here sends a
//! byte of a request, so whoever gets an error from here knows that the receiver did nothing.

mod tls;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::select_ok;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout_at};
use url::Host;

use crate::guard::{ConnectRefusal, Guard};
use crate::words::without_number;
use tls::Tls;

/// Shorter than the usual timeout of a request, so that a host which cannot be reached is
/// told apart from one that does not answer.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The delay between the tries of two addresses (Happy Eyeballs).
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// The number of addresses that are tried, so that all of them have a chance within the timeout.
const ADDRESSES_MAX: usize = 8;

/// Finds the addresses of a host.
#[async_trait]
pub trait Resolve: Send + Sync + 'static {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|found| found.ip()).collect())
    }
}

/// The outbound connections of a worker, shared by all executors that send.
pub struct Outbound {
    guard: Guard,
    resolver: Arc<dyn Resolve>,
    tls: Tls,
}

impl Outbound {
    pub fn new(guard: Guard) -> Self {
        Self { guard, resolver: Arc::new(SystemResolver), tls: Tls::of_this_machine() }
    }

    /// Uses another resolver than the system's. The guard checks its answers too.
    #[must_use]
    pub fn resolver(mut self, resolver: impl Resolve) -> Self {
        self.resolver = Arc::new(resolver);
        self
    }

    /// Trusts one more certificate authority.
    #[must_use]
    pub fn trust(mut self, authority: CertificateDer<'static>) -> Self {
        self.tls.trust(authority);
        self
    }

    /// Connects to an address that a task names, if the guard allows it.
    pub(crate) async fn connect(
        &self,
        host: &Host<&str>,
        port: u16,
        deadline: Instant,
    ) -> Result<TcpStream, NotConnected> {
        self.connect_if(host, port, deadline, |address| self.guard.check(&host.to_string(), address)).await
    }

    /// Connects to an address that the worker's own settings name. The guard does not apply to it.
    pub(crate) async fn connect_as_set(
        &self,
        host: &Host<&str>,
        port: u16,
        deadline: Instant,
    ) -> Result<TcpStream, NotConnected> {
        self.connect_if(host, port, deadline, |_| Ok(())).await
    }

    async fn connect_if(
        &self,
        host: &Host<&str>,
        port: u16,
        deadline: Instant,
        check: impl Fn(IpAddr) -> Result<(), ConnectRefusal>,
    ) -> Result<TcpStream, NotConnected> {
        let deadline = deadline.min(Instant::now() + CONNECT_TIMEOUT);
        let found = match host {
            Host::Ipv4(address) => vec![IpAddr::V4(*address)],
            Host::Ipv6(address) => vec![IpAddr::V6(*address)],
            Host::Domain(name) => timeout_at(deadline, self.resolver.resolve(name))
                .await
                .map_err(|_| NotConnected::Late("its name was not found in time"))?
                .map_err(NotConnected::NoAddress)?,
        };
        // One that may not be called spoils all: a name has no business to be on both sides.
        for address in &found {
            check(*address).map_err(NotConnected::Refused)?;
        }
        if found.is_empty() {
            return Err(NotConnected::NoAddress(io::Error::other("the name has no address")));
        }
        let tries = found.into_iter().take(ADDRESSES_MAX).zip(0..).map(|(address, nth)| {
            Box::pin(async move {
                sleep(NEXT_ADDRESS_AFTER * nth).await;
                TcpStream::connect(SocketAddr::new(address, port)).await
            })
        });
        let (stream, _) = timeout_at(deadline, select_ok(tries))
            .await
            .map_err(|_| NotConnected::Late("no answer to the connection"))?
            .map_err(NotConnected::Tcp)?;
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    pub(crate) async fn encrypt<S>(
        &self,
        stream: S,
        host: &Host<&str>,
        deadline: Instant,
    ) -> Result<tokio_rustls::client::TlsStream<S>, NotConnected>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let deadline = deadline.min(Instant::now() + CONNECT_TIMEOUT);
        match timeout_at(deadline, self.tls.handshake(stream, host)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(reason)) => Err(NotConnected::Tls(reason)),
            Err(_) => Err(NotConnected::Late("no answer to the TLS handshake")),
        }
    }
}

/// A connection, encrypted or not.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Why there is no connection. Does not contain the URL, which may be secret.
#[derive(Debug)]
pub(crate) enum NotConnected {
    Refused(ConnectRefusal),
    NoAddress(io::Error),
    Tcp(io::Error),
    Tls(String),
    Late(&'static str),
}

impl fmt::Display for NotConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "not called: {refusal}"),
            Self::NoAddress(error) | Self::Tcp(error) => {
                write!(f, "cannot connect: {}", without_number(&error.to_string()))
            }
            Self::Tls(reason) => write!(f, "cannot connect: {reason}"),
            Self::Late(what) => write!(f, "cannot connect: {what}"),
        }
    }
}
