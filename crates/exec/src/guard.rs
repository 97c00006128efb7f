//! Decides which addresses a task may be sent to.
//!
//! Everything that is not on the public internet is refused, unless the worker's settings allow
//! it: whoever may submit a job must not reach what only the worker's machine can. Addresses are
//! checked, never names, by the one place that connects (`dial.rs`), and it connects to nothing
//! else. A list of what is refused wins over the list of what is allowed.

mod ranges;

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

/// What a worker may call.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    allow: Places,
    deny: Places,
}

impl Guard {
    /// Only the public internet.
    pub fn strict() -> Self {
        Self::default()
    }

    /// The public internet and what `allow` names, without what `deny` names.
    pub fn new(allow: Places, deny: Places) -> Self {
        Self { allow, deny }
    }

    /// `host` as the URL writes it: a name, or the address itself.
    pub(crate) fn check(&self, host: &str, address: IpAddr) -> Result<(), ConnectRefusal> {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let refused = |why| Err(ConnectRefusal { host: host.clone(), address, why });
        // The system connects to the IPv4 address that stands in such an IPv6 address.
        let canonical = address.to_canonical();
        let inner = ranges::translated(canonical).map(IpAddr::V4);
        if [Some(canonical), inner].into_iter().flatten().any(|address| self.deny.has(&host, address)) {
            return refused(RefusalReason::Denied);
        }
        if self.allow.has(&host, canonical) {
            return Ok(());
        }
        match ranges::not_public(canonical) {
            Some(kind) => refused(RefusalReason::NotPublic(kind)),
            None => Ok(()),
        }
    }
}

/// Ranges of addresses, and names of hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places(Vec<PlacePattern>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum PlacePattern {
    Range(IpNet),
    Host(String),
    /// All hosts whose names end like this, dot included.
    Below(String),
}

impl Places {
    /// Reads `10.0.0.0/8, ::1, intranet.example, *.corp.example`; empty for none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        words.map(PlacePattern::parse).collect::<Result<_, _>>().map(Self)
    }

    /// This machine itself.
    pub const LOOPBACK: &'static str = "127.0.0.0/8,::1";

    fn has(&self, host: &str, address: IpAddr) -> bool {
        self.0.iter().any(|place| match place {
            PlacePattern::Range(range) => range.contains(&address),
            PlacePattern::Host(name) => host == name,
            PlacePattern::Below(end) => host.ends_with(end.as_str()),
        })
    }
}

impl PlacePattern {
    fn parse(word: &str) -> Result<Self, String> {
        if let Ok(address) = word.parse::<IpAddr>() {
            return Ok(Self::Range(address.to_canonical().into()));
        }
        if word.contains(['/', ':']) {
            let range: IpNet = word
                .parse()
                .map_err(|_| format!("`{word}` is neither a range, such as 10.0.0.0/8, nor the name of a host"))?;
            if range.trunc() != range {
                return Err(format!("`{word}` is not a range; did you mean {}?", range.trunc()));
            }
            return Ok(Self::Range(range));
        }
        let (name, is_below) = word.strip_prefix("*.").map_or((word, false), |rest| (rest, true));
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
        let is_label = |label: &str| !label.is_empty() && label.len() <= 63 && label.chars().all(is_allowed);
        // A name that ends in a number would be read as an address.
        let ends_in_number = name.rsplit('.').next().is_some_and(|last| last.chars().all(|c| c.is_ascii_digit()));
        if name.len() > 253 || !name.split('.').all(is_label) || ends_in_number {
            return Err(format!("`{word}` is neither a range, such as 10.0.0.0/8, nor the name of a host"));
        }
        Ok(if is_below { Self::Below(format!(".{name}")) } else { Self::Host(name) })
    }
}

/// Why a connection is not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConnectRefusal {
    host: String,
    address: IpAddr,
    why: RefusalReason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum RefusalReason {
    NotPublic(&'static str),
    Denied,
}

impl fmt::Display for ConnectRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, address, why } = self;
        let is_literal = host.trim_matches(['[', ']']).parse() == Ok(*address);
        if is_literal {
            write!(f, "{address} is ")?;
        } else {
            write!(f, "{host} is at {address}, ")?;
        }
        match why {
            RefusalReason::NotPublic(kind) => {
                write!(f, "{kind}, which this worker does not call; the worker's setting http_allow can allow it")
            }
            RefusalReason::Denied => f.write_str("refused by the worker's setting http_deny"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(allow: &str, deny: &str) -> Guard {
        Guard::new(Places::parse(allow).unwrap(), Places::parse(deny).unwrap())
    }

    #[track_caller]
    fn check(guard: &Guard, host: &str, address: &str) -> Result<(), String> {
        guard.check(host, address.parse().unwrap()).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn a_refusal_names_the_address_and_the_setting() {
        let strict = Guard::strict();
        assert_eq!(
            check(&strict, "db.corp.example", "10.0.0.7").unwrap_err(),
            "db.corp.example is at 10.0.0.7, a private address, which this worker does not call; the worker's \
             setting http_allow can allow it"
        );
        assert!(check(&strict, "127.0.0.1", "127.0.0.1").unwrap_err().starts_with("127.0.0.1 is a loopback address,"));
        assert!(check(&strict, "[::1]", "::1").unwrap_err().starts_with("::1 is a loopback address,"));
        assert_eq!(
            check(&guard("", "8.8.8.0/24"), "dns.example", "8.8.8.8").unwrap_err(),
            "dns.example is at 8.8.8.8, refused by the worker's setting http_deny"
        );
    }

    #[test]
    fn what_is_allowed_is_called_and_nothing_beside_it() {
        let some = guard("10.1.0.0/16, ::1, intranet.example, *.corp.example", "");
        for (host, address, is_allowed) in [
            ("h", "10.1.2.3", true),
            ("h", "::ffff:10.1.2.3", true),
            ("h", "10.2.0.0", false),
            ("h", "::1", true),
            ("h", "127.0.0.1", false),
            ("intranet.example", "192.168.0.1", true),
            ("INTRANET.example.", "192.168.0.1", true),
            ("notintranet.example", "192.168.0.1", false),
            ("intranet.example.evil.example", "192.168.0.1", false),
            ("a.corp.example", "192.168.0.1", true),
            ("corp.example", "192.168.0.1", false),
            ("evilcorp.example", "192.168.0.1", false),
            ("h", "1.1.1.1", true),
        ] {
            assert_eq!(check(&some, host, address).is_ok(), is_allowed, "{host} {address}");
        }
    }

    #[test]
    fn what_is_denied_stays_denied_in_every_spelling() {
        let some = guard("10.0.0.0/8", "10.0.0.1,9.9.9.9,bad.example");
        for (host, address) in [
            ("h", "10.0.0.1"),
            ("h", "::ffff:10.0.0.1"),
            ("h", "9.9.9.9"),
            ("h", "64:ff9b::909:909"),
            ("bad.example", "10.0.0.2"),
            ("bad.example", "1.1.1.1"),
        ] {
            assert!(check(&some, host, address).is_err(), "{host} {address}");
        }
        assert!(check(&some, "h", "10.0.0.2").is_ok());
        assert!(check(&some, "h", "64:ff9b::101:101").is_ok());
    }

    #[test]
    fn lists_that_mean_nothing_are_refused() {
        for (text, reason) in [
            ("10.0.0.1/8", "`10.0.0.1/8` is not a range; did you mean 10.0.0.0/8?"),
            ("10.0.0.0/33", "neither a range"),
            ("10.0.0", "neither a range"),
            ("http://h", "neither a range"),
            ("a b", "neither a range"),
            ("*", "neither a range"),
            ("h:80", "neither a range"),
        ] {
            let refused = Places::parse(text).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
        assert_eq!(Places::parse(" , "), Ok(Places::default()));
    }
}
