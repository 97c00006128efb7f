//! The errors of a request.

use std::error::Error;

use punctual_api::{ErrorKind, Problem};

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("`{url}` is not the address of a server: {reason}")]
    BadUrl { url: String, reason: String },

    #[error("cannot set up the HTTP client")]
    Setup(#[source] reqwest::Error),

    /// No answer came. The request may have arrived all the same.
    #[error("cannot reach {url}")]
    Unreachable { url: String, source: reqwest::Error },

    /// The server answered that it will not or cannot.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),

    /// Something answered that does not speak our interface.
    #[error("{url} gave an answer that is not Punctual's: {reason}")]
    BadAnswer { url: String, reason: String },

    /// A program of another user listens at the address. Nothing was sent to it.
    #[error("nothing was sent to {url}: {reason}")]
    UntrustedListener { url: String, reason: String },

    #[error("no random numbers from the operating system: {0}")]
    NoEntropy(getrandom::Error),
}

impl ClientError {
    /// The kind of the problem, if the server named one that this client knows.
    pub fn kind(&self) -> Option<ErrorKind> {
        match self {
            Self::Problem(problem) => ErrorKind::from_code(&problem.code),
            _ => None,
        }
    }

    /// Whether the same call may succeed once the server is back or less busy.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Problem(problem) => problem.retryable,
            Self::BadUrl { .. }
            | Self::Setup(_)
            | Self::BadAnswer { .. }
            | Self::UntrustedListener { .. }
            | Self::NoEntropy(_) => false,
        }
    }

    /// Whether there was no connection, so that nothing was sent.
    pub fn is_refused_connection(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => source.is_connect(),
            Self::UntrustedListener { .. } => true,
            _ => false,
        }
    }

    /// Why TLS failed, if that is why the server could not be reached.
    pub fn tls_trouble(&self) -> Option<punctual_pki::Explanation> {
        match self {
            Self::Unreachable { source, .. } => punctual_pki::explain(source),
            _ => None,
        }
    }

    /// Why the server could not be reached, in a few words: `connection refused`.
    pub fn unreachable_because(&self) -> Option<String> {
        let Self::Unreachable { source, .. } = self else {
            return None;
        };
        if source.is_timeout() {
            return Some("no answer in time".to_owned());
        }
        if let Some(trouble) = self.tls_trouble() {
            return Some(trouble.reason);
        }
        let mut cause: &dyn Error = source;
        loop {
            if let Some(reason) = in_words(&cause.to_string()) {
                return Some(reason.to_owned());
            }
            if let Some(io) = cause.downcast_ref::<std::io::Error>()
                && is_telling(io.kind())
            {
                return Some(io.kind().to_string());
            }
            match cause.source() {
                Some(next) => cause = next,
                None => return Some("the connection broke".to_owned()),
            }
        }
    }
}

/// A plain description of some messages of the libraries.
fn in_words(message: &str) -> Option<&'static str> {
    const MEANINGS: [(&str, &str); 6] = [
        ("dns error", "the name of its host cannot be resolved"),
        ("failed to lookup address", "the name of its host cannot be resolved"),
        ("InvalidContentType", "it does not use TLS; write http:// instead of https://"),
        ("invalid HTTP version", "its answer is not HTTP; if it uses TLS, write https://"),
        ("invalid peer certificate", "its certificate is not trusted"),
        ("connection closed before message completed", "it closed the connection without an answer"),
    ];
    MEANINGS.iter().find(|(text, _)| message.contains(text)).map(|(_, meaning)| *meaning)
}

/// Whether an error kind says anything. Some kinds stand for everything that has no kind of its own.
fn is_telling(kind: std::io::ErrorKind) -> bool {
    !matches!(kind, std::io::ErrorKind::Other | std::io::ErrorKind::InvalidData)
        && kind.to_string() != "uncategorized error"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_libraries_are_put_into_words() {
        for (message, meaning) in [
            ("dns error", Some("the name of its host cannot be resolved")),
            (
                "received corrupt message of type InvalidContentType",
                Some("it does not use TLS; write http:// instead of https://"),
            ),
            ("invalid peer certificate: UnknownIssuer", Some("its certificate is not trusted")),
            ("connection refused", None),
        ] {
            assert_eq!(in_words(message), meaning, "{message}");
        }
        assert!(is_telling(std::io::ErrorKind::ConnectionRefused) && !is_telling(std::io::ErrorKind::Other));
    }
}
