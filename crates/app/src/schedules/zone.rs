//! Time zones: reading their names, and showing instants on their clocks.

use jiff::tz::TimeZone;
use punctual_core::Timestamp;
use punctual_core::schedule::recurrence::zone_refusal;

use crate::{AppError, Result};

/// Names that are offered for one that is not known.
const SUGGESTIONS_MAX: usize = 3;

/// A zone that means the same on every machine.
pub(super) fn known(name: &str) -> Option<TimeZone> {
    if zone_refusal(name).is_some() {
        return None;
    }
    jiff::tz::db().get(name).ok().filter(|zone| !zone.is_unknown())
}

/// The name as the database writes it.
pub(super) fn check(pointer: &str, name: &str) -> Result<String> {
    if let Some(refusal) = zone_refusal(name) {
        return Err(AppError::field(pointer, refusal));
    }
    let zone = known(name);
    if let Some(name) = zone.as_ref().and_then(TimeZone::iana_name) {
        return Ok(name.to_owned());
    }
    let shown: String = name.chars().take(64).collect();
    let error = AppError::field(pointer, format!("`{shown}` is not a known time zone"));
    let near = near(&shown);
    Err(match &near[..] {
        [] => error.hint("use an IANA name, such as Europe/Berlin or UTC"),
        names => error.hint(format!("did you mean {}?", names.join(" or "))),
    })
}

/// Known names that look like this one, the nearest first.
fn near(name: &str) -> Vec<String> {
    let written = name.to_lowercase();
    let distance = |known: &str| {
        let known = known.to_lowercase();
        // People often know the city alone.
        let city = known.rsplit('/').next().unwrap_or(&known);
        strsim::damerau_levenshtein(&written, &known).min(strsim::damerau_levenshtein(&written, city))
    };
    let mut known: Vec<(usize, String)> = jiff::tz::db()
        .available()
        .filter(|known| zone_refusal(known.as_str()).is_none())
        .map(|known| (distance(known.as_str()), known.as_str().to_owned()))
        .filter(|(distance, _)| *distance <= written.len() / 4)
        .collect();
    known.sort();
    known.into_iter().take(SUGGESTIONS_MAX).map(|(_, name)| name).collect()
}

/// A zone that was checked; UTC if the database does not know it any more.
pub(crate) fn find(name: &str) -> TimeZone {
    jiff::tz::db().get(name).unwrap_or(TimeZone::UTC)
}

pub(crate) fn to_jiff(at: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_microsecond(at.as_micros()).expect("our times are within jiff's")
}

pub(crate) fn from_jiff(at: jiff::Timestamp) -> Timestamp {
    Timestamp::saturating_from_micros(at.as_microsecond())
}

/// What the clocks of the zone show, with their offset: `2026-12-24T18:00:00+01:00`.
pub(crate) fn local(at: Timestamp, zone: &TimeZone) -> String {
    let at = to_jiff(at);
    at.display_with_offset(zone.to_offset(at)).to_string()
}

/// An RFC 3339 time, or a date, which is its first moment in the zone.
pub(crate) fn parse_time(field: &str, text: &str, zone: &TimeZone) -> Result<Timestamp> {
    if let Some(date) = parse_date(text) {
        let start = date.to_zoned(zone.clone()).and_then(|day| day.start_of_day());
        let start = start.ok().and_then(|start| Timestamp::from_micros(start.timestamp().as_microsecond()));
        return start.ok_or_else(|| AppError::out_of_range(field, "the date is out of range"));
    }
    Timestamp::parse(text).map_err(|error| {
        AppError::time(field, &error).hint("or give a date, such as 2026-12-24, in the schedule's zone")
    })
}

/// A date as `2026-12-24` and in no other way.
pub(super) fn parse_date(text: &str) -> Option<jiff::civil::Date> {
    let is_plain = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    if is_plain { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_as_the_database_writes_it() {
        for (written, known) in [("Europe/Berlin", "Europe/Berlin"), ("europe/berlin", "Europe/Berlin"), ("utc", "UTC")]
        {
            assert_eq!(check("/zone", written).unwrap(), known);
        }
    }

    #[test]
    fn a_name_that_is_not_known_is_met_with_one_that_is() {
        for (written, hint) in [
            ("Europe/Berln", "did you mean Europe/Berlin?"),
            ("Berlin", "did you mean Europe/Berlin?"),
            ("New_York", "did you mean America/New_York?"),
            ("qqqqqqqqqqqqqq", "use an IANA name, such as Europe/Berlin or UTC"),
            ("", "use an IANA name, such as Europe/Berlin or UTC"),
            (&"x".repeat(10_000), "use an IANA name, such as Europe/Berlin or UTC"),
        ] {
            let error = check("/zone", written).unwrap_err();
            assert!(error.detail.len() < 120 && error.detail.contains("is not a known time zone"), "{error}");
            assert_eq!(error.hint.as_deref(), Some(hint), "{written}");
        }
    }

    #[test]
    fn a_zone_that_depends_on_the_machine_is_refused() {
        for name in ["localtime", "posixrules", "Factory", "posix/Europe/Berlin", "right/UTC", "LOCALTIME"] {
            let error = check("/zone", name).unwrap_err();
            assert_eq!(error.errors[0].pointer, "/zone");
            assert!(error.errors[0].detail.starts_with(&format!("`{name}` ")), "{error}");
        }
        assert_eq!(
            check("/zone", "localtim").unwrap_err().hint.as_deref(),
            Some("use an IANA name, such as Europe/Berlin or UTC")
        );
    }

    #[test]
    fn a_date_begins_when_the_zone_says() {
        let zone = find("Europe/Berlin");
        for (text, expected) in [
            ("2026-11-12", "2026-11-11T23:00:00.000000Z"),
            ("2026-07-01", "2026-06-30T22:00:00.000000Z"),
            ("2026-11-12T10:00:00+02:00", "2026-11-12T08:00:00.000000Z"),
        ] {
            assert_eq!(parse_time("from", text, &zone).unwrap().to_string(), expected);
        }
        // At midnight of this day the clocks of Beirut went to 01:00.
        let start = parse_time("from", "2024-03-31", &find("Asia/Beirut")).unwrap();
        assert_eq!(local(start, &find("Asia/Beirut")), "2024-03-31T01:00:00+03:00");
        for bad in ["", "yesterday", "2026-13-01", "20261112", "2026-11-12T10:00:00", "1969-01-01"] {
            assert!(parse_time("from", bad, &zone).is_err(), "{bad}");
        }
    }
}
