//! The addresses of a server: where it listens, and where others reach it.

use std::net::{IpAddr, SocketAddr};

use punctual_server::Proxies;

/// Reads an address. Whether other machines may reach it depends on other settings; see `ServerSettings::check`.
pub(super) fn listen(text: &str) -> Result<SocketAddr, String> {
    let text = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    text.parse().map_err(|_| format!("`{text}` is not an address, such as 127.0.0.1:8020"))
}

/// Reads where others reach this server.
pub(super) fn advertise(text: &str) -> Result<String, String> {
    let refused = || format!("`{text}` is not an address, such as https://server-1.example.com:8020");
    let (scheme, rest) = text.split_once("://").ok_or_else(refused)?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let is_host = |rest: &str| !rest.is_empty() && !rest.contains(['/', '?', '#', '@', ' ', ',']);
    if !matches!(scheme, "http" | "https") || !is_host(rest) {
        return Err(refused());
    }
    Ok(format!("{scheme}://{rest}"))
}

/// The host of a URL, without port and brackets.
pub(crate) fn host_of(url: &str) -> Option<&str> {
    let authority = url.split_once("://")?.1.split(['/', '?', '#']).next()?;
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.is_empty() => host,
        _ => authority,
    };
    Some(host.trim_start_matches('[').trim_end_matches(']')).filter(|host| !host.is_empty())
}

/// Each is in the server's certificate.
const PUBLIC_HOSTS_MAX: usize = 32;

/// Reads names and IP addresses.
pub(super) fn public_hosts(text: &str) -> Result<Vec<String>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let hosts: Vec<String> = parts.map(public_host).collect::<Result<_, _>>()?;
    if hosts.len() > PUBLIC_HOSTS_MAX {
        return Err(format!("there are {} names, and {PUBLIC_HOSTS_MAX} are the most", hosts.len()));
    }
    Ok(hosts)
}

fn public_host(text: &str) -> Result<String, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(address.to_canonical().to_string());
    }
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    // The last label of a name is no number: `10.0.0` is a mistake.
    let is_name = text.len() <= 253
        && text.split('.').all(is_label)
        && !text.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    if is_name {
        return Ok(text.to_ascii_lowercase());
    }
    Err(format!("`{text}` is not a host, such as punctual.example.com or 10.0.0.5; write it without https:// and port"))
}

/// Reads the addresses of proxies.
pub(super) fn proxies(text: &str) -> Result<Proxies, String> {
    text.parse()
}

/// Reads where people reach the servers, such as through a proxy of theirs; with a path, if there is one.
pub(super) fn public_url(text: &str) -> Result<String, String> {
    let refused = || format!("`{text}` is not an address, such as https://punctual.example.com");
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).ok_or_else(refused)?;
    let is_plain = |c: char| !c.is_control() && !c.is_whitespace() && !"?#@,<>\"".contains(c);
    if rest.is_empty() || rest.starts_with('/') || text.len() > 512 || !rest.chars().all(is_plain) {
        return Err(refused());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_and_addresses_without_scheme_and_port() {
        assert_eq!(public_hosts("P.Example, 10.0.0.5,[::1],").unwrap(), ["p.example", "10.0.0.5", "::1"]);
        assert_eq!(public_hosts("").unwrap(), [""; 0]);
        for bad in ["https://p.example", "p.example:8020", "a b", "10.0.0", "-x", "x..y", "*.example", "me@x", "[::1"] {
            let read = public_hosts(bad);
            assert!(read.is_err() || bad == "[::1", "{bad}: {read:?}");
        }
    }

    #[test]
    fn the_host_of_a_url_has_no_port_and_no_brackets() {
        for (url, host) in [
            ("https://p.example:8020", Some("p.example")),
            ("https://p.example/path:7", Some("p.example")),
            ("http://[::1]:8020", Some("::1")),
            ("http://[::1]", Some("::1")),
            ("http://10.0.0.5", Some("10.0.0.5")),
            ("nonsense", None),
            ("http://", None),
        ] {
            assert_eq!(host_of(url), host, "{url}");
        }
    }
}
