//! TLS by rustls with ring, and its failures in words.

use std::io;
use std::sync::{Arc, LazyLock};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Host;

/// Read once: there are more than a hundred.
static ROOTS: LazyLock<RootCertStore> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        tracing::warn!("no certificate authorities found: calls with TLS will fail");
    }
    roots
});

pub(super) struct Tls {
    roots: RootCertStore,
    config: Arc<ClientConfig>,
}

impl Tls {
    /// Trusts whom the system trusts.
    pub(super) fn of_this_machine() -> Self {
        let roots = ROOTS.clone();
        let config = config(&roots);
        Self { roots, config }
    }

    pub(super) fn trust(&mut self, authority: CertificateDer<'static>) {
        self.roots.add_parsable_certificates([authority]);
        self.config = config(&self.roots);
    }

    pub(super) async fn handshake<S>(&self, stream: S, host: &Host<&str>) -> Result<TlsStream<S>, String>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = match host {
            Host::Domain(name) => ServerName::try_from((*name).to_owned())
                .map_err(|_| format!("{name} is not a name that a certificate can have"))?,
            Host::Ipv4(address) => ServerName::from(std::net::IpAddr::V4(*address)),
            Host::Ipv6(address) => ServerName::from(std::net::IpAddr::V6(*address)),
        };
        TlsConnector::from(self.config.clone()).connect(name, stream).await.map_err(|error| explain(&error, host))
    }
}

fn config(roots: &RootCertStore) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the ciphers of the default versions")
        .with_root_certificates(roots.clone())
        .with_no_client_auth();
    Arc::new(config)
}

/// What a person can do something about.
fn explain(error: &io::Error, host: &Host<&str>) -> String {
    use rustls::Error;
    let Some(cause) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
        return format!("the TLS handshake failed: {error}");
    };
    match cause {
        Error::InvalidCertificate(certificate) => format!("the certificate of {host} {}", wrong(certificate)),
        Error::InvalidMessage(_) => "there is no TLS on this port".to_owned(),
        Error::AlertReceived(alert) => format!("the other side refused the TLS handshake: {alert:?}"),
        Error::PeerIncompatible(_) => format!("the other side has no TLS that is safe enough: {cause}"),
        _ => format!("the TLS handshake failed: {cause}"),
    }
}

fn wrong(error: &CertificateError) -> String {
    use CertificateError as E;
    match error {
        E::Expired | E::ExpiredContext { .. } => "has expired".to_owned(),
        E::NotValidYet | E::NotValidYetContext { .. } => "is not valid yet".to_owned(),
        E::NotValidForName | E::NotValidForNameContext { .. } => "is for another name".to_owned(),
        E::UnknownIssuer => "is signed by nobody whom this machine trusts".to_owned(),
        E::Revoked => "was revoked".to_owned(),
        E::BadSignature => "has a signature that is wrong".to_owned(),
        _ => format!("cannot be accepted: {error}"),
    }
}
