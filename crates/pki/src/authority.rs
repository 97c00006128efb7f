//! The cluster's own authority: a self-signed certificate whose key only the servers of the cluster have.
//!
//! It issues two kinds of certificates and nothing else. A server's is good for TLS servers and clients, and names the hosts at
//! which people reach it. A worker's is good for TLS clients alone, so a worker cannot pose as a server. Neither may issue
//! further ones.

use std::fmt;
use std::net::IpAddr;

use punctual_core::{Span, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType, SubjectPublicKeyInfo,
};
use rustls::pki_types::{CertificateDer, DnsName, PrivateKeyDer, PrivatePkcs8KeyDer};
use time::OffsetDateTime;

use crate::{
    CLUSTER_SERVER_NAME, CertificateFacts, CertificateKind, CertificateName, ClusterName, Credentials, Fingerprint,
    PkiError,
};

/// An authority is replaced by `punctual authority rotate`, not by its end.
const AUTHORITY_LIFETIME: Span = Span::from_secs(10 * 365 * 86_400);
/// A clock may be behind by so much and still accept what was issued a moment ago.
const CLOCK_DIFFERENCE: Span = Span::from_secs(3600);

/// A private key in PKCS #8. A secret: shown by nothing, and stored only sealed.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey(Vec<u8>);

impl SecretKey {
    pub fn from_pkcs8(der: Vec<u8>) -> Self {
        Self(der)
    }

    pub fn as_pkcs8(&self) -> &[u8] {
        &self.0
    }

    /// As TLS takes it.
    pub fn to_private_key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.0.clone()).into()
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey")
    }
}

/// A new P-256 key, made by whoever will hold the certificate: the authority sees its public half alone.
pub struct LeafKey(KeyPair);

impl LeafKey {
    pub fn generate() -> Result<Self, PkiError> {
        Ok(Self(KeyPair::generate()?))
    }

    pub fn from_secret(key: &SecretKey) -> Result<Self, PkiError> {
        Ok(Self(KeyPair::try_from(key.as_pkcs8())?))
    }

    /// What the authority needs, as a SubjectPublicKeyInfo in DER.
    pub fn public_key(&self) -> Vec<u8> {
        self.0.subject_public_key_info()
    }

    pub fn secret(&self) -> SecretKey {
        SecretKey(self.0.serialize_der())
    }
}

impl fmt::Debug for LeafKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeafKey")
    }
}

/// What a certificate is to say.
#[derive(Debug, Clone)]
pub struct LeafRequest {
    pub name: CertificateName,
    /// Host names and IP addresses at which the holder is reached. Workers have none.
    pub hosts: Vec<String>,
    pub lifetime: Span,
}

/// A certificate that was just issued. The chain ends with the authority's own certificate, so that a client that knows only
/// its fingerprint can check it.
#[derive(Debug, Clone)]
pub struct IssuedLeaf {
    pub chain: Vec<CertificateDer<'static>>,
    /// With the serial number.
    pub name: CertificateName,
    pub not_after: Timestamp,
}

pub struct Authority {
    cluster: ClusterName,
    generation: u32,
    certificate: CertificateDer<'static>,
    facts: CertificateFacts,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new one. `generation` counts the authorities of the cluster, from 1.
    pub fn make(cluster: ClusterName, generation: u32, now: Timestamp) -> Result<Self, PkiError> {
        let key = KeyPair::generate()?;
        let params = parameters(&cluster, generation, now)?;
        let certificate = params.self_signed(&key)?.der().clone();
        let facts = CertificateFacts::read(&certificate)?;
        Ok(Self { cluster, generation, certificate, facts, issuer: Issuer::new(params, key) })
    }

    /// One that was made before. Refuses the key of another certificate.
    pub fn open(
        cluster: ClusterName,
        generation: u32,
        certificate: CertificateDer<'static>,
        key: &SecretKey,
    ) -> Result<Self, PkiError> {
        let pair = KeyPair::try_from(key.as_pkcs8()).map_err(|_| PkiError::NoKey)?;
        let facts = CertificateFacts::read(&certificate)?;
        if public_key_of(&certificate)? != pair.subject_public_key_info() {
            return Err(PkiError::KeyMismatch);
        }
        let issuer = Issuer::from_ca_cert_der(&certificate, pair)?;
        Ok(Self { cluster, generation, certificate, facts, issuer })
    }

    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }

    pub fn generation(&self) -> u32 {
        self.generation
    }

    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    pub fn facts(&self) -> &CertificateFacts {
        &self.facts
    }

    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    pub fn secret(&self) -> SecretKey {
        SecretKey(self.issuer.key().serialize_der())
    }

    /// Issues a certificate for a public key (a SubjectPublicKeyInfo in DER). Whoever presents the certificate has to prove in
    /// the handshake that it has the private key, so the request itself needs no such proof.
    pub fn issue(&self, request: LeafRequest, public_key: &[u8], now: Timestamp) -> Result<IssuedLeaf, PkiError> {
        let LeafRequest { name, hosts, lifetime } = request;
        if name.cluster != self.cluster {
            return Err(PkiError::NotOfThisCluster);
        }
        let public_key = SubjectPublicKeyInfo::from_der(public_key).map_err(|_| PkiError::NoKey)?;
        let not_after = (now + lifetime).min(self.facts.not_after);
        let mut params = CertificateParams::default();
        params.not_before = seconds(now - CLOCK_DIFFERENCE)?;
        params.not_after = seconds(not_after)?;
        params.distinguished_name = common_name(&format!("Punctual {} {}", name.kind.name(), name.id));
        params.subject_alt_names.push(SanType::URI(name.uri().try_into()?));
        params.use_authority_key_identifier_extension = true;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match name.kind {
            CertificateKind::Server => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
            CertificateKind::Worker => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        if name.kind == CertificateKind::Server {
            params.subject_alt_names.push(SanType::DnsName(CLUSTER_SERVER_NAME.try_into()?));
            for host in hosts {
                params.subject_alt_names.push(alternative_name(host)?);
            }
        }
        let certificate = params.signed_by(&public_key, &self.issuer)?.der().clone();
        let name = CertificateName::read(&certificate, &self.cluster)?;
        Ok(IssuedLeaf { chain: vec![certificate, self.certificate.clone()], name, not_after })
    }

    /// A certificate together with a new key.
    pub fn issue_with_key(&self, request: LeafRequest, now: Timestamp) -> Result<Credentials, PkiError> {
        let key = LeafKey::generate()?;
        let leaf = self.issue(request, &key.public_key(), now)?;
        Credentials::new(leaf.chain, key.secret().to_private_key(), now)
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("generation", &self.generation).field("subject", &self.facts.subject).finish()
    }
}

/// Its names are not constrained: servers move, and people name them as they like. What keeps it harmless in a browser's store
/// is that nobody but the cluster's servers has the key.
fn parameters(cluster: &ClusterName, generation: u32, now: Timestamp) -> Result<CertificateParams, PkiError> {
    let mut params = CertificateParams::default();
    params.not_before = seconds(now - CLOCK_DIFFERENCE)?;
    params.not_after = seconds(now + AUTHORITY_LIFETIME)?;
    params.distinguished_name = common_name(&format!("Punctual authority {cluster} {generation}"));
    // It issues to servers and workers, never to a further authority.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    // 64 characters are what RFC 5280 allows.
    distinguished.push(DnType::CommonName, name.chars().take(64).collect::<String>());
    distinguished
}

fn alternative_name(host: String) -> Result<SanType, PkiError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address.to_canonical()));
    }
    match DnsName::try_from(host.as_str()) {
        Ok(_) => Ok(SanType::DnsName(host.try_into()?)),
        Err(_) => Err(PkiError::BadHost(host)),
    }
}

fn seconds(time: Timestamp) -> Result<OffsetDateTime, PkiError> {
    let seconds = time.as_micros().div_euclid(1_000_000);
    OffsetDateTime::from_unix_timestamp(seconds).map_err(|error| PkiError::NotACertificate(error.to_string()))
}

fn public_key_of(certificate: &CertificateDer<'_>) -> Result<Vec<u8>, PkiError> {
    let parsed = webpki::EndEntityCert::try_from(certificate);
    let parsed = parsed.map_err(|error| PkiError::NotACertificate(error.to_string()))?;
    Ok(parsed.subject_public_key_info().to_vec())
}
