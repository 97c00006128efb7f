//! Dates and local times as plain numbers.
//!
//! A *day number* counts days since 1970-01-01. A *local second* counts seconds since 1970-01-01T00:00:00 on the wall
//! clock, without any zone. Both order like the calendar does and cost a few nanoseconds to convert, which is why the
//! search uses them instead of civil types.

use jiff::civil::{Date, DateTime};

pub(crate) const SECONDS_PER_DAY: i64 = 86_400;

/// After this many days the Gregorian calendar repeats itself, weekdays included (146,097 is divisible by 7).
pub(crate) const CALENDAR_CYCLE_DAYS: i64 = 146_097;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct YearMonthDay {
    pub(crate) year: i64,
    /// 1 to 12.
    pub(crate) month: u8,
    /// 1 to 31.
    pub(crate) day: u8,
}

/// The day number of a date. The arithmetic starts years in March, so that the leap day is the last of its year.
pub(crate) fn day_number(year: i64, month: u8, day: u8) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (i64::from(month) + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * CALENDAR_CYCLE_DAYS + day_of_era - 719_468
}

pub(crate) fn year_month_day(day_number: i64) -> YearMonthDay {
    let shifted = day_number + 719_468;
    let era = shifted.div_euclid(CALENDAR_CYCLE_DAYS);
    let day_of_era = shifted.rem_euclid(CALENDAR_CYCLE_DAYS);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u8;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 } as u8;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    YearMonthDay { year, month, day }
}

/// 0 is Sunday, as in cron.
pub(crate) fn weekday(day_number: i64) -> u8 {
    (day_number + 4).rem_euclid(7) as u8
}

pub(crate) fn days_in_month(year: i64, month: u8) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

pub(crate) fn date_to_day_number(date: Date) -> i64 {
    day_number(i64::from(date.year()), date.month() as u8, date.day() as u8)
}

/// The civil date of a day number; days beyond what [`Date`] holds become its first or last date.
pub(crate) fn day_number_to_date(day_number: i64) -> Date {
    let YearMonthDay { year, month, day } = year_month_day(day_number);
    let beyond = if year < 0 { Date::MIN } else { Date::MAX };
    i16::try_from(year).ok().and_then(|year| Date::new(year, month as i8, day as i8).ok()).unwrap_or(beyond)
}

/// The civil date and time of a local second.
pub(crate) fn local_to_datetime(local: i64) -> DateTime {
    let date = day_number_to_date(local.div_euclid(SECONDS_PER_DAY));
    let second_of_day = local.rem_euclid(SECONDS_PER_DAY) as i32;
    let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
    date.at(hour as i8, minute as i8, second as i8, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_numbers_agree_with_jiff_on_every_day_of_four_centuries() {
        let mut date = Date::constant(1799, 12, 1);
        let mut expected = date_to_day_number(date);
        while date.year() < 2201 {
            let number = date_to_day_number(date);
            assert_eq!(number, expected, "{date}");
            assert_eq!(day_number_to_date(number), date);
            assert_eq!(i64::from(weekday(number)), i64::from(date.weekday().to_sunday_zero_offset()), "{date}");
            assert_eq!(days_in_month(i64::from(date.year()), date.month() as u8), date.days_in_month() as u8);
            expected += 1;
            date = date.tomorrow().expect("far from the last date");
        }
        assert_eq!(date_to_day_number(Date::constant(1970, 1, 1)), 0);
    }

    #[test]
    fn the_first_and_last_dates_convert_both_ways() {
        for date in [Date::MIN, Date::constant(-1, 3, 1), Date::constant(0, 2, 29), Date::MAX] {
            assert_eq!(day_number_to_date(date_to_day_number(date)), date);
        }
        assert_eq!(local_to_datetime(-1).to_string(), "1969-12-31T23:59:59");
    }
}
