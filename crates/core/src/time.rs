//! Instants and spans in whole microseconds.
//!
//! Storage and processing are in UTC; zones exist only at the edges. The core
//! never asks what time it is.

use std::fmt;
use std::ops::{Add, Sub};

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::rfc3339;

/// An instant: microseconds since 1970-01-01T00:00:00Z, up to [`Timestamp::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// A length of time in microseconds, never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(i64);

/// Why a time or a span was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    #[error("`{0}` is not an RFC 3339 time with a zone, such as 2026-12-24T18:00:00+01:00")]
    NotRfc3339(String),
    #[error("the time is not between 1970-01-01T00:00:00Z and 9999-12-30T22:00:00Z")]
    OutOfRange,
    #[error("`{0}` is not a duration, such as 30s, 20m or 1h30m")]
    NotADuration(String),
    #[error("the duration must be between 0 and 3650 days")]
    DurationOutOfRange,
}

impl TimeError {
    /// Whether it is a time or a span, and too small or too large.
    pub const fn is_range(&self) -> bool {
        matches!(self, Self::OutOfRange | Self::DurationOutOfRange)
    }
}

impl Timestamp {
    pub const EPOCH: Self = Self(0);
    /// 9999-12-30T21:59:59.999999Z: the last instant that surely has a four-digit year in every zone.
    pub const MAX: Self = Self(253_402_207_199_999_999);

    pub const fn from_micros(micros: i64) -> Option<Self> {
        if micros < 0 || micros > Self::MAX.0 {
            return None;
        }
        Some(Self(micros))
    }

    /// The nearest instant that can be represented.
    pub const fn saturating_from_micros(micros: i64) -> Self {
        if micros < 0 {
            Self::EPOCH
        } else if micros > Self::MAX.0 {
            Self::MAX
        } else {
            Self(micros)
        }
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Reads RFC 3339; the zone is required, so that no two readers differ.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        if let Some(micros) = rfc3339::read(text) {
            return Self::from_micros(micros).ok_or(TimeError::OutOfRange);
        }
        let parsed: jiff::Timestamp = text.parse().map_err(|_| {
            let has_all_parts = jiff::fmt::temporal::Pieces::parse(text)
                .is_ok_and(|pieces| pieces.time().is_some() && pieces.offset().is_some());
            if has_all_parts { TimeError::OutOfRange } else { TimeError::NotRfc3339(shorten(text)) }
        })?;
        // Rounded up: a job asked for at .0000005 must not start before it.
        let micros = parsed.as_nanosecond().div_euclid(1000) + i128::from(parsed.as_nanosecond().rem_euclid(1000) != 0);
        i64::try_from(micros).ok().and_then(Self::from_micros).ok_or(TimeError::OutOfRange)
    }

    /// How long after `earlier` this is; zero when it is not.
    pub fn since(self, earlier: Self) -> Span {
        Span((self.0 - earlier.0).max(0))
    }
}

impl Span {
    pub const ZERO: Self = Self(0);
    /// Ten years: longer waits belong into `run_at`.
    pub const MAX: Self = Self::from_secs(3650 * 86_400);

    pub const fn from_micros(micros: i64) -> Self {
        Self(if micros < 0 { 0 } else { micros })
    }
    pub const fn from_millis(millis: i64) -> Self {
        Self::from_micros(millis * 1000)
    }
    pub const fn from_secs(secs: i64) -> Self {
        Self::from_micros(secs * 1_000_000)
    }
    pub const fn as_micros(self) -> i64 {
        self.0
    }
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_micros(self.0.unsigned_abs())
    }

    fn from_secs_f64(secs: f64) -> Result<Self, TimeError> {
        if !(0.0..=Self::MAX.0 as f64 / 1e6).contains(&secs) {
            return Err(TimeError::DurationOutOfRange);
        }
        Ok(Self((secs * 1e6).round() as i64))
    }

    /// Reads `90s`, `20m`, `1h30m`, `7d`, `PT5M` or a number of seconds. A day has 24 hours.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        let refused = || TimeError::NotADuration(shorten(text));
        if let Ok(secs) = text.parse::<f64>() {
            return Self::from_secs_f64(secs);
        }
        let span: jiff::Span = text.parse().map_err(|_| refused())?;
        let duration = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|_| refused())?;
        let micros = i64::try_from(duration.as_micros()).map_err(|_| TimeError::DurationOutOfRange)?;
        if !(0..=Self::MAX.0).contains(&micros) {
            return Err(TimeError::DurationOutOfRange);
        }
        Ok(Self(micros))
    }
}

/// Error messages quote what was sent, but not a megabyte of it.
fn shorten(text: &str) -> String {
    text.chars().take(64).collect()
}

impl Add<Span> for Timestamp {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self::saturating_from_micros(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Timestamp {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        Self::saturating_from_micros(self.0.saturating_sub(span.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&rfc3339::write(self.0)).expect("digits and signs are ASCII"))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In ASCII, so that every terminal shows it and every parser reads it.
        f.write_str(&format!("{:#}", jiff::SignedDuration::from_micros(self.0)).replace('µ', "u"))
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = rfc3339::write(self.0);
        serializer.serialize_str(std::str::from_utf8(&text).expect("digits and signs are ASCII"))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl Serialize for Span {
    /// Writes ISO 8601, such as `PT11M26.975002S`, for programs. [`fmt::Display`] is for people.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&jiff::SignedDuration::from_micros(self.0))
    }
}

impl<'de> Deserialize<'de> for Span {
    /// Reads the texts of [`Span::parse`], and numbers, which are seconds.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SpanVisitor;
        impl Visitor<'_> for SpanVisitor {
            type Value = Span;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration, such as \"30s\", \"PT30S\" or 30 (seconds)")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Span, E> {
                Span::parse(text).map_err(E::custom)
            }
            fn visit_f64<E: Error>(self, secs: f64) -> Result<Span, E> {
                Span::from_secs_f64(secs).map_err(E::custom)
            }
            fn visit_u64<E: Error>(self, secs: u64) -> Result<Span, E> {
                self.visit_f64(secs as f64)
            }
            fn visit_i64<E: Error>(self, secs: i64) -> Result<Span, E> {
                self.visit_f64(secs as f64)
            }
        }
        deserializer.deserialize_any(SpanVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_reads_back_as_it_was_written() {
        for text in ["1970-01-01T00:00:00.000000Z", "2026-11-16T23:00:00.123456Z", "9999-12-30T21:59:59.999999Z"] {
            assert_eq!(Timestamp::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_time_between_two_microseconds_rounds_up_so_that_nothing_is_early() {
        let time = Timestamp::parse("2026-11-16T23:00:00.1234561Z").unwrap();
        assert_eq!(time.to_string(), "2026-11-16T23:00:00.123457Z");
    }

    #[test]
    fn times_without_a_zone_or_outside_the_range_are_refused() {
        for text in ["2026-11-16T23:00:00", "tomorrow", "", "2026-11-16"] {
            assert!(matches!(Timestamp::parse(text), Err(TimeError::NotRfc3339(_))), "{text}");
        }
        for text in ["1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z"] {
            assert_eq!(Timestamp::parse(text), Err(TimeError::OutOfRange), "{text}");
        }
    }

    #[test]
    fn durations_are_read_in_the_forms_people_write() {
        for (text, micros) in [
            ("0s", 0),
            ("90", 90_000_000),
            ("1.5", 1_500_000),
            ("20m", 1_200_000_000),
            ("1h30m", 5_400_000_000),
            ("PT5M", 300_000_000),
            ("7d", 604_800_000_000),
            ("1w 2d", 777_600_000_000),
        ] {
            assert_eq!(Span::parse(text).unwrap().as_micros(), micros, "{text}");
        }
        for (json, micros) in
            [("90", 90_000_000), ("1.5", 1_500_000), ("0", 0), (r#""PT5M""#, 300_000_000), (r#""5m""#, 300_000_000)]
        {
            let read: Span = serde_json::from_str(json).unwrap();
            assert_eq!(read.as_micros(), micros, "{json}");
            assert_eq!(serde_json::from_str::<Span>(&serde_json::to_string(&read).unwrap()).unwrap(), read);
        }
        for json in ["-1", "1e300", "true", "null", "[]", r#""soon""#] {
            assert!(serde_json::from_str::<Span>(json).is_err(), "{json}");
        }
        for text in ["-1s", "soon", "NaN", "inf", "1e300", "99999999999h", "1 month", "4000d"] {
            assert!(Span::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_duration_is_iso_8601_in_json_and_friendly_to_people_and_reads_back() {
        for (micros, iso, text) in [
            (0, "PT0S", "0s"),
            (1, "PT0.000001S", "1us"),
            (14_955, "PT0.014955S", "14ms 955us"),
            (1_200_000, "PT1.2S", "1s 200ms"),
            (686_975_002, "PT11M26.975002S", "11m 26s 975ms 2us"),
            (5_400_000_000, "PT1H30M", "1h 30m"),
            (604_800_000_000, "PT168H", "168h"),
        ] {
            let span = Span::from_micros(micros);
            assert_eq!(span.to_string(), text);
            assert_eq!(serde_json::json!(span), iso);
            assert_eq!(serde_json::json!(span), iso);
            assert_eq!(Span::parse(text), Ok(span));
            assert_eq!(Span::parse(iso), Ok(span));
        }
    }
}
