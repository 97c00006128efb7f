//! From planned times to decisions, in the order of their time.

use crate::schedule::Planned;
use crate::shard::planted;
use crate::shard::schedules::delayed::DelayedTime;
use crate::shard::schedules::progress::INSTANT;
use crate::shard::schedules::table::EntryIndex;
use crate::shard::schedules::{Planner, Schedules};
use crate::time::{Span, Timestamp};

/// The number of pending writes beyond which nothing more is planned: undecided times cost no memory.
pub(super) const BACKLOG_MAX: usize = 20_000;

/// The number of planned times of one schedule that are decided before a command. A schedule that is further behind is
/// not ready for commands.
const STEPS_BEFORE_COMMAND: usize = 1000;

impl Planner<'_> {
    /// Decides about planned times that have come, as many as there is room for, and answers how many it looked at.
    pub(super) fn plan(&mut self, room: usize) -> usize {
        let pushed = self.schedules.progress.pushed();
        let mut looked_at = 0;
        let reached = loop {
            let Some(next) = self.schedules.next_due() else { break self.now };
            if next.time() > self.now {
                break self.now;
            }
            if looked_at >= room || self.outbox.backlog(self.shard) >= BACKLOG_MAX {
                break next.time() - INSTANT;
            }
            looked_at += self.step(next);
        };
        if self.schedules.progress.pushed() > pushed {
            self.decided_until(reached);
        }
        looked_at
    }

    /// One planned time comes up; its slot may be later. Answers how many were looked at.
    fn step(&mut self, next: NextTurn) -> usize {
        match next {
            NextTurn::Slot(slot) => {
                self.schedules.slots.remove(&slot);
                if self.schedules.is_current(&slot) {
                    self.slot_came(slot);
                }
                1
            }
            NextTurn::Timer(at, place) => {
                let Some(entry) = self.schedules.table.entry(place) else { return 1 };
                if self.is_missed(entry, at, at, self.now) {
                    return self.catch_up(place);
                }
                if self.schedules.floors.get(&entry.id).is_some_and(|floor| *floor < at) {
                    self.schedules.floors.remove(&entry.id);
                }
                let mut times = entry.plan.times_after(at - INSTANT, entry.seed());
                let planned = times.next();
                let following = times.next().map_or(Timestamp::MAX, |planned| planned.at);
                drop(times);
                self.schedules.table.set_timer(place, following);
                if let Some(planned) = planned.filter(|planned| planned.at == at) {
                    self.arrive(place, planned);
                }
                1
            }
        }
    }

    /// A planned time has come: it is decided about now, or when its jitter is over.
    pub(super) fn arrive(&mut self, place: EntryIndex, planned: Planned) {
        if self.schedules.is_decided(place, &planned) {
            return;
        }
        let Some(entry) = self.schedules.table.entry(place) else { return };
        let slot = DelayedTime { planned, place, generation: entry.generation };
        if entry.plan.jitter() == Span::ZERO {
            self.slot_came(slot);
        } else {
            // Also one that has come: others may have come before it.
            self.schedules.slots.push(slot);
        }
    }

    fn slot_came(&mut self, slot: DelayedTime) {
        let DelayedTime { planned, place, .. } = slot;
        let Some(entry) = self.schedules.table.entry(place) else { return };
        if self.is_missed(entry, planned.at, planned.slot, self.now) {
            // All that were missed are decided about together.
            self.schedules.plan_again(place, planned.slot);
        } else {
            self.decide(place, planned);
        }
    }

    /// Decides everything of one schedule that has come, so that a change concerns only later times. False if there is
    /// too much of it.
    pub(super) fn plan_up(&mut self, place: EntryIndex) -> bool {
        let mut looked_at = 0;
        while looked_at < STEPS_BEFORE_COMMAND {
            let Some(entry) = self.schedules.table.entry(place) else { return true };
            if entry.next <= self.now {
                let next = entry.next;
                looked_at += self.step(NextTurn::Timer(next, place));
                continue;
            }
            let now = self.now;
            let came = self.schedules.take_slots(place, |slot| slot.planned.slot <= now);
            if came.is_empty() {
                return true;
            }
            for slot in came {
                looked_at += 1;
                // One that was missed has all of them planned again.
                if self.schedules.is_current(&slot) {
                    self.slot_came(slot);
                }
            }
        }
        false
    }

    /// Records that everything planned up to `reached` is decided, except for what is not known yet.
    fn decided_until(&mut self, reached: Timestamp) {
        let runs_ahead = planted!(self.config, WatermarkRunsAhead);
        let ahead = if runs_ahead { self.config.schedule_grace } else { Span::ZERO };
        self.schedules.progress.reached(reached.min(self.schedules.open_from()) + ahead);
        self.schedules.forget_reckonings(self.schedules.progress.decided);
    }
}

/// What comes next.
#[derive(Clone, Copy)]
enum NextTurn {
    /// A planned time.
    Timer(Timestamp, EntryIndex),
    /// The slot of a planned time that has come before.
    Slot(DelayedTime),
}

impl NextTurn {
    fn time(self) -> Timestamp {
        match self {
            Self::Timer(at, _) => at,
            Self::Slot(slot) => slot.planned.slot,
        }
    }
}

impl Schedules {
    fn next_due(&mut self) -> Option<NextTurn> {
        let timer = self.table.next();
        let slot = self.slots.first();
        match (timer, slot) {
            (Some((at, _)), Some(slot)) if slot.planned.slot < at => Some(NextTurn::Slot(slot)),
            (Some((at, place)), _) => Some(NextTurn::Timer(at, place)),
            (None, Some(slot)) => Some(NextTurn::Slot(slot)),
            (None, None) => None,
        }
    }

    /// Whether the time has its verdict already: by a former owner, or by a former definition of the schedule.
    pub(super) fn is_decided(&self, place: EntryIndex, planned: &Planned) -> bool {
        let Some(entry) = self.table.entry(place) else { return true };
        let floor = self.floors.get(&entry.id).copied().unwrap_or_default();
        planned.slot <= self.progress.taken_over.max(entry.since).max(floor)
            || self.decided_before.contains(&(entry.id, planned.at))
    }

    /// Plans a schedule again from this slot on; all before it are decided.
    pub(super) fn plan_again(&mut self, place: EntryIndex, slot: Timestamp) {
        let Some(entry) = self.table.entry(place) else { return };
        if entry.plan.jitter() > Span::ZERO {
            self.floors.insert(entry.id, slot - INSTANT);
        }
        self.table.plan_from(place, slot - INSTANT);
    }
}
