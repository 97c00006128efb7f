//! TLS between servers. Both ends show the certificates that the cluster's authority issued to them, and a server talks only to the
//! one that it means to talk to, wherever that is.

use std::io;
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use punctual_app::Peer;
use punctual_pki::{ClientTls, ClusterRoots, OwnCertificate, PkiError, ServerCheck, Trust, explain};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

/// Connecting and the handshake together. Peers are near.
const READY_WITHIN: Duration = Duration::from_secs(2);

/// What a server shows other servers, and how it knows them.
#[derive(Debug, Clone)]
pub struct PeerTls {
    pub roots: ClusterRoots,
    pub own: OwnCertificate,
}

impl PeerTls {
    /// A connection that is made when it is first used, to this peer and no other.
    pub(crate) fn channel(&self, peer: &Peer, endpoint: &Endpoint) -> Result<Channel, PkiError> {
        let check = ServerCheck::Id(peer.id.to_string());
        let trust = Trust::Cluster(self.roots.clone(), check);
        let tls = ClientTls::new(&trust, Some(self.own.clone()), &[b"h2"])?;
        Ok(endpoint.connect_with_connector_lazy(service_fn(move |uri| dial(uri, tls.clone()))))
    }
}

async fn dial(uri: Uri, tls: ClientTls) -> io::Result<TokioIo<TlsStream<TcpStream>>> {
    let host = uri.host().unwrap_or_default();
    let name = tls.server_name(host).map_err(io::Error::other)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let connected = timeout(READY_WITHIN, async {
        let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(443))).await?;
        stream.set_nodelay(true)?;
        TlsConnector::from(tls.config()).connect(name, stream).await
    });
    match connected.await? {
        Ok(stream) => Ok(TokioIo::new(stream)),
        // The reason goes into the log of whoever asked, and not the chain of libraries around it.
        Err(error) => Err(match explain(&error) {
            Some(explanation) => io::Error::other(explanation.reason),
            None => error,
        }),
    }
}
