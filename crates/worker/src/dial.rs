//! Opens connections to servers, and refuses programs of other users that listen at their addresses.
//!
//! Every connection passes here, also one that is re-established below a channel, so nothing is sent to a listener that was
//! not checked. All addresses of a name are tried, and those with listeners that are not trusted are skipped. With TLS the
//! certificate says who the server is, and the listener may be anybody's.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use punctual_exec::connection_trouble;
use punctual_pki::{ClientTls, explain};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;
use tonic::codegen::http::Uri;
use tonic::codegen::http::uri::Scheme;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns why the worker must not connect to an address: a program of another user may listen there.
pub(crate) type ListenerCheck = Arc<dyn Fn(SocketAddr) -> Option<String> + Send + Sync>;

/// A listener that must not receive anything.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UntrustedListener(String);

/// Answers how to open TLS connections, or why there can be none. Called for each connection, so that renewed files count.
pub(crate) type TlsSource = Arc<dyn Fn() -> Result<ClientTls, String> + Send + Sync>;

/// With or without TLS.
pub(crate) type Stream = Either<TcpStream, TlsStream<TcpStream>>;

/// A handshake takes a few round trips.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How a worker opens connections.
#[derive(Clone)]
pub(crate) struct Dialer {
    pub(crate) distrust: ListenerCheck,
    pub(crate) tls: TlsSource,
}

impl Dialer {
    /// Connects to the first address of the server that answers and is trusted.
    pub(crate) async fn dial(self, uri: Uri) -> io::Result<TokioIo<Stream>> {
        if uri.scheme() != Some(&Scheme::HTTPS) {
            return Ok(TokioIo::new(Either::Left(connect(&uri, 80, &self.distrust).await?)));
        }
        let tls = (self.tls)().map_err(|reason| io::Error::new(io::ErrorKind::InvalidInput, NoTls(reason)))?;
        let name = tls.server_name(uri.host().unwrap_or_default()).map_err(io::Error::other)?;
        let anybody: ListenerCheck = Arc::new(|_| None);
        let stream = connect(&uri, 443, &anybody).await?;
        let shaken = timeout(HANDSHAKE_TIMEOUT, TlsConnector::from(tls.config()).connect(name, stream)).await??;
        Ok(TokioIo::new(Either::Right(shaken)))
    }
}

/// TLS cannot be used: the file of the authority cannot be read, for one.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NoTls(String);

async fn connect(uri: &Uri, usual_port: u16, distrust: &ListenerCheck) -> io::Result<TcpStream> {
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let mut failure = None;
    let mut untrusted = None;
    for address in lookup_host((host, uri.port_u16().unwrap_or(usual_port))).await? {
        match dial_address(address, distrust).await {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => untrusted = Some(error),
            Err(error) => failure = Some(error),
        }
    }
    // A stranger at one address explains more than nobody at the other.
    Err(untrusted.or(failure).unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()))
}

async fn dial_address(address: SocketAddr, distrust: &ListenerCheck) -> io::Result<TcpStream> {
    let check = || match distrust(address) {
        Some(reason) => Err(io::Error::new(io::ErrorKind::PermissionDenied, UntrustedListener(reason))),
        None => Ok(()),
    };
    check()?;
    let stream = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await??;
    // The listener may have changed since; nothing has been sent yet.
    check()?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Describes why there is no connection.
pub(crate) fn trouble(error: &(dyn Error + 'static)) -> String {
    let mut cause = Some(error);
    while let Some(found) = cause {
        let inner = found.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let inner = inner.and_then(|inner| inner.downcast_ref::<UntrustedListener>());
        if let Some(untrusted) = inner {
            return untrusted.to_string();
        }
        let no_tls = found.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(no_tls) = no_tls.and_then(|inner| inner.downcast_ref::<NoTls>()) {
            return no_tls.to_string();
        }
        cause = found.source();
    }
    match explain(error) {
        Some(explanation) => explanation.to_string(),
        None => connection_trouble(error).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn check(untrusted: &'static [SocketAddr]) -> ListenerCheck {
        Arc::new(move |address| untrusted.contains(&address).then(|| format!("a stranger listens at {address}")))
    }

    #[tokio::test]
    async fn a_listener_that_is_not_trusted_is_skipped() {
        let ours = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = ours.local_addr().unwrap().port();
        let Ok(theirs) = TcpListener::bind(("::1", port)) else { return eprintln!("skipped: no IPv6 here") };
        theirs.set_nonblocking(true).unwrap();
        let stranger: &'static [SocketAddr] = vec![theirs.local_addr().unwrap()].leak();
        let uri: Uri = format!("http://localhost:{port}").parse().unwrap();
        let stream = connect(&uri, 80, &check(stranger)).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), ours.local_addr().unwrap());
        assert!(theirs.accept().is_err(), "nobody connected to the stranger");
    }

    #[tokio::test]
    async fn a_stranger_is_named_and_sent_nothing() {
        let theirs = TcpListener::bind("127.0.0.1:0").unwrap();
        theirs.set_nonblocking(true).unwrap();
        let address = theirs.local_addr().unwrap();
        let stranger: &'static [SocketAddr] = vec![address].leak();
        let uri = format!("http://{address}").parse().unwrap();
        let refused = connect(&uri, 80, &check(stranger)).await.unwrap_err();
        assert_eq!(trouble(&refused), format!("a stranger listens at {address}"));
        assert!(theirs.accept().is_err());
    }
}
