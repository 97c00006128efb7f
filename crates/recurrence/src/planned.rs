//! The planned times that share one instant, because a gap or a calendar brought them there.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::calendar::OpenDays;
use crate::cron::CronTimes;
use crate::date::SECONDS_PER_DAY;

const MINUTES_PER_DAY: i64 = 24 * 60;

/// What an occurrence says about its planned times, in local seconds.
pub(crate) struct Summary {
    /// The time that stands for all: the one that is on time, or else the earliest.
    pub(crate) nominal: i64,
    /// The time before a calendar moved it to another day.
    pub(crate) moved_from: Option<i64>,
    pub(crate) merged_count: u32,
}

impl Summary {
    pub(crate) fn on_time(local: i64) -> Self {
        Self { nominal: local, moved_from: None, merged_count: 0 }
    }
}

/// Planned times by the minute they mean after moves and the day they were planned for, with the minute's seconds as
/// bits. Bits, because a day that a zone left out can hold 86,400 times.
#[derive(Default)]
pub(crate) struct PlannedTimes(BTreeMap<(i64, i64), u64>);

impl PlannedTimes {
    /// Adds a time that was planned for the day on which it fires.
    pub(crate) fn add_unmoved(&mut self, local: i64) {
        let second = local.rem_euclid(60);
        self.add(local - second, local.div_euclid(SECONDS_PER_DAY), 1 << second);
    }

    /// Adds all times of a rule within a window of local seconds.
    pub(crate) fn add_window(&mut self, times: &CronTimes, open_days: &OpenDays, window: Range<i64>) {
        if window.is_empty() {
            return;
        }
        let first_day = window.start.div_euclid(SECONDS_PER_DAY);
        let last_day = (window.end - 1).div_euclid(SECONDS_PER_DAY);
        for day in first_day..=last_day {
            if open_days.next_firing_day(times, day, day + 1).is_none() {
                continue;
            }
            for planned_day in open_days.planned_days(times, day) {
                self.add_day(times, day, planned_day, &window);
            }
        }
    }

    fn add_day(&mut self, times: &CronTimes, day: i64, planned_day: i64, window: &Range<i64>) {
        let first_minute = (day * MINUTES_PER_DAY).max(window.start.div_euclid(60));
        let last_minute = ((day + 1) * MINUTES_PER_DAY - 1).min((window.end - 1).div_euclid(60));
        for minute in first_minute..=last_minute {
            let minute_start = minute * 60;
            let within_window = seconds_between(window.start - minute_start, window.end - minute_start);
            let seconds = times.seconds_in_minute(minute.rem_euclid(MINUTES_PER_DAY)) & within_window;
            if seconds != 0 {
                self.add(minute_start, planned_day, seconds);
            }
        }
    }

    fn add(&mut self, minute_start: i64, planned_day: i64, seconds: u64) {
        *self.0.entry((minute_start, planned_day)).or_default() |= seconds;
    }

    /// Sums up for an instant at which the wall clock shows `local`.
    pub(crate) fn summary(&self, local: i64) -> Summary {
        let Some((&(first_minute, _), first_seconds)) = self.0.first_key_value() else {
            return Summary::on_time(local);
        };
        let is_on_time = self.days_planning(local).next().is_some();
        let nominal = if is_on_time { local } else { first_minute + i64::from(first_seconds.trailing_zeros()) };
        let day = nominal.div_euclid(SECONDS_PER_DAY);
        let first_planned_day = self.days_planning(nominal).next().unwrap_or(day);
        let is_moved = self.days_planning(nominal).all(|planned_day| planned_day != day);
        let count: u32 = self.0.values().map(|seconds| seconds.count_ones()).sum();
        Summary {
            nominal,
            moved_from: is_moved.then(|| nominal + (first_planned_day - day) * SECONDS_PER_DAY),
            merged_count: count.saturating_sub(1),
        }
    }

    /// The days whose planned time means this local second, earliest first.
    fn days_planning(&self, local: i64) -> impl Iterator<Item = i64> {
        let second = local.rem_euclid(60);
        let minute = local - second;
        let planned = self.0.range((minute, i64::MIN)..=(minute, i64::MAX));
        planned.filter(move |(_, seconds)| **seconds >> second & 1 == 1).map(|((_, planned_day), _)| *planned_day)
    }

    /// Each planned time before its move, in local seconds, in the order of the times they mean after moves.
    pub(crate) fn iter(&self) -> impl Iterator<Item = i64> {
        self.0.iter().flat_map(|((minute_start, planned_day), seconds)| {
            let moved = (planned_day - minute_start.div_euclid(SECONDS_PER_DAY)) * SECONDS_PER_DAY;
            (0..60).filter(move |second| seconds >> second & 1 == 1).map(move |second| minute_start + moved + second)
        })
    }
}

/// Bits `from` up to and without `to`, both cut to 0 to 60.
fn seconds_between(from: i64, to: i64) -> u64 {
    let below = |end: i64| (1_u64 << end.clamp(0, 60)) - 1;
    below(to) & !below(from)
}
