//! The random name of one environment.

use std::fmt;
use std::io;

use punctual_core::hex;

/// The random name of one environment. It is not secret: people see it with the attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostId(String);

impl HostId {
    /// The maximum length in the protocol.
    const LEN_MAX: usize = 64;

    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        // A UUID of version 4, which people recognise.
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let digits = hex::encode(bytes);
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
        Ok(Self(parts.join("-")))
    }

    pub fn parse(text: &str) -> Option<Self> {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let fits = !text.is_empty() && text.len() <= Self::LEN_MAX && text.bytes().all(is_fine);
        fits.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_ids_are_uuids_and_differ() {
        let ids = [HostId::random().unwrap(), HostId::random().unwrap()];
        assert_ne!(ids[0], ids[1]);
        for id in &ids {
            assert_eq!((id.as_str().len(), &id.as_str()[14..15]), (36, "4"), "{id}");
            assert_eq!(HostId::parse(id.as_str()).as_ref(), Some(id));
        }
        for bad in ["", "a/b", "a b", &"x".repeat(65)] {
            assert_eq!(HostId::parse(bad), None, "{bad}");
        }
    }
}
