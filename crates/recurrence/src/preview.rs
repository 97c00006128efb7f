//! What the coming clock changes do to a schedule, for a preview before it is saved.

use jiff::Timestamp;
use jiff::civil::DateTime;
use serde::{Deserialize, Serialize};

use crate::compiled::{CivilKind, CompiledRule, MICROS, local_window, next_local};
use crate::date::local_to_datetime;
use crate::occurrence::Occurrence;
use crate::rule::{GapPolicy, Rule};
use crate::schedule::Schedule;
use crate::zone::{LAST_SECOND, Segment, timestamp};

/// A preview names this many times for each change; [`ClockChange::more_count`] says how many there are beyond.
pub const PREVIEW_EFFECTS_MAX: usize = 100;

/// Zones change their clocks a few times a year; more than this in one preview means a year far too long.
const CHANGES_MAX: usize = 1000;

/// A change of the zone's offset, with the planned times it touches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockChange {
    pub at: Timestamp,
    /// What the wall clock would have shown at `at`, and what it shows.
    pub clock_before: DateTime,
    pub clock_after: DateTime,
    /// The effects in order of the wall clock, at most [`PREVIEW_EFFECTS_MAX`].
    pub effects: Vec<ClockChangeEffect>,
    pub more_count: u64,
}

/// What a clock change does to one planned time of one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockChangeEffect {
    /// The rule's place in the schedule, from 0.
    pub rule: usize,
    pub nominal: DateTime,
    pub effect: Effect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The time does not exist; it fires at this instant instead.
    Moved { to: Timestamp },
    /// The time does not exist; it is merged into the occurrence at this instant.
    Merged { into: Timestamp },
    /// The time does not exist and does not fire.
    Skipped,
    /// The time comes twice and fires at the first instant only.
    FirstOnly { at: Timestamp },
    /// The time comes twice and fires at the second instant only.
    LastOnly { at: Timestamp },
    /// The time comes twice and fires twice.
    Repeated { first: Timestamp, second: Timestamp },
}

impl Schedule {
    /// The changes of the zone's clock within `months` months after `from` that touch the schedule.
    ///
    /// Rules that run through every hour, and intervals, keep their beat in real time and are not mentioned.
    pub fn coming_changes(&self, from: Timestamp, months: u32) -> Vec<ClockChange> {
        let first = from.as_second();
        let until = first.saturating_add(i64::from(months) * 2_629_746).min(LAST_SECOND);
        let mut changes = Vec::new();
        let mut segment = Segment::containing(&self.frame.zone, first);
        while segment.end <= until && changes.len() < CHANGES_MAX {
            let Some(next) = segment.next(&self.frame.zone) else { break };
            if (self.frame.start_us..self.frame.end_us).contains(&(next.start * MICROS)) {
                changes.extend(self.change_between(&segment, &next));
            }
            segment = next;
        }
        changes
    }

    fn change_between(&self, before: &Segment, after: &Segment) -> Option<ClockChange> {
        let mut effects = Effects::default();
        let gap = after.gap_at_start();
        let fold = after.repeats_at_start();
        let mut cursor = gap.start.min(fold.start);
        let end = if gap.is_empty() { fold.end } else { gap.end };
        let after_gap = self.between(timestamp(after.start), timestamp(after.start + 1)).next();
        while let Some(nominal) = self.next_touched(cursor, end) {
            for rule in (0..self.rules.len()).filter(|rule| self.next_of_rule(*rule, nominal, nominal + 1).is_some()) {
                let effect = if gap.is_empty() {
                    self.fold_effect(rule, nominal, before, after)
                } else {
                    self.gap_effect(rule, nominal, after_gap.as_ref())
                };
                effects.add(ClockChangeEffect { rule, nominal: local_to_datetime(nominal), effect });
            }
            cursor = nominal + 1;
        }
        let has_effects = !effects.listed.is_empty();
        has_effects.then(|| ClockChange {
            at: timestamp(after.start),
            clock_before: local_to_datetime(after.start + before.offset),
            clock_after: local_to_datetime(after.local_start()),
            effects: effects.listed,
            more_count: effects.more_count,
        })
    }

    fn next_touched(&self, from: i64, to: i64) -> Option<i64> {
        (0..self.rules.len()).filter_map(|rule| self.next_of_rule(rule, from, to)).min()
    }

    /// The next planned local time of a rule that means certain hours.
    fn next_of_rule(&self, rule: usize, from: i64, to: i64) -> Option<i64> {
        if let Rule::Cron(expr) = &self.spec().rules[rule]
            && expr.hour.begins_with_star()
        {
            return None;
        }
        match &self.rules[rule] {
            CompiledRule::Civil { times, .. } => next_local(times, &self.frame.policies.open_days, from, to),
            CompiledRule::Interval { .. } | CompiledRule::Once { .. } => None,
        }
    }

    fn gap_effect(&self, rule: usize, nominal: i64, after_gap: Option<&Occurrence>) -> Effect {
        if self.kind(rule) == CivilKind::RealTime || self.frame.policies.gap == GapPolicy::Skip {
            return Effect::Skipped;
        }
        match after_gap {
            Some(occurrence) if occurrence.nominal == local_to_datetime(nominal) => Effect::Moved { to: occurrence.at },
            Some(occurrence) => Effect::Merged { into: occurrence.at },
            None => Effect::Skipped,
        }
    }

    fn fold_effect(&self, rule: usize, nominal: i64, before: &Segment, after: &Segment) -> Effect {
        let (first, second) = (timestamp(nominal - before.offset), timestamp(nominal - after.offset));
        let fold = self.frame.policies.fold;
        let is_in = |segment| local_window(self.kind(rule), segment, fold).contains(&nominal);
        match (is_in(before), is_in(after)) {
            (true, true) => Effect::Repeated { first, second },
            (true, false) => Effect::FirstOnly { at: first },
            (false, _) => Effect::LastOnly { at: second },
        }
    }

    fn kind(&self, rule: usize) -> CivilKind {
        match &self.rules[rule] {
            CompiledRule::Civil { kind, .. } => *kind,
            CompiledRule::Interval { .. } | CompiledRule::Once { .. } => CivilKind::RealTime,
        }
    }
}

#[derive(Default)]
struct Effects {
    listed: Vec<ClockChangeEffect>,
    more_count: u64,
}

impl Effects {
    fn add(&mut self, effect: ClockChangeEffect) {
        if self.listed.len() < PREVIEW_EFFECTS_MAX {
            self.listed.push(effect);
        } else {
            self.more_count += 1;
        }
    }
}
