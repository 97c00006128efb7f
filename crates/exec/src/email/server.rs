//! The mail server of a worker, as its settings name it.

use std::fmt;

use lettre::message::Mailbox;
use percent_encoding::percent_decode_str;
use url::{Host, Url};

/// Where mails are handed in, by whom, and from whom they come.
#[derive(Debug, Clone)]
pub struct MailServer {
    pub(super) host: Host<String>,
    pub(super) port: u16,
    pub(super) encryption: Encryption,
    pub(super) login: Option<Login>,
    pub(super) from: Mailbox,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encryption {
    /// TLS from the first byte (`smtps://`).
    Tls,
    /// TLS after a greeting (STARTTLS); a server that does not offer it is refused.
    StartTls,
    /// No encryption, only on this machine.
    None,
}

#[derive(Clone)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

impl MailServer {
    /// Reads `smtp://user@mail.example:587` or `smtps://…`. Repeats neither URL nor password in a
    /// refusal.
    pub fn parse(url: &str, password: Option<&str>, from: &str) -> Result<Self, String> {
        const EXAMPLE: &str = "write it like smtp://user@mail.example:587 or smtps://user@mail.example";
        let url = Url::parse(url).map_err(|_| format!("smtp_url is not a URL; {EXAMPLE}"))?;
        let host = url.host_str().and_then(|host| Host::parse(host).ok());
        let host = host.ok_or_else(|| format!("smtp_url names no host; {EXAMPLE}"))?;
        if url.password().is_some() {
            return Err("smtp_url holds a password; put it into smtp_password".to_owned());
        }
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
            return Err(format!("smtp_url has more than a host; {EXAMPLE}"));
        }
        let is_loopback = is_loopback(&host);
        let encryption = match (url.scheme(), url.query(), is_loopback) {
            ("smtps", None, _) => Encryption::Tls,
            ("smtp", None, true) | ("smtp", Some("tls=none"), true) => Encryption::None,
            ("smtp", None | Some("tls=starttls"), _) => Encryption::StartTls,
            ("smtp", Some("tls=none"), false) => {
                return Err("smtp_url asks for no encryption, which is for a server on this machine only".to_owned());
            }
            ("smtp" | "smtps", Some(_), _) => {
                return Err("smtp_url has an option other than ?tls=starttls and ?tls=none".to_owned());
            }
            _ => return Err(format!("smtp_url begins with neither smtp:// nor smtps://; {EXAMPLE}")),
        };
        let usual_port = match encryption {
            Encryption::Tls => 465,
            Encryption::StartTls => 587,
            Encryption::None => 25,
        };
        let user = percent_decode_str(url.username()).decode_utf8().map_err(|_| "smtp_url has a strange user name")?;
        let login = match (user.is_empty(), password.filter(|password| !password.is_empty())) {
            (true, None) => None,
            (false, Some(password)) => Some(Login { user: user.into_owned(), password: password.to_owned() }),
            (false, None) => return Err("smtp_url has a user name; set smtp_password too".to_owned()),
            (true, Some(_)) => return Err("there is an smtp_password and no user name in smtp_url".to_owned()),
        };
        let has_control = |text: &str| text.chars().any(char::is_control);
        if login.as_ref().is_some_and(|login| has_control(&login.user) || has_control(&login.password)) {
            return Err("the user name or password for smtp_url has control characters".to_owned());
        }
        if has_control(from) {
            return Err("smtp_from has control characters".to_owned());
        }
        let from: Mailbox = from
            .parse()
            .map_err(|error| format!("smtp_from must be an address, such as Punctual <jobs@example.com>: {error}"))?;
        if !from.email.to_string().is_ascii() {
            return Err("smtp_from must be plain ASCII around the @".to_owned());
        }
        Ok(Self { host, port: url.port().unwrap_or(usual_port), encryption, login, from })
    }

    pub(super) fn host(&self) -> Host<&str> {
        match &self.host {
            Host::Domain(name) => Host::Domain(name.as_str()),
            Host::Ipv4(address) => Host::Ipv4(*address),
            Host::Ipv6(address) => Host::Ipv6(*address),
        }
    }
}

fn is_loopback(host: &Host<String>) -> bool {
    match host {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encryption_and_port_follow_from_the_url() {
        for (url, port, encryption) in [
            ("smtps://mail.example", 465, Encryption::Tls),
            ("smtp://mail.example", 587, Encryption::StartTls),
            ("smtp://mail.example:2525/", 2525, Encryption::StartTls),
            ("smtp://127.0.0.1", 25, Encryption::None),
            ("smtp://localhost:1025", 1025, Encryption::None),
            ("smtp://[::1]?tls=starttls", 587, Encryption::StartTls),
        ] {
            let server = MailServer::parse(url, None, "jobs@example.com").unwrap();
            assert_eq!((server.port, server.encryption), (port, encryption), "{url}");
        }
    }

    #[test]
    fn what_would_not_work_or_not_be_safe_is_refused_without_showing_secrets() {
        let from = "jobs@example.com";
        for (url, password, from, reason) in [
            ("mail.example", None, from, "not a URL"),
            ("http://mail.example", None, from, "neither smtp:// nor smtps://"),
            ("smtp://mail.example?tls=none", None, from, "on this machine only"),
            ("smtp://mail.example?tls=maybe", None, from, "an option other than"),
            ("smtp://mail.example/inbox", None, from, "more than a host"),
            ("smtp://me:s3cret@mail.example", None, from, "put it into smtp_password"),
            ("smtp://me@mail.example", None, from, "set smtp_password too"),
            ("smtp://mail.example", Some("s3cret"), from, "no user name"),
            ("smtp://me@mail.example", Some("s3cret\r\nRSET"), from, "control characters"),
            ("smtp://mail.example", None, "", "smtp_from must be an address"),
            ("smtp://mail.example", None, "a@b.c\r\nBcc: d@e.f", "control characters"),
        ] {
            let refused = MailServer::parse(url, password, from).unwrap_err();
            assert!(refused.contains(reason) && !refused.contains("s3cret"), "{url}: {refused}");
        }
        let server = MailServer::parse("smtp://me%40x@mail.example", Some("s3cret"), from).unwrap();
        assert_eq!(server.login.as_ref().unwrap().user, "me@x");
        assert!(!format!("{server:?}").contains("s3cret"));
    }
}
