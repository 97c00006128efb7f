//! A rule ready for the search: its next instant within one segment of the zone.

use std::ops::Range;

use jiff::Timestamp;

use crate::calendar::OpenDays;
use crate::cron::{CronExpr, CronTimes};
use crate::date::{CALENDAR_CYCLE_DAYS, SECONDS_PER_DAY};
use crate::error::ScheduleError;
use crate::rule::{FoldPolicy, GapPolicy, INTERVAL_RANGE, Rule, ScheduleSpec};
use crate::zone::{OFFSET_SECONDS_MAX, Segment};

pub(crate) const MICROS: i64 = 1_000_000;

/// 2100-01-01. By then every zone follows a yearly pattern, which repeats every 400 years with the calendar.
const YEARLY_PATTERN_FROM_DAY: i64 = 47_482;

#[derive(Clone, Debug)]
pub(crate) enum CompiledRule {
    Civil { times: CronTimes, kind: CivilKind },
    Interval { every_us: i64, anchor_us: i64 },
    Once { at_us: i64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CivilKind {
    /// Fires whenever the wall clock shows a matching time.
    RealTime,
    /// Fires once for each planned time of day; the policies say how when the wall clock leaves it out or repeats it.
    FixedTime,
}

/// The policies that the rules of a schedule share.
#[derive(Clone, Debug)]
pub(crate) struct Policies {
    pub(crate) gap: GapPolicy,
    pub(crate) fold: FoldPolicy,
    pub(crate) open_days: OpenDays,
}

impl CompiledRule {
    /// `number` counts from 1, for messages.
    pub(crate) fn new(number: usize, rule: &Rule, spec: &ScheduleSpec, key: &str) -> Result<Self, ScheduleError> {
        match rule {
            Rule::Cron(expr) => {
                let rule = Self::cron(expr, key);
                // What hashed slots mean is judged when it is known whose they are.
                if !expr.is_hashed() {
                    rule.check_dates(number, expr)?;
                }
                Ok(rule)
            }
            Rule::Daily { hour, minute, second } => {
                let (hour, minute, second) = (*hour, *minute, *second);
                if hour > 23 || minute > 59 || second > 59 {
                    return Err(ScheduleError::NoTimeOfDay { rule: number, hour, minute, second });
                }
                Ok(Self::Civil { times: CronTimes::daily(hour, minute, second), kind: CivilKind::FixedTime })
            }
            Rule::Interval { every, anchor } => {
                if !INTERVAL_RANGE.contains(every) || every.subsec_nanos() % 1000 != 0 {
                    return Err(ScheduleError::IntervalOutOfRange { rule: number, every: *every });
                }
                let anchor_us = anchor.or(spec.start_at).map_or(0, Timestamp::as_microsecond);
                Ok(Self::Interval { every_us: every.as_micros() as i64, anchor_us })
            }
            Rule::Once(at) => Ok(Self::Once { at_us: at.as_microsecond() }),
        }
    }

    /// Hashed slots get the values that `key` gives them.
    pub(crate) fn cron(expr: &CronExpr, key: &str) -> Self {
        let kind = if expr.follows_real_time() { CivilKind::RealTime } else { CivilKind::FixedTime };
        Self::Civil { times: expr.resolve(key), kind }
    }

    /// Checks that there is a date on which the rule fires. `expr` is the expression that it was compiled from.
    pub(crate) fn check_dates(&self, number: usize, expr: &CronExpr) -> Result<(), ScheduleError> {
        match self {
            Self::Civil { times, .. } if !times.can_fire() => {
                Err(ScheduleError::NeverFires { rule: number, expression: expr.to_string() })
            }
            Self::Civil { .. } | Self::Interval { .. } | Self::Once { .. } => Ok(()),
        }
    }

    /// The first instant from `position` (in microseconds) to the end of the segment at which the rule fires.
    pub(crate) fn next_in_segment(&self, segment: &Segment, position: i64, policies: &Policies) -> Option<i64> {
        match self {
            Self::Civil { times, kind } => next_civil(times, *kind, segment, position, policies),
            Self::Interval { every_us, anchor_us } => {
                next_interval(*every_us, *anchor_us, segment, position, &policies.open_days)
            }
            Self::Once { at_us } => {
                let is_open = policies.open_days.is_open(local_day(*at_us, segment));
                (*at_us >= position && *at_us < segment.end * MICROS && is_open).then_some(*at_us)
            }
        }
    }

    /// A second before which the rule does not fire again, from `second` on, or `None` if it never will or not before
    /// `give_up_day`.
    ///
    /// It may be too early, never too late. This is what lets the search leap over years.
    pub(crate) fn not_before(&self, second: i64, open_days: &OpenDays, give_up_day: i64) -> Option<i64> {
        let day = (second - OFFSET_SECONDS_MAX).div_euclid(SECONDS_PER_DAY);
        match self {
            Self::Civil { times, .. } => {
                let firing_day = open_days.next_firing_day(times, day, give_up_day)?;
                Some(second.max(firing_day * SECONDS_PER_DAY - OFFSET_SECONDS_MAX))
            }
            Self::Interval { every_us, anchor_us } => {
                let open_day = open_days.next_open_day(day, i64::MAX)?;
                let open_second = second.max(open_day * SECONDS_PER_DAY - OFFSET_SECONDS_MAX);
                Some(align_up(open_second.saturating_mul(MICROS), *every_us, *anchor_us).div_euclid(MICROS))
            }
            Self::Once { at_us } => Some(at_us.div_euclid(MICROS)).filter(|at| *at >= second),
        }
    }
}

/// The day at which a search from `second` on may stop: by then zone, expressions and calendars have gone through one
/// whole cycle of their common pattern, and what that did not bring will never come.
pub(crate) fn give_up_day(second: i64, open_days: &OpenDays) -> i64 {
    let day = second.div_euclid(SECONDS_PER_DAY);
    let pattern_from = day.max(YEARLY_PATTERN_FROM_DAY).max(open_days.last_day().unwrap_or(i64::MIN));
    // Two days more, because the wall clock may be a day ahead or behind.
    pattern_from + CALENDAR_CYCLE_DAYS + 2
}

/// The local times of a segment at which a rule of this kind fires as planned.
pub(crate) fn local_window(kind: CivilKind, segment: &Segment, fold: FoldPolicy) -> Range<i64> {
    let whole = segment.local_start()..segment.local_end();
    match (kind, fold) {
        (CivilKind::RealTime, _) | (CivilKind::FixedTime, FoldPolicy::Both) => whole,
        (CivilKind::FixedTime, FoldPolicy::First) => segment.repeats_at_start().end..whole.end,
        (CivilKind::FixedTime, FoldPolicy::Last) => whole.start..segment.repeated_at_end().start,
    }
}

fn next_civil(
    times: &CronTimes,
    kind: CivilKind,
    segment: &Segment,
    position: i64,
    policies: &Policies,
) -> Option<i64> {
    let first_second = position.div_euclid(MICROS) + i64::from(position.rem_euclid(MICROS) > 0);
    if kind == CivilKind::FixedTime && policies.gap == GapPolicy::Shift && first_second <= segment.start {
        let gap = segment.gap_at_start();
        if next_local(times, &policies.open_days, gap.start, gap.end).is_some() {
            return Some(segment.start * MICROS);
        }
    }
    let window = local_window(kind, segment, policies.fold);
    let from = window.start.max(first_second + segment.offset);
    let local = next_local(times, &policies.open_days, from, window.end)?;
    Some((local - segment.offset) * MICROS)
}

/// The first local second from `from` up to and without `to` that matches.
pub(crate) fn next_local(times: &CronTimes, open_days: &OpenDays, from: i64, to: i64) -> Option<i64> {
    if from >= to {
        return None;
    }
    let (day, second_of_day) = (from.div_euclid(SECONDS_PER_DAY), from.rem_euclid(SECONDS_PER_DAY));
    let end_day = (to - 1).div_euclid(SECONDS_PER_DAY) + 1;
    let mut found = open_days.next_firing_day(times, day, end_day)?;
    let mut time = if found == day { times.next_second_of_day(second_of_day) } else { times.next_second_of_day(0) };
    if time.is_none() {
        found = open_days.next_firing_day(times, day + 1, end_day)?;
        time = times.next_second_of_day(0);
    }
    Some(found * SECONDS_PER_DAY + time?).filter(|local| *local < to)
}

fn next_interval(every: i64, anchor: i64, segment: &Segment, position: i64, open_days: &OpenDays) -> Option<i64> {
    let end = segment.end * MICROS;
    let end_day = segment.local_end().div_euclid(SECONDS_PER_DAY) + 1;
    let mut at = align_up(position, every, anchor);
    while at < end {
        let day = local_day(at, segment);
        if open_days.is_open(day) {
            return Some(at);
        }
        let open_day = open_days.next_open_day(day + 1, end_day)?;
        at = align_up((open_day * SECONDS_PER_DAY - segment.offset) * MICROS, every, anchor);
    }
    None
}

/// The first instant of the interval at or after `position`.
fn align_up(position: i64, every: i64, anchor: i64) -> i64 {
    let past_last = position.saturating_sub(anchor).rem_euclid(every);
    if past_last == 0 { position } else { position.saturating_add(every - past_last) }
}

fn local_day(at_us: i64, segment: &Segment) -> i64 {
    (at_us.div_euclid(MICROS) + segment.offset).div_euclid(SECONDS_PER_DAY)
}
