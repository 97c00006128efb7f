//! Missed times: which they are, and how many of them run after all.

use std::collections::BTreeSet;

use crate::id::ScheduleId;
use crate::schedule::{CatchUp, Marks, OccurrenceRow, Overlap, Planned, SourceKind, Verdict};
use crate::shard::notices::notice_of_verdict;
use crate::shard::planted;
use crate::shard::schedules::decide::{Firing, VerdictStep, replay_pause};
use crate::shard::schedules::progress::INSTANT;
use crate::shard::schedules::table::{EntryIndex, ScheduleEntry};
use crate::shard::schedules::{Planner, Schedules};
use crate::shard::write::Decision;
use crate::time::{Span, Timestamp};

/// The number of missed times with a row of their own, besides those that may run; older ones share rows. A year
/// without a server must not fill the ledger with the seconds of that year.
const MISSED_ROWS_MAX: usize = 1000;

/// The number of missed times that share a row. It is constant and counted from the first, so that an owner that begins
/// again comes to the same rows.
const STRETCH: usize = 1000;

/// Planned times that one turn looks at.
const TIMES_PER_TURN: usize = 100_000;

impl Planner<'_> {
    /// Whether a planned time that was to start at `slot` was missed by `when`.
    pub(super) fn is_missed(&self, entry: &ScheduleEntry, at: Timestamp, slot: Timestamp, when: Timestamp) -> bool {
        let late = when.since(slot);
        // On time, mostly: then the next one need not be worked out.
        late > self.least_missed_after(entry) && {
            let next = entry.plan.next_after(at, entry.seed()).map(|next| next.at);
            late > self.missed_after(entry, at, next)
        }
    }

    fn missed_after(&self, entry: &ScheduleEntry, at: Timestamp, next: Option<Timestamp>) -> Span {
        if planted!(self.config, MissedAfterIgnored) {
            return self.config.schedule_grace;
        }
        entry.plan.spec.missed_after(at, next, self.config.schedule_grace)
    }

    /// No planned time of the schedule is missed sooner.
    fn least_missed_after(&self, entry: &ScheduleEntry) -> Span {
        self.missed_after(entry, Timestamp::EPOCH, Some(Timestamp::EPOCH))
    }

    /// Decides about the planned times of a schedule that were missed, and answers how many it looked at.
    pub(super) fn catch_up(&mut self, place: EntryIndex) -> usize {
        // Those that were waiting out their jitter belong to it.
        let waiting = self.schedules.take_slots(place, |_| true).into_iter().map(|slot| slot.planned);
        let Some(entry) = self.schedules.table.entry(place) else { return 1 };
        let kept_max = MISSED_ROWS_MAX.max(entry.plan.spec.catch_up.max as usize);
        let (mut missed, mut still_to_come): (Vec<_>, Vec<_>) =
            waiting.partition(|planned| self.is_missed(entry, planned.at, planned.slot, self.now));
        let (mut looked_at, mut next, mut is_cut) = (1, Timestamp::MAX, false);
        let mut last_missed = missed.iter().map(|planned| planned.slot).max();
        let mut times = entry.plan.times_after(entry.next - INSTANT, entry.seed()).peekable();
        while let Some(planned) = times.next() {
            let missed_after = self.missed_after(entry, planned.at, times.peek().map(|next| next.at));
            // Verdicts are given in the order of slots: what starts before a time that is given up is given up with it.
            let is_in_time = planned.at + missed_after >= self.now && Some(planned.at) > last_missed;
            if is_in_time || looked_at == TIMES_PER_TURN {
                (next, is_cut) = (planned.at, !is_in_time);
                break;
            }
            looked_at += 1;
            if self.schedules.is_decided(place, &planned) {
                continue;
            }
            if planned.slot + missed_after < self.now {
                last_missed = last_missed.max(Some(planned.slot));
                missed.push(planned);
            } else {
                still_to_come.push(planned);
            }
        }
        drop(times);
        missed.extend(still_to_come.extract_if(.., |planned| Some(planned.slot) < last_missed));
        // In the order of the slots, in which they are decided about; jitter makes it another than that of the times.
        missed.sort_unstable_by_key(|planned| (planned.slot, planned.at));
        let older = missed.len().saturating_sub(kept_max) / STRETCH * STRETCH;
        // What comes later may have slots before these.
        let known = missed[..older].partition_point(|planned| planned.slot < next) / STRETCH * STRETCH;
        // Each turn comes nearer to the end, whatever the jitter.
        let known = if known == 0 && is_cut { older.min(STRETCH) } else { known };
        for stretch in missed[..known].chunks(STRETCH) {
            self.decide_stretch(place, stretch);
        }
        let kept = &missed[known..];
        if is_cut {
            // Which ones are the latest is known at the end only.
            let from = kept.first().map_or(next, |planned| planned.slot);
            self.schedules.plan_again(place, from);
            return looked_at;
        }
        self.schedules.table.set_timer(place, next);
        for planned in still_to_come {
            self.arrive(place, planned);
        }
        self.decide_missed(place, kept);
        looked_at
    }

    fn decide_stretch(&mut self, place: EntryIndex, stretch: &[Planned]) {
        let (Some(entry), Some(first)) = (self.schedules.table.entry(place), stretch.first()) else { return };
        let verdict = if entry.is_paused_at(first.slot) { Verdict::SkippedPaused } else { Verdict::Missed };
        let occurrence = self.occurrence(entry, first, verdict);
        let count = stretch.iter().map(|planned| planned.count).fold(0, u32::saturating_add);
        let occurrence = OccurrenceRow { marks: occurrence.marks.with(Marks::STRETCH), count, ..occurrence };
        let notice = notice_of_verdict(&occurrence, self.schedules.table.task_of(entry));
        self.push_verdict(Box::new(Decision { occurrence, job: None, notice }));
    }

    /// Runs those that the schedule's rule allows, the latest ones.
    fn decide_missed(&mut self, place: EntryIndex, missed: &[Planned]) {
        let Some(entry) = self.schedules.table.entry(place) else { return };
        // Until something has run, what came after the choice must not have a budget of its own.
        let (id, least) = (entry.id, self.least_missed_after(entry));
        let is_recent = |begun: &Reckoning| begun.replayed > 0 || self.now.since(begun.at) <= least;
        let Some(begun) = self.schedules.reckonings.get(&id).copied().filter(is_recent) else {
            self.reckon(place, missed, self.schedules.new_reckoning(id, self.now));
            return;
        };
        let (of_begun, others) = missed.split_at(missed.partition_point(|planned| planned.slot <= begun.at));
        if self.reckon(place, of_begun, begun) {
            self.reckon(place, others, self.schedules.new_reckoning(id, self.now));
        }
    }

    /// False if the rest has to wait.
    fn reckon(&mut self, place: EntryIndex, missed: &[Planned], begun: Reckoning) -> bool {
        let Some(entry) = self.schedules.table.entry(place) else { return false };
        let (rule, overlap) = (entry.plan.spec.catch_up, entry.plan.spec.overlap);
        let oldest = rule.window().map_or(Timestamp::EPOCH, |window| self.now - window);
        let may_run = |planned: &&Planned| entry.verdict_without_run(planned).is_none();
        let (old, young): (Vec<&Planned>, Vec<&Planned>) =
            missed.iter().filter(may_run).partition(|planned| planned.slot < oldest);
        let was_chosen =
            |planned: &&Planned| begun.has_chosen() && self.is_missed(entry, planned.at, planned.slot, begun.chosen_at);
        let (chosen, others): (Vec<&Planned>, Vec<&Planned>) = young.into_iter().partition(was_chosen);
        let room = rule.budget().saturating_sub(begun.replayed + chosen.len());
        let passed_over = others.len().saturating_sub(room);
        // These would run if they were younger.
        let too_old = old.iter().rev().take(room.saturating_sub(others.len()));
        let too_old: BTreeSet<Timestamp> = too_old.map(|planned| planned.at).collect();
        // Those that were chosen before are the oldest.
        let runs: BTreeSet<Timestamp> =
            chosen.into_iter().chain(others.into_iter().skip(passed_over)).map(|planned| planned.at).collect();
        let mut reckoning = begun;
        let mut goes_on = true;
        for planned in missed {
            let Some(entry) = self.schedules.table.entry(place) else { return false };
            if entry.is_used_up() {
                self.schedules.end_or_stall(place, planned.slot);
                goes_on = false;
                break;
            }
            if !runs.contains(&planned.at) {
                let verdict = entry.verdict_without_run(planned).unwrap_or(Verdict::Missed);
                let reason = too_old.contains(&planned.at).then(|| too_old_for(&rule)).flatten();
                self.decide_without_run(place, planned, verdict, reason);
                continue;
            }
            let firing = Firing { kind: SourceKind::Replayed, due_at: reckoning.due_at.max(self.now) };
            let replay = if overlap == Overlap::Allow {
                let occurrence = self.occurrence(entry, planned, Verdict::Fired);
                self.fire(place, occurrence, firing, VerdictStep::First);
                Replay::Runs
            } else {
                self.replay_in_turn(place, planned, firing)
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
            let chosen_at = if begun.has_chosen() { begun.chosen_at } else { self.now };
            self.remember(place, Reckoning { chosen_at, ..reckoning });
        }
        goes_on
    }

    fn remember(&mut self, place: EntryIndex, reckoning: Reckoning) {
        let Some(entry) = self.schedules.table.entry(place) else { return };
        // More may turn out to be missed of what was to come by now.
        let has_more = entry.next <= self.now
            || entry.plan.jitter() > Span::ZERO
            || self.schedules.stalled.contains_key(&entry.id);
        // What comes later is missed after that at the earliest.
        let paces_others = reckoning.due_at > self.now + self.least_missed_after(entry);
        if (has_more || paces_others) && !planted!(self.config, ReckoningForgotten) {
            self.schedules.reckonings.insert(entry.id, reckoning);
            self.schedules.reckoned_until = reckoning.at.max(reckoning.due_at).max(self.schedules.reckoned_until);
        }
    }
}

/// Why a time does not run that the rule would run if it were younger.
fn too_old_for(rule: &CatchUp) -> Option<String> {
    let window = rule.window()?;
    Some(format!("no server handled it in time, and it was older than the catch-up window of {window}"))
}

/// What was missed by one moment shares a budget, however many turns it takes: verdicts may have to be known first, and
/// what was merely late may be missed by then.
#[derive(Clone, Copy)]
pub(super) struct Reckoning {
    /// When the first one ran; until then, when they were chosen.
    at: Timestamp,
    replayed: usize,
    /// When the times were chosen. Every undecided time that had been missed by then is chosen.
    chosen_at: Timestamp,
    /// The next one is not due before.
    due_at: Timestamp,
}

/// What becomes of a missed time that may run.
pub(super) enum Replay {
    /// Now, or after those before it.
    Runs,
    /// Too many wait.
    Refused,
    /// The time is decided when the pending verdicts are known.
    Waits,
}

impl Reckoning {
    fn has_chosen(&self) -> bool {
        self.chosen_at > Timestamp::EPOCH
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
        Reckoning { at: now, replayed: 0, chosen_at: Timestamp::EPOCH, due_at }
    }

    /// Everything up to then is decided.
    pub(super) fn forget_reckonings(&mut self, decided: Timestamp) {
        if self.reckoned_until <= decided {
            self.reckonings.clear();
        }
    }
}
