//! Several planned times on one instant: one of them has the row in the ledger, and these are the others.

use std::collections::BTreeSet;

use jiff::civil::DateTime;
use jiff::tz::AmbiguousOffset;
use punctual_recurrence::{GapPolicy, Occurrence, Schedule};

use crate::schedule::plan::{Plan, Unfired, to_jiff};
use crate::time::{Span, Timestamp};

/// A planned time that has no row of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// The time on the wall clock.
    pub local: DateTime,
    /// `None` if the run at that instant stands for it.
    pub unfired: Option<Unfired>,
}

impl Plan {
    /// Whether the clocks leave out the time right before this instant.
    pub fn ends_gap(&self, at: Timestamp) -> bool {
        let offset = |at: Timestamp| self.zone().to_offset(to_jiff(at));
        offset(at) > offset(at - Span::from_micros(1))
    }

    fn unfired_by(&self, local: DateTime) -> Unfired {
        let exists = !matches!(self.zone().to_ambiguous_timestamp(local).offset(), AmbiguousOffset::Gap { .. });
        if exists || self.spec.when.gap != GapPolicy::Skip { Unfired::Calendar } else { Unfired::Gap }
    }

    /// The planned times on this instant, without the one whose row it is; at most `limit`.
    pub fn left_out_at(&self, at: Timestamp, seed: u64, limit: usize) -> Vec<LeftOut> {
        let fired = self.fires_after(at - Span::from_micros(1), seed).next();
        let fired = fired.filter(|occurrence| occurrence.at == to_jiff(at));
        let fired_times = fired.iter().flat_map(|fired| times(&self.schedule(seed), fired, limit));
        let fired_times: Vec<DateTime> = fired_times.collect();
        let left_out = |local: &DateTime, unfired: Option<Unfired>| LeftOut { local: *local, unfired };
        let mut all: Vec<LeftOut> = fired_times.iter().skip(1).map(|local| left_out(local, None)).collect();
        if let Some(planned) = self.planned_at(at, seed) {
            let (schedule, occurrence) = &planned;
            let known: BTreeSet<DateTime> = fired_times.iter().copied().collect();
            let others = times(schedule, occurrence, limit);
            // Where nothing fired, the first of these has the row.
            let others = others.iter().skip(usize::from(fired.is_none())).filter(|local| !known.contains(local));
            all.extend(others.map(|local| left_out(local, Some(self.unfired_by(*local)))));
        }
        all.sort_unstable_by_key(|left_out| left_out.local);
        all.truncate(limit);
        all
    }
}

/// The planned times of an occurrence, the one that stands for the others first.
fn times(schedule: &Schedule, occurrence: &Occurrence, limit: usize) -> Vec<DateTime> {
    let first = occurrence.adjusted_from.unwrap_or(occurrence.nominal);
    std::iter::once(first).chain(schedule.merged_into(occurrence, limit)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::schedule::ScheduleSpec;

    /// The clocks of Berlin go from 02:00 to 03:00.
    fn left_out(cron: &str, gap: GapPolicy) -> Vec<(String, Option<Unfired>)> {
        let mut when = punctual_recurrence::ScheduleSpec::new(cron.parse().unwrap(), "Europe/Berlin");
        when.gap = gap;
        let plan = Plan::new(ScheduleSpec::new(when), &BTreeMap::new(), 7).unwrap();
        let left_out = plan.left_out_at(Timestamp::parse("2027-03-28T01:00:00Z").unwrap(), 7, 3);
        left_out.into_iter().map(|left_out| (left_out.local.time().to_string(), left_out.unfired)).collect()
    }

    #[test]
    fn times_that_a_gap_shifts_to_one_instant_are_merged() {
        let merged = |time: &str| (time.to_owned(), None);
        assert_eq!(left_out("15,45 2 * * *", GapPolicy::Shift), [merged("02:45:00")]);
        assert_eq!(left_out("0,30 2,3 * * *", GapPolicy::Shift), [merged("02:00:00"), merged("02:30:00")]);
        assert_eq!(left_out("0 3 * * *", GapPolicy::Shift), []);
        assert_eq!(left_out("*/10 0-59 2 * * *", GapPolicy::Shift).len(), 3, "no more than were asked for");
    }

    #[test]
    fn times_that_a_gap_leaves_out_are_told_from_the_run_at_its_end() {
        let skipped = |time: &str| (time.to_owned(), Some(Unfired::Gap));
        assert_eq!(left_out("0,30 2,3 * * *", GapPolicy::Skip), [skipped("02:00:00"), skipped("02:30:00")]);
        assert_eq!(left_out("15,45 2 * * *", GapPolicy::Skip), [skipped("02:45:00")]);
        assert_eq!(left_out("0 3 * * *", GapPolicy::Skip), []);
    }
}
