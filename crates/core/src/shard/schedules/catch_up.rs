//! Times that nobody was there for: how many of them run after all.

use std::collections::BTreeSet;

use crate::id::ScheduleId;
use crate::schedule::{CatchUpMode, Marks, OccurrenceRow, Overlap, Planned, SourceKind, Verdict};
use crate::shard::notices::notice_of_verdict;
use crate::shard::schedules::Schedules;
use crate::shard::schedules::decide::{Firing, Step, replay_pause};
use crate::shard::schedules::progress::INSTANT;
use crate::shard::schedules::table::Place;
use crate::shard::write::Decision;
use crate::shard::{Bug, Owner};
use crate::time::{Span, Timestamp};

/// Missed times with a row of their own, besides those that may run; what is older shares rows. A year without
/// a server must not fill the ledger with the seconds of that year.
const MISSED_ROWS_MAX: usize = 1000;

/// Missed times that share a row. Always as many, counted from the first, so that an owner who begins again
/// comes to the same rows.
const STRETCH: usize = 1000;

/// Planned times that one turn looks at.
const TIMES_PER_TURN: usize = 100_000;

impl Owner {
    /// Decides about the planned times of a schedule that were missed, and answers how many it looked at.
    pub(super) fn catch_up(&mut self, schedules: &mut Schedules, place: Place) -> usize {
        let missed_before = self.now - self.config.schedule_grace;
        // Those that were waiting out their jitter belong to it.
        let waiting = schedules.take_slots(place, |_| true).into_iter().map(|slot| slot.planned);
        let Some(entry) = schedules.table.entry(place) else { return 1 };
        let kept_max = MISSED_ROWS_MAX.max(entry.plan.spec.catch_up.max as usize);
        let (mut missed, mut still_to_come): (Vec<_>, Vec<_>) =
            waiting.partition(|planned| planned.slot < missed_before);
        let (mut looked_at, mut next) = (1, Timestamp::MAX);
        for planned in entry.plan.times_after(entry.next - INSTANT, entry.seed) {
            if planned.at >= missed_before || looked_at == TIMES_PER_TURN {
                next = planned.at;
                break;
            }
            looked_at += 1;
            if schedules.is_decided(place, &planned) {
                continue;
            }
            if planned.slot < missed_before { missed.push(planned) } else { still_to_come.push(planned) }
        }
        // In the order of the slots, in which they are decided about; jitter makes it another than that of the times.
        missed.sort_unstable_by_key(|planned| (planned.slot, planned.at));
        let older = missed.len().saturating_sub(kept_max) / STRETCH * STRETCH;
        // What comes later may have slots before these.
        let known = missed[..older].partition_point(|planned| planned.slot < next) / STRETCH * STRETCH;
        // Each turn comes nearer to the end, whatever the jitter.
        let known = if known == 0 && next < missed_before { older.min(STRETCH) } else { known };
        for stretch in missed[..known].chunks(STRETCH) {
            self.decide_stretch(schedules, place, stretch);
        }
        let kept = &missed[known..];
        if next < missed_before {
            // Which ones are the latest is known at the end only.
            let from = kept.first().map_or(next, |planned| planned.slot);
            schedules.plan_again(place, from);
            return looked_at;
        }
        schedules.table.set_timer(place, next);
        for planned in still_to_come {
            self.arrive(schedules, place, planned);
        }
        self.decide_missed(schedules, place, kept);
        looked_at
    }

    fn decide_stretch(&mut self, schedules: &mut Schedules, place: Place, stretch: &[Planned]) {
        let (Some(entry), Some(first)) = (schedules.table.entry(place), stretch.first()) else { return };
        let verdict = if entry.is_paused_at(first.slot) { Verdict::SkippedPaused } else { Verdict::Missed };
        let occurrence = self.occurrence(entry, first, verdict);
        let count = stretch.iter().map(|planned| planned.count).fold(0, u32::saturating_add);
        let occurrence = OccurrenceRow { marks: occurrence.marks.with(Marks::STRETCH), count, ..occurrence };
        let notice = notice_of_verdict(&occurrence, schedules.table.task_of(entry));
        self.push_verdict(schedules, Box::new(Decision { occurrence, job: None, notice }));
    }

    /// Runs those that the schedule's rule allows, the latest ones.
    fn decide_missed(&mut self, schedules: &mut Schedules, place: Place, missed: &[Planned]) {
        let Some(id) = schedules.table.entry(place).map(|entry| entry.id) else { return };
        let is_recent =
            |begun: &Reckoning| begun.replayed > 0 || self.now.since(begun.at) <= self.config.schedule_grace;
        let Some(begun) = schedules.reckonings.get(&id).copied().filter(is_recent) else {
            self.reckon(schedules, place, missed, schedules.new_reckoning(id, self.now));
            return;
        };
        let (of_begun, others) = missed.split_at(missed.partition_point(|planned| planned.slot <= begun.at));
        if self.reckon(schedules, place, of_begun, begun) {
            self.reckon(schedules, place, others, schedules.new_reckoning(id, self.now));
        }
    }

    /// False if the rest has to wait.
    fn reckon(&mut self, schedules: &mut Schedules, place: Place, missed: &[Planned], begun: Reckoning) -> bool {
        let Some(entry) = schedules.table.entry(place) else { return false };
        let (rule, overlap) = (entry.plan.spec.catch_up, entry.plan.spec.overlap);
        let oldest = self.now - rule.window;
        let may_run = |planned: &&Planned| entry.verdict_without_run(planned).is_none() && planned.slot >= oldest;
        let (chosen, others): (Vec<&Planned>, Vec<&Planned>) =
            missed.iter().filter(may_run).partition(|planned| planned.slot < begun.chosen_before);
        let budget = match rule.mode {
            CatchUpMode::None => 0,
            CatchUpMode::Last => 1,
            CatchUpMode::All => rule.max as usize,
        };
        let room = budget.saturating_sub(begun.replayed + chosen.len());
        let passed_over = others.len().saturating_sub(room);
        // Those that were chosen before are the oldest.
        let runs: BTreeSet<Timestamp> =
            chosen.into_iter().chain(others.into_iter().skip(passed_over)).map(|planned| planned.at).collect();
        let mut reckoning = begun;
        let mut goes_on = true;
        for planned in missed {
            let Some(entry) = schedules.table.entry(place) else { return false };
            if entry.is_used_up() {
                schedules.end_or_stall(place, planned.slot);
                goes_on = false;
                break;
            }
            if !runs.contains(&planned.at) {
                let verdict = entry.verdict_without_run(planned).unwrap_or(Verdict::Missed);
                self.decide_without_run(schedules, place, planned, verdict, None);
                continue;
            }
            let firing = Firing { kind: SourceKind::Replayed, due_at: reckoning.due_at.max(self.now) };
            let replay = if overlap == Overlap::Allow {
                let occurrence = self.occurrence(entry, planned, Verdict::Fired);
                self.fire(schedules, place, occurrence, firing, Step::First);
                Replay::Runs
            } else {
                self.replay_in_turn(schedules, place, planned, firing)
            };
            match replay {
                Replay::Runs => reckoning.count(self.now, firing, rule.per_minute),
                Replay::Refused => {}
                Replay::Waits => {
                    goes_on = false;
                    break;
                }
            }
        }
        if reckoning.replayed > begun.replayed || !goes_on {
            let missed_before = self.now - self.config.schedule_grace;
            let chosen_before = if begun.has_chosen() { begun.chosen_before } else { missed_before };
            self.remember(schedules, place, Reckoning { chosen_before, ..reckoning });
        }
        goes_on
    }

    fn remember(&self, schedules: &mut Schedules, place: Place, reckoning: Reckoning) {
        let Some(entry) = schedules.table.entry(place) else { return };
        // More may turn out to be missed of what was to come by now.
        let has_more =
            entry.next <= self.now || entry.plan.jitter() > Span::ZERO || schedules.stalled.contains_key(&entry.id);
        // What comes later is missed after that at the earliest.
        let paces_others = reckoning.due_at > self.now + self.config.schedule_grace;
        if (has_more || paces_others) && !self.config.has(Bug::ReckoningForgotten) {
            schedules.reckonings.insert(entry.id, reckoning);
            schedules.reckoned_until = reckoning.at.max(reckoning.due_at).max(schedules.reckoned_until);
        }
    }
}

/// What was missed by one moment shares a budget, however many turns it takes: verdicts may have to be known first, and
/// what was merely late may be missed by then.
#[derive(Clone, Copy)]
pub(super) struct Reckoning {
    /// When the first one ran; until then, when they were chosen.
    at: Timestamp,
    replayed: usize,
    /// What had been missed when they were chosen. Of those, all that are not decided about are chosen.
    chosen_before: Timestamp,
    /// The next one is not due before.
    due_at: Timestamp,
}

/// What becomes of a missed time that may run.
pub(super) enum Replay {
    /// Now, or after those before it.
    Runs,
    /// Too many wait.
    Refused,
    /// It is decided about when the verdicts under way are known.
    Waits,
}

impl Reckoning {
    fn has_chosen(&self) -> bool {
        self.chosen_before > Timestamp::EPOCH
    }

    fn count(&mut self, now: Timestamp, firing: Firing, per_minute: u32) {
        if self.replayed == 0 {
            self.at = now;
        }
        self.replayed += 1;
        self.due_at = firing.due_at + replay_pause(per_minute);
    }
}

impl Schedules {
    /// What was chosen before keeps its pace.
    fn new_reckoning(&self, id: ScheduleId, now: Timestamp) -> Reckoning {
        let due_at = self.reckonings.get(&id).map_or(now, |before| before.due_at.max(now));
        Reckoning { at: now, replayed: 0, chosen_before: Timestamp::EPOCH, due_at }
    }

    /// Everything up to then is decided.
    pub(super) fn forget_reckonings(&mut self, decided: Timestamp) {
        if self.reckoned_until <= decided {
            self.reckonings.clear();
        }
    }
}
