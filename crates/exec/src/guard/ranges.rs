//! Which addresses are on the public internet, after IANA's registries of special addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const PRIVATE: &str = "a private address";
const RESERVED: &str = "a reserved address";
const SHARED: &str = "an address inside a provider's network";
const LINK_LOCAL: &str = "a link-local address, where clouds answer with credentials";
const LOOPBACK: &str = "a loopback address";
const DOCUMENTATION: &str = "an address for documentation";
const BENCHMARKS: &str = "an address for benchmarks";
const MULTICAST: &str = "a multicast address";
const UNSPECIFIED: &str = "an unspecified address";
const TUNNEL: &str = "an address that leads through a tunnel";
/// Looks public; in Azure, the host of a virtual machine answers there.
const AZURE_HOST: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// What an address is, if it is not public. `address` is no IPv4 address in an IPv6 one.
pub(super) fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => not_public_v4(address),
        IpAddr::V6(address) => not_public_v6(address),
    }
}

fn not_public_v4(address: Ipv4Addr) -> Option<&'static str> {
    let kind = match address.octets() {
        [0, ..] => UNSPECIFIED,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => PRIVATE,
        [100, 64..=127, ..] => SHARED,
        [127, ..] => LOOPBACK,
        [169, 254, ..] => LINK_LOCAL,
        [192, 0, 0, _] => RESERVED,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => DOCUMENTATION,
        [192, 88, 99, _] => TUNNEL,
        [198, 18 | 19, ..] => BENCHMARKS,
        [224..=239, ..] => MULTICAST,
        [240..=255, ..] => RESERVED,
        _ if address == AZURE_HOST => "the address of a cloud's own services",
        _ => return None,
    };
    Some(kind)
}

fn not_public_v6(address: Ipv6Addr) -> Option<&'static str> {
    let kind = match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => UNSPECIFIED,
        [0, 0, 0, 0, 0, 0, 0, 1] => LOOPBACK,
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => return translated(IpAddr::V6(address)).and_then(not_public_v4),
        [0xfc00..=0xfdff, ..] => PRIVATE,
        [0xfe80..=0xfebf, ..] => LINK_LOCAL,
        [0xfec0..=0xfeff, ..] => PRIVATE,
        [0xff00..=0xffff, ..] => MULTICAST,
        // Teredo, and 6to4 below: they wrap IPv4 addresses, and nobody serves anything there.
        [0x2001, 0, ..] => TUNNEL,
        [0x2001, 2, 0, ..] => BENCHMARKS,
        [0x2001, 0..=0x01ff, ..] => RESERVED,
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => DOCUMENTATION,
        [0x2002, ..] => TUNNEL,
        // ISATAP, which wraps an IPv4 address in any prefix.
        [_, _, _, _, 0 | 0x0200, 0x5efe, ..] => TUNNEL,
        // All that was ever given out.
        [0x2000..=0x3fff, ..] => return None,
        _ => RESERVED,
    };
    Some(kind)
}

/// The IPv4 address that a gateway of this network puts in place of a NAT64 address.
pub(super) fn translated(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else { return None };
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            Some(Ipv4Addr::new(a, b, c, d))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(address: &str, is_public: bool) {
        let kind = not_public(address.parse::<IpAddr>().unwrap().to_canonical());
        assert_eq!(kind.is_none(), is_public, "{address}: {kind:?}");
    }

    #[test]
    fn every_special_range_is_closed_from_its_first_address_to_its_last() {
        for range in [
            "0.0.0.0-0.255.255.255",
            "10.0.0.0-10.255.255.255",
            "100.64.0.0-100.127.255.255",
            "127.0.0.0-127.255.255.255",
            "169.254.0.0-169.254.255.255",
            "172.16.0.0-172.31.255.255",
            "192.0.0.0-192.0.0.255",
            "192.0.2.0-192.0.2.255",
            "192.88.99.0-192.88.99.255",
            "192.168.0.0-192.168.255.255",
            "198.18.0.0-198.19.255.255",
            "198.51.100.0-198.51.100.255",
            "203.0.113.0-203.0.113.255",
            "224.0.0.0-255.255.255.255",
            "168.63.129.16-168.63.129.16",
            "::-::ffff",
            "64:ff9b:1::-64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
            "64:ff9b::a00:0-64:ff9b::aff:ffff",
            "100::-1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "2001::-2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
            "2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
            "2002::-2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "3fff::-3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
            "4000::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ] {
            let (first, last) = range.split_once('-').unwrap();
            check(first, false);
            check(last, false);
        }
    }

    #[test]
    fn the_addresses_beside_the_special_ranges_are_public() {
        for address in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "168.63.129.15",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2001:200::",
            "2001:4860:4860::8888",
            "2606:4700:4700::1111",
            "2003::",
        ] {
            check(address, true);
        }
    }
}
