//! TLS on the far side, with certificates made for the test.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{Received, read_request};

/// A certificate that signs itself, and the key for it.
pub(crate) struct Identity {
    pub(crate) certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

pub(crate) fn identity(names: &[&str]) -> Identity {
    identity_with(names, |_| {})
}

pub(crate) fn identity_with(names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Identity {
    let key = KeyPair::generate().unwrap();
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    // Two of one name would be taken for one another.
    let own = STANDARD.encode(key.public_key_raw());
    params.distinguished_name.push(rcgen::DnType::CommonName, own);
    change(&mut params);
    let certificate = params.self_signed(&key).unwrap().der().clone();
    Identity { certificate, key: key.serialize_der() }
}

impl Identity {
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let key = PrivateKeyDer::try_from(self.key.clone()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Answers every request over TLS with the same bytes.
pub(crate) async fn answering_securely(identity: &Identity, answer: impl Into<Vec<u8>>) -> (SocketAddr, Received) {
    let answer = answer.into();
    let acceptor = identity.acceptor();
    let received = Received::default();
    let requests = received.clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let Ok(mut socket) = acceptor.accept(socket).await else { continue };
            let request = read_request(&mut socket).await;
            requests.lock().unwrap().push(request);
            let _ = socket.write_all(&answer).await;
            let _ = socket.shutdown().await;
        }
    });
    (addr, received)
}
