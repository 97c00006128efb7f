//! Which rules an event is for. What that needs to know is read once for all events and rules of a round.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use punctual_core::notice::{NoticeKind, RuleSpec};
use punctual_core::schedule::ScheduleRow;
use punctual_core::task::Task;
use punctual_core::{ScheduleId, Span, TaskId};

use super::event::{Event, EventKind};
use super::read_schedule_spec;
use super::tolerate::{read_each, unless_away};
use crate::{App, Result};

#[derive(Default)]
pub(super) struct Scene {
    tasks: HashMap<TaskId, Arc<Task>>,
    /// The schedules that rules name.
    schedules: BTreeMap<String, ScheduleId>,
    /// What schedules say themselves of when a run is late.
    late_after: BTreeMap<ScheduleId, Span>,
}

impl Scene {
    pub(super) fn fits(&self, rule: &RuleSpec, event: &Event) -> bool {
        event.kind.is_wanted_by(rule) && self.is_in_scope(rule, event) && self.is_late_enough(rule, event)
    }

    fn is_in_scope(&self, rule: &RuleSpec, event: &Event) -> bool {
        if rule.is_for_all() {
            return true;
        }
        let task = event.task.and_then(|id| self.tasks.get(&id));
        let is_task = || task.and_then(|task| task.name.as_ref()).is_some_and(|name| rule.tasks.contains(name));
        let is_queue = || task.is_some_and(|task| rule.queues.contains(&task.spec.queue));
        let is_schedule = || {
            let schedule = event.planned.map(|(schedule, _)| schedule);
            schedule.is_some() && rule.schedules.iter().any(|name| self.schedules.get(name).copied() == schedule)
        };
        is_task() || is_queue() || is_schedule()
    }

    fn is_late_enough(&self, rule: &RuleSpec, event: &Event) -> bool {
        if event.kind != EventKind::Late {
            return true;
        }
        event.lateness.unwrap_or(Span::ZERO) >= self.own_late_after(event).unwrap_or(rule.late_after)
    }

    /// What its schedule says of when a run is late.
    pub(super) fn own_late_after(&self, event: &Event) -> Option<Span> {
        event.planned.and_then(|(schedule, _)| self.late_after.get(&schedule).copied())
    }
}

impl App {
    pub(super) async fn scene(&self, rules: &[&RuleSpec], events: &[Event]) -> Result<Scene> {
        let mut scene = Scene::default();
        if rules.iter().any(|rule| !rule.tasks.is_empty() || !rule.queues.is_empty()) {
            let ids: BTreeSet<TaskId> = events.iter().filter_map(|event| event.task).collect();
            scene.tasks = self.readable_tasks(ids).await?;
        }
        let names: BTreeSet<String> = rules.iter().flat_map(|rule| rule.schedules.clone()).collect();
        if !names.is_empty() && events.iter().any(|event| event.planned.is_some()) {
            let names = names.into_iter().collect();
            scene.schedules = unless_away(self.0.store.schedule_ids(names).await)?.into_iter().collect();
        }
        if rules.iter().any(|rule| rule.wants(NoticeKind::Late)) {
            let late = events.iter().filter(|event| event.kind == EventKind::Late);
            let ids: BTreeSet<ScheduleId> = late.filter_map(|event| Some(event.planned?.0)).collect();
            let rows = read_each(ids, |id| self.0.store.schedule(id)).await?.into_iter();
            let own = |row: ScheduleRow| read_schedule_spec(&row.edit.spec)?.late_after;
            scene.late_after = rows.filter_map(|(id, row)| Some((id, own(row)?))).collect();
        }
        Ok(scene)
    }
}
