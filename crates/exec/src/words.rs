//! Errors of libraries and of the system, in plain words.

use std::error::Error;
use std::io;

/// The innermost cause, which for errors of a transport is the only informative part, without the system's error
/// number.
pub fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    without_number(&cause.to_string()).to_owned()
}

/// The system's message without its error number.
pub(crate) fn without_number(text: &str) -> &str {
    text.split(" (os error ").next().unwrap_or_default()
}

/// Why a server cannot be reached, or why the connection to it broke, as far as that is known. Contains no text of a
/// library.
pub fn connection_trouble(error: &(dyn Error + 'static)) -> &'static str {
    let mut cause = error;
    loop {
        if let Some(words) = cause.downcast_ref().and_then(of_system).or_else(|| of_library(&cause.to_string())) {
            return words;
        }
        match cause.source() {
            Some(inner) => cause = inner,
            None => return "the connection broke",
        }
    }
}

fn of_system(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Some("nothing listens there"),
        io::ErrorKind::TimedOut => Some("no answer in time"),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Some("there is no way to its network"),
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => {
            Some("the connection was closed")
        }
        _ => None,
    }
}

fn of_library(message: &str) -> Option<&'static str> {
    const MEANINGS: [(&str, &str); 7] = [
        ("dns error", "the name of its host cannot be resolved"),
        ("failed to lookup address", "the name of its host cannot be resolved"),
        ("deadline has elapsed", "no answer in time"),
        ("InvalidContentType", "it does not use TLS; write http:// instead of https://"),
        ("invalid peer certificate", "its certificate is not trusted"),
        ("frame with invalid size", "its answer is not gRPC; if it uses TLS, write https://"),
        ("http2 error", "the connection was closed"),
    ];
    MEANINGS.iter().find(|(text, _)| message.contains(text)).map(|(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("transport error")]
    struct Transport(#[source] Box<dyn Error + Send + Sync>);

    #[test]
    fn the_words_are_ours_whatever_a_library_says() {
        let system = |kind: io::ErrorKind| -> Box<dyn Error + Send + Sync> {
            Box::new(io::Error::new(kind, "tcp connect error"))
        };
        for (cause, words) in [
            (system(io::ErrorKind::ConnectionRefused), "nothing listens there"),
            (system(io::ErrorKind::ConnectionReset), "the connection was closed"),
            (Box::from("failed to lookup address information"), "the name of its host cannot be resolved"),
            (system(io::ErrorKind::Other), "the connection broke"),
            (Box::from("something new"), "the connection broke"),
        ] {
            assert_eq!(connection_trouble(&Transport(cause)), words);
        }
    }

    #[test]
    fn the_root_cause_has_no_number() {
        let refused = Transport(Box::new(io::Error::from_raw_os_error(111)));
        assert_eq!(root_cause(&refused), "Connection refused");
    }
}
