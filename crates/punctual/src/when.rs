//! Times and durations as people write them.
//!
//! A time without a zone is refused: two readers would differ. So is a local time
//! that a change of the clocks skips or repeats.

use jiff::civil::{DateTime, Time};
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::{AmbiguousOffset, TimeZone};
use punctual_core::schedule::recurrence::zone_refusal;
use punctual_core::{Span, Timestamp};

use crate::clock::now;

/// Reads `2026-12-24T18:00:00+01:00`, `2026-12-24 18:00 Europe/Berlin` or
/// `2026-12-24T18:00[Europe/Berlin]`.
pub(crate) fn parse_at(text: &str) -> Result<Timestamp, String> {
    let text = text.trim();
    if let Ok(time) = Timestamp::parse(text) {
        return Ok(time);
    }
    // What is written in full but lies outside the years we keep.
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return in_range(time);
    }
    let (local, zone) = split_zone(text)?;
    let local: DateTime = DateTimeParser::new().parse_datetime(local).map_err(|_| not_a_time(text))?;
    let zone = zone_of(zone)?;
    let ambiguous = zone.to_ambiguous_timestamp(local);
    let written = local.strftime("%Y-%m-%d %H:%M");
    match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } => {}
        AmbiguousOffset::Gap { .. } => {
            return Err(format!("{written} does not exist there: the clocks skip it; choose another time"));
        }
        AmbiguousOffset::Fold { before, after } => {
            return Err(format!(
                "{written} happens twice there: the clocks are set back; \
                 write `{written}{before}` for the first or `{written}{after}` for the second",
            ));
        }
    }
    in_range(ambiguous.unambiguous().map_err(|error| error.to_string())?)
}

fn in_range(time: jiff::Timestamp) -> Result<Timestamp, String> {
    Timestamp::parse(&time.to_string()).map_err(|error| error.to_string())
}

fn split_zone(text: &str) -> Result<(&str, &str), String> {
    if let Some((local, zone)) = text.split_once('[') {
        let zone = zone.strip_suffix(']').ok_or_else(|| not_a_time(text))?;
        return Ok((local, zone));
    }
    match text.rsplit_once(' ') {
        // "2026-12-24 18:00" ends with digits, a zone does not.
        Some((local, zone)) if zone.starts_with(|letter: char| letter.is_ascii_alphabetic()) => Ok((local, zone)),
        _ if DateTimeParser::new().parse_datetime(text).is_ok() => {
            // A date alone takes no offset.
            let whole = if text.contains(':') { text.to_owned() } else { format!("{text} 00:00") };
            Err(format!("`{text}` has no zone; add one: `{whole}Z`, `{whole}+01:00` or `{whole} Europe/Berlin`"))
        }
        _ => Err(not_a_time(text)),
    }
}

fn not_a_time(text: &str) -> String {
    let zone = machine_zone();
    if let Some(local) = TimeZone::get(&zone).ok().and_then(|zone| in_full(text, here(zone)?)) {
        return format!("`{text}` needs a date and a time zone; write `{local} {zone}`");
    }
    format!("`{text}` is not a time, such as 2026-12-24T18:00:00+01:00 or '2026-12-24 18:00 Europe/Berlin'")
}

/// Reads a whole number in a range.
pub(crate) fn whole<T: TryFrom<u64>, const MIN: u64, const MAX: u64>(text: &str) -> Result<T, String> {
    let number = text.trim().parse::<u64>().ok().filter(|number| (MIN..=MAX).contains(number));
    let number = number.and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| format!("it is not a whole number from {MIN} to {MAX}"))
}

fn here(zone: TimeZone) -> Option<DateTime> {
    Some(jiff::Timestamp::from_microsecond(now().as_micros()).ok()?.to_zoned(zone).datetime())
}

/// What `18:00`, `today`, `tomorrow` and `tomorrow 18:00` mean, with the date.
fn in_full(text: &str, now: DateTime) -> Option<String> {
    /// For whoever names a day alone.
    const MORNING: Time = Time::constant(9, 0, 0, 0);
    let text = text.to_ascii_lowercase();
    let (day, time) = match text.split_once(' ') {
        Some((day, time)) => (day, Some(time.trim())),
        None if text.contains(':') => ("", Some(text.as_str())),
        None if text.is_empty() => return None,
        None => (text.as_str(), None),
    };
    let time = match time {
        Some(time) => clock(time)?,
        None => MORNING,
    };
    let date = match day {
        "today" => now.date(),
        "" if time > now.time() => now.date(),
        "" | "tomorrow" => now.date().tomorrow().ok()?,
        _ => return None,
    };
    Some(date.to_datetime(time).strftime("%Y-%m-%d %H:%M").to_string())
}

/// `9:30`, `18:00`
fn clock(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let number = |digits: &str| {
        let is_plain = (1..=2).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse::<i8>().ok().filter(|_| is_plain)
    };
    Time::new(number(hour)?, number(minute)?, 0, 0).ok()
}

/// Reads `local`, `utc` or the name of a zone.
pub(crate) fn zone_of(text: &str) -> Result<TimeZone, String> {
    match text.to_ascii_lowercase().as_str() {
        "local" => Ok(TimeZone::system()),
        "utc" | "z" => Ok(TimeZone::UTC),
        _ => match zone_refusal(text) {
            Some(refusal) => Err(refusal),
            None => TimeZone::get(text).map_err(|_| {
                format!("there is no time zone `{text}`; write local, utc or a name such as Europe/Berlin")
            }),
        },
    }
}

/// The IANA name of this machine's zone. A machine that tells none keeps UTC, as its C library does.
pub(crate) fn machine_zone() -> String {
    let zone = TimeZone::system();
    let name = zone.iana_name().filter(|_| !zone.is_unknown()).unwrap_or("UTC");
    // Where the machine names a copy of a zone.
    let plain = name.strip_prefix("posix/").or_else(|| name.strip_prefix("right/")).unwrap_or(name);
    if zone_refusal(plain).is_some() { "UTC".to_owned() } else { plain.to_owned() }
}

/// Reads the zone of a schedule: an IANA name, `local` or `utc`.
pub(crate) fn zone_name(text: &str) -> Result<String, String> {
    match text.to_ascii_lowercase().as_str() {
        "local" => return Ok(machine_zone()),
        "utc" | "z" => return Ok("UTC".to_owned()),
        _ => {}
    }
    if let Some(refusal) = zone_refusal(text) {
        return Err(refusal);
    }
    if let Some(name) = TimeZone::get(text).ok().and_then(|zone| zone.iana_name().map(str::to_owned)) {
        return Ok(name);
    }
    Err(match near_zone(text) {
        Some(name) => format!("there is no time zone `{text}`; did you mean {name}?"),
        None => format!("there is no time zone `{text}`; write local, utc or a name such as Europe/Berlin"),
    })
}

/// The zone whose name, or whose city, is written almost like this.
fn near_zone(text: &str) -> Option<String> {
    const TYPOS_MAX: usize = 2;
    let text = text.to_ascii_lowercase();
    let distance = |name: &str| {
        let name = name.to_ascii_lowercase();
        let city = name.rsplit('/').next().unwrap_or_default();
        strsim::osa_distance(&name, &text).min(strsim::osa_distance(city, &text))
    };
    let names = jiff::tz::db().available().filter(|name| zone_refusal(name.as_str()).is_none());
    let known = names.map(|name| (distance(name.as_str()), name.as_str().to_owned()));
    known.min().filter(|(distance, _)| *distance <= TYPOS_MAX).map(|(_, name)| name)
}

/// Reads a duration, and says in words what is wrong with it. A number alone is refused: it would be read as seconds, and
/// mostly minutes are meant.
pub(crate) fn parse_span(text: &str) -> Result<Span, String> {
    let text = text.trim();
    let span = Span::parse(text).map_err(|error| error.to_string())?;
    if span > Span::ZERO && text.parse::<f64>().is_ok() {
        return Err(format!("`{text}` has no unit; write {text}s, {text}m or {text}h"));
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_the_forms_people_write() {
        for (text, wanted) in [
            ("2026-12-24T18:00:00+01:00", "2026-12-24T17:00:00.000000Z"),
            ("2026-12-24 18:00:00+01:00", "2026-12-24T17:00:00.000000Z"),
            ("2026-12-24T18:00Z", "2026-12-24T18:00:00.000000Z"),
            ("2026-12-24 18:00 Europe/Berlin", "2026-12-24T17:00:00.000000Z"),
            ("2026-12-24 18:00:30.5 Europe/Berlin", "2026-12-24T17:00:30.500000Z"),
            ("2026-07-01T18:00 Europe/Berlin", "2026-07-01T16:00:00.000000Z"),
            ("2026-12-24T18:00[America/New_York]", "2026-12-24T23:00:00.000000Z"),
            ("2026-12-24 18:00 UTC", "2026-12-24T18:00:00.000000Z"),
            ("  2026-12-24 18:00 utc ", "2026-12-24T18:00:00.000000Z"),
            ("2026-10-25 02:30+02:00", "2026-10-25T00:30:00.000000Z"),
        ] {
            assert_eq!(parse_at(text).map(|time| time.to_string()), Ok(wanted.to_owned()), "{text}");
        }
    }

    #[test]
    fn times_that_say_too_little_or_never_come_are_refused_with_a_reason() {
        for (text, reason) in [
            ("2026-12-24 18:00", "has no zone"),
            ("2026-12-24T18:00:00", "has no zone"),
            ("2026-12-24", "has no zone"),
            ("2026-03-29 02:30 Europe/Berlin", "does not exist there"),
            ("2026-10-25 02:30 Europe/Berlin", "write `2026-10-25 02:30+02` for the first"),
            ("2026-12-24 18:00 Europe/Bärlin", "no time zone"),
            ("2026-12-24 18:00 Atlantis", "no time zone"),
            ("2026-13-24 18:00 utc", "is not a time"),
            ("2026-12-24T18:00[Europe/Berlin", "is not a time"),
            ("1960-01-01T00:00:00Z", "1970"),
            ("tomorrow", "needs a date and a time zone; write `20"),
            ("18:00", "needs a date and a time zone; write `20"),
            ("next week", "is not a time"),
            ("25:00", "is not a time"),
            ("", "is not a time"),
            ("é", "is not a time"),
        ] {
            let refused = parse_at(text).expect_err(text);
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }

    #[test]
    fn every_form_that_a_refusal_offers_can_be_pasted_back() {
        for text in
            ["2026-12-10", "2026-12-10 18:00", "2026-12-10T18:00:30", "18:00", "9:05", "tomorrow", "Today 23:59"]
        {
            let refused = parse_at(text).expect_err(text);
            let offered: Vec<_> = refused.split('`').skip(3).step_by(2).collect();
            assert!(!offered.is_empty(), "{refused}");
            for form in offered {
                assert!(parse_at(form).is_ok(), "{text}: {form}: {:?}", parse_at(form));
            }
        }
    }

    #[test]
    fn what_people_say_is_written_with_its_date() {
        let now = jiff::civil::date(2026, 11, 16).at(15, 30, 0, 0);
        for (text, expected) in [
            ("18:00", Some("2026-11-16 18:00")),
            ("15:30", Some("2026-11-17 15:30")),
            ("9:05", Some("2026-11-17 09:05")),
            ("today 18:00", Some("2026-11-16 18:00")),
            ("Tomorrow", Some("2026-11-17 09:00")),
            ("tomorrow 7:15", Some("2026-11-17 07:15")),
            ("soon", None),
            ("24:00", None),
            ("+1:00", None),
            ("12:00:00", None),
        ] {
            assert_eq!(in_full(text, now).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_duration_needs_a_unit() {
        assert_eq!(parse_span("2"), Err("`2` has no unit; write 2s, 2m or 2h".to_owned()));
        assert!(parse_span(" 0.5 ").unwrap_err().contains("no unit"));
        assert_eq!(parse_span("0"), Ok(Span::ZERO));
        assert_eq!(parse_span("2m"), Ok(Span::from_secs(120)));
    }

    #[test]
    fn the_two_times_offered_for_a_repeated_hour_can_be_pasted_back() {
        let refused = parse_at("2026-10-25 02:30 Europe/Berlin").unwrap_err();
        let offered: Vec<_> = refused.split('`').skip(1).step_by(2).collect();
        let times: Vec<_> = offered.iter().map(|text| parse_at(text).unwrap().to_string()).collect();
        assert_eq!(times, ["2026-10-25T00:30:00.000000Z", "2026-10-25T01:30:00.000000Z"]);
    }

    #[test]
    fn a_schedules_zone_has_a_name_and_a_near_miss_is_corrected() {
        for (text, name) in [("europe/berlin", "Europe/Berlin"), ("utc", "UTC"), ("Asia/Kolkata", "Asia/Kolkata")] {
            assert_eq!(zone_name(text), Ok(name.to_owned()));
        }
        assert!(!machine_zone().is_empty());
        assert_eq!(zone_name("local"), Ok(machine_zone()));
        for (text, said) in [
            ("Europe/Berlim", "did you mean Europe/Berlin?"),
            ("kolkata", "did you mean Asia/Kolkata?"),
            ("Mars/Olympus", "write local, utc or"),
        ] {
            let refused = zone_name(text).unwrap_err();
            assert!(refused.contains(said), "{refused}");
        }
    }

    #[test]
    fn durations_know_days_and_weeks() {
        for (text, secs) in [
            ("30s", 30),
            ("10m", 600),
            ("1h30m", 5400),
            ("7d", 604_800),
            ("1w", 604_800),
            ("1w1d", 691_200),
            ("1d12h", 129_600),
            ("0d", 0),
        ] {
            assert_eq!(parse_span(text), Ok(Span::from_secs(secs)), "{text}");
        }
        for text in ["", "d", "-1d", "soon", "4000d", "99999999999999999999d", "1d-1h", "é"] {
            assert!(parse_span(text).is_err(), "{text}");
        }
    }
}
