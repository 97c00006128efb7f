use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use punctual_core::Timestamp;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::{CertificateFacts, PkiError};

/// A certificate with its chain and its private key, found to fit together.
#[derive(Clone)]
pub struct Credentials {
    certified: Arc<CertifiedKey>,
    facts: Arc<CertificateFacts>,
}

impl Credentials {
    /// Refuses a key of another certificate, and a certificate that is not valid at `now`.
    pub fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        now: Timestamp,
    ) -> Result<Self, PkiError> {
        let first = chain.first().ok_or(PkiError::NoCertificate)?;
        let facts = CertificateFacts::read(first)?;
        facts.check_time(now)?;
        let certified = CertifiedKey::from_der(chain, key, &default_provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => PkiError::KeyMismatch,
            rustls::Error::General(_) => PkiError::NoKey,
            other => PkiError::Unusable(other),
        })?;
        Ok(Self { certified: Arc::new(certified), facts: Arc::new(facts) })
    }

    /// The certificate comes first, then what leads to its authority.
    pub fn from_pem(certificates: &[u8], key: &[u8], now: Timestamp) -> Result<Self, PkiError> {
        let chain = certificates_from_pem(certificates)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| PkiError::NoKey)?;
        Self::new(chain, key, now)
    }

    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certified.cert[0]
    }

    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    pub fn facts(&self) -> &CertificateFacts {
        &self.facts
    }

    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Credentials").field(&self.facts.subject).finish()
    }
}

/// All certificates of a PEM text, at least one.
pub fn certificates_from_pem(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, PkiError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) | Err(_) => Err(PkiError::NoCertificate),
    }
}

/// A certificate as PEM text.
pub fn to_pem(certificate: &CertificateDer<'_>) -> String {
    const LINE: usize = 64;
    let text = STANDARD.encode(certificate);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(LINE) {
        pem.extend(line.iter().map(|byte| char::from(*byte)));
        pem.push('\n');
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_text_reads_back() {
        for len in [1, 2, 3, 47, 48, 49, 500] {
            let der = CertificateDer::from((0..len).map(|byte| byte as u8).collect::<Vec<_>>());
            assert_eq!(certificates_from_pem(to_pem(&der).as_bytes()).unwrap(), [der], "{len}");
        }
        assert!(certificates_from_pem(b"").is_err() && certificates_from_pem(b"nonsense").is_err());
    }
}
