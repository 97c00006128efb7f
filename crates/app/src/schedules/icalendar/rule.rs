//! Recurrence rules of events: yearly and monthly ones.

use std::collections::BTreeSet;

use jiff::ToSpan as _;
use jiff::civil::Date;

use super::lines::Line;
use super::moment::Moment;
use super::{Fault, Steps};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frequency {
    Yearly,
    Monthly,
}

/// `RRULE:FREQ=YEARLY;…`
#[derive(Debug)]
pub(super) struct Rule {
    line: usize,
    frequency: Frequency,
    interval: u32,
    count: Option<u32>,
    pub(super) until: Option<Moment>,
    months: BTreeSet<i8>,
    /// Negative ones count from the end of the month.
    month_days: BTreeSet<i8>,
    weekdays: BTreeSet<OrdinalWeekday>,
}

/// `4TH` is the fourth Thursday, `-1MO` the last Monday, and `FR`, with 0, every Friday.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct OrdinalWeekday {
    ordinal: i8,
    /// From Monday, as 0.
    weekday: i8,
}

impl Rule {
    pub(super) fn read(line: &Line<'_>, value: &str) -> Result<Self, Fault> {
        let shown: String = value.chars().take(100).collect();
        let unsupported = |what: &str| {
            let supported = "FREQ=YEARLY or FREQ=MONTHLY with INTERVAL, COUNT, UNTIL, BYMONTH, BYMONTHDAY and BYDAY";
            let detail = format!(
                "the rule `{shown}` is not supported: {what}; use {supported}, or write the dates as events of their own"
            );
            Fault::new(line.number, detail)
        };
        let mut frequency = None;
        let mut rule = Self {
            line: line.number,
            frequency: Frequency::Yearly,
            interval: 1,
            count: None,
            until: None,
            months: BTreeSet::new(),
            month_days: BTreeSet::new(),
            weekdays: BTreeSet::new(),
        };
        for part in value.split(';').filter(|part| !part.is_empty()) {
            let shown_part: String = part.chars().take(40).collect();
            let (name, word) = part.split_once('=').ok_or_else(|| unsupported(&shown_part))?;
            let number = |what: &str| {
                let number = word.parse::<u32>().ok().filter(|number| *number > 0);
                number.ok_or_else(|| Fault::new(line.number, format!("{what} must be a number above 0")))
            };
            let list = || word.split(',').map(str::trim);
            match name.to_ascii_uppercase().as_str() {
                "FREQ" if word.eq_ignore_ascii_case("YEARLY") => frequency = Some(Frequency::Yearly),
                "FREQ" if word.eq_ignore_ascii_case("MONTHLY") => frequency = Some(Frequency::Monthly),
                "INTERVAL" => rule.interval = number("INTERVAL")?,
                "COUNT" => rule.count = Some(number("COUNT")?),
                "UNTIL" => rule.until = Some(Moment::read(line, word)?),
                "BYMONTH" => {
                    let months: Option<_> = list().map(|month| within(month, 1..=12)).collect();
                    rule.months = months.ok_or_else(|| unsupported(&shown_part))?;
                }
                "BYMONTHDAY" => {
                    let day = |text| within(text, -31..=31).filter(|day| *day != 0);
                    rule.month_days = list().map(day).collect::<Option<_>>().ok_or_else(|| unsupported(&shown_part))?;
                }
                "BYDAY" => {
                    let days: Option<_> = list().map(OrdinalWeekday::read).collect();
                    rule.weekdays = days.ok_or_else(|| unsupported(&shown_part))?;
                }
                // The first day of the week makes no difference to years and months.
                "WKST" => {}
                _ => return Err(unsupported(&shown_part)),
            }
        }
        rule.frequency = frequency.ok_or_else(|| unsupported("it has no FREQ"))?;
        Ok(rule)
    }

    /// Whether the day on which the event begins is one of the rule's.
    pub(super) fn includes_start(&self, start: Date) -> bool {
        self.dates_of_period(start.year(), start.month(), start).contains(&start)
    }

    /// The days on which it begins, up to the end of `last_year`. `is_over` says that a day is behind `UNTIL`.
    pub(super) fn dates(
        &self,
        start: Date,
        last_year: i16,
        steps: &mut Steps,
        mut is_over: impl FnMut(Date) -> Result<bool, Fault>,
    ) -> Result<BTreeSet<Date>, Fault> {
        let mut dates = BTreeSet::new();
        let mut left = self.count.unwrap_or(u32::MAX);
        let unit = match self.frequency {
            Frequency::Yearly => 12,
            Frequency::Monthly => 1,
        };
        let step = i64::from(self.interval) * unit;
        // Months since the year 0.
        let mut period = i64::from(start.year()) * 12 + i64::from(start.month()) - 1;
        while period < (i64::from(last_year) + 1) * 12 {
            let year = i16::try_from(period / 12).expect("not beyond the last year");
            let month = i8::try_from(period % 12).expect("below 12") + 1;
            let found = self.dates_of_period(year, month, start);
            steps.take(self.cost() + found.len(), self.line)?;
            for date in found.into_iter().filter(|date| *date >= start) {
                if left == 0 || is_over(date)? {
                    return Ok(dates);
                }
                left -= 1;
                dates.insert(date);
            }
            period += step;
        }
        Ok(dates)
    }

    /// What a period takes to work out.
    fn cost(&self) -> usize {
        1 + 12 * (self.weekdays.len() + self.month_days.len())
    }

    /// The days of a year, or of a month, before any limits.
    fn dates_of_period(&self, year: i16, month: i8, start: Date) -> BTreeSet<Date> {
        let has_days = !self.month_days.is_empty() || !self.weekdays.is_empty();
        let months: Vec<i8> = match self.frequency {
            Frequency::Monthly if self.months.is_empty() || self.months.contains(&month) => vec![month],
            Frequency::Monthly => return BTreeSet::new(),
            Frequency::Yearly if !self.months.is_empty() => self.months.iter().copied().collect(),
            Frequency::Yearly if has_days => (1..=12).collect(),
            Frequency::Yearly => vec![start.month()],
        };
        let firsts = || months.iter().filter_map(|month| Date::new(year, *month, 1).ok());
        let by_month_day = || -> BTreeSet<Date> {
            firsts().flat_map(|first| self.month_days.iter().filter_map(move |day| month_day(first, *day))).collect()
        };
        let by_weekday = || -> BTreeSet<Date> {
            // Without months, the weekdays of a yearly rule are counted in the year.
            if self.frequency == Frequency::Yearly && self.months.is_empty() {
                let (Ok(first), Ok(last)) = (Date::new(year, 1, 1), Date::new(year, 12, 31)) else {
                    return BTreeSet::new();
                };
                return self.weekdays.iter().flat_map(|day| day.between(first, last)).collect();
            }
            firsts()
                .flat_map(|first| self.weekdays.iter().flat_map(move |day| day.between(first, first.last_of_month())))
                .collect()
        };
        match (self.month_days.is_empty(), self.weekdays.is_empty()) {
            // There is no 29 February in most years; those do not count.
            (true, true) => firsts().filter_map(|first| month_day(first, start.day())).collect(),
            (false, true) => by_month_day(),
            (true, false) => by_weekday(),
            (false, false) => by_month_day().intersection(&by_weekday()).copied().collect(),
        }
    }
}

fn within(text: &str, range: std::ops::RangeInclusive<i8>) -> Option<i8> {
    text.parse().ok().filter(|number| range.contains(number))
}

/// `None` if the month has no such day.
fn month_day(first: Date, day: i8) -> Option<Date> {
    let day = if day < 0 { first.days_in_month() + 1 + day } else { day };
    Date::new(first.year(), first.month(), day).ok()
}

impl OrdinalWeekday {
    fn read(text: &str) -> Option<Self> {
        const NAMES: [&str; 7] = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];
        let (ordinal, name) = text.split_at_checked(text.len().checked_sub(2)?)?;
        let weekday = NAMES.iter().position(|known| known.eq_ignore_ascii_case(name))?;
        let ordinal = match ordinal {
            "" => 0,
            written => within(written, -53..=53).filter(|ordinal| *ordinal != 0)?,
        };
        Some(Self { ordinal, weekday: i8::try_from(weekday).expect("below 7") })
    }

    /// Those days from `first` to `last`.
    fn between(self, first: Date, last: Date) -> Vec<Date> {
        let from_monday = |date: Date| date.weekday().to_monday_zero_offset();
        let to_first = i32::from((self.weekday - from_monday(first)).rem_euclid(7));
        let from_last = i32::from((from_monday(last) - self.weekday).rem_euclid(7));
        let weeks = i32::from(self.ordinal.unsigned_abs());
        let day =
            |base: Date, days: i32| base.checked_add(days.days()).ok().filter(|day| first <= *day && *day <= last);
        match self.ordinal {
            0 => (0..).map_while(|week| day(first, to_first + 7 * week)).collect(),
            1.. => day(first, to_first + 7 * (weeks - 1)).into_iter().collect(),
            ..0 => day(last, -(from_last + 7 * (weeks - 1))).into_iter().collect(),
        }
    }
}
