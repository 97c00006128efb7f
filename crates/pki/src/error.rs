use std::io;
use std::path::PathBuf;

/// Why a certificate or key cannot be used or made. None of the messages contains key material.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("cannot read {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("cannot use {}: {how}", path.display())]
    Exposed { path: PathBuf, how: String },
    #[error("{} is larger than {limit} bytes", path.display())]
    TooLarge { path: PathBuf, limit: u64 },
    #[error("there is no certificate in it (PEM, `BEGIN CERTIFICATE`)")]
    NoCertificate,
    #[error("there is no usable private key in it (PEM, `BEGIN PRIVATE KEY`, not encrypted)")]
    NoKey,
    #[error("the private key does not belong to the certificate")]
    KeyMismatch,
    #[error("the certificate expired at {0}")]
    Expired(punctual_core::Timestamp),
    #[error("the certificate is valid only from {0}")]
    NotYetValid(punctual_core::Timestamp),
    #[error("it is not a certificate: {0}")]
    NotACertificate(String),
    #[error("`{0}` is not a host name or an IP address")]
    BadHost(String),
    #[error("`{0}` is not the name of a cluster, server or worker")]
    BadName(String),
    #[error("the certificate names no server or worker of this cluster")]
    NotOfThisCluster,
    #[error("`{0}` is not a fingerprint; it has the form sha256: and 64 hexadecimal digits")]
    BadFingerprint(String),
    #[error("the join token is not complete, or has been changed")]
    BadJoinToken,
    #[error("the system has no certificates of authorities")]
    NoSystemRoots,
    #[error("the certificate cannot be used")]
    Unusable(#[from] rustls::Error),
    #[error("the certificate cannot be made")]
    NotMade(#[from] rcgen::Error),
}
