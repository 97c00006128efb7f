//! What a server shows and asks for in the handshake.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;

use crate::client::roots_of;
use crate::{CLUSTER_SERVER_NAME, CertificateName, ClusterName, Credentials, PkiError};

/// What a server needs to speak TLS.
#[derive(Debug, Clone)]
pub struct ServerTlsParts {
    pub cluster: ClusterName,
    /// Issued by the cluster's authority. Peers and workers always get this one.
    pub issued: Credentials,
    /// Shown to everybody else, if there is one.
    pub from_files: Option<Credentials>,
    /// All authorities of the cluster that are trusted now.
    pub authorities: Vec<CertificateDer<'static>>,
}

/// The TLS side of a server, as it is now. A handshake uses what was there when it began, so nothing fails while certificates
/// are replaced.
pub struct ServerTls {
    current: RwLock<Current>,
}

struct Current {
    config: Arc<ServerConfig>,
    cluster: ClusterName,
    shown: Credentials,
    authorities: Vec<CertificateDer<'static>>,
}

impl ServerTls {
    pub fn new(parts: ServerTlsParts) -> Result<Self, PkiError> {
        Ok(Self { current: RwLock::new(Current::new(parts)?) })
    }

    /// Used for every handshake that begins from now on. After an error everything is as before.
    pub fn replace(&self, parts: ServerTlsParts) -> Result<(), PkiError> {
        let made = Current::new(parts)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = made;
        Ok(())
    }

    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).config)
    }

    /// What browsers and commands see.
    pub fn shown(&self) -> Credentials {
        self.current.read().unwrap_or_else(PoisonError::into_inner).shown.clone()
    }

    /// What the server's own requests to the address that it advertises trust: whatever it may show there now.
    pub fn own_certificates(&self) -> Vec<CertificateDer<'static>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.authorities.iter().chain(current.shown.chain()).cloned().collect()
    }

    /// The name of a client, from the certificate that the handshake verified. `None` if it presented none.
    pub fn client_name(&self, presented: Option<&[CertificateDer<'_>]>) -> Result<Option<CertificateName>, PkiError> {
        let Some(certificate) = presented.and_then(<[_]>::first) else { return Ok(None) };
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        CertificateName::read(certificate, &current.cluster).map(Some)
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerTls")
    }
}

impl Current {
    fn new(parts: ServerTlsParts) -> Result<Self, PkiError> {
        let ServerTlsParts { cluster, issued, from_files, authorities } = parts;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = roots_of(&authorities)?;
        // The authorities are not listed to clients: browsers would ask people to choose a certificate.
        let clients = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .clear_root_hint_subjects()
            .allow_unauthenticated()
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let shown = from_files.unwrap_or_else(|| issued.clone());
        let certificates = Certificates { issued: issued.certified(), shown: shown.certified() };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(Arc::new(certificates));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // A resumed session would skip the check of the client's certificate, which may have expired or been replaced since.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config), cluster, shown, authorities })
    }
}

#[derive(Debug)]
struct Certificates {
    issued: Arc<CertifiedKey>,
    shown: Arc<CertifiedKey>,
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_of_cluster = hello.server_name().is_some_and(|name| name.eq_ignore_ascii_case(CLUSTER_SERVER_NAME));
        Some(Arc::clone(if is_of_cluster { &self.issued } else { &self.shown }))
    }
}
