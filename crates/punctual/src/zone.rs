//! How instants are shown: always with their zone, in a form that `--at` reads back.

use jiff::tz::TimeZone;
use punctual_core::{Span, Timestamp};

/// The zone that times are shown in.
#[derive(Debug, Clone)]
pub(crate) struct Zone(pub(crate) TimeZone);

impl Zone {
    /// To the second.
    pub(crate) fn show(&self, at: Timestamp) -> String {
        self.format(at, "%Y-%m-%d %H:%M:%S")
    }

    /// To the millisecond, where the question is whether something was late.
    pub(crate) fn show_millis(&self, at: Timestamp) -> String {
        self.format(at, "%Y-%m-%d %H:%M:%S.%3f")
    }

    fn format(&self, at: Timestamp, form: &str) -> String {
        let Ok(instant) = jiff::Timestamp::from_microsecond(at.as_micros()) else {
            return at.to_string();
        };
        let zoned = instant.to_zoned(self.0.clone());
        let offset = if self.0 == TimeZone::UTC { "Z".to_owned() } else { zoned.strftime("%:z").to_string() };
        format!("{}{offset}", zoned.strftime(form))
    }
}

/// `in 38s`, `now` or `2m ago`.
pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        return format!("in {}", short(at.since(now)));
    }
    match now.since(at) {
        span if span < Span::from_secs(1) => "now".to_owned(),
        span => format!("{} ago", short(span)),
    }
}

/// A length of time in its two largest units.
pub(crate) fn short(span: Span) -> String {
    let micros = span.as_micros();
    if micros < 1000 {
        return format!("{micros}µs");
    }
    if micros < 1_000_000 {
        return format!("{}ms", micros / 1000);
    }
    if micros < 10_000_000 {
        return format!("{:.1}s", micros as f64 / 1e6);
    }
    let secs = micros / 1_000_000;
    let units = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let first = units.iter().position(|(length, _)| secs >= *length).unwrap_or(units.len() - 1);
    let (length, unit) = units[first];
    let mut text = format!("{}{unit}", secs / length);
    if let Some((smaller, unit)) = units.get(first + 1) {
        let rest = secs % length / smaller;
        if rest > 0 {
            text += &format!("{rest}{unit}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::when::{parse_at, zone_of};

    #[test]
    fn a_shown_time_names_its_zone_and_reads_back() {
        let at = Timestamp::parse("2026-12-24T17:00:00Z").unwrap();
        for (zone, shown) in [
            ("utc", "2026-12-24 17:00:00Z"),
            ("Europe/Berlin", "2026-12-24 18:00:00+01:00"),
            ("America/St_Johns", "2026-12-24 13:30:00-03:30"),
        ] {
            let zone = Zone(zone_of(zone).unwrap());
            assert_eq!(zone.show(at), shown);
            assert_eq!(parse_at(&zone.show_millis(at)), Ok(at));
        }
    }

    #[test]
    fn lengths_are_shown_in_two_units_at_most() {
        for (micros, shown) in [
            (900, "900µs"),
            (38_400, "38ms"),
            (1_250_000, "1.2s"),
            (38_000_000, "38s"),
            (120_000_000, "2m"),
            (3_725_000_000, "1h2m"),
            (90_000_000_000, "1d1h"),
        ] {
            assert_eq!(short(Span::from_micros(micros)), shown);
        }
    }
}
