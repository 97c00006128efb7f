use std::fmt;
use std::str::FromStr;

use punctual_core::hex;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};

use crate::PkiError;

const PREFIX: &str = "sha256:";

/// The SHA-256 of a certificate, by which people and join tokens name an authority. Public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(Sha256::digest(certificate).into())
    }

    pub(crate) const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn to_bytes(self) -> [u8; 32] {
        self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", hex::encode(self.0))
    }
}

impl FromStr for Fingerprint {
    type Err = PkiError;

    fn from_str(text: &str) -> Result<Self, PkiError> {
        let digits = text.strip_prefix(PREFIX).and_then(hex::decode::<32>);
        digits.map(Self).ok_or_else(|| PkiError::BadFingerprint(text.chars().take(100).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_reads_back_and_nothing_else_does() {
        let print = Fingerprint::of(&CertificateDer::from(vec![1, 2, 3]));
        let text = print.to_string();
        assert_eq!(text.len(), "sha256:".len() + 64);
        assert_eq!(text.parse::<Fingerprint>().unwrap(), print);
        for bad in ["", "sha256:", &text[7..], &text[..70], &text.replace("sha256", "sha1"), &format!("{text}0")] {
            assert!(bad.parse::<Fingerprint>().is_err(), "{bad}");
        }
    }
}
