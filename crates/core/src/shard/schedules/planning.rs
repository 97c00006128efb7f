//! From planned times to decisions, in the order of their time.

use std::sync::Arc;

use crate::id::ShardId;
use crate::schedule::Planned;
use crate::shard::live::Shard;
use crate::shard::schedules::Schedules;
use crate::shard::schedules::progress::INSTANT;
use crate::shard::schedules::slots::Slot;
use crate::shard::schedules::table::Place;
use crate::shard::{Owner, planted};
use crate::task::Task;
use crate::time::{Span, Timestamp};

/// Planned times that one turn looks at or decides about, over all shards: more would keep what else is due
/// waiting.
const TIMES_PER_TURN: usize = 4000;

/// Writes on their way beyond which nothing more is planned: what is not decided costs no memory.
const BACKLOG_MAX: usize = 20_000;

/// Planned times of one schedule that a command decides about before it; one that is farther behind is not
/// ready for commands.
const STEPS_BEFORE_COMMAND: usize = 1000;

impl Owner {
    /// Decides about all planned times that have come, as far as there is room.
    pub(in crate::shard) fn plan(&mut self) {
        let shards = self.shards.len();
        let mut room = TIMES_PER_TURN;
        for step in 0..shards {
            // Each begins in its turn, so that none is always the last.
            let place = (self.planning_turn + step) % shards;
            let Some(shard) = self.shards[place].as_deref() else { continue };
            let has_some = shard.schedules.next_wake().is_some_and(|wake| wake <= self.now);
            if has_some && self.can_plan(shard) {
                let looked_at = self.plan_shard(shard.id, room);
                room = room.saturating_sub(looked_at);
            }
            if room == 0 {
                self.planning_turn = place + 1;
                return;
            }
        }
    }

    fn can_plan(&self, shard: &Shard) -> bool {
        !shard.is_retiring && self.outbox.backlog(shard.id) < BACKLOG_MAX
    }

    /// When planning has something to do. While the store is behind, its answer wakes us.
    pub(in crate::shard) fn next_planned(&self) -> Option<Timestamp> {
        let shards = self.owned().filter(|shard| self.can_plan(shard));
        shards.filter_map(|shard| shard.schedules.next_wake()).min()
    }

    /// Answers how many times were looked at.
    fn plan_shard(&mut self, id: ShardId, room: usize) -> usize {
        let mut schedules = self.take_schedules(id);
        let pushed = schedules.progress.pushed();
        let mut looked_at = 0;
        let reached = loop {
            let Some(next) = schedules.next_due() else { break self.now };
            if next.time() > self.now {
                break self.now;
            }
            if looked_at >= room || self.outbox.backlog(id) >= BACKLOG_MAX {
                break next.time() - INSTANT;
            }
            looked_at += self.step(&mut schedules, next);
        };
        if schedules.progress.pushed() > pushed {
            self.decided_until(&mut schedules, reached);
        }
        self.put_schedules(id, schedules);
        looked_at
    }

    /// One planned time comes up; its slot may be later. Answers how many were looked at.
    fn step(&mut self, schedules: &mut Schedules, next: Due) -> usize {
        match next {
            Due::Slot(slot) => {
                schedules.slots.remove(&slot);
                if schedules.is_current(&slot) {
                    self.slot_came(schedules, slot);
                }
                1
            }
            Due::Timer(at, place) => {
                let Some(entry) = schedules.table.entry(place) else { return 1 };
                if self.is_missed(entry, at, at, self.now) {
                    return self.catch_up(schedules, place);
                }
                if schedules.floors.get(&entry.id).is_some_and(|floor| *floor < at) {
                    schedules.floors.remove(&entry.id);
                }
                let mut times = entry.plan.times_after(at - INSTANT, entry.seed());
                let planned = times.next();
                let following = times.next().map_or(Timestamp::MAX, |planned| planned.at);
                drop(times);
                schedules.table.set_timer(place, following);
                if let Some(planned) = planned.filter(|planned| planned.at == at) {
                    self.arrive(schedules, place, planned);
                }
                1
            }
        }
    }

    /// A planned time has come: it is decided about now, or when its jitter is over.
    pub(super) fn arrive(&mut self, schedules: &mut Schedules, place: Place, planned: Planned) {
        if schedules.is_decided(place, &planned) {
            return;
        }
        let Some(entry) = schedules.table.entry(place) else { return };
        let slot = Slot { planned, place, generation: entry.generation };
        if entry.plan.jitter() == Span::ZERO {
            self.slot_came(schedules, slot);
        } else {
            // Also one that has come: others may have come before it.
            schedules.slots.push(slot);
        }
    }

    fn slot_came(&mut self, schedules: &mut Schedules, slot: Slot) {
        let Slot { planned, place, .. } = slot;
        let Some(entry) = schedules.table.entry(place) else { return };
        if self.is_missed(entry, planned.at, planned.slot, self.now) {
            // All that were missed are decided about together.
            schedules.plan_again(place, planned.slot);
        } else {
            self.decide(schedules, place, planned);
        }
    }

    /// Decides about everything of one schedule that has come, so that what is changed now
    /// concerns only what comes later. False if there is too much of it.
    pub(super) fn plan_up(&mut self, schedules: &mut Schedules, place: Place) -> bool {
        let mut looked_at = 0;
        while looked_at < STEPS_BEFORE_COMMAND {
            let Some(entry) = schedules.table.entry(place) else { return true };
            if entry.next <= self.now {
                let next = entry.next;
                looked_at += self.step(schedules, Due::Timer(next, place));
                continue;
            }
            let now = self.now;
            let came = schedules.take_slots(place, |slot| slot.planned.slot <= now);
            if came.is_empty() {
                return true;
            }
            for slot in came {
                looked_at += 1;
                // One that was missed has all of them planned again.
                if schedules.is_current(&slot) {
                    self.slot_came(schedules, slot);
                }
            }
        }
        false
    }

    /// All that was planned up to `reached` is decided, but for what is not known yet.
    fn decided_until(&self, schedules: &mut Schedules, reached: Timestamp) {
        let runs_ahead = planted!(self.config, WatermarkRunsAhead);
        let ahead = if runs_ahead { self.config.schedule_grace } else { Span::ZERO };
        schedules.progress.reached(reached.min(schedules.open_from()) + ahead);
        schedules.forget_reckonings(schedules.progress.decided);
    }

    /// The definition of a task has changed: what fires from now on follows it.
    pub(in crate::shard) fn schedules_follow_task(&mut self, task: &Arc<Task>) {
        for shard in self.shards.iter_mut().flatten() {
            shard.schedules.table.follow_task(task);
        }
    }

    pub(super) fn take_schedules(&mut self, id: ShardId) -> Schedules {
        self.shard_mut(id).map(|shard| std::mem::take(&mut shard.schedules)).unwrap_or_default()
    }

    pub(super) fn put_schedules(&mut self, id: ShardId, schedules: Schedules) {
        if let Some(shard) = self.shard_mut(id) {
            shard.schedules = schedules;
        }
    }
}

/// What comes next.
#[derive(Clone, Copy)]
enum Due {
    /// A planned time.
    Timer(Timestamp, Place),
    /// The slot of a planned time that has come before.
    Slot(Slot),
}

impl Due {
    fn time(self) -> Timestamp {
        match self {
            Self::Timer(at, _) => at,
            Self::Slot(slot) => slot.planned.slot,
        }
    }
}

impl Schedules {
    fn next_due(&mut self) -> Option<Due> {
        let timer = self.table.next();
        let slot = self.slots.first();
        match (timer, slot) {
            (Some((at, _)), Some(slot)) if slot.planned.slot < at => Some(Due::Slot(slot)),
            (Some((at, place)), _) => Some(Due::Timer(at, place)),
            (None, Some(slot)) => Some(Due::Slot(slot)),
            (None, None) => None,
        }
    }

    /// Whether the time has its verdict already: by a former owner, or by a former definition of the schedule.
    pub(super) fn is_decided(&self, place: Place, planned: &Planned) -> bool {
        let Some(entry) = self.table.entry(place) else { return true };
        let floor = self.floors.get(&entry.id).copied().unwrap_or_default();
        planned.slot <= self.progress.taken_over.max(entry.since).max(floor)
            || self.decided_before.contains(&(entry.id, planned.at))
    }

    /// Plans a schedule again from this slot on; all before it are decided.
    pub(super) fn plan_again(&mut self, place: Place, slot: Timestamp) {
        let Some(entry) = self.table.entry(place) else { return };
        if entry.plan.jitter() > Span::ZERO {
            self.floors.insert(entry.id, slot - INSTANT);
        }
        self.table.plan_from(place, slot - INSTANT);
    }
}
