//! The schedules of a shard in memory, and the time of the next planned time of each.
//!
//! A server may hold a million of them, so an entry is small, what few schedules have is boxed, and
//! equal plans are shared.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hash::Hasher;
use std::sync::Arc;

use hashbrown::HashTable;

use crate::id::{ScheduleId, TaskId};
use crate::id_map::IdHasher;
use crate::schedule::{Pause, Plan, Planned, ScheduleState, seed_of};
use crate::shard::event::LoadedSchedule;
use crate::task::{Priority, Task};
use crate::time::Timestamp;

/// Where an entry is. Used again after the schedule is gone.
pub(super) type EntryIndex = u32;

/// Entries of one piece of memory: growing never copies, nor leaves half of it unused.
const CHUNK: usize = 1024;

pub(super) struct ScheduleEntry {
    pub(super) id: ScheduleId,
    pub(super) plan: Arc<Plan>,
    /// The name. Jitter and hashed slots are derived from it, and tasks receive it.
    pub(super) name: Box<str>,
    /// The next planned time, before jitter; `MAX` when there is none.
    pub(super) next: Timestamp,
    pub(super) since: Timestamp,
    /// The latest planned time whose run has succeeded; the epoch if none has.
    last_success: Timestamp,
    rare: Option<Box<RareFields>>,
    pub(super) revision: u32,
    /// The index of the schedule's task among the tasks of the table.
    task: u32,
    /// Tells times that were planned by this definition from earlier ones.
    pub(super) generation: u32,
    pub(super) priority: Option<Priority>,
    pub(super) has_input: bool,
}

/// What most schedules do not have.
#[derive(Default, Clone, PartialEq)]
pub(super) struct RareFields {
    pub(super) pause: Option<Pause>,
    pub(super) skip_until: Option<Timestamp>,
    pub(super) runs: u32,
    pub(super) failures: u16,
}

impl ScheduleEntry {
    fn new(loaded: LoadedSchedule, task: u32) -> Self {
        let LoadedSchedule { id, plan, name, priority, has_input, state, .. } = loaded;
        let ScheduleState { revision, since, pause, skip_until, runs, failures, last_success } = state;
        let mut entry = Self {
            id,
            plan,
            name,
            next: Timestamp::MAX,
            since,
            last_success: last_success.unwrap_or(Timestamp::EPOCH),
            rare: None,
            revision,
            task,
            generation: 0,
            priority,
            has_input,
        };
        entry.change_rare(|rare| *rare = RareFields { pause, skip_until, runs, failures });
        entry
    }

    pub(super) fn state(&self) -> ScheduleState {
        let RareFields { pause, skip_until, runs, failures } = self.rare.as_deref().cloned().unwrap_or_default();
        let last_success = self.last_success();
        ScheduleState { revision: self.revision, since: self.since, pause, skip_until, runs, failures, last_success }
    }

    pub(super) fn seed(&self) -> u64 {
        seed_of(&self.name)
    }

    pub(super) fn last_success(&self) -> Option<Timestamp> {
        (self.last_success > Timestamp::EPOCH).then_some(self.last_success)
    }

    /// The run of a planned time has succeeded.
    pub(super) fn succeeded(&mut self, at: Timestamp) {
        self.last_success = self.last_success.max(at);
    }

    pub(super) fn change_rare(&mut self, change: impl FnOnce(&mut RareFields)) {
        let mut rare = self.rare.take().unwrap_or_default();
        change(&mut rare);
        self.rare = (*rare != RareFields::default()).then_some(rare);
    }

    pub(super) fn is_paused(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.pause.is_some())
    }

    /// What came before a pause, and was not decided yet, is not paused.
    pub(super) fn is_paused_at(&self, slot: Timestamp) -> bool {
        let pause = self.rare.as_ref().and_then(|rare| rare.pause.as_ref());
        pause.is_some_and(|pause| slot > pause.by.at)
    }

    pub(super) fn failures(&self) -> u16 {
        self.rare.as_ref().map_or(0, |rare| rare.failures)
    }

    /// Whether somebody asked to skip a planned time.
    pub(super) fn skips(&self, at: Timestamp) -> bool {
        self.rare.as_ref().and_then(|rare| rare.skip_until).is_some_and(|until| at <= until)
    }

    /// Whether it has run as often as it may.
    pub(super) fn is_used_up(&self) -> bool {
        let runs = self.rare.as_ref().map_or(0, |rare| rare.runs);
        self.plan.spec.max_runs.is_some_and(|max| runs >= max)
    }

    /// The planned times whose slots are after `from`, the earliest planned first.
    pub(super) fn times_from(&self, from: Timestamp) -> impl Iterator<Item = Planned> {
        let jitter = self.plan.jitter();
        let times = self.plan.times_after(from - jitter, self.seed());
        times.filter(move |planned| planned.slot > from)
    }
}

/// All entries, each at its place.
#[derive(Default)]
struct Entries {
    chunks: Vec<Vec<Option<ScheduleEntry>>>,
}

impl Entries {
    fn get(&self, place: EntryIndex) -> Option<&ScheduleEntry> {
        self.chunks.get(place as usize / CHUNK)?.get(place as usize % CHUNK)?.as_ref()
    }

    fn has(&self, place: EntryIndex, id: ScheduleId) -> bool {
        self.get(place).is_some_and(|entry| entry.id == id)
    }

    fn slot(&mut self, place: EntryIndex) -> Option<&mut Option<ScheduleEntry>> {
        self.chunks.get_mut(place as usize / CHUNK)?.get_mut(place as usize % CHUNK)
    }

    fn slots(&self) -> impl Iterator<Item = &Option<ScheduleEntry>> {
        self.chunks.iter().flatten()
    }

    fn add_slot(&mut self) -> EntryIndex {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let chunks = self.chunks.len();
        let last = self.chunks.last_mut().expect("one was just pushed");
        last.push(None);
        ((chunks - 1) * CHUNK + last.len() - 1) as EntryIndex
    }
}

fn hash_of(id: ScheduleId) -> u64 {
    let mut hasher = IdHasher::default();
    hasher.write_u128(id.as_u128());
    hasher.finish()
}

#[derive(Default)]
pub(super) struct ScheduleTable {
    entries: Entries,
    free: Vec<EntryIndex>,
    /// Found by the ids that the entries have: a map would hold each a second time.
    places: HashTable<EntryIndex>,
    /// The next planned time of each, the earliest on top. What does not fit its entry any more is passed over.
    timers: BinaryHeap<Reverse<(Timestamp, EntryIndex)>>,
    generations: u32,
    /// The tasks of all entries, which share them. They are few; a task that no entry uses any more is kept.
    tasks: Vec<Arc<Task>>,
    task_numbers: BTreeMap<TaskId, u32>,
}

impl ScheduleTable {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn place(&self, id: ScheduleId) -> Option<EntryIndex> {
        self.places.find(hash_of(id), |place| self.entries.has(*place, id)).copied()
    }

    pub(super) fn entry(&self, place: EntryIndex) -> Option<&ScheduleEntry> {
        self.entries.get(place)
    }

    pub(super) fn entry_mut(&mut self, place: EntryIndex) -> Option<&mut ScheduleEntry> {
        self.entries.slot(place)?.as_mut()
    }

    pub(super) fn task_of(&self, entry: &ScheduleEntry) -> &Arc<Task> {
        &self.tasks[entry.task as usize]
    }

    /// The number of a task. An older definition than is known is not believed.
    fn task_number(&mut self, task: Arc<Task>) -> u32 {
        if let Some(&number) = self.task_numbers.get(&task.id) {
            self.follow_task(&task);
            return number;
        }
        let number = self.tasks.len() as u32;
        self.task_numbers.insert(task.id, number);
        self.tasks.push(task);
        number
    }

    /// The definition of a task has changed: what fires from now on follows it.
    pub(super) fn follow_task(&mut self, task: &Arc<Task>) {
        if let Some(&number) = self.task_numbers.get(&task.id) {
            let known = &mut self.tasks[number as usize];
            if known.revision <= task.revision {
                *known = Arc::clone(task);
            }
        }
    }

    pub(super) fn set_task(&mut self, place: EntryIndex, task: Arc<Task>) {
        let number = self.task_number(task);
        if let Some(entry) = self.entry_mut(place) {
            entry.task = number;
        }
    }

    /// Takes a schedule in, with its first planned time after `from`.
    pub(super) fn insert(&mut self, loaded: LoadedSchedule, from: Timestamp) -> EntryIndex {
        let task = self.task_number(Arc::clone(&loaded.task));
        let entry = ScheduleEntry::new(loaded, task);
        let hash = hash_of(entry.id);
        let place = self.free.pop().unwrap_or_else(|| self.entries.add_slot());
        *self.entries.slot(place).expect("it is free, or new") = Some(entry);
        let entries = &self.entries;
        self.places.insert_unique(hash, place, |place| entries.get(*place).map_or(0, |entry| hash_of(entry.id)));
        self.plan_from(place, from);
        place
    }

    pub(super) fn remove(&mut self, place: EntryIndex) -> Option<ScheduleEntry> {
        let id = self.entries.get(place)?.id;
        if let Ok(found) = self.places.find_entry(hash_of(id), |other| *other == place) {
            found.remove();
        }
        let entry = self.entries.slot(place)?.take()?;
        self.free.push(place);
        Some(entry)
    }

    /// The definition is new, or the first: what was planned by a former one does not count any more.
    pub(super) fn plan_from(&mut self, place: EntryIndex, from: Timestamp) {
        self.generations = self.generations.wrapping_add(1);
        let generation = self.generations;
        let Some(entry) = self.entry_mut(place) else { return };
        entry.generation = generation;
        let next = entry.times_from(from).next().map_or(Timestamp::MAX, |planned| planned.at);
        self.set_timer(place, next);
    }

    /// Discards everything that was planned for a schedule, until it is planned again.
    pub(super) fn suspend(&mut self, place: EntryIndex) {
        self.generations = self.generations.wrapping_add(1);
        let generation = self.generations;
        if let Some(entry) = self.entry_mut(place) {
            entry.generation = generation;
            entry.next = Timestamp::MAX;
        }
    }

    pub(super) fn set_timer(&mut self, place: EntryIndex, next: Timestamp) {
        let Some(entry) = self.entry_mut(place) else { return };
        entry.next = next;
        if next < Timestamp::MAX {
            self.timers.push(Reverse((next, place)));
        }
        // What was passed over must not outgrow what counts.
        if self.timers.len() > 2 * self.len() + CHUNK {
            self.rebuild_timers();
        }
    }

    fn rebuild_timers(&mut self) {
        let due = |(place, slot): (usize, &Option<ScheduleEntry>)| {
            let entry = slot.as_ref().filter(|entry| entry.next < Timestamp::MAX)?;
            Some(Reverse((entry.next, place as EntryIndex)))
        };
        self.timers = self.entries.slots().enumerate().filter_map(due).collect();
    }

    /// The earliest planned time of all.
    pub(super) fn next(&mut self) -> Option<(Timestamp, EntryIndex)> {
        while let Some(&Reverse((at, place))) = self.timers.peek() {
            if self.entry(place).is_some_and(|entry| entry.next == at) {
                return Some((at, place));
            }
            self.timers.pop();
        }
        None
    }

    /// The next wake-up without tidying up; it may be too early.
    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }
}
