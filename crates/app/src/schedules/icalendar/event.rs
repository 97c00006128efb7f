//! One event of an iCalendar file, and the dates that it stands for.

use std::collections::BTreeSet;

use jiff::civil::{Date, DateTime, Time};
use jiff::{Span, ToSpan};

use super::lines::Line;
use super::{Fault, add};

/// What is known of an event. Its dates are those that are written, whatever the zone.
pub(super) struct Event {
    pub(super) line: usize,
    start: Option<DateTime>,
    /// The first moment that is not in it.
    end: Option<DateTime>,
    duration: Option<Span>,
    yearly: Option<Yearly>,
    except: BTreeSet<Date>,
    is_cancelled: bool,
}

/// `RRULE:FREQ=YEARLY`
struct Yearly {
    line: usize,
    interval: i16,
    count: Option<u32>,
    until: Option<Date>,
    month: Option<i8>,
    day: Option<i8>,
}

impl Event {
    pub(super) fn new(line: usize) -> Self {
        Self {
            line,
            start: None,
            end: None,
            duration: None,
            yearly: None,
            except: BTreeSet::new(),
            is_cancelled: false,
        }
    }

    pub(super) fn read(&mut self, line: &Line<'_>) -> Result<(), Fault> {
        let value = line.value.trim();
        match line.name.as_str() {
            "DTSTART" => self.start = Some(moment(line, value)?),
            "DTEND" => self.end = Some(moment(line, value)?),
            "DURATION" => self.duration = Some(duration(line, value)?),
            "RRULE" => self.yearly = Some(Yearly::read(line, value)?),
            "EXDATE" => {
                for part in value.split(',') {
                    self.except.insert(moment(line, part.trim())?.date());
                }
            }
            "RDATE" | "EXRULE" | "RECURRENCE-ID" => {
                let detail = format!("{} is not understood; write the dates as events of their own", line.name);
                return Err(Fault::new(line.number, detail));
            }
            "STATUS" => self.is_cancelled = value.eq_ignore_ascii_case("CANCELLED"),
            _ => {}
        }
        Ok(())
    }

    /// Adds the days of the event, every year if it comes again, up to the end of `last_year`.
    pub(super) fn add_to(&self, dates: &mut BTreeSet<Date>, last_year: i16) -> Result<(), Fault> {
        if self.is_cancelled {
            return Ok(());
        }
        let Some(start) = self.start else { return Err(Fault::new(self.line, "the event has no DTSTART")) };
        let days = self.days(start)?;
        let Some(yearly) = &self.yearly else { return self.add_days(dates, start.date(), days) };
        yearly.check(start.date())?;
        let mut left = yearly.count.unwrap_or(u32::MAX);
        let mut year = start.year();
        while left > 0 && year <= last_year {
            // There is no 29 February in most years; those do not count.
            if let Ok(date) = Date::new(year, start.month(), start.day()) {
                if yearly.until.is_some_and(|until| date > until) {
                    break;
                }
                self.add_days(dates, date, days)?;
                left -= 1;
            }
            let Some(next) = year.checked_add(yearly.interval) else { break };
            year = next;
        }
        Ok(())
    }

    fn add_days(&self, dates: &mut BTreeSet<Date>, first: Date, days: i32) -> Result<(), Fault> {
        if self.except.contains(&first) {
            return Ok(());
        }
        let mut day = first;
        for left in (0..days).rev() {
            add(dates, day, self.line)?;
            if left > 0 {
                day = day.tomorrow().map_err(|_| Fault::new(self.line, "the event goes beyond the year 9999"))?;
            }
        }
        Ok(())
    }

    /// How many days it touches.
    fn days(&self, start: DateTime) -> Result<i32, Fault> {
        let by_duration = |duration: Span| {
            start.checked_add(duration).map_err(|_| Fault::new(self.line, "the event goes beyond the year 9999"))
        };
        let end = match (self.end, self.duration) {
            (Some(end), _) => end,
            (None, Some(duration)) => by_duration(duration)?,
            (None, None) => return Ok(1),
        };
        if end < start {
            return Err(Fault::new(self.line, "the event ends before it begins"));
        }
        let last = if end.time() == Time::midnight() && end > start { end.date().yesterday() } else { Ok(end.date()) };
        let last = last.map_err(|_| Fault::new(self.line, "the event ends before the first year"))?;
        let between = start.date().until(last).map_err(|_| Fault::new(self.line, "the event is too long"))?;
        Ok(between.get_days().saturating_add(1))
    }
}

impl Yearly {
    fn read(line: &Line<'_>, value: &str) -> Result<Self, Fault> {
        let refused = |detail: String| Fault::new(line.number, detail);
        let shown: String = value.chars().take(100).collect();
        let not_yearly = || {
            let only = "only FREQ=YEARLY, with COUNT, UNTIL and INTERVAL, is understood";
            refused(format!("the rule `{shown}` is not: {only}; write the dates as events of their own"))
        };
        let mut yearly = Self { line: line.number, interval: 1, count: None, until: None, month: None, day: None };
        let mut is_yearly = false;
        for part in value.split(';').filter(|part| !part.is_empty()) {
            let (name, word) = part.split_once('=').ok_or_else(not_yearly)?;
            let number = |what: &str| {
                let number = word.parse::<u32>().ok().filter(|number| *number > 0);
                number.ok_or_else(|| refused(format!("{what} must be a number above 0")))
            };
            match name.to_ascii_uppercase().as_str() {
                "FREQ" => is_yearly = word.eq_ignore_ascii_case("YEARLY"),
                "INTERVAL" => yearly.interval = i16::try_from(number("INTERVAL")?).unwrap_or(i16::MAX),
                "COUNT" => yearly.count = Some(number("COUNT")?),
                "UNTIL" => yearly.until = Some(moment(line, word)?.date()),
                "BYMONTH" => yearly.month = Some(word.parse().map_err(|_| not_yearly())?),
                "BYMONTHDAY" => yearly.day = Some(word.parse().map_err(|_| not_yearly())?),
                "WKST" => {}
                _ => return Err(not_yearly()),
            }
        }
        if is_yearly { Ok(yearly) } else { Err(not_yearly()) }
    }

    /// A month and a day are understood if they say again what the start says.
    fn check(&self, start: Date) -> Result<(), Fault> {
        let is_same = self.month.is_none_or(|month| month == start.month())
            && self.day.is_none_or(|day| day == start.day())
            // A month alone stands for the day of the start; a day alone, for that day of every month.
            && (self.day.is_none() || self.month.is_some());
        if is_same {
            return Ok(());
        }
        Err(Fault::new(self.line, "a yearly rule must mean the day of DTSTART; write the dates as events of their own"))
    }
}

/// `20261225`, `20261225T090000` or `20261225T090000Z`.
fn moment(line: &Line<'_>, value: &str) -> Result<DateTime, Fault> {
    let refused = || {
        let shown: String = value.chars().take(40).collect();
        Fault::new(line.number, format!("{}: `{shown}` is not a date, such as 20261225", line.name))
    };
    let (date, time) = value.split_once(['T', 't']).unwrap_or((value, "000000"));
    let time = time.strip_suffix(['Z', 'z']).unwrap_or(time);
    let [year, month, day] = numbers(date, [4, 2, 2]).ok_or_else(refused)?;
    let [hour, minute, second] = numbers(time, [2, 2, 2]).ok_or_else(refused)?;
    // A leap second is within the same day.
    let small = |number: i16| i8::try_from(number).unwrap_or(i8::MAX);
    DateTime::new(year, small(month), small(day), small(hour), small(minute), small(second.min(59)), 0)
        .map_err(|_| refused())
}

/// Cuts digits into numbers of these lengths.
fn numbers<const N: usize>(text: &str, lens: [usize; N]) -> Option<[i16; N]> {
    if text.len() != lens.iter().sum::<usize>() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut numbers = [0; N];
    let mut rest = text;
    for (number, len) in numbers.iter_mut().zip(lens) {
        let (digits, after) = rest.split_at(len);
        *number = digits.parse().ok()?;
        rest = after;
    }
    Some(numbers)
}

/// `P1D`, `P2W` or `PT8H`.
fn duration(line: &Line<'_>, value: &str) -> Result<Span, Fault> {
    let shown: String = value.chars().take(40).collect();
    let refused = || Fault::new(line.number, format!("DURATION: `{shown}` is not a duration, such as P1D"));
    let is_short = value.len() <= 40 && value.starts_with(['P', 'p']);
    let span: Span = value.parse().ok().filter(|_| is_short).ok_or_else(refused)?;
    if span.get_years() != 0 || span.get_months() != 0 || span.is_negative() {
        return Err(refused());
    }
    if span.is_zero() { Ok(0.days()) } else { Ok(span) }
}
