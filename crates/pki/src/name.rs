//! Names of servers and workers in certificates: `punctual://CLUSTER/server/ID` and `punctual://CLUSTER/worker/ID/SCOPE`, as a
//! URI among the subject's alternative names.

use std::fmt;
use std::str::FromStr;

use punctual_core::hex;
use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::PkiError;

const SCHEME: &str = "punctual://";
/// Ids of servers and workers are UUIDs. The rest is room for names that people choose.
const PART_LEN_MAX: usize = 128;
/// RFC 5280, 4.1.2.2.
const SERIAL_LEN_MAX: usize = 20;

/// What a cluster is called in certificates. Public; derived from the cluster's secret, so two clusters never share it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClusterName(String);

impl ClusterName {
    pub fn new(name: impl Into<String>) -> Result<Self, PkiError> {
        Ok(Self(part(name.into())?))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The holder of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CertificateKind {
    Server,
    Worker,
}

impl CertificateKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Worker => "worker",
        }
    }
}

impl FromStr for CertificateKind {
    type Err = PkiError;

    fn from_str(text: &str) -> Result<Self, PkiError> {
        [Self::Server, Self::Worker].into_iter().find(|kind| kind.name() == text).ok_or_else(|| bad(text))
    }
}

/// Whom a certificate of the cluster's authority names. Says something only about certificates that were verified.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CertificateName {
    pub cluster: ClusterName,
    pub kind: CertificateKind,
    pub id: String,
    /// The enrolment that the certificate was issued for.
    pub scope: Option<String>,
    /// The serial number as hexadecimal digits. Empty until the certificate is made.
    pub serial: String,
}

impl CertificateName {
    pub fn server(cluster: ClusterName, id: impl Into<String>) -> Result<Self, PkiError> {
        Self::new(cluster, CertificateKind::Server, id.into(), None)
    }

    pub fn worker(
        cluster: ClusterName,
        id: impl Into<String>,
        scope: impl Into<Option<String>>,
    ) -> Result<Self, PkiError> {
        Self::new(cluster, CertificateKind::Worker, id.into(), scope.into())
    }

    fn new(cluster: ClusterName, kind: CertificateKind, id: String, scope: Option<String>) -> Result<Self, PkiError> {
        let scope = scope.map(part).transpose()?;
        Ok(Self { cluster, kind, id: part(id)?, scope, serial: String::new() })
    }

    /// The name in a certificate that was verified against the authority of `cluster`. Refuses certificates without exactly
    /// one such name, and those of other clusters.
    pub fn read(certificate: &CertificateDer<'_>, cluster: &ClusterName) -> Result<Self, PkiError> {
        let name = Self::read_any(certificate)?;
        if name.cluster != *cluster {
            return Err(PkiError::NotOfThisCluster);
        }
        Ok(name)
    }

    /// The same, where the authority says which cluster it is.
    pub(crate) fn read_any(certificate: &CertificateDer<'_>) -> Result<Self, PkiError> {
        let parsed = EndEntityCert::try_from(certificate).map_err(|_| PkiError::NotOfThisCluster)?;
        let mut ours = parsed.valid_uri_names().filter(|uri| uri.starts_with(SCHEME));
        let (Some(uri), None) = (ours.next(), ours.next()) else { return Err(PkiError::NotOfThisCluster) };
        let name = Self::parse(uri)?;
        let serial = parsed.serial();
        if serial.len() > SERIAL_LEN_MAX + 1 {
            return Err(PkiError::NotOfThisCluster);
        }
        Ok(Self { serial: hex::encode(serial), ..name })
    }

    fn parse(uri: &str) -> Result<Self, PkiError> {
        let rest = uri.strip_prefix(SCHEME).ok_or_else(|| bad(uri))?;
        let mut parts = rest.split('/');
        let (Some(cluster), Some(kind), Some(id)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(bad(uri));
        };
        let scope = parts.next().map(str::to_owned);
        if parts.next().is_some() {
            return Err(bad(uri));
        }
        Self::new(ClusterName::new(cluster)?, kind.parse()?, id.to_owned(), scope)
    }

    pub fn uri(&self) -> String {
        let Self { cluster, kind, id, scope, .. } = self;
        let scope = scope.as_ref().map_or_else(String::new, |scope| format!("/{scope}"));
        format!("{SCHEME}{cluster}/{}/{id}{scope}", kind.name())
    }
}

fn bad(text: &str) -> PkiError {
    PkiError::BadName(text.chars().take(PART_LEN_MAX).collect())
}

/// A part of a name: nothing in it means anything in a URI.
fn part(text: String) -> Result<String, PkiError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.is_empty() || text.len() > PART_LEN_MAX || !text.bytes().all(is_plain) {
        return Err(bad(&text));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back_and_nothing_else_does() {
        let cluster = ClusterName::new("c1").unwrap();
        for name in [
            CertificateName::server(cluster.clone(), "srv_1").unwrap(),
            CertificateName::worker(cluster.clone(), "wrk-1", None).unwrap(),
            CertificateName::worker(cluster.clone(), "wrk-1", "scope.2".to_owned()).unwrap(),
        ] {
            assert_eq!(CertificateName::parse(&name.uri()).unwrap(), name, "{}", name.uri());
        }
        for bad in [
            "",
            "punctual://",
            "punctual://c1/server",
            "punctual://c1/server/",
            "punctual://c1/admin/x",
            "punctual:///server/x",
            "punctual://c1/server/x/y/z",
            "punctual://c1/server/x?y",
            "punctual://user@c1/server/x",
            "https://c1/server/x",
            &format!("punctual://c1/server/{}", "x".repeat(129)),
        ] {
            assert!(CertificateName::parse(bad).is_err(), "{bad}");
        }
    }
}
