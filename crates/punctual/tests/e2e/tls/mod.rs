//! Servers over TLS: the whole way of a job, hostile clients, renewed certificates, and what is refused without TLS.

mod cluster;
mod hostile;
mod namespaces;
mod network;
pub(crate) mod renewal;
mod uploads;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use punctual_client::Client;
use punctual_pki::rustls::ClientConfig;
use punctual_pki::rustls::pki_types::ServerName;
use punctual_pki::{CertificateDer, ClientTls, Trust, certificates_from_pem};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::harness::{Home, PUNCTUAL, Server};

/// What the server wrote for distribution.
fn authority_file(home: &Home) -> PathBuf {
    home.file("data/ca.pem")
}

pub(crate) fn authorities(home: &Home) -> Vec<CertificateDer<'static>> {
    let text = std::fs::read(authority_file(home)).expect("the server writes ca.pem");
    certificates_from_pem(&text).expect("it holds certificates")
}

pub(crate) fn trust_of(home: &Home) -> Trust {
    Trust::Roots(authorities(home))
}

pub(crate) fn config(trust: &Trust, protocols: &[&[u8]]) -> Arc<ClientConfig> {
    ClientTls::new(trust, None, protocols).expect("the authorities are good").config()
}

fn client(server: &Server, trust: &Trust) -> Client {
    let client = Client::new(&server.url).expect("the address is a URL");
    client.with_tls(config(trust, &[b"http/1.1"]).as_ref().clone()).expect("TLS is set up")
}

pub(crate) fn port(server: &Server) -> u16 {
    server.url.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port")
}

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port(server))).await.expect("the server listens")
}

/// A connection on which the handshake went well at this end.
pub(crate) async fn shake(
    server: &Server,
    config: Arc<ClientConfig>,
    name: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    TlsConnector::from(config).connect(name, connect(server).await).await
}

/// The answer to a request; empty if the server closed the connection.
pub(crate) async fn ask<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, request: &str) -> String {
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.expect("the server ends it");
    String::from_utf8_lossy(&answer).into_owned()
}

pub(crate) const GET: &str = "GET /v1/server HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

fn punctual(home: &Home, arguments: &[&str]) -> Output {
    Command::new(PUNCTUAL).args(arguments).current_dir(home.path()).output().expect("the command runs")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path")
}
