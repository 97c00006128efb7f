//! Walks the zone segment by segment and gives the occurrences in order.
//!
//! Within a segment the offset is constant, so a local time is an instant and nothing is ambiguous. What a clock change
//! does to a rule is decided at the borders only: [`local_window`] leaves out repeated times that shall not fire
//! twice, and times in a gap fire at the segment's first instant.

use std::borrow::Cow;

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

use crate::compiled::{CivilKind, CompiledRule, MICROS, give_up_day, local_window};
use crate::date::{SECONDS_PER_DAY, local_to_datetime};
use crate::hash;
use crate::occurrence::{Note, Occurrence};
use crate::planned::{PlannedTimes, Summary};
use crate::rule::GapPolicy;
use crate::schedule::{Frame, Schedule};
use crate::zone::{FIRST_SECOND, LAST_SECOND, Segment};

/// Leaping to a far segment costs more than stepping into the next one, so short ways are walked.
const LEAP_SECONDS_MIN: i64 = 400 * SECONDS_PER_DAY;

/// The occurrences of a schedule; see [`Schedule::after`].
#[derive(Clone, Debug)]
pub struct Occurrences<'a> {
    schedule: Cow<'a, Schedule>,
    segment: Segment,
    /// For each rule, its next instant in the segment in microseconds, if there is one.
    upcoming: Vec<Option<i64>>,
    /// Where the current step began to look.
    step_from: i64,
    is_finished: bool,
    /// The work done, to test its bounds without a clock.
    #[cfg(test)]
    segments_visited: usize,
}

impl<'a> Occurrences<'a> {
    pub(crate) fn starting_at(schedule: Cow<'a, Schedule>, position: i64) -> Self {
        let position = position.max(schedule.frame.start_us).max(FIRST_SECOND * MICROS);
        let segment = Segment::containing(&schedule.frame.zone, position.div_euclid(MICROS));
        let is_finished = position > LAST_SECOND * MICROS;
        let mut occurrences = Self {
            schedule,
            segment,
            upcoming: Vec::new(),
            step_from: position,
            is_finished,
            #[cfg(test)]
            segments_visited: 0,
        };
        occurrences.look_ahead(position);
        occurrences
    }

    fn look_ahead(&mut self, position: i64) {
        let Schedule { rules, frame, .. } = &*self.schedule;
        self.upcoming.clear();
        self.upcoming.extend(rules.iter().map(|rule| rule.next_in_segment(&self.segment, position, &frame.policies)));
    }

    /// Goes to a later segment. `None` when no rule fires any more.
    fn advance(&mut self) -> Option<()> {
        let Schedule { rules, frame, .. } = &*self.schedule;
        let Frame { policies, zone, end_us, .. } = &**frame;
        let from = self.segment.end;
        if from > LAST_SECOND || from.saturating_mul(MICROS) >= *end_us {
            return None;
        }
        let open_days = &policies.open_days;
        let give_up_day = give_up_day(self.step_from.div_euclid(MICROS), open_days);
        let not_before = rules.iter().filter_map(|rule| rule.not_before(from, open_days, give_up_day)).min()?;
        if not_before > LAST_SECOND {
            return None;
        }
        self.segment = if not_before - from > LEAP_SECONDS_MIN {
            Segment::containing(zone, not_before)
        } else {
            self.segment.next(zone)?
        };
        #[cfg(test)]
        {
            self.segments_visited += 1;
        }
        self.look_ahead(self.segment.start * MICROS);
        Some(())
    }

    fn describe(&self, at_us: i64) -> Occurrence {
        let Schedule { key, frame, .. } = &*self.schedule;
        let Frame { policies, jitter_us, .. } = &**frame;
        let local = self.local_at(at_us);
        let is_plain = !policies.open_days.moves_days() && !self.ends_a_gap(at_us);
        let summary = if is_plain { Summary::on_time(local) } else { self.planned_times(at_us).summary(local) };
        let note = match summary.nominal {
            nominal if nominal != local => Note::ShiftedByGap,
            _ if self.segment.repeats_at_start().contains(&local) => Note::SecondOfFold,
            _ if self.segment.repeated_at_end().contains(&local) => Note::FirstOfFold,
            _ => Note::None,
        };
        let jitter = jitter_us.map_or(0, |window| hash::draw(key, "jitter", at_us, window as u64) as i64);
        let at = Timestamp::from_microsecond(at_us).expect("the search stays within what a timestamp can express");
        // Intervals and single instants may have parts of a second; what a calendar moves has none.
        let subsecond = SignedDuration::from_nanos(i64::from(at.subsec_nanosecond()));
        Occurrence {
            at,
            nominal: local_to_datetime(summary.nominal).saturating_add(subsecond),
            offset: Offset::from_seconds(self.segment.offset as i32).expect("the zone itself gave this offset"),
            note,
            merged_count: summary.merged_count,
            adjusted_from: summary.moved_from.map(local_to_datetime),
            jittered_at: Timestamp::from_microsecond(at_us + jitter).unwrap_or(Timestamp::MAX),
        }
    }

    fn local_at(&self, at_us: i64) -> i64 {
        at_us.div_euclid(MICROS) + self.segment.offset
    }

    /// Whether fixed times in a gap would fire at this instant.
    fn ends_a_gap(&self, at_us: i64) -> bool {
        self.schedule.frame.policies.gap == GapPolicy::Shift
            && at_us == self.segment.start * MICROS
            && !self.segment.gap_at_start().is_empty()
    }

    /// Every planned time that fires at this instant, the earliest of those to come.
    fn planned_times(&self, at_us: i64) -> PlannedTimes {
        let Schedule { rules, frame, .. } = &*self.schedule;
        let policies = &frame.policies;
        let local = self.local_at(at_us);
        let mut planned = PlannedTimes::default();
        for (rule, _) in rules.iter().zip(&self.upcoming).filter(|(_, upcoming)| **upcoming == Some(at_us)) {
            let CompiledRule::Civil { times, kind } = rule else {
                planned.add_unmoved(local);
                continue;
            };
            if local_window(*kind, &self.segment, policies.fold).contains(&local) {
                planned.add_window(times, &policies.open_days, local..local + 1);
            }
            if *kind == CivilKind::FixedTime && self.ends_a_gap(at_us) {
                planned.add_window(times, &policies.open_days, self.segment.gap_at_start());
            }
        }
        planned
    }

    /// The planned times that fire at the next instant, before any move, without the one that stands for them.
    pub(crate) fn merged_into_next(&self, limit: usize) -> Vec<DateTime> {
        let Some(at_us) = self.upcoming.iter().flatten().min().copied() else { return Vec::new() };
        let planned = self.planned_times(at_us);
        let summary = planned.summary(self.local_at(at_us));
        let stands_for_all = summary.moved_from.unwrap_or(summary.nominal);
        planned.iter().filter(|other| *other != stands_for_all).take(limit).map(local_to_datetime).collect()
    }
}

impl Iterator for Occurrences<'_> {
    type Item = Occurrence;

    fn next(&mut self) -> Option<Occurrence> {
        while !self.is_finished {
            let Some(at_us) = self.upcoming.iter().flatten().min().copied() else {
                self.is_finished = self.advance().is_none();
                continue;
            };
            if at_us >= self.schedule.frame.end_us || at_us > LAST_SECOND * MICROS {
                self.is_finished = true;
                break;
            }
            let occurrence = self.describe(at_us);
            let Schedule { rules, frame, .. } = &*self.schedule;
            for (rule, upcoming) in rules.iter().zip(&mut self.upcoming).filter(|(_, next)| **next == Some(at_us)) {
                *upcoming = rule.next_in_segment(&self.segment, at_us + 1, &frame.policies);
            }
            self.step_from = at_us + 1;
            return Some(occurrence);
        }
        None
    }
}

impl std::iter::FusedIterator for Occurrences<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::ScheduleSpec;
    use jiff::tz::TimeZoneDatabase;

    /// The most segments that any of the first steps visits, and how many steps found something.
    fn most_visited(zone: &str, rules: &[&str], steps: usize) -> (usize, usize) {
        let rules: Vec<_> = rules.iter().map(|rule| rule.parse().expect("a valid rule")).collect();
        let spec =
            ScheduleSpec { rules, gap: GapPolicy::Skip, ..ScheduleSpec::new(crate::Rule::Once(Timestamp::MIN), zone) };
        let schedule = Schedule::with_database(spec, "key", &TimeZoneDatabase::bundled()).expect("a valid schedule");
        let mut occurrences = schedule.after("1990-01-01T00:00:00Z".parse().expect("an instant"));
        let (mut most, mut found) = (0, 0);
        for _ in 0..steps {
            let before = occurrences.segments_visited;
            found += usize::from(occurrences.next().is_some());
            most = most.max(occurrences.segments_visited - before);
        }
        (most, found)
    }

    #[test]
    fn a_step_visits_few_segments_however_rare_the_date() {
        for zone in ["Europe/Berlin", "Africa/Casablanca", "America/New_York", "Pacific/Apia"] {
            for rule in ["0 0 29 2 *", "0 0 29 2 */7", "0 0 1 1 *", "* * * * *"] {
                let (most, found) = most_visited(zone, &[rule], 100);
                assert!(most <= 5 && found == 100, "{zone} {rule}: {most} segments, {found} found");
            }
        }
    }

    #[test]
    fn a_search_in_vain_ends_after_one_cycle_of_the_calendar() {
        // From 1990 to 2500, with two clock changes a year.
        for rules in [vec!["30 2 * 3 SUNL"], vec!["30 2 * 3 SUNL"; 32]] {
            let (most, found) = most_visited("Europe/Berlin", &rules, 2);
            assert!((900..=1021).contains(&most) && found == 0, "{most} segments, {found} found");
        }
    }
}
