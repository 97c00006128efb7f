use std::net::IpAddr;

use punctual_core::{Timestamp, hex};
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::PkiError;

/// What a certificate says of itself, to show it and to plan its renewal. Nothing is trusted because of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    pub subject: String,
    pub issuer: String,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub dns_names: Vec<String>,
    pub addresses: Vec<IpAddr>,
    pub serial: String,
    pub is_authority: bool,
}

impl CertificateFacts {
    pub fn read(certificate: &CertificateDer<'_>) -> Result<Self, PkiError> {
        let not = |error: String| PkiError::NotACertificate(error);
        let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| not(error.to_string()))?;
        let seconds = |seconds: i64| Timestamp::saturating_from_micros(seconds.saturating_mul(1_000_000));
        let mut dns_names = Vec::new();
        let mut addresses = Vec::new();
        let names = parsed.subject_alternative_name().map_err(|error| not(error.to_string()))?;
        for name in names.iter().flat_map(|names| &names.value.general_names) {
            match name {
                GeneralName::DNSName(name) => dns_names.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => addresses.extend(address(bytes)),
                _ => {}
            }
        }
        Ok(Self {
            subject: parsed.subject().to_string(),
            issuer: parsed.issuer().to_string(),
            not_before: seconds(parsed.validity().not_before.timestamp()),
            not_after: seconds(parsed.validity().not_after.timestamp()),
            dns_names,
            addresses,
            serial: hex::encode(parsed.raw_serial()),
            is_authority: parsed.is_ca(),
        })
    }

    /// Whether clients accept the certificate for a host: a name, or an IP address without brackets.
    pub fn names(&self, host: &str) -> bool {
        if let Ok(address) = host.parse::<IpAddr>() {
            return self.addresses.contains(&address);
        }
        self.dns_names.iter().any(|name| match name.strip_prefix("*.") {
            Some(parent) => {
                host.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(parent))
            }
            None => name.eq_ignore_ascii_case(host),
        })
    }

    pub fn check_time(&self, now: Timestamp) -> Result<(), PkiError> {
        if now < self.not_before {
            return Err(PkiError::NotYetValid(self.not_before));
        }
        if now > self.not_after {
            return Err(PkiError::Expired(self.not_after));
        }
        Ok(())
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}
