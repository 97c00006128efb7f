//! Certificates and keys: the cluster's own authority, what it issues, and the rules by which servers, workers and clients
//! trust each other over TLS.
//!
//! Reads files where it is given paths, and opens no connection. Keys come from the operating system's generator; the time is
//! an argument wherever a certificate is made. Does not decide what the holder of a certificate may do: see `punctual_app`.

mod authority;
mod client;
mod credentials;
mod error;
mod explain;
mod facts;
mod files;
mod fingerprint;
mod join_token;
mod name;
mod server;

pub use authority::{Authority, IssuedLeaf, LeafKey, LeafRequest, SecretKey};
pub use client::{ClientTls, ClusterRoots, OwnCertificate, ServerCheck, Trust, client_config, system_roots};
pub use credentials::{Credentials, certificates_from_pem, to_pem};
pub use error::PkiError;
pub use explain::{Explanation, explain};
pub use facts::CertificateFacts;
pub use files::{CertificateFiles, Exposure, Reload};
pub use fingerprint::Fingerprint;
pub use join_token::JoinToken;
pub use name::{CertificateKind, CertificateName, ClusterName};
pub use rustls;
pub use rustls::pki_types::CertificateDer;
pub use server::{ServerTls, ServerTlsParts};

/// The name that peers and workers ask for in the handshake (SNI) when they want the certificate that the cluster's authority
/// issued, whichever certificate the server shows to browsers. It never exists in DNS: `.internal` is reserved for private use.
pub const CLUSTER_SERVER_NAME: &str = "server.punctual.internal";
