//! Proxies and load balancers that end TLS in front of a server. Nobody else's forwarded headers are believed: anybody can write
//! them.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use http::HeaderMap;
use http::uri::Authority;

/// The addresses of the proxies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies(Arc<[Range]>);

/// Addresses with the same first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    address: IpAddr,
    bits: u8,
}

/// More would be a whole network; name that instead.
const RANGES_MAX: usize = 64;

impl Proxies {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|range| range.contains(address))
    }
}

impl FromStr for Proxies {
    type Err = String;

    /// Addresses and networks, separated by commas: `10.0.0.5, 10.1.0.0/16`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let ranges: Vec<Range> = parts.map(str::parse).collect::<Result<_, _>>()?;
        if ranges.len() > RANGES_MAX {
            return Err(format!("there are {} addresses, and {RANGES_MAX} are the most", ranges.len()));
        }
        Ok(Self(ranges.into()))
    }
}

impl Range {
    fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                u32::from(own) & mask == u32::from(address) & mask
            }
            (IpAddr::V6(own), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                u128::from(own) & mask == u128::from(address) & mask
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("`{text}` is not an address, such as 10.0.0.5, nor a network, such as 10.1.0.0/16");
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| refused())?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => all,
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= all).ok_or_else(refused)?,
        };
        if bits == 0 {
            return Err(format!("`{text}` is every address there is: anybody could claim to be anybody"));
        }
        Ok(Self { address, bits })
    }
}

/// What a proxy says about the request that it passes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Forwarded {
    /// The client's address.
    pub(crate) client: Option<IpAddr>,
    /// The host that the client asked for, where the proxy does not pass it on as `Host`.
    pub(crate) host: Option<Authority>,
    /// Whether the client's connection to the proxy has TLS.
    pub(crate) is_encrypted: bool,
}

impl Forwarded {
    /// Reads the headers of a request that came from one of the proxies. Of the addresses in `X-Forwarded-For` the last that is
    /// not a proxy's counts: what stands before it, the client may have written.
    pub(crate) fn read(headers: &HeaderMap, proxies: &Proxies) -> Self {
        let last = |name: &str| headers.get_all(name).iter().next_back()?.to_str().ok();
        let chain = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
        let chain: Vec<&str> = chain.flat_map(|value| value.split(',')).map(str::trim).collect();
        let client = chain.iter().rev().map(|address| address.parse::<IpAddr>().ok());
        let client = client.take_while(Option::is_some).flatten().find(|address| !proxies.contains(*address));
        let end = |name: &'static str| last(name)?.rsplit(',').next().map(str::trim);
        Self {
            client,
            host: end("x-forwarded-host").and_then(|host| host.parse().ok()),
            is_encrypted: end("x-forwarded-proto").is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn addresses_and_networks_are_read() {
        let proxies: Proxies = "10.0.0.5, 10.1.0.0/16 ,fd00::/8,".parse().unwrap();
        for inside in ["10.0.0.5", "10.1.255.255", "fd12::1", "::ffff:10.0.0.5"] {
            assert!(proxies.contains(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["10.0.0.6", "10.2.0.0", "127.0.0.1", "fe80::1", "::a00:5"] {
            assert!(!proxies.contains(outside.parse().unwrap()), "{outside}");
        }
        assert!(Proxies::default().is_empty() && !Proxies::default().contains([127, 0, 0, 1].into()));
        for bad in ["x", "10.0.0.5/33", "10.0.0.0/0", "::/0", "10.0.0.5:80", "10.0.0", "balancer.example"] {
            assert!(bad.parse::<Proxies>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_last_address_that_is_not_a_proxys_is_the_client() {
        let proxies: Proxies = "10.0.0.0/24".parse().unwrap();
        let client = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("x-forwarded-for", HeaderValue::from_static(value));
            }
            Forwarded::read(&headers, &proxies).client.map(|address| address.to_string())
        };
        assert_eq!(client(&["192.0.2.7"]).as_deref(), Some("192.0.2.7"));
        assert_eq!(client(&["127.0.0.1, 192.0.2.7"]).as_deref(), Some("192.0.2.7"), "the client wrote the first");
        assert_eq!(client(&["192.0.2.7, 10.0.0.9"]).as_deref(), Some("192.0.2.7"), "through two proxies");
        assert_eq!(client(&["192.0.2.7", "192.0.2.8, 10.0.0.9"]).as_deref(), Some("192.0.2.8"));
        for nobody in [&[][..], &["nonsense"], &["192.0.2.7, nonsense"], &["10.0.0.9"]] {
            assert_eq!(client(nobody), None, "{nobody:?}");
        }
    }

    #[test]
    fn the_scheme_and_host_are_those_of_the_nearest_proxy() {
        let mut headers = HeaderMap::new();
        headers.append("x-forwarded-proto", HeaderValue::from_static("https, http"));
        headers.append("x-forwarded-host", HeaderValue::from_static("evil.example, punctual.example"));
        let found = Forwarded::read(&headers, &Proxies::default());
        assert!(!found.is_encrypted);
        assert_eq!(found.host.unwrap().as_str(), "punctual.example");
    }
}
