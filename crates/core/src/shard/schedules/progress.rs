//! How far planned times are decided, and how far that is durable.
//!
//! A batch may fail and the next one apply. So nothing that says "all before this is decided" is written before
//! all of that is durable: no watermark, and no new definition of a schedule. And nothing is decided by what is said of
//! a schedule before that is durable.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::id::ScheduleId;
use crate::shard::schedules::decide::VerdictStep;
use crate::shard::schedules::table::EntryIndex;
use crate::shard::schedules::{Planner, Schedules};
use crate::shard::write::{Decision, ScheduleWrite};
use crate::time::{Span, Timestamp};

/// The smallest step of time.
pub(super) const INSTANT: Span = Span::from_micros(1);

#[derive(Default)]
pub(super) struct Progress {
    /// What former owners had decided.
    pub(super) taken_over: Timestamp,
    /// The time up to which everything is decided, durable or not.
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

    /// Records that everything planned up to `at` is decided.
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
    pub(super) fn end_or_stall(&mut self, place: EntryIndex, slot: Timestamp) {
        let Some(id) = self.table.entry(place).map(|entry| entry.id) else { return };
        if self.progress.is_under_way(id) || self.stalled.contains_key(&id) {
            self.stall(place, slot);
        } else {
            self.table.suspend(place);
        }
    }

    /// The schedule goes on at this slot when all verdicts under way are known.
    pub(super) fn stall(&mut self, place: EntryIndex, slot: Timestamp) {
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

    /// The limit of a watermark: times of schedules that are being created or are suspended are not decided.
    pub(super) fn open_from(&self) -> Timestamp {
        let stalled = self.stalled.values().map(|slot| *slot - INSTANT);
        self.adding.values().map(|(since, _)| *since).chain(stalled).min().unwrap_or(Timestamp::MAX)
    }
}

impl Planner<'_> {
    /// A first verdict. No time gets two of them from one owner.
    pub(super) fn push_verdict(&mut self, decision: Box<Decision>) {
        self.schedules.progress.pushed += 1;
        if decision.occurrence.slot <= self.schedules.taken_at {
            self.schedules.progress.in_doubt.insert(decision.occurrence.schedule);
        }
        self.schedules.progress.begin(decision.occurrence.schedule);
        self.push(ScheduleWrite::Decide(decision));
    }

    /// The last verdict on a time that was queued.
    pub(super) fn push_release(&mut self, decision: Box<Decision>) {
        self.schedules.progress.begin(decision.occurrence.schedule);
        self.push(ScheduleWrite::Release(decision));
    }

    /// What is said of a schedule counts for what comes after `since`, up to where all is decided; nothing of that is
    /// decided before it is durable. `None` if the schedule is behind: then it goes on.
    pub(super) fn push_change(&mut self, place: EntryIndex, since: Option<Timestamp>, write: ScheduleWrite) {
        if let Some(entry) = self.schedules.table.entry(place) {
            self.schedules.progress.begin(entry.id);
        }
        if let Some(since) = since {
            self.schedules.stall(place, since + INSTANT);
        }
        self.push(write);
    }

    /// A verdict is durable, or was given before.
    pub(super) fn verdict_settled(&mut self, id: ScheduleId, step: VerdictStep) {
        self.schedules.progress.durable += u64::from(step == VerdictStep::First);
        self.one_settled(id);
    }

    /// Records that a requested change is durable.
    pub(super) fn change_settled(&mut self, id: ScheduleId) {
        self.answer(id);
        self.one_settled(id);
    }

    fn one_settled(&mut self, id: ScheduleId) {
        let is_last = self.schedules.progress.settled(id);
        if is_last {
            self.schedules.go_on(id);
            self.edit_settled(id);
        }
        self.write_watermark();
        if is_last {
            self.resume_deferred(id);
            self.resume_released(id);
        }
    }

    /// Handles calendar changes that a schedule missed while an edit was pending.
    fn edit_settled(&mut self, id: ScheduleId) {
        let Some(calendars) = self.schedules.editing.remove(&id) else { return };
        let entry = self.schedules.table.place(id).and_then(|place| self.schedules.table.entry(place));
        self.calendars.planned_by(calendars, entry.map(|entry| &entry.plan));
    }

    /// A deletion is durable: what waits does not run any more.
    pub(super) fn dropped(&mut self, id: ScheduleId) {
        self.answer(id);
        self.resume_released(id);
    }

    /// What was to start meanwhile waited for what was under way.
    fn resume_released(&mut self, id: ScheduleId) {
        if self.schedules.tracks.contains_key(&id) {
            self.release_next(id);
        }
    }

    fn write_watermark(&mut self) {
        let progress = &mut self.schedules.progress;
        if progress.is_writing {
            return;
        }
        if let Some(at) = progress.watermark() {
            progress.is_writing = true;
            self.push(ScheduleWrite::Watermark { shard: self.shard, at });
        }
    }

    pub(super) fn watermark_written(&mut self) {
        self.schedules.progress.is_writing = false;
        self.write_watermark();
    }
}
