//! The meaning of an expression: the set of values of each field, and the days of any month.

use super::CronExpr;
use super::field::{Field, FieldName, Term};
use crate::date::{SECONDS_PER_DAY, YearMonthDay, day_number, days_in_month, weekday, year_month_day};
use crate::hash;

/// Days 1, 8, 15, 22 and 29 as bits: one weekday's days in a month that begins with it.
const EVERY_SEVENTH_DAY: u32 = 1 << 1 | 1 << 8 | 1 << 15 | 1 << 22 | 1 << 29;

/// The moments an expression means, with hashed slots replaced by their values. Bit `n` of a set stands for `n`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronTimes {
    seconds: u64,
    minutes: u64,
    hours: u64,
    months: u64,
    days_of_month: u64,
    days_of_week: u64,
    /// Terms whose days differ from month to month, such as `L`, `15W` and `MON#2`.
    special_days: Vec<Term>,
    special_weekdays: Vec<Term>,
    day_rule: DayRule,
}

/// How the two day fields combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DayRule {
    /// Both fields are restricted: either may match.
    Either,
    /// At least one begins with `*`: both must match.
    Both,
}

impl CronTimes {
    pub(crate) fn new(expr: &CronExpr, key: &str) -> Self {
        let specials = |field: &Field| field.terms.iter().copied().filter(is_special).collect();
        let is_star = expr.day_of_month.begins_with_star() || expr.day_of_week.begins_with_star();
        let days_of_week = values(&expr.day_of_week, key);
        Self {
            seconds: expr.second.as_ref().map_or(1, |field| values(field, key)),
            minutes: values(&expr.minute, key),
            hours: values(&expr.hour, key),
            months: values(&expr.month, key),
            days_of_month: values(&expr.day_of_month, key),
            // Sunday is 0 and 7.
            days_of_week: (days_of_week | days_of_week >> 7) & 0x7f,
            special_days: specials(&expr.day_of_month),
            special_weekdays: specials(&expr.day_of_week),
            day_rule: if is_star { DayRule::Both } else { DayRule::Either },
        }
    }

    /// One moment of every day.
    pub(crate) fn daily(hour: u8, minute: u8, second: u8) -> Self {
        Self {
            seconds: 1 << second,
            minutes: 1 << minute,
            hours: 1 << hour,
            months: 0x1ffe,
            days_of_month: 0xffff_fffe,
            days_of_week: 0x7f,
            special_days: Vec::new(),
            special_weekdays: Vec::new(),
            day_rule: DayRule::Both,
        }
    }

    pub fn seconds(&self) -> impl Iterator<Item = u8> {
        members(self.seconds)
    }

    pub fn minutes(&self) -> impl Iterator<Item = u8> {
        members(self.minutes)
    }

    pub fn hours(&self) -> impl Iterator<Item = u8> {
        members(self.hours)
    }

    pub fn months(&self) -> impl Iterator<Item = u8> {
        members(self.months)
    }

    /// The days of a month on which the expression fires.
    pub fn days_in(&self, year: i16, month: u8) -> impl Iterator<Item = u8> {
        members(u64::from(self.month_days(i64::from(year), month)))
    }

    /// Whether any date matches. A month's days depend on its length and first weekday alone, and every month begins
    /// on every weekday in some year, a February of 29 days too; so these few shapes settle it.
    pub(crate) fn can_fire(&self) -> bool {
        let shapes_of = |month: u8| {
            let lens = if month == 2 { 28..=29 } else { days_in_month(2000, month)..=days_in_month(2000, month) };
            lens.flat_map(|len| (0..7).map(move |first_weekday| (len, first_weekday)))
        };
        self.months().any(|month| shapes_of(month).any(|(len, weekday)| self.days_of_shape(len, weekday) != 0))
    }

    /// The first matching day from `from` up to and without `to`. Looks at each month at most once.
    pub(crate) fn next_day(&self, from: i64, to: i64) -> Option<i64> {
        let YearMonthDay { mut year, mut month, day } = year_month_day(from);
        let mut first_of_month = from - i64::from(day) + 1;
        let mut days = self.month_days(year, month) & (u32::MAX << day);
        while days == 0 {
            first_of_month += i64::from(days_in_month(year, month));
            (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            if first_of_month >= to {
                return None;
            }
            days = self.month_days(year, month);
        }
        let found = first_of_month + i64::from(days.trailing_zeros()) - 1;
        (found < to).then_some(found)
    }

    pub(crate) fn includes_day(&self, day: i64) -> bool {
        let YearMonthDay { year, month, day } = year_month_day(day);
        self.month_days(year, month) >> day & 1 == 1
    }

    /// The first matching second of a day from `from` on.
    pub(crate) fn next_second_of_day(&self, from: i64) -> Option<i64> {
        debug_assert!((0..SECONDS_PER_DAY).contains(&from));
        let (hour, minute, second) = (from / 3600, from / 60 % 60, from % 60);
        if let Some(found_hour) = first_from(self.hours, hour) {
            if found_hour > hour {
                return Some(found_hour * 3600 + self.first_second_of_hour());
            }
            if let Some(found_minute) = first_from(self.minutes, minute) {
                if found_minute > minute {
                    return Some(hour * 3600 + found_minute * 60 + lowest(self.seconds));
                }
                if let Some(found_second) = first_from(self.seconds, second) {
                    return Some(hour * 3600 + minute * 60 + found_second);
                }
                if let Some(later_minute) = first_from(self.minutes, minute + 1) {
                    return Some(hour * 3600 + later_minute * 60 + lowest(self.seconds));
                }
            }
            let later_hour = first_from(self.hours, hour + 1)?;
            return Some(later_hour * 3600 + self.first_second_of_hour());
        }
        None
    }

    fn first_second_of_hour(&self) -> i64 {
        lowest(self.minutes) * 60 + lowest(self.seconds)
    }

    /// The matching seconds of one minute of a day (0 to 1439), as bits.
    pub(crate) fn seconds_in_minute(&self, minute_of_day: i64) -> u64 {
        let matches = self.hours >> (minute_of_day / 60) & self.minutes >> (minute_of_day % 60) & 1 == 1;
        if matches { self.seconds } else { 0 }
    }

    /// The matching days of a month, as bits 1 to 31.
    fn month_days(&self, year: i64, month: u8) -> u32 {
        if self.months >> month & 1 == 0 {
            return 0;
        }
        self.days_of_shape(days_in_month(year, month), weekday(day_number(year, month, 1)))
    }

    /// The matching days of a month of this length that begins on this weekday.
    fn days_of_shape(&self, len: u8, first_weekday: u8) -> u32 {
        let all = (u32::MAX >> (31 - len)) & !1;
        let by_date = self.dates(len, first_weekday);
        let by_weekday = self.weekdays(len, first_weekday);
        all & match self.day_rule {
            DayRule::Either => by_date | by_weekday,
            DayRule::Both => by_date & by_weekday,
        }
    }

    fn dates(&self, len: u8, first_weekday: u8) -> u32 {
        let mut days = self.days_of_month as u32;
        for term in &self.special_days {
            let day = match *term {
                Term::LastDay { days_before } => len.saturating_sub(days_before),
                Term::LastWorkday => nearest_workday(len, len, first_weekday),
                Term::NearestWorkday { day } if day <= len => nearest_workday(day, len, first_weekday),
                // The month has no such day. Bit 0 stands for no day.
                _ => 0,
            };
            days |= 1 << day;
        }
        days
    }

    fn weekdays(&self, len: u8, first_weekday: u8) -> u32 {
        if self.days_of_week == 0x7f {
            return u32::MAX;
        }
        let days_until = |weekday: u8| (weekday + 7 - first_weekday) % 7;
        let mut days = 0;
        for weekday in members(self.days_of_week) {
            days |= EVERY_SEVENTH_DAY << days_until(weekday);
        }
        for term in &self.special_weekdays {
            days |= match *term {
                Term::NthWeekday { weekday, nth } => 1_u64 << (1 + days_until(weekday) + 7 * (nth - 1)),
                Term::LastWeekday { weekday } => {
                    let first = 1 + days_until(weekday);
                    1 << (first + (len - first) / 7 * 7)
                }
                _ => 0,
            } as u32;
        }
        days
    }
}

/// The day from Monday to Friday nearest to `day`, without leaving the month.
fn nearest_workday(day: u8, len: u8, first_weekday: u8) -> u8 {
    match (first_weekday + day - 1) % 7 {
        6 if day == 1 => 3,
        6 => day - 1,
        0 if day == len => day - 2,
        0 => day + 1,
        _ => day,
    }
}

fn is_special(term: &Term) -> bool {
    match term {
        Term::Every { .. } | Term::Range { .. } | Term::Hashed { .. } => false,
        Term::LastDay { .. }
        | Term::LastWorkday
        | Term::NearestWorkday { .. }
        | Term::LastWeekday { .. }
        | Term::NthWeekday { .. } => true,
    }
}

/// The values that a field's terms mean, without those that differ from month to month.
pub(crate) fn values(field: &Field, key: &str) -> u64 {
    let name = field.name;
    let mut set = 0;
    for (position, term) in field.terms.iter().enumerate() {
        set |= match *term {
            Term::Every { step } => stepped(name.lowest(), name.highest(), step),
            Term::Range { from, to, step } => stepped(from, to, step),
            Term::Hashed { from, to, step } => {
                let (start, step) = hashed_start(name, position, from, to, step, key);
                step.map_or(1 << start, |step| stepped(start, to, step))
            }
            Term::LastDay { .. }
            | Term::LastWorkday
            | Term::NearestWorkday { .. }
            | Term::LastWeekday { .. }
            | Term::NthWeekday { .. } => 0,
        };
    }
    set
}

/// The key chooses a value of the range; with a step, one of the first `step` values, from which the steps go on.
fn hashed_start(name: FieldName, position: usize, from: u8, to: u8, step: Option<u16>, key: &str) -> (u8, Option<u16>) {
    let len = u64::from(to - from) + 1;
    let choices = step.map_or(len, |step| len.min(u64::from(step)));
    (from + hash::draw(key, name.word(), position as i64, choices) as u8, step)
}

fn stepped(from: u8, to: u8, step: u16) -> u64 {
    (from..=to).step_by(usize::from(step)).fold(0, |set, value| set | 1 << value)
}

fn first_from(set: u64, from: i64) -> Option<i64> {
    let rest = set & (u64::MAX << from);
    (rest != 0).then(|| i64::from(rest.trailing_zeros()))
}

fn lowest(set: u64) -> i64 {
    i64::from(set.trailing_zeros())
}

fn members(set: u64) -> impl Iterator<Item = u8> {
    let mut rest = set;
    std::iter::from_fn(move || {
        let value = (rest != 0).then(|| rest.trailing_zeros() as u8)?;
        rest &= rest - 1;
        Some(value)
    })
}

#[cfg(test)]
mod tests {
    use crate::cron::parse::fields_without_check;
    use crate::date::CALENDAR_CYCLE_DAYS;

    #[test]
    fn what_can_fire_is_what_four_centuries_bring() {
        let days =
            ["*", "29", "30", "31", "30,31", "L-27", "L-28", "L-29", "L-30", "29W", "31W", "1W,31W,LW", "*/29", "*/30"];
        let months = ["*", "2", "4", "2,4", "1", "12", "4,6,9,11"];
        let weekdays = ["*", "0", "*/6", "*/7", "1#5", "*/5,2#5", "6L", "*,3"];
        let (mut firing, mut silent) = (0, 0);
        for (day, month) in days.iter().flat_map(|day| months.iter().map(move |month| (day, month))) {
            for weekday in weekdays {
                let text = format!("0 0 {day} {month} {weekday}");
                let times = fields_without_check(&text).resolve("");
                let is_brought = times.next_day(0, CALENDAR_CYCLE_DAYS).is_some();
                assert_eq!(times.can_fire(), is_brought, "{text}");
                if is_brought { firing += 1 } else { silent += 1 }
            }
        }
        assert!(firing > 300 && silent > 30, "{firing} fire, {silent} do not");
    }
}
