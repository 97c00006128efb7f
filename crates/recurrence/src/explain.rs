//! Says in plain English when a schedule fires.

use std::sync::Arc;

use crate::calendar::{Calendar, Calendars, OnClosedDay};
use crate::cron::{CronExpr, Field, Term};
use crate::rule::Rule;
use crate::schedule::Schedule;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const ORDINALS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

/// More times of day than this are described by their fields instead of listed.
const LISTED_TIMES_MAX: usize = 6;

impl Schedule {
    /// A sentence such as "at 09:30, Monday to Friday, Europe/Berlin".
    pub fn explain(&self) -> String {
        let spec = self.spec();
        let rules: Vec<String> = spec
            .rules
            .iter()
            .map(|rule| match rule {
                Rule::Cron(expr) => expr.explain(self.key()),
                Rule::Daily { hour, minute, second } => {
                    format!("at {}, every day", clock(*hour, *minute, *second))
                }
                Rule::Interval { every, .. } => format!("every {every:#}"),
                Rule::Once(at) => format!("once at {at}"),
            })
            .collect();
        let mut sentence = format!("{}, {}", rules.join("; and "), spec.zone);
        sentence.push_str(&explain_calendars(&spec.calendars));
        if let Some(start_at) = spec.start_at {
            sentence.push_str(&format!(", from {start_at}"));
        }
        if let Some(end_at) = spec.end_at {
            sentence.push_str(&format!(", until {end_at}"));
        }
        if let Some(jitter) = spec.jitter {
            sentence.push_str(&format!(", delayed by up to {jitter:#}"));
        }
        sentence
    }
}

fn explain_calendars(calendars: &Calendars) -> String {
    let names = |calendars: &[Arc<Calendar>]| {
        let names: Vec<String> = calendars.iter().map(|calendar| format!("\"{}\"", calendar.name)).collect();
        listed(&names, "and")
    };
    let mut text = String::new();
    if !calendars.include.is_empty() {
        text.push_str(&format!(", only on dates of {}", names(&calendars.include)));
    }
    if !calendars.exclude.is_empty() {
        text.push_str(&format!(", not on dates of {}", names(&calendars.exclude)));
    }
    text.push_str(match calendars.on_closed_day {
        OnClosedDay::Skip => "",
        OnClosedDay::PreviousBusinessDay => ", moved from other days to the business day before",
        OnClosedDay::NextBusinessDay => ", moved from other days to the next business day",
    });
    text
}

impl CronExpr {
    /// A sentence such as "at 09:30, Monday to Friday". Hashed slots appear with the values that `key` gives them.
    pub fn explain(&self, key: &str) -> String {
        format!("{}, {}", self.explain_time(key), self.explain_days(key))
    }

    fn explain_time(&self, key: &str) -> String {
        let times = self.resolve(key);
        let (hours, minutes, seconds): (Vec<u8>, Vec<u8>, Vec<u8>) =
            (times.hours().collect(), times.minutes().collect(), times.seconds().collect());
        if hours.len() * minutes.len() * seconds.len() <= LISTED_TIMES_MAX {
            let mut clocks = Vec::new();
            for hour in &hours {
                for minute in &minutes {
                    clocks.extend(seconds.iter().map(|second| clock(*hour, *minute, *second)));
                }
            }
            return format!("at {}", listed(&clocks, "and"));
        }
        let mut parts = Vec::new();
        if seconds != [0] {
            parts.push(part("second", &seconds, 60));
        }
        if minutes.len() != 60 || parts.is_empty() {
            parts.push(part("minute", &minutes, 60));
        }
        if hours.len() == 24 {
            // "every minute" needs no more; "at minute 5" does.
            if !parts.iter().all(|part| part.starts_with("every")) {
                parts.push("every hour".to_owned());
            }
        } else if let [hour] = hours[..] {
            parts.push(format!("from {} to {}", clock(hour, 0, 0), clock(hour, 59, 0)));
        } else {
            parts.push(part("hour", &hours, 24));
        }
        parts.join(" of ").replace(" of from ", " from ")
    }

    fn explain_days(&self, key: &str) -> String {
        let is_any = |field: &Field| field.terms == [Term::Every { step: 1 }];
        let dates = (!is_any(&self.day_of_month)).then(|| self.explain_dates(key));
        let weekdays = (!is_any(&self.day_of_week)).then(|| self.explain_weekdays(key));
        let is_star = self.day_of_month.begins_with_star() || self.day_of_week.begins_with_star();
        let days = match (dates, weekdays) {
            (None, None) => "every day".to_owned(),
            (Some(dates), None) => format!("on {dates} of the month"),
            (None, Some(weekdays)) => weekdays,
            (Some(dates), Some(weekdays)) if is_star => format!("on {dates} of the month if that is {weekdays}"),
            (Some(dates), Some(weekdays)) => format!("on {dates} of the month or {weekdays}"),
        };
        if is_any(&self.month) {
            return days;
        }
        let months: Vec<u8> = self.resolve(key).months().collect();
        format!("{days}, in {}", named_runs(&months, |month| MONTHS[usize::from(month) - 1]))
    }

    fn explain_dates(&self, key: &str) -> String {
        let plain: Vec<u8> = plain_values(&self.day_of_month, key);
        let mut parts = Vec::new();
        match plain[..] {
            [] => {}
            [day] => parts.push(format!("day {day}")),
            _ => parts.push(format!("days {}", runs(&plain))),
        }
        parts.extend(self.day_of_month.terms.iter().filter_map(|term| match *term {
            Term::LastDay { days_before: 0 } => Some("the last day".to_owned()),
            Term::LastDay { days_before: 1 } => Some("the day before the last".to_owned()),
            Term::LastDay { days_before } => Some(format!("the day {days_before} days before the last")),
            Term::LastWorkday => Some("the last day from Monday to Friday".to_owned()),
            Term::NearestWorkday { day } => Some(format!("the day from Monday to Friday nearest to day {day}")),
            Term::Every { .. }
            | Term::Range { .. }
            | Term::Hashed { .. }
            | Term::LastWeekday { .. }
            | Term::NthWeekday { .. } => None,
        }));
        listed(&parts, "and")
    }

    fn explain_weekdays(&self, key: &str) -> String {
        let mut plain = plain_values(&self.day_of_week, key);
        // A week reads from Monday to Sunday.
        plain.iter_mut().filter(|weekday| **weekday == 0).for_each(|weekday| *weekday = 7);
        plain.sort_unstable();
        plain.dedup();
        let name = |weekday: u8| WEEKDAYS[usize::from(weekday) % 7];
        let mut parts = Vec::new();
        if !plain.is_empty() {
            parts.push(named_runs(&plain, name));
        }
        parts.extend(self.day_of_week.terms.iter().filter_map(|term| match *term {
            Term::LastWeekday { weekday } => Some(format!("the last {} of the month", name(weekday))),
            Term::NthWeekday { weekday, nth } => {
                Some(format!("the {} {} of the month", ORDINALS[usize::from(nth) - 1], name(weekday)))
            }
            Term::Every { .. }
            | Term::Range { .. }
            | Term::Hashed { .. }
            | Term::LastDay { .. }
            | Term::LastWorkday
            | Term::NearestWorkday { .. } => None,
        }));
        listed(&parts, "and")
    }
}

/// The values of a field without its special terms.
fn plain_values(field: &Field, key: &str) -> Vec<u8> {
    let set = crate::cron::values(field, key);
    (0..64).filter(|value| set >> value & 1 == 1).collect()
}

fn clock(hour: u8, minute: u8, second: u8) -> String {
    if second == 0 { format!("{hour:02}:{minute:02}") } else { format!("{hour:02}:{minute:02}:{second:02}") }
}

/// "every minute", "every 15 minutes", "minute 5", "minutes 0 to 10 and 30".
fn part(unit: &str, values: &[u8], size: usize) -> String {
    if values.len() == size {
        return format!("every {unit}");
    }
    if let [value] = values {
        return format!("{unit} {value}");
    }
    let step = usize::from(values[1] - values[0]);
    let is_regular = values[0] == 0 && step > 1 && size.is_multiple_of(step) && values.len() == size / step;
    let is_stepped = is_regular && values.windows(2).all(|pair| usize::from(pair[1] - pair[0]) == step);
    if is_stepped && unit != "hour" {
        return format!("every {step} {unit}s");
    }
    if is_stepped {
        return format!("every {step} hours from midnight");
    }
    format!("{unit}s {}", runs(values))
}

/// "0 to 10, 15 and 30".
fn runs(values: &[u8]) -> String {
    named_runs(values, |value| value)
}

fn named_runs<T: std::fmt::Display>(values: &[u8], name: impl Fn(u8) -> T) -> String {
    let mut parts = Vec::new();
    for run in values.chunk_by(|one, next| one + 1 == *next) {
        let (first, last) = (run[0], run[run.len() - 1]);
        match run.len() {
            1 => parts.push(name(first).to_string()),
            2 => parts.extend([name(first).to_string(), name(last).to_string()]),
            _ => parts.push(format!("{} to {}", name(first), name(last))),
        }
    }
    listed(&parts, "and")
}

/// "a", "a and b", "a, b and c".
fn listed(parts: &[String], conjunction: &str) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} {conjunction} {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScheduleSpec;

    fn check(text: &str, expected: &str) {
        let rule: Rule = text.parse().expect("a valid rule");
        let schedule = Schedule::new(ScheduleSpec::new(rule, "UTC"), "key").expect("a valid schedule");
        assert_eq!(schedule.explain(), format!("{expected}, UTC"), "{text}");
    }

    #[test]
    fn calendars_and_bounds_are_part_of_the_sentence() {
        let mut spec = ScheduleSpec::new("30 9 1 * *".parse().expect("a valid rule"), "Europe/Berlin");
        spec.calendars.exclude = vec![Arc::new(Calendar { name: "holidays".into(), dates: [].into() })];
        spec.calendars.on_closed_day = OnClosedDay::NextBusinessDay;
        spec.end_at = Some("2030-01-01T00:00:00Z".parse().expect("an instant"));
        spec.jitter = Some(jiff::SignedDuration::from_mins(5));
        let schedule = Schedule::new(spec, "key").expect("a valid schedule");
        let expected = "at 09:30, on day 1 of the month, Europe/Berlin, not on dates of \"holidays\", moved from other \
                        days to the next business day, until 2030-01-01T00:00:00Z, delayed by up to 5m";
        assert_eq!(schedule.explain(), expected);
    }

    #[test]
    fn expressions_read_as_plain_sentences() {
        check("30 9 * * MON-FRI", "at 09:30, Monday to Friday");
        check("0 9,17 * * *", "at 09:00 and 17:00, every day");
        check("* * * * *", "every minute, every day");
        check("* * * * * *", "every second, every day");
        check("*/15 * * * *", "every 15 minutes, every day");
        check("5 * * * *", "minute 5 of every hour, every day");
        check("*/10 9-17 * * 1-5", "every 10 minutes of hours 9 to 17, Monday to Friday");
        check("*/5 2 * * *", "every 5 minutes from 02:00 to 02:59, every day");
        check("0 0 1,15,L * *", "at 00:00, on days 1 and 15 and the last day of the month");
        check("0 0 L-3 6 *", "at 00:00, on the day 3 days before the last of the month, in June");
        check("0 0 13 * FRI", "at 00:00, on day 13 of the month or Friday");
        check(
            "0 0 */2 * SAT,SUN",
            "at 00:00, on days 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29 and 31 of the month if that is Saturday and Sunday",
        );
        check("0 8 * 1-3,12 MON#2", "at 08:00, the second Monday of the month, in January to March and December");
        check("0 8 15W * *", "at 08:00, on the day from Monday to Friday nearest to day 15 of the month");
        check("0 8 * * FRIL", "at 08:00, the last Friday of the month");
        check("@every 90m", "every 1h 30m");
        check("30 0 0 * * *", "at 00:00:30, every day");
    }
}
