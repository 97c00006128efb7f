//! How far planned times are decided, and how far that is durable.
//!
//! A batch may fail and the next one apply. So nothing that says "all before this is decided" is written before
//! all of that is durable: no watermark, and no new definition of a schedule. And nothing is decided by what is said of
//! a schedule before that is durable.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::id::{ScheduleId, ShardId};
use crate::shard::Owner;
use crate::shard::schedules::Schedules;
use crate::shard::schedules::decide::Step;
use crate::shard::schedules::table::Place;
use crate::shard::write::{Decision, ScheduleWrite};
use crate::time::{Span, Timestamp};

/// The smallest step of time.
pub(super) const INSTANT: Span = Span::from_micros(1);

#[derive(Default)]
pub(super) struct Progress {
    /// What former owners had decided.
    pub(super) taken_over: Timestamp,
    /// What is decided, durable or not.
    pub(super) decided: Timestamp,
    /// The watermark that was written last.
    written: Timestamp,
    is_writing: bool,
    /// First verdicts that were pushed, and how many of them are durable.
    pushed: u64,
    durable: u64,
    /// Up to where everything is decided once so many verdicts are durable.
    rounds: VecDeque<(u64, Timestamp)>,
    /// Verdicts and changes under way of each schedule.
    under_way: BTreeMap<ScheduleId, u32>,
    /// Schedules with verdicts under way that a former owner may have given before.
    in_doubt: BTreeSet<ScheduleId>,
}

impl Progress {
    pub(super) fn new(taken_over: Timestamp) -> Self {
        Self { taken_over, decided: taken_over, written: taken_over, ..Self::default() }
    }

    /// All that was planned up to `at` is decided.
    pub(super) fn reached(&mut self, at: Timestamp) {
        if at > self.decided {
            self.decided = at;
            self.rounds.push_back((self.pushed, at));
        }
    }

    pub(super) fn is_under_way(&self, id: ScheduleId) -> bool {
        self.under_way.contains_key(&id)
    }

    /// Whether a run that was decided about may turn out not to exist.
    pub(super) fn is_in_doubt(&self, id: ScheduleId) -> bool {
        self.in_doubt.contains(&id)
    }

    pub(super) fn pushed(&self) -> u64 {
        self.pushed
    }

    fn begin(&mut self, id: ScheduleId) {
        *self.under_way.entry(id).or_default() += 1;
    }

    /// A verdict or a change is durable. True when it was the last one under way of its schedule.
    fn settled(&mut self, id: ScheduleId) -> bool {
        let Some(count) = self.under_way.get_mut(&id) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            self.under_way.remove(&id);
            self.in_doubt.remove(&id);
        }
        is_last
    }

    /// The watermark that may be written now.
    fn watermark(&mut self) -> Option<Timestamp> {
        let mut reached = None;
        while let Some(&(_, at)) = self.rounds.front().filter(|(pushed, _)| *pushed <= self.durable) {
            self.rounds.pop_front();
            reached = Some(at);
        }
        let newest = reached.filter(|at| *at > self.written)?;
        self.written = newest;
        Some(newest)
    }
}

impl Schedules {
    /// A schedule has run as often as it may. If a run of those turns out not to exist, it goes on at this slot.
    pub(super) fn end_or_stall(&mut self, place: Place, slot: Timestamp) {
        let Some(id) = self.table.entry(place).map(|entry| entry.id) else { return };
        if self.progress.is_under_way(id) || self.stalled.contains_key(&id) {
            self.stall(place, slot);
        } else {
            self.table.suspend(place);
        }
    }

    /// The schedule goes on at this slot when all verdicts under way are known.
    pub(super) fn stall(&mut self, place: Place, slot: Timestamp) {
        let Some(id) = self.table.entry(place).map(|entry| entry.id) else { return };
        self.table.suspend(place);
        let first = self.stalled.entry(id).or_insert(slot);
        *first = slot.min(*first);
    }

    fn go_on(&mut self, id: ScheduleId) {
        if let (Some(slot), Some(place)) = (self.stalled.remove(&id), self.table.place(id)) {
            self.plan_again(place, slot);
        }
    }

    /// Up to where a watermark can be: what is being created, or waits to go on, is not decided about.
    pub(super) fn open_from(&self) -> Timestamp {
        let stalled = self.stalled.values().map(|slot| *slot - INSTANT);
        self.adding.values().map(|(since, _)| *since).chain(stalled).min().unwrap_or(Timestamp::MAX)
    }
}

impl Owner {
    /// A first verdict. No time gets two of them from one owner.
    pub(super) fn push_verdict(&mut self, schedules: &mut Schedules, decision: Box<Decision>) {
        schedules.progress.pushed += 1;
        if decision.occurrence.slot <= schedules.taken_at {
            schedules.progress.in_doubt.insert(decision.occurrence.schedule);
        }
        schedules.progress.begin(decision.occurrence.schedule);
        self.push(ScheduleWrite::Decide(decision));
    }

    /// The last verdict on a time that was queued.
    pub(super) fn push_release(&mut self, schedules: &mut Schedules, decision: Box<Decision>) {
        schedules.progress.begin(decision.occurrence.schedule);
        self.push(ScheduleWrite::Release(decision));
    }

    /// What is said of a schedule counts for what comes after `since`, up to where all is decided; nothing of that is
    /// decided before it is durable. `None` if the schedule is behind: then it goes on.
    pub(super) fn push_change(
        &mut self,
        schedules: &mut Schedules,
        place: Place,
        since: Option<Timestamp>,
        write: ScheduleWrite,
    ) {
        if let Some(entry) = schedules.table.entry(place) {
            schedules.progress.begin(entry.id);
        }
        if let Some(since) = since {
            schedules.stall(place, since + INSTANT);
        }
        self.push(write);
    }

    /// A verdict is durable, or was given before.
    pub(super) fn verdict_settled(&mut self, id: ScheduleId, step: Step) {
        let Some(shard) = self.shard_mut(id.shard()) else { return };
        shard.schedules.progress.durable += u64::from(step == Step::First);
        self.one_settled(id);
    }

    /// What somebody asked for is durable.
    pub(in crate::shard) fn change_settled(&mut self, id: ScheduleId) {
        self.answer_schedule(id);
        self.one_settled(id);
    }

    fn one_settled(&mut self, id: ScheduleId) {
        let Some(shard) = self.shard_mut(id.shard()) else { return };
        let is_last = shard.schedules.progress.settled(id);
        if is_last {
            shard.schedules.go_on(id);
            self.edit_settled(id);
        }
        self.write_watermark(id.shard());
        if is_last {
            self.resume_deferred(id);
            self.resume_released(id);
        }
    }

    /// Calendars may have changed while an edit was on its way, and nobody could be told.
    fn edit_settled(&mut self, id: ScheduleId) {
        let Some(schedules) = self.shard_mut(id.shard()).map(|shard| &mut shard.schedules) else { return };
        let Some(calendars) = schedules.editing.remove(&id) else { return };
        let entry = schedules.table.place(id).and_then(|place| schedules.table.entry(place));
        let plan = entry.map(|entry| Arc::clone(&entry.plan));
        self.planned_by(calendars, &plan);
    }

    /// A deletion is durable: what waits does not run any more.
    pub(in crate::shard) fn schedule_dropped(&mut self, id: ScheduleId) {
        self.answer_schedule(id);
        self.resume_released(id);
    }

    /// What was to start meanwhile waited for what was under way.
    fn resume_released(&mut self, id: ScheduleId) {
        if self.shard(id.shard()).is_some_and(|shard| shard.schedules.tracks.contains_key(&id)) {
            let mut schedules = self.take_schedules(id.shard());
            self.release_next(&mut schedules, id);
            self.put_schedules(id.shard(), schedules);
        }
    }

    fn write_watermark(&mut self, id: ShardId) {
        let Some(shard) = self.shard_mut(id) else { return };
        let progress = &mut shard.schedules.progress;
        if progress.is_writing {
            return;
        }
        if let Some(at) = progress.watermark() {
            progress.is_writing = true;
            self.push(ScheduleWrite::Watermark { shard: id, at });
        }
    }

    pub(in crate::shard) fn watermark_written(&mut self, id: ShardId) {
        if let Some(shard) = self.shard_mut(id) {
            shard.schedules.progress.is_writing = false;
        }
        self.write_watermark(id);
    }
}
