//! Hosts of URLs.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether the host of a URL is this machine: `localhost`, an address in 127.0.0.0/8, or `[::1]`. Names that merely resolve to
/// such an address do not count.
pub fn is_loopback(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback());
    }
    host.eq_ignore_ascii_case("localhost") || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_and_addresses_of_this_machine_are_loopback() {
        for host in ["localhost", "LocalHost", "127.0.0.1", "127.8.8.8", "[::1]", "[0:0::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "localhost.",
            "localhost.evil",
            "::1",
            "[127.0.0.1]",
            "[::1].evil",
            "[::1",
            "[[::1]]",
            "[::ffff:127.0.0.1]",
            "127.1",
            "0.0.0.0",
            "10.0.0.1",
            "127.0.0.1.nip.io",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
