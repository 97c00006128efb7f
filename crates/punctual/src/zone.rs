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

    /// To the minute and with the shortest form of the zone, for narrow tables; with the year only where
    /// it is another one. Cannot be read back.
    pub(crate) fn show_short(&self, at: Timestamp, now: Timestamp) -> String {
        let zoned =
            |at: Timestamp| Some(jiff::Timestamp::from_microsecond(at.as_micros()).ok()?.to_zoned(self.0.clone()));
        let (Some(at_there), Some(now_there)) = (zoned(at), zoned(now)) else {
            return at.to_string();
        };
        let form = if at_there.year() == now_there.year() { "%m-%d %H:%M" } else { "%Y-%m-%d %H:%M" };
        // `+01` says as much as `+01:00`; `+05:30` stays whole.
        let offset = self.offset(&at_there);
        format!("{}{}", at_there.strftime(form), offset.strip_suffix(":00").unwrap_or(&offset))
    }

    /// Rewrites the times in a sentence of the server, which are in UTC and to the
    /// microsecond.
    pub(crate) fn localize(&self, text: &str) -> String {
        let is_part = |letter: char| letter.is_ascii_digit() || matches!(letter, 'T' | 'Z' | ':' | '.' | '-' | '+');
        let mut localized = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(begin) = rest.find(|letter: char| letter.is_ascii_digit()) {
            let (before, from) = rest.split_at(begin);
            localized += before;
            let run = from.find(|letter| !is_part(letter)).map_or(from, |end| &from[..end]);
            let time = run.trim_end_matches(['.', ':', '-']);
            match Timestamp::parse(time) {
                Ok(at) => localized += &self.show(at),
                Err(_) => localized += time,
            }
            rest = &from[time.len()..];
        }
        localized + rest
    }

    fn format(&self, at: Timestamp, form: &str) -> String {
        let Ok(instant) = jiff::Timestamp::from_microsecond(at.as_micros()) else {
            return at.to_string();
        };
        let zoned = instant.to_zoned(self.0.clone());
        format!("{}{}", zoned.strftime(form), self.offset(&zoned))
    }

    fn offset(&self, zoned: &jiff::Zoned) -> String {
        if self.0 == TimeZone::UTC { "Z".to_owned() } else { zoned.strftime("%:z").to_string() }
    }
}

/// An instant in a zone that is named, to the minute where that is all there is.
pub(crate) fn show_in(zone: &str, at: Timestamp) -> String {
    let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    plain_local(&Zone(zone).show(at))
}

/// A local time as the server writes it, `2026-12-24T18:00:00+01:00`, as people do: `2026-12-24 18:00+01:00`.
pub(crate) fn plain_local(local: &str) -> String {
    let local = local.replacen('T', " ", 1);
    match (local.get(..16), local.get(16..19), local.get(19..)) {
        (Some(minute), Some(":00"), Some(offset)) if !offset.starts_with('.') => format!("{minute}{offset}"),
        _ => local,
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

/// How far away a time is, in one unit: `in 2m`.
pub(crate) fn relative_short(at: Timestamp, now: Timestamp) -> String {
    let span = at.since(now).max(now.since(at));
    let secs = (span.as_micros() + 500_000) / 1_000_000;
    let units = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    // Two of a unit, or the smaller one says more.
    let (length, unit) = units.into_iter().find(|(length, _)| secs >= 2 * length).unwrap_or((1, "s"));
    let rounded = (secs + length / 2) / length;
    match rounded {
        0 => "now".to_owned(),
        _ if at > now => format!("in {rounded}{unit}"),
        _ => format!("{rounded}{unit} ago"),
    }
}

/// A length of time in its two largest units, rounded to the nearest.
pub(crate) fn short(span: Span) -> String {
    const MS: i64 = 1000;
    const SECOND: i64 = 1_000_000;
    let micros = span.as_micros();
    let to = |unit: i64| (micros + unit / 2) / unit * unit;
    if micros < MS {
        return format!("{micros}µs");
    }
    if to(MS) < SECOND {
        return format!("{}ms", to(MS) / MS);
    }
    let tenth = SECOND / 10;
    if to(tenth) < 10 * SECOND {
        return format!("{}.{}s", to(tenth) / SECOND, to(tenth) % SECOND / tenth);
    }
    let units = [(60, "m", 1, "s"), (3600, "h", 60, "m"), (86_400, "d", 3600, "h")];
    if to(SECOND) < 60 * SECOND {
        return format!("{}s", to(SECOND) / SECOND);
    }
    // The largest unit that is reached after the rounding that it brings.
    let reached = units.iter().rev().find(|(large, _, small, _)| to(small * SECOND) >= large * SECOND);
    let &(large, large_name, small, small_name) = reached.unwrap_or(&units[0]);
    let secs = to(small * SECOND) / SECOND;
    match secs % large / small {
        0 => format!("{}{large_name}", secs / large),
        rest => format!("{}{large_name}{rest}{small_name}", secs / large),
    }
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
    fn a_local_time_keeps_its_offset_and_loses_only_empty_seconds() {
        for (text, shown) in [
            ("2026-12-24T18:00:00+01:00", "2026-12-24 18:00+01:00"),
            ("2026-12-24T18:00:00Z", "2026-12-24 18:00Z"),
            ("2026-12-24T18:00:30+01:00", "2026-12-24 18:00:30+01:00"),
            ("2026-12-24T18:00:00.5+01:00", "2026-12-24 18:00:00.5+01:00"),
            ("soon", "soon"),
        ] {
            assert_eq!(plain_local(text), shown);
        }
        let at = Timestamp::parse("2026-12-24T17:00:00Z").unwrap();
        assert_eq!(show_in("Europe/Berlin", at), "2026-12-24 18:00+01:00");
        assert_eq!(parse_at(&show_in("Europe/Berlin", at)), Ok(at));
    }

    #[test]
    fn lengths_are_shown_in_two_units_at_most() {
        for (micros, shown) in [
            (900, "900µs"),
            (38_400, "38ms"),
            (999_600, "1.0s"),
            (1_240_000, "1.2s"),
            (9_960_000, "10s"),
            (38_000_000, "38s"),
            (120_000_000, "2m"),
            (3_725_000_000, "1h2m"),
            (3_599_600_000, "1h"),
            (90_000_000_000, "1d1h"),
            (2 * 86_400_000_000 - 3000, "2d"),
            (2 * 86_400_000_000 - 3_600_000_000, "1d23h"),
        ] {
            assert_eq!(short(Span::from_micros(micros)), shown);
        }
    }

    #[test]
    fn a_narrow_table_tells_a_time_in_one_unit() {
        let now = Timestamp::parse("2026-12-24T17:00:00Z").unwrap();
        for (secs, ahead, ago) in [
            (0, "now", "now"),
            (1, "in 1s", "1s ago"),
            (90, "in 90s", "90s ago"),
            (1193, "in 20m", "20m ago"),
            (2 * 86_400 - 1, "in 48h", "48h ago"),
            (86_400 * 10, "in 10d", "10d ago"),
        ] {
            let span = Span::from_secs(secs);
            assert_eq!((relative_short(now + span, now), relative_short(now - span, now)), (ahead.into(), ago.into()));
        }
    }

    #[test]
    fn times_within_a_sentence_are_shown_in_the_zone() {
        let zone = Zone(zone_of("Europe/Berlin").unwrap());
        for (text, wanted) in [
            ("It starts at 2026-12-24T17:00:00.123456Z, in 3d.", "It starts at 2026-12-24 18:00:00+01:00, in 3d."),
            ("Since 2026-12-24T17:00:00Z.", "Since 2026-12-24 18:00:00+01:00."),
            ("2026-07-01T17:00:00.000000Z: é", "2026-07-01 19:00:00+02:00: é"),
            ("after 3 attempts: HTTP 503 - 10.0.0.1:80.", "after 3 attempts: HTTP 503 - 10.0.0.1:80."),
            ("", ""),
        ] {
            assert_eq!(zone.localize(text), wanted);
        }
    }

    #[test]
    fn a_short_time_keeps_its_zone_and_has_a_year_only_where_it_is_another_one() {
        let at = Timestamp::parse("2026-12-24T17:00:30Z").unwrap();
        let next_year = at + Span::from_secs(30 * 86_400);
        for (zone, shown) in
            [("utc", "12-24 17:00Z"), ("Europe/Berlin", "12-24 18:00+01"), ("America/St_Johns", "12-24 13:30-03:30")]
        {
            let zone = Zone(zone_of(zone).unwrap());
            assert_eq!(zone.show_short(at, at), shown);
            assert_eq!(zone.show_short(at, next_year), format!("2026-{shown}"));
        }
    }
}
