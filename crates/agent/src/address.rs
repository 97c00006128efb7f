//! The addresses at which agents reach the servers.

use url::{Host, Url};

/// Reads a list of addresses separated by commas. Addresses without TLS are allowed only on this machine, because the
/// token is sent to them.
pub fn parse_servers(text: &str) -> Result<Vec<String>, String> {
    text.split(',').map(|address| parse(address.trim())).collect()
}

fn parse(text: &str) -> Result<String, String> {
    let refused = || format!("`{text}` is not an address, such as https://punctual.example.com");
    let url = Url::parse(text).map_err(|_| refused())?;
    let is_bare = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if !is_bare || url.password().is_some() || url.path() != "/" || !matches!(url.scheme(), "http" | "https") {
        return Err(refused());
    }
    if url.scheme() == "http" && !is_here(&url) {
        return Err(format!(
            "{text} is another machine, and an agent's token would be sent there in the open; use https"
        ));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Whether the address leads to the machine that uses it.
pub fn is_loopback(server: &str) -> bool {
    Url::parse(server).is_ok_and(|url| is_here(&url))
}

fn is_here(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_travel_with_tls_or_not_at_all() {
        for (text, servers) in [
            ("https://a.example", vec!["https://a.example"]),
            ("https://a.example:8443/, http://127.0.0.1:8020", vec!["https://a.example:8443", "http://127.0.0.1:8020"]),
            ("http://[::1]:1,http://localhost:2/", vec!["http://[::1]:1", "http://localhost:2"]),
        ] {
            assert_eq!(parse_servers(text).unwrap(), servers);
        }
        for bad in [
            "",
            "a.example",
            "http://a.example",
            "http://10.0.0.1:8020",
            "ftp://127.0.0.1",
            "https://a.example/path",
            "https://me@a.example",
            "https://:secret@a.example",
            "https://a.example?x=1",
            "https://a.example,,",
        ] {
            assert!(parse_servers(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn loopback_is_told_from_elsewhere() {
        assert!(is_loopback("http://127.0.0.1:8020") && is_loopback("https://localhost"));
        assert!(!is_loopback("https://a.example") && !is_loopback("https://10.0.0.1"));
    }
}
