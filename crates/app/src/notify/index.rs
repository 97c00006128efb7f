//! Events by what rules name. A round may have thousands of events and a thousand rules: each rule looks up what it names,
//! and passes by all the rest.

use std::collections::HashMap;

use punctual_core::ScheduleId;

use super::event::Event;
use super::event_context::EventContext;
use super::rule::Rule;

pub(super) struct Index<'a> {
    context: &'a EventContext,
    events: Vec<&'a Event>,
    /// Places in `events`, in order.
    tasks: HashMap<&'a str, Vec<usize>>,
    queues: HashMap<&'a str, Vec<usize>>,
    schedules: HashMap<ScheduleId, Vec<usize>>,
}

impl<'a> Index<'a> {
    pub(super) fn new(events: impl Iterator<Item = &'a Event>, context: &'a EventContext) -> Self {
        let mut index = Self {
            context,
            events: events.collect(),
            tasks: HashMap::new(),
            queues: HashMap::new(),
            schedules: HashMap::new(),
        };
        for (place, event) in index.events.iter().enumerate() {
            if let Some(task) = context.task_of(event) {
                index.queues.entry(&task.spec.queue).or_default().push(place);
                if let Some(name) = &task.name {
                    index.tasks.entry(name).or_default().push(place);
                }
            }
            if let Some((schedule, _)) = event.planned {
                index.schedules.entry(schedule).or_default().push(place);
            }
        }
        index
    }

    /// Those of its namespace that a rule is about, in order, with their places.
    pub(super) fn events_for(&self, rule: &Rule) -> Vec<(usize, &'a Event)> {
        let is_own = |event: &Event| self.context.is_of(rule.namespace, event);
        if rule.spec.is_for_all() {
            return self.events.iter().copied().enumerate().filter(|(_, event)| is_own(event)).collect();
        }
        let tasks = rule.spec.tasks.iter().filter_map(|name| self.tasks.get(name.as_str()));
        let queues = rule.spec.queues.iter().filter_map(|name| self.queues.get(name.as_str()));
        let schedules = rule.schedules().filter_map(|id| self.schedules.get(&id));
        let mut places: Vec<usize> = tasks.chain(queues).chain(schedules).flatten().copied().collect();
        places.sort_unstable();
        places.dedup();
        places.into_iter().map(|place| (place, self.events[place])).filter(|(_, event)| is_own(event)).collect()
    }
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
