//! Dates on which a schedule does or does not fire, and the move to a business day.
//!
//! A date is *open* when no exclusion calendar holds it and, where there are inclusion calendars, one of them does.
//! A *business day* is an open date that an inclusion calendar holds or, without such calendars, one from Monday to
//! Friday. Cron and daily rules can move from a day that is no business day; intervals and single instants on a date
//! that is not open are skipped, since another day is not what they mean.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::cron::CronTimes;
use crate::date::{date_to_day_number, day_number_to_date, weekday};
use crate::error::ScheduleError;

/// Fifty years of public holidays in several countries.
pub const CALENDAR_DATES_MAX: usize = 10_000;

/// Each date is looked up in all of them together; more names than this only make a schedule hard to read.
pub const CALENDARS_MAX: usize = 32;
/// Names appear in sentences about a schedule.
pub const CALENDAR_NAME_BYTES_MAX: usize = 128;

/// No holiday season is longer. A day further than this from a business day does not fire.
pub const MOVE_DAYS_MAX: i64 = 31;

/// A named set of dates, such as the public holidays of a country.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calendar {
    pub name: String,
    pub dates: BTreeSet<Date>,
}

/// The calendars a schedule obeys. Schedules share them: their dates are many, and looked up where they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calendars {
    /// The schedule never fires on these dates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<Arc<Calendar>>,
    /// If there are any, the schedule fires on these dates only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<Arc<Calendar>>,
    #[serde(default)]
    pub on_closed_day: OnClosedDay,
}

impl Calendars {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn check_sizes(&self) -> Result<(), ScheduleError> {
        let calendars = || self.exclude.iter().chain(&self.include);
        let count = calendars().count();
        if count > CALENDARS_MAX {
            return Err(ScheduleError::TooManyCalendars { count, max: CALENDARS_MAX });
        }
        let name_lens = 1..=CALENDAR_NAME_BYTES_MAX;
        if let Some(len) = calendars().map(|calendar| calendar.name.len()).find(|len| !name_lens.contains(len)) {
            return Err(ScheduleError::CalendarNameLength { len, max: CALENDAR_NAME_BYTES_MAX });
        }
        let dates = calendars().map(|calendar| calendar.dates.len()).sum();
        if dates > CALENDAR_DATES_MAX {
            return Err(ScheduleError::TooManyDates { count: dates, max: CALENDAR_DATES_MAX });
        }
        Ok(())
    }
}

/// What happens to a day of a cron or daily rule on which the schedule may not fire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnClosedDay {
    /// The schedule does not fire. Weekends are like other days.
    #[default]
    Skip,
    /// The schedule fires at the same time of the last business day before.
    PreviousBusinessDay,
    /// The schedule fires at the same time of the next business day.
    NextBusinessDay,
}

/// The calendars as the search asks for them, by day number.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenDays(Calendars);

impl OpenDays {
    pub(crate) fn new(calendars: &Calendars) -> Self {
        Self(calendars.clone())
    }

    pub(crate) fn moves_days(&self) -> bool {
        self.0.on_closed_day != OnClosedDay::Skip
    }

    /// The last day on which the calendars still make a difference.
    pub(crate) fn last_day(&self) -> Option<i64> {
        let calendars = self.0.exclude.iter().chain(&self.0.include);
        let last = calendars.filter_map(|calendar| calendar.dates.last()).max();
        last.map(|date| date_to_day_number(*date) + MOVE_DAYS_MAX)
    }

    pub(crate) fn is_open(&self, day: i64) -> bool {
        let Calendars { exclude, include, .. } = &self.0;
        if exclude.is_empty() && include.is_empty() {
            return true;
        }
        let date = day_number_to_date(day);
        let has_date = |calendar: &Arc<Calendar>| calendar.dates.contains(&date);
        (include.is_empty() || include.iter().any(has_date)) && !exclude.iter().any(has_date)
    }

    fn is_business_day(&self, day: i64) -> bool {
        self.is_open(day) && (!self.0.include.is_empty() || (1..=5).contains(&weekday(day)))
    }

    /// The first open day from `from` up to and without `to`. Looks at each date of the calendars at most once.
    pub(crate) fn next_open_day(&self, from: i64, to: i64) -> Option<i64> {
        if self.0.include.is_empty() {
            return (from..to).find(|day| self.is_open(*day));
        }
        let mut day = self.next_included_day(from)?;
        while day < to {
            if self.is_open(day) {
                return Some(day);
            }
            day = self.next_included_day(day + 1)?;
        }
        None
    }

    fn next_included_day(&self, from: i64) -> Option<i64> {
        let first = day_number_to_date(from);
        let next = self.0.include.iter().filter_map(|calendar| calendar.dates.range(first..).next()).min();
        // Days after the last date of all become that date.
        next.map(|date| date_to_day_number(*date)).filter(|day| *day >= from)
    }

    /// The first day from `from` up to and without `to` on which a rule fires, after moves.
    pub(crate) fn next_firing_day(&self, times: &CronTimes, from: i64, to: i64) -> Option<i64> {
        let (mut planned_from, planned_to) = match self.0.on_closed_day {
            OnClosedDay::Skip => (from, to),
            OnClosedDay::NextBusinessDay => (self.closed_days_before(from).start, to),
            OnClosedDay::PreviousBusinessDay => (from, to + MOVE_DAYS_MAX),
        };
        loop {
            let planned = times.next_day(planned_from, planned_to)?;
            match self.firing_day(planned) {
                Some(fires) if fires >= to => return None,
                Some(fires) if fires >= from => return Some(fires),
                Some(_) => planned_from = planned + 1,
                None => planned_from = self.next_day_worth_planning(planned, planned_to)?,
            }
        }
    }

    /// The day on which a planned day fires, if it does.
    fn firing_day(&self, planned: i64) -> Option<i64> {
        match self.0.on_closed_day {
            OnClosedDay::Skip => self.is_open(planned).then_some(planned),
            OnClosedDay::NextBusinessDay => (planned..=planned + MOVE_DAYS_MAX).find(|day| self.is_business_day(*day)),
            OnClosedDay::PreviousBusinessDay => {
                (planned - MOVE_DAYS_MAX..=planned).rev().find(|day| self.is_business_day(*day))
            }
        }
    }

    /// Goes from a planned day that does not fire to the next that can, over what may be years of closed days.
    fn next_day_worth_planning(&self, planned: i64, to: i64) -> Option<i64> {
        match self.0.on_closed_day {
            OnClosedDay::Skip => self.next_open_day(planned + 1, to),
            OnClosedDay::PreviousBusinessDay => self.next_business_day(planned + 1, to),
            OnClosedDay::NextBusinessDay => {
                // Up to here no day within reach is a business day, or `planned` would fire.
                let business_day = self.next_business_day(planned + MOVE_DAYS_MAX + 1, to)?;
                Some(business_day - MOVE_DAYS_MAX)
            }
        }
    }

    fn next_business_day(&self, from: i64, to: i64) -> Option<i64> {
        let mut day = self.next_open_day(from, to)?;
        while !self.is_business_day(day) {
            day = self.next_open_day(day + 1, to)?;
        }
        Some(day)
    }

    /// The planned days that fire on `day`, a day on which the rule fires; earliest first.
    pub(crate) fn planned_days(&self, times: &CronTimes, day: i64) -> impl Iterator<Item = i64> {
        let candidates = match self.0.on_closed_day {
            OnClosedDay::Skip => day..day + 1,
            OnClosedDay::NextBusinessDay => self.closed_days_before(day).start..day + 1,
            OnClosedDay::PreviousBusinessDay => day..self.closed_days_after(day).end,
        };
        candidates.filter(move |planned| times.includes_day(*planned))
    }

    /// The days right before `day` that are no business days, as far as a day can move.
    fn closed_days_before(&self, day: i64) -> Range<i64> {
        let business_day = (day - MOVE_DAYS_MAX..day).rev().find(|earlier| self.is_business_day(*earlier));
        business_day.map_or(day - MOVE_DAYS_MAX, |earlier| earlier + 1)..day
    }

    /// The days right after `day` that are no business days, as far as a day can move.
    fn closed_days_after(&self, day: i64) -> Range<i64> {
        let last = day + MOVE_DAYS_MAX;
        day + 1..(day + 1..=last).find(|later| self.is_business_day(*later)).unwrap_or(last + 1)
    }
}
