//! RFC 3339 in the one form that we write ourselves: UTC, with microseconds.
//!
//! Each submission reads one time and writes two, and a library that knows all calendars and zones takes several times as long
//! for that. Any other form is left to it.

/// Such as `2026-12-24T17:00:00.000000Z`.
pub(crate) const TEXT_LEN: usize = 27;

const SECONDS_PER_DAY: i64 = 86_400;
const DAYS_PER_ERA: i64 = 146_097;
/// From 0000-03-01, with which a cycle of 400 years begins, to 1970-01-01.
const DAYS_BEFORE_EPOCH: i64 = 719_468;

/// The year, month and day of a number of days since 1970-01-01, which must not be negative.
const fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_BEFORE_EPOCH;
    let (era, day) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Years that begin in March have the day that is not in each of them at their end.
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (year, month) = (year + 400 * era, if month < 10 { month + 3 } else { month - 9 });
    (if month <= 2 { year + 1 } else { year }, month, day_of_month)
}

/// The days since 1970-01-01 of a date of 1970 or later. The reverse of [`date_of`].
const fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year) = (year / 400, year % 400);
    let month = if month > 2 { month - 3 } else { month + 9 };
    let day = (153 * month + 2) / 5 + day - 1;
    era * DAYS_PER_ERA + 365 * year + year / 4 - year / 100 + day - DAYS_BEFORE_EPOCH
}

/// The text of an instant in microseconds since 1970-01-01T00:00:00Z, which is before the year 10,000.
pub(crate) fn write(micros: i64) -> [u8; TEXT_LEN] {
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let (days, second) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
    let (year, month, day) = date_of(days);
    let mut text = *b"0000-00-00T00:00:00.000000Z";
    for (from, to, number) in [
        (0, 4, year),
        (5, 7, month),
        (8, 10, day),
        (11, 13, second / 3600),
        (14, 16, second / 60 % 60),
        (17, 19, second % 60),
        (20, 26, fraction),
    ] {
        let mut left = number;
        for digit in text[from..to].iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
        }
    }
    text
}

/// The instant of a text as [`write`] makes it, also with fewer digits of a second or none. `None` for any other form, and for
/// what is no time.
pub(crate) fn read(text: &str) -> Option<i64> {
    let text = text.as_bytes().strip_suffix(b"Z")?;
    let (whole, fraction) = text.split_at_checked(19)?;
    for (place, sign) in [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')] {
        if whole[place] != sign {
            return None;
        }
    }
    let [year, month, day] = [number(&whole[..4])?, number(&whole[5..7])?, number(&whole[8..10])?];
    let [hour, minute, second] = [number(&whole[11..13])?, number(&whole[14..16])?, number(&whole[17..])?];
    if year < 1970 || !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = days_of(year, month, day);
    // A day that its month does not have comes back as another one.
    if day < 1 || date_of(days) != (year, month, day) {
        return None;
    }
    let micros = match fraction {
        [] => 0,
        [b'.', digits @ ..] if (1..=6).contains(&digits.len()) => {
            (digits.len()..6).fold(number(digits)?, |number, _| number * 10)
        }
        _ => return None,
    };
    Some((days * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second) * 1_000_000 + micros)
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;
    use crate::random::SplitMix64;

    fn by_library(micros: i64) -> String {
        format!("{:.6}", jiff::Timestamp::from_microsecond(micros).unwrap())
    }

    #[test]
    fn every_day_is_written_and_read_as_the_library_does() {
        let last = Timestamp::MAX.as_micros() / 1_000_000 / SECONDS_PER_DAY;
        for day in 0..=last {
            let micros = day * SECONDS_PER_DAY * 1_000_000;
            let written = write(micros);
            let text = std::str::from_utf8(&written).unwrap();
            assert_eq!(read(text), Some(micros), "{text}");
            if day % 29 == 0 {
                assert_eq!(text, by_library(micros));
            }
        }
    }

    #[test]
    fn any_instant_is_written_and_read_as_the_library_does() {
        let mut chance = SplitMix64::new(7);
        let ends = [0, 1, 999_999, 1_000_000, Timestamp::MAX.as_micros()];
        let some = (0..100_000).map(|_| chance.below(Timestamp::MAX.as_micros() as u64) as i64);
        for micros in ends.into_iter().chain(some) {
            let written = write(micros);
            let text = std::str::from_utf8(&written).unwrap();
            assert_eq!(text, by_library(micros));
            assert_eq!(read(text), Some(micros));
        }
    }

    #[test]
    fn what_is_read_is_what_the_library_reads() {
        for text in [
            "2026-12-24T17:00:00Z",
            "2026-12-24T17:00:00.5Z",
            "2026-12-24T17:00:00.000001Z",
            "2024-02-29T00:00:00Z",
            "1970-01-01T00:00:00Z",
        ] {
            let library: jiff::Timestamp = text.parse().unwrap();
            assert_eq!(read(text), Some(library.as_microsecond()), "{text}");
        }
    }

    #[test]
    fn other_forms_and_what_is_no_time_are_left_to_the_library() {
        for text in [
            "",
            "Z",
            "2026-12-24",
            "2026-12-24T17:00:00",
            "2026-12-24T17:00:00+01:00",
            "2026-12-24t17:00:00Z",
            "2026-12-24 17:00:00Z",
            "2026-12-24T17:00Z",
            "2026-12-24T17:00:00.Z",
            "2026-12-24T17:00:00.0000001Z",
            "2026-12-24T17:00:00,5Z",
            "2026-12-24T17:00:60Z",
            "2026-12-24T24:00:00Z",
            "2026-12-24T17:60:00Z",
            "2026-00-24T17:00:00Z",
            "2026-13-24T17:00:00Z",
            "2026-12-00T17:00:00Z",
            "2026-12-32T17:00:00Z",
            "2026-04-31T17:00:00Z",
            "2025-02-29T17:00:00Z",
            "2100-02-29T17:00:00Z",
            "1969-12-31T23:59:59Z",
            "+026-12-24T17:00:00Z",
            "2026-1 -24T17:00:00Z",
            "２026-12-24T17:00:00Z",
            "2026-12-24T17:00:0é",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
