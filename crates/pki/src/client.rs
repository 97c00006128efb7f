//! Whom a client trusts.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme};

use crate::{CLUSTER_SERVER_NAME, CertificateKind, CertificateName, ClusterName, Credentials, Fingerprint, PkiError};

/// The authorities of a cluster as they are now. Every clone sees the same, so connections that are made after a rotation
/// follow it.
#[derive(Clone)]
pub struct ClusterRoots {
    cluster: ClusterName,
    roots: Arc<RwLock<Arc<RootCertStore>>>,
}

impl ClusterRoots {
    pub fn new(cluster: ClusterName, authorities: &[CertificateDer<'static>]) -> Result<Self, PkiError> {
        Ok(Self { cluster, roots: Arc::new(RwLock::new(roots_of(authorities)?)) })
    }

    pub fn replace(&self, authorities: &[CertificateDer<'static>]) -> Result<(), PkiError> {
        *self.roots.write().unwrap_or_else(PoisonError::into_inner) = roots_of(authorities)?;
        Ok(())
    }

    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    pub(crate) fn current(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.roots.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for ClusterRoots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClusterRoots").field(&self.cluster).finish()
    }
}

/// The certificate that a client presents, as it is now. Every clone sees the same.
#[derive(Debug, Clone, Default)]
pub struct OwnCertificate(Arc<RwLock<Option<Credentials>>>);

impl OwnCertificate {
    pub fn new(credentials: Credentials) -> Self {
        Self(Arc::new(RwLock::new(Some(credentials))))
    }

    pub fn replace(&self, credentials: Credentials) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(credentials);
    }

    pub fn current(&self) -> Option<Credentials> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ResolvesClientCert for OwnCertificate {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let certified = self.current()?.certified();
        // A server that accepts none of our key's schemes gets no certificate rather than a broken handshake.
        certified.key.choose_scheme(schemes).is_some().then_some(certified)
    }

    fn has_certs(&self) -> bool {
        self.current().is_some()
    }
}

/// Which server of a cluster may answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerCheck {
    /// Any server of the cluster.
    Any,
    /// The one with this id.
    Id(String),
}

/// What makes a server trustworthy.
#[derive(Debug, Clone)]
pub enum Trust {
    /// An authority of the operating system issued its certificate, for the name that it was asked by.
    System,
    /// One of these authorities did, or one of the system.
    SystemAnd(Vec<CertificateDer<'static>>),
    /// One of these authorities did, for the name that it was asked by.
    Roots(Vec<CertificateDer<'static>>),
    /// It is a server of the cluster, by whatever name it was asked. Ask it by [`crate::CLUSTER_SERVER_NAME`].
    Cluster(ClusterRoots, ServerCheck),
    /// The authority with this fingerprint issued its certificate as that of a server, by whatever name it was asked. Ask it by
    /// [`crate::CLUSTER_SERVER_NAME`].
    Pinned(Fingerprint),
}

/// How a client connects: whom it trusts, and the certificate that it presents to servers that ask for one.
pub fn client_config(
    trust: &Trust,
    own: Option<OwnCertificate>,
    protocols: &[&[u8]],
) -> Result<ClientConfig, PkiError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let custom = |rule| {
        let verifier = ClusterVerifier { rule, provider };
        builder.clone().dangerous().with_custom_certificate_verifier(Arc::new(verifier))
    };
    let builder = match trust {
        Trust::System => builder.with_root_certificates(system_roots()?),
        Trust::SystemAnd(authorities) => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            add(&mut roots, authorities)?;
            builder.with_root_certificates(roots)
        }
        Trust::Roots(authorities) => builder.with_root_certificates(roots_of(authorities)?),
        Trust::Cluster(roots, check) => custom(Rule::Cluster(roots.clone(), check.clone())),
        Trust::Pinned(fingerprint) => custom(Rule::Pinned(*fingerprint)),
    };
    let mut config = match own {
        Some(own) => builder.with_client_cert_resolver(Arc::new(own)),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

/// How to open TLS connections to servers: the configuration, and the name to ask for.
#[derive(Debug, Clone)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    asked: AskedName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AskedName {
    /// The host of the address.
    Host,
    Cluster,
}

impl ClientTls {
    pub fn new(trust: &Trust, own: Option<OwnCertificate>, protocols: &[&[u8]]) -> Result<Self, PkiError> {
        let asked = match trust {
            Trust::System | Trust::SystemAnd(_) | Trust::Roots(_) => AskedName::Host,
            Trust::Cluster(..) | Trust::Pinned(_) => AskedName::Cluster,
        };
        Ok(Self { config: Arc::new(client_config(trust, own, protocols)?), asked })
    }

    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// The name for the handshake with a server. `host` is that of its URL; IPv6 addresses may have brackets.
    pub fn server_name(&self, host: &str) -> Result<ServerName<'static>, PkiError> {
        let name = match self.asked {
            AskedName::Host => host.trim_start_matches('[').trim_end_matches(']'),
            AskedName::Cluster => CLUSTER_SERVER_NAME,
        };
        ServerName::try_from(name.to_owned()).map_err(|_| PkiError::BadHost(name.to_owned()))
    }
}

/// The authorities that the operating system trusts.
pub fn system_roots() -> Result<RootCertStore, PkiError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(PkiError::NoSystemRoots);
    }
    Ok(roots)
}

pub(crate) fn roots_of(authorities: &[CertificateDer<'static>]) -> Result<Arc<RootCertStore>, PkiError> {
    let mut roots = RootCertStore::empty();
    add(&mut roots, authorities)?;
    if roots.is_empty() {
        return Err(PkiError::NoCertificate);
    }
    Ok(Arc::new(roots))
}

fn add(roots: &mut RootCertStore, authorities: &[CertificateDer<'static>]) -> Result<(), PkiError> {
    for authority in authorities {
        roots.add(authority.clone())?;
    }
    Ok(())
}

#[derive(Debug)]
enum Rule {
    Cluster(ClusterRoots, ServerCheck),
    Pinned(Fingerprint),
}

/// Checks that the other end is a server of the cluster. The host name does not count: servers move, and what must not change is
/// who they are.
#[derive(Debug)]
struct ClusterVerifier {
    rule: Rule,
    provider: Arc<CryptoProvider>,
}

impl ClusterVerifier {
    fn check(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let roots = match &self.rule {
            Rule::Cluster(roots, _) => roots.current(),
            Rule::Pinned(fingerprint) => {
                let pinned = intermediates.iter().find(|certificate| Fingerprint::of(certificate) == *fingerprint);
                let pinned = pinned.ok_or(CertificateError::UnknownIssuer)?;
                roots_of(&[pinned.clone().into_owned()]).map_err(other)?
            }
        };
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &roots, intermediates, now, algorithms)?;
        let name = match &self.rule {
            Rule::Cluster(roots, _) => CertificateName::read(end_entity, roots.cluster()),
            Rule::Pinned(_) => CertificateName::read_any(end_entity),
        };
        let name = name.map_err(other)?;
        let is_expected = match &self.rule {
            Rule::Cluster(_, ServerCheck::Id(id)) => name.id == *id,
            Rule::Cluster(_, ServerCheck::Any) | Rule::Pinned(_) => true,
        };
        if name.kind != CertificateKind::Server || !is_expected {
            return Err(other(PkiError::NotOfThisCluster));
        }
        Ok(())
    }
}

fn other(error: PkiError) -> rustls::Error {
    CertificateError::Other(OtherError(Arc::new(error))).into()
}

impl ServerCertVerifier for ClusterVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(end_entity, intermediates, now).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
