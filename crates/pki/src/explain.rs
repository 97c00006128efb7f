//! Says in plain words why a TLS connection failed, and what to do.

use std::error::Error;
use std::{fmt, io};

use punctual_core::Timestamp;
use rustls::{AlertDescription, CertificateError, Error as TlsError, InvalidMessage};

/// Why there is no TLS connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub reason: String,
    /// What to do about it.
    pub fix: Option<&'static str>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        self.fix.map_or(Ok(()), |fix| write!(f, "; {fix}"))
    }
}

/// The explanation of an error, if TLS is why there is no connection.
pub fn explain(error: &(dyn Error + 'static)) -> Option<Explanation> {
    let mut cause = Some(error);
    while let Some(found) = cause {
        if let Some(tls) = found.downcast_ref::<TlsError>() {
            return Some(of_tls(tls));
        }
        // An `io::Error` names the source of what it wraps, and not what it wraps.
        let wrapped = found.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(explanation) = wrapped.and_then(|wrapped| explain(wrapped)) {
            return Some(explanation);
        }
        cause = found.source();
    }
    None
}

const COMPARE_CLOCKS: &str = "compare the clocks of both machines, or renew the certificate";
const NAME_AUTHORITY: &str = "name the authority's certificate with --ca-file; a server with `tls = cluster` keeps it in ca.pem \
                              in its data_dir";
const USE_ITS_NAMES: &str = "use one of the names in the certificate, or add this one to the server's `public_hosts`";

fn of_tls(error: &TlsError) -> Explanation {
    let (reason, fix) = match error {
        TlsError::InvalidCertificate(error) => return of_certificate(error),
        TlsError::InvalidMessage(InvalidMessage::InvalidContentType) => {
            ("it does not use TLS; write http:// instead of https://".to_owned(), None)
        }
        TlsError::AlertReceived(alert) => (of_alert(*alert), None),
        other => (format!("the TLS handshake failed: {other}"), None),
    };
    Explanation { reason, fix }
}

fn of_certificate(error: &CertificateError) -> Explanation {
    let (reason, fix) = match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            ("its certificate is from an authority that is not trusted here".to_owned(), Some(NAME_AUTHORITY))
        }
        CertificateError::ExpiredContext { not_after, .. } => {
            let seconds = i64::try_from(not_after.as_secs()).unwrap_or(i64::MAX);
            let end = Timestamp::saturating_from_micros(seconds.saturating_mul(1_000_000));
            (format!("its certificate expired at {end}"), Some(COMPARE_CLOCKS))
        }
        CertificateError::Expired => ("its certificate has expired".to_owned(), Some(COMPARE_CLOCKS)),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            ("its certificate is not valid yet".to_owned(), Some(COMPARE_CLOCKS))
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            const NAMES_SHOWN: usize = 10;
            let names = presented.iter().take(NAMES_SHOWN).cloned().collect::<Vec<_>>().join(", ");
            let names = if names.is_empty() { "nothing".to_owned() } else { names };
            (format!("its certificate is not for {}, but for {names}", expected.to_str()), Some(USE_ITS_NAMES))
        }
        CertificateError::NotValidForName => ("its certificate is for another name".to_owned(), Some(USE_ITS_NAMES)),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            ("its certificate is not one of a server".to_owned(), None)
        }
        CertificateError::Other(other) => (other.to_string(), None),
        other => (format!("its certificate cannot be used: {other}"), None),
    };
    Explanation { reason, fix }
}

fn of_alert(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked
        | AlertDescription::DecryptError => {
            format!("it refused the certificate that this program presented ({alert:?})")
        }
        AlertDescription::ProtocolVersion => "it speaks another version of TLS".to_owned(),
        other => format!("it refused the TLS connection ({other:?})"),
    }
}
