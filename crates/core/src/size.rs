//! Sizes in bytes, as people write them: `512MiB`, `10MB`, `4096`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteSize(u64);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a size looks like 512MiB, 10MB or 4096")]
pub struct BadSize;

/// The largest first, so that a size is shown in the largest unit that fits without a rest.
const UNITS: [(&str, u64); 6] =
    [("GiB", 1 << 30), ("GB", 1_000_000_000), ("MiB", 1 << 20), ("MB", 1_000_000), ("KiB", 1 << 10), ("kB", 1_000)];

impl ByteSize {
    pub const fn bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    pub const fn mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, size)| self.0 >= *size && self.0.is_multiple_of(*size)) {
            Some((unit, size)) => write!(f, "{}{unit}", self.0 / size),
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for ByteSize {
    type Err = BadSize;

    fn from_str(text: &str) -> Result<Self, BadSize> {
        let text = text.trim();
        let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| BadSize)?;
        let unit = unit.trim();
        let size = match unit {
            "" | "B" => 1,
            _ => UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or(BadSize)?.1,
        };
        number.checked_mul(size).map(Self).ok_or(BadSize)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    /// A text with a unit, or a number of bytes.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum SizeText {
            Number(u64),
            Text(String),
        }
        match SizeText::deserialize(deserializer)? {
            SizeText::Number(bytes) => Ok(Self(bytes)),
            SizeText::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_the_forms_people_write_and_shown_in_the_shortest() {
        let shown = |text: &str| text.parse::<ByteSize>().map(|size| size.to_string());
        for (text, expected) in
            [("512MiB", "512MiB"), ("10 MB", "10MB"), ("1024", "1KiB"), ("1gib", "1GiB"), ("7", "7"), ("0", "0")]
        {
            assert_eq!(shown(text).as_deref(), Ok(expected), "{text}");
        }
        for bad in ["", "MiB", "-1", "1.5GiB", "1 parsec", "99999999999GiB"] {
            assert_eq!(shown(bad), Err(BadSize), "{bad}");
        }
    }
}
