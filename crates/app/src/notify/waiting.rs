//! What waits to be sent by one rule, and when that is. Events and times come in; nothing is read or sent here.
//!
//! The first event after a quiet time is sent a moment later, so that the begin of a storm is in the message. Then
//! nothing is sent for the rule's window, and then one message with all that came meanwhile.

use std::collections::BTreeMap;

use punctual_core::{ScheduleId, Span, TaskId, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};

use super::cursor::LateCursor;
use super::event::{Counts, Event, EventKind};

/// Events that a message shows one by one.
pub(super) const SAMPLES_MAX: usize = 20;
/// Of one task, schedule and kind: others are like them.
const SAMPLES_ALIKE_MAX: usize = 3;
/// Tasks whose events are counted by themselves; those of further ones are counted together.
pub(super) const TASKS_MAX: usize = 200;
/// Schedules whose planned times are counted by themselves; those of further ones are counted together.
pub(super) const SCHEDULES_MAX: usize = 200;
/// Events of one message whose requesters are told.
const FOR_REQUESTERS_MAX: usize = 500;
/// How long after it was found that earlier messages have not been sent it is looked again.
const HELD_FOR: Span = Span::from_secs(30);
/// From the first event to the message.
const GATHERED_FOR: Span = Span::from_secs(1);

/// What a rule remembers; stored as JSON.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RuleState {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waiting: Option<Waiting>,
    /// When the last message was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sent_at: Option<Timestamp>,
    /// Up to where jobs that wait too long were looked for. One that cannot be read is of another version, and costs
    /// no more than itself.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "read_if_possible")]
    pub(super) late: Option<LateCursor>,
    /// Schedules of which an overdue time was told, with its slot.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) overdue: BTreeMap<ScheduleId, Timestamp>,
    /// Those that the rule names, as far as there ever were such, the latest last: their jobs may outlive them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) schedules: BTreeMap<String, Vec<ScheduleId>>,
    /// Until then nothing is sent: earlier messages have not been.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) held_until: Option<Timestamp>,
    /// That more schedules are overdue than `overdue` has room for was told.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_told_of_more: bool,
}

fn read_if_possible<'de, D: Deserializer<'de>>(input: D) -> Result<Option<LateCursor>, D::Error> {
    let value = serde_json::Value::deserialize(input)?;
    Ok(serde_json::from_value(value).ok())
}

/// What the next message is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Waiting {
    /// When the first event was, as far as that is not long ago.
    begun_at: Timestamp,
    pub(super) first_at: Timestamp,
    pub(super) last_at: Timestamp,
    pub(super) counts: Counts,
    /// By task; `None` where it is not known.
    #[serde(with = "pairs")]
    pub(super) tasks: BTreeMap<Option<TaskId>, Counts>,
    /// Of all further tasks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) others: Counts,
    /// Of planned times, by schedule.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) schedules: BTreeMap<ScheduleId, Counts>,
    /// There are further schedules.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) has_more_schedules: bool,
    pub(super) samples: Vec<Event>,
    /// Those whose requesters are told: the first so many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) for_requesters: Vec<Event>,
    /// While the samples are what they are, no event of this kind, or of one that is less important, is shown. In a storm
    /// that saves a comparison of all with all for each event and rule.
    #[serde(skip)]
    full_for: Option<EventKind>,
    /// There are more overdue schedules than are counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_more_overdue: bool,
}

impl RuleState {
    /// `None` if it cannot be read.
    pub(super) fn read(json: Option<&str>) -> Option<Self> {
        json.map_or(Some(Self::default()), |json| serde_json::from_str(json).ok())
    }

    pub(super) fn write(&self) -> Option<String> {
        (*self != Self::default()).then(|| serde_json::to_string(self).expect("a state is JSON"))
    }

    pub(super) fn differs_by_its_cursor_only(&self, other: &Self) -> bool {
        Self { late: other.late.clone(), ..self.clone() } == *other
    }

    pub(super) fn add(&mut self, event: &Event, now: Timestamp) {
        let waiting = self.waiting.get_or_insert_with(|| Waiting::new(event, now));
        waiting.add(event);
    }

    /// The same, for a rule that tells requesters.
    pub(super) fn add_for_requester(&mut self, event: &Event, now: Timestamp) {
        self.add(event, now);
        if let Some(waiting) = self.waiting.as_mut().filter(|waiting| waiting.for_requesters.len() < FOR_REQUESTERS_MAX)
        {
            waiting.for_requesters.push(event.clone());
        }
    }

    /// Further schedules are overdue than can be told one by one.
    pub(super) fn tell_of_more_overdue(&mut self, event: &Event, now: Timestamp) {
        if self.waiting.is_none() && !self.has_told_of_more {
            self.add(event, now);
        }
        if let Some(waiting) = &mut self.waiting {
            (waiting.is_more_overdue, self.has_told_of_more) = (true, true);
        }
    }

    /// When what waits is to be sent.
    pub(super) fn send_at(&self, window: Span) -> Option<Timestamp> {
        let waiting = self.waiting.as_ref()?;
        let gathered = waiting.begun_at + GATHERED_FOR;
        // A clock that went back must not keep a message for longer than the window.
        let after_window = self.sent_at.map(|sent_at| sent_at.min(gathered) + window);
        let send_at = after_window.map_or(gathered, |after_window| gathered.max(after_window));
        Some(self.held_until.map_or(send_at, |held_until| send_at.max(held_until)))
    }

    /// Takes out what is to be sent by now.
    pub(super) fn take_due(&mut self, window: Span, now: Timestamp) -> Option<Waiting> {
        self.send_at(window).filter(|send_at| *send_at <= now)?;
        self.sent_at = Some(now);
        self.held_until = None;
        self.waiting.take()
    }

    /// Earlier messages have not been sent: what waits is kept, and what comes is merged into it.
    pub(super) fn hold(&mut self, now: Timestamp) {
        self.held_until = Some(now + HELD_FOR);
    }

    /// A clock that went back must not hold a message for longer than it was meant to.
    pub(super) fn release_if_far(&mut self, now: Timestamp) {
        self.held_until = self.held_until.filter(|held_until| *held_until <= now + HELD_FOR);
    }
}

impl Waiting {
    fn new(event: &Event, now: Timestamp) -> Self {
        Self {
            begun_at: event.at.min(now).max(now - GATHERED_FOR),
            first_at: event.at,
            last_at: event.at,
            counts: Counts::new(),
            tasks: BTreeMap::new(),
            others: Counts::new(),
            schedules: BTreeMap::new(),
            has_more_schedules: false,
            samples: Vec::new(),
            for_requesters: Vec::new(),
            full_for: None,
            is_more_overdue: false,
        }
    }

    /// How many jobs and planned times.
    pub(super) fn events(&self) -> u64 {
        self.counts.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    fn add(&mut self, event: &Event) {
        self.first_at = self.first_at.min(event.at);
        self.last_at = self.last_at.max(event.at);
        count(&mut self.counts, event);
        let is_counted = self.tasks.len() < TASKS_MAX || self.tasks.contains_key(&event.task);
        let counts = if is_counted { self.tasks.entry(event.task).or_default() } else { &mut self.others };
        count(counts, event);
        if let Some((schedule, _)) = event.planned {
            self.add_to_schedule(schedule, event);
        }
        self.show(event);
    }

    fn add_to_schedule(&mut self, schedule: ScheduleId, event: &Event) {
        if self.schedules.len() < SCHEDULES_MAX || self.schedules.contains_key(&schedule) {
            count(self.schedules.entry(schedule).or_default(), event);
        } else {
            self.has_more_schedules = true;
        }
    }

    /// Keeps it as a sample, if there are not enough like it.
    fn show(&mut self, event: &Event) {
        if self.full_for.is_some_and(|kind| event.kind >= kind) {
            return;
        }
        let is_alike = |sample: &&Event| subject(sample) == subject(event) && sample.kind == event.kind;
        let alike = self.samples.iter().filter(is_alike).count();
        if alike >= SAMPLES_ALIKE_MAX {
            return;
        }
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push(event.clone());
            return;
        }
        if let Some(place) = self.dispensable(event) {
            self.samples[place] = event.clone();
            self.full_for = None;
        } else if self.is_first_of_its_subject(event) {
            // Then no other of its kind finds a place either.
            self.full_for = Some(event.kind);
        }
    }

    /// A sample that tells less than this event: one of a less important kind; or one of a task or schedule that has
    /// several, if this is the first of its own.
    fn dispensable(&self, event: &Event) -> Option<usize> {
        let of_subject = |of: &Event| self.samples.iter().filter(|sample| subject(sample) == subject(of)).count();
        let is_first = self.is_first_of_its_subject(event);
        let gives_way = |sample: &Event| {
            sample.kind > event.kind || (is_first && sample.kind == event.kind && of_subject(sample) > 1)
        };
        let places = self.samples.iter().enumerate().filter(|(_, sample)| gives_way(sample));
        places.max_by_key(|(_, sample)| (sample.kind, of_subject(sample))).map(|(place, _)| place)
    }

    fn is_first_of_its_subject(&self, event: &Event) -> bool {
        self.samples.iter().all(|sample| subject(sample) != subject(event))
    }
}

/// What an event is about: people know schedules of one task apart.
fn subject(event: &Event) -> (Option<TaskId>, Option<ScheduleId>) {
    (event.task, event.planned.map(|(schedule, _)| schedule))
}

fn count(counts: &mut Counts, event: &Event) {
    let sum: &mut u64 = counts.entry(event.kind).or_default();
    *sum = sum.saturating_add(u64::from(event.count));
}

/// The kinds that there are, the most important first, with how many.
pub(super) fn in_order(counts: &Counts) -> impl Iterator<Item = (EventKind, u64)> {
    EventKind::ALL.into_iter().filter_map(|kind| Some((kind, counts.get(&kind).copied()?)))
}

/// A map whose keys are no texts, as JSON: a list of pairs.
mod pairs {
    use std::collections::BTreeMap;

    use punctual_core::TaskId;
    use serde::{Deserialize, Deserializer, Serializer};

    use super::Counts;

    type Tasks = BTreeMap<Option<TaskId>, Counts>;

    pub(super) fn serialize<S: Serializer>(tasks: &Tasks, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(tasks)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Tasks, D::Error> {
        Ok(Vec::<(Option<TaskId>, Counts)>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
#[path = "waiting_tests.rs"]
mod tests;
