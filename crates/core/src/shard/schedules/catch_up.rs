//! Times that nobody was there for: how many of them run after all.

use crate::schedule::{CatchUpMode, Marks, OccurrenceRow, Overlap, Planned, SourceKind, Verdict};
use crate::shard::Owner;
use crate::shard::notices::notice_of_verdict;
use crate::shard::schedules::Schedules;
use crate::shard::schedules::decide::{Firing, Step, replay_pause};
use crate::shard::schedules::progress::INSTANT;
use crate::shard::schedules::table::Place;
use crate::shard::write::Decision;
use crate::time::Timestamp;

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
    pub(super) fn decide_missed(&mut self, schedules: &mut Schedules, place: Place, missed: &[Planned]) {
        let Some(entry) = schedules.table.entry(place) else { return };
        let rule = entry.plan.spec.catch_up;
        let oldest = self.now - rule.window;
        let may_run = |planned: &&Planned| entry.verdict_without_run(planned).is_none() && planned.slot >= oldest;
        let candidates = missed.iter().filter(may_run).count();
        let budget = match rule.mode {
            CatchUpMode::None => 0,
            CatchUpMode::Last => 1,
            CatchUpMode::All => rule.max as usize,
        };
        let mut passed_over = candidates.saturating_sub(budget);
        let mut due_at = self.now;
        for planned in missed {
            let Some(entry) = schedules.table.entry(place) else { return };
            if entry.is_used_up() {
                return schedules.end_or_stall(place, planned.slot);
            }
            let without_run = entry.verdict_without_run(planned);
            let is_candidate = without_run.is_none() && planned.slot >= oldest;
            let runs = is_candidate && passed_over == 0;
            passed_over = passed_over.saturating_sub(usize::from(is_candidate));
            if !runs {
                let verdict = without_run.unwrap_or(Verdict::Missed);
                self.decide_without_run(schedules, place, planned, verdict, None);
                continue;
            }
            let firing = Firing { kind: SourceKind::Replayed, due_at };
            if entry.plan.spec.overlap == Overlap::Allow {
                let occurrence = self.occurrence(entry, planned, Verdict::Fired);
                self.fire(schedules, place, occurrence, firing, Step::First);
                due_at = due_at + replay_pause(rule.per_minute);
            } else {
                self.replay_in_turn(schedules, place, planned, firing);
            }
        }
    }
}
