//! Which rules an event is for. What that needs to know is read once for all events and rules of a round.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use punctual_core::notice::{NoticeKind, RuleSpec};
use punctual_core::schedule::ScheduleRow;
use punctual_core::task::Task;
use punctual_core::{NamespaceId, ScheduleId, Span, TaskId};

use super::event::{Event, EventKind};
use super::outages::{read_each, skip_unreadable};
use super::read_schedule_spec;
use crate::{App, Result};

#[derive(Default)]
pub(super) struct EventContext {
    tasks: HashMap<TaskId, Arc<Task>>,
    /// What schedules say themselves of when a run is late.
    late_after: BTreeMap<ScheduleId, Span>,
}

impl EventContext {
    #[cfg(test)]
    pub(super) fn of_tasks(tasks: Vec<Task>) -> Self {
        Self { tasks: tasks.into_iter().map(|task| (task.id, Arc::new(task))).collect(), ..Self::default() }
    }

    /// Whether a rule tells of an event that is about something that it names.
    pub(super) fn fits(&self, rule: &RuleSpec, event: &Event) -> bool {
        event.kind.is_wanted_by(rule) && self.is_late_enough(rule, event)
    }

    pub(super) fn task_of(&self, event: &Event) -> Option<&Task> {
        event.task.and_then(|id| self.tasks.get(&id)).map(|task| &**task)
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
    pub(super) async fn event_context(&self, rules: &[&RuleSpec], events: &[Event]) -> Result<EventContext> {
        let mut context = EventContext::default();
        if rules.iter().any(|rule| !rule.tasks.is_empty() || !rule.queues.is_empty()) {
            let ids: BTreeSet<TaskId> = events.iter().filter_map(|event| event.task).collect();
            context.tasks = self.readable_tasks(ids).await?;
        }
        if rules.iter().any(|rule| rule.wants(NoticeKind::Late)) {
            let late = events.iter().filter(|event| event.kind == EventKind::Late);
            let ids: BTreeSet<ScheduleId> = late.filter_map(|event| Some(event.planned?.0)).collect();
            let rows = read_each(ids, |id| self.0.store.schedule(id)).await?.into_iter();
            let own = |row: ScheduleRow| read_schedule_spec(&row.edit.spec)?.late_after;
            context.late_after = rows.filter_map(|(id, row)| Some((id, own(row)?))).collect();
        }
        Ok(context)
    }

    /// The schedules that rules name, as far as they are there.
    pub(super) async fn named_schedules(&self, rules: &[&RuleSpec]) -> Result<BTreeMap<String, ScheduleId>> {
        let names: BTreeSet<&String> = rules.iter().flat_map(|rule| &rule.schedules).collect();
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let names = names.into_iter().cloned().collect();
        Ok(skip_unreadable(self.0.store.schedule_ids(NamespaceId::DEFAULT, names).await)?.into_iter().collect())
    }
}
