//! Agents that reach the servers through a proxy with TLS, by a certificate of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::binaries::{compile_c, run, text};
use crate::harness::{Home, Server, eventually};

/// Ends TLS and passes on what is inside.
struct Proxy {
    address: SocketAddr,
    certificate: String,
    /// Connections with TLS, and those that came to none.
    served: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
}

impl Proxy {
    async fn start(server: &Server) -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self {
            address: listener.local_addr().unwrap(),
            certificate: certificate.pem(),
            served: Arc::default(),
            refused: Arc::default(),
        };
        let (behind, served, refused) = (server.address(), proxy.served.clone(), proxy.refused.clone());
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (acceptor, behind) = (acceptor.clone(), behind.clone());
                let (served, refused) = (served.clone(), refused.clone());
                tokio::spawn(async move {
                    let Ok(mut secure) = acceptor.accept(socket).await else {
                        refused.fetch_add(1, Ordering::Relaxed);
                        return;
                    };
                    served.fetch_add(1, Ordering::Relaxed);
                    let mut plain = TcpStream::connect(behind).await.expect("the server takes connections");
                    let _ = tokio::io::copy_bidirectional(&mut secure, &mut plain).await;
                });
            }
        });
        proxy
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_works_through_a_proxy_with_tls_and_trusts_nobody_else() {
    let home = Home::new();
    let server = home.server();
    let proxy = Proxy::start(&server).await;
    let authority = home.file("authority.pem");
    std::fs::write(&authority, &proxy.certificate).unwrap();
    let url = format!("https://{}", proxy.address);
    let flags = ["--spawn", "process", "--agent-server", &url];
    let program = compile_c(&home, "tool", "int puts(const char *); int main() { puts(\"through\"); return 0; }");

    let trusting = [("PUNCTUAL_AGENT_CA", authority.to_str().unwrap())];
    let worker = home.strict_worker_with(&server, "spool", &flags, &trusting);
    let output = tokio::task::block_in_place(|| run(&home, &server, &program, &[]));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out.contains("through"), "{out}{err}");
    // Two for the heartbeat and the rest, and one for the file.
    assert!(proxy.served.load(Ordering::Relaxed) >= 3, "{:?}", proxy.served);
    worker.stop();

    // Without the certificate it is told that the proxy is not whom it seeks, and tells it no token.
    let before = proxy.served.load(Ordering::Relaxed);
    let _worker = home.strict_worker_with(&server, "spool", &flags, &[]);
    super::submit(&home, &server, "silent", "int main() { return 0; }", &[]);
    eventually("the agent to turn away", || async { proxy.refused.load(Ordering::Relaxed) > 0 }).await;
    assert_eq!(proxy.served.load(Ordering::Relaxed), before);
}
