//! Planned times that wait out their jitter.

use std::collections::{BTreeMap, BTreeSet};

use crate::schedule::Planned;
use crate::shard::schedules::Schedules;
use crate::shard::schedules::table::EntryIndex;
use crate::time::{Span, Timestamp};

/// A planned time that waits for its jitter to pass.
#[derive(Clone, Copy)]
pub(super) struct DelayedTime {
    pub(super) planned: Planned,
    pub(super) place: EntryIndex,
    /// Which definition of the schedule planned it.
    pub(super) generation: u32,
}

/// The delayed times of all schedules, in order of their slots and by schedule. All schedules of a shard may wait at
/// once, and each can be paused.
#[derive(Default)]
pub(super) struct DelayedTimes {
    waiting: BTreeMap<(Moment, EntryIndex, u32), Planned>,
    by_place: BTreeSet<(EntryIndex, Moment, u32)>,
}

/// The slot and the time before jitter.
type Moment = (Timestamp, Timestamp);

impl DelayedTimes {
    pub(super) fn push(&mut self, slot: DelayedTime) {
        let moment = (slot.planned.slot, slot.planned.at);
        self.waiting.insert((moment, slot.place, slot.generation), slot.planned);
        self.by_place.insert((slot.place, moment, slot.generation));
    }

    pub(super) fn first(&self) -> Option<DelayedTime> {
        let ((_, place, generation), planned) = self.waiting.first_key_value()?;
        Some(DelayedTime { planned: *planned, place: *place, generation: *generation })
    }

    pub(super) fn remove(&mut self, slot: &DelayedTime) {
        let moment = (slot.planned.slot, slot.planned.at);
        self.waiting.remove(&(moment, slot.place, slot.generation));
        self.by_place.remove(&(slot.place, moment, slot.generation));
    }

    /// The delayed times of one schedule, the earliest first.
    fn of(&self, place: EntryIndex) -> impl Iterator<Item = DelayedTime> {
        let (first, last) = ((Timestamp::EPOCH, Timestamp::EPOCH), (Timestamp::MAX, Timestamp::MAX));
        self.by_place.range((place, first, 0)..=(place, last, u32::MAX)).filter_map(|(place, moment, generation)| {
            let planned = *self.waiting.get(&(*moment, *place, *generation))?;
            Some(DelayedTime { planned, place: *place, generation: *generation })
        })
    }
}

impl Schedules {
    pub(super) fn is_current(&self, slot: &DelayedTime) -> bool {
        self.table.entry(slot.place).is_some_and(|entry| entry.generation == slot.generation)
    }

    /// Takes out the times of a schedule that wait out their jitter, the earliest first.
    pub(super) fn take_slots(
        &mut self,
        place: EntryIndex,
        is_wanted: impl Fn(&DelayedTime) -> bool,
    ) -> Vec<DelayedTime> {
        if self.table.entry(place).is_none_or(|entry| entry.plan.jitter() == Span::ZERO) {
            return Vec::new();
        }
        let mut wanted: Vec<DelayedTime> = self.slots.of(place).filter(is_wanted).collect();
        for slot in &wanted {
            self.slots.remove(slot);
        }
        wanted.retain(|slot| self.is_current(slot));
        wanted
    }
}
