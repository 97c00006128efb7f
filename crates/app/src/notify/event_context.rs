//! Which rules an event is for. What that needs to know is read once for all events and rules of a round.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use punctual_core::namespace::NamespaceId;
use punctual_core::notice::{NoticeKind, RuleSpec};
use punctual_core::schedule::ScheduleRow;
use punctual_core::task::Task;
use punctual_core::{ScheduleId, Span, TaskId};

use super::event::{Event, EventKind};
use super::outages::{read_each, skip_unreadable};
use super::read_schedule_spec;
use super::rule::Rule;
use crate::{App, Result};

#[derive(Default)]
pub(super) struct EventContext {
    tasks: HashMap<TaskId, Arc<Task>>,
    /// What schedules say themselves of when a run is late.
    late_after: BTreeMap<ScheduleId, Span>,
    /// Those of the schedules of events whose task is not known. `None`: there is one namespace, and nobody needs to know.
    of_schedules: Option<BTreeMap<ScheduleId, NamespaceId>>,
}

impl EventContext {
    #[cfg(test)]
    pub(super) fn of_tasks(tasks: Vec<Task>) -> Self {
        Self { tasks: tasks.into_iter().map(|task| (task.id, Arc::new(task))).collect(), ..Self::default() }
    }

    #[cfg(test)]
    pub(super) fn in_namespaces(tasks: Vec<Task>, of_schedules: BTreeMap<ScheduleId, NamespaceId>) -> Self {
        Self { of_schedules: Some(of_schedules), ..Self::of_tasks(tasks) }
    }

    /// Whether a rule tells of an event that is about something that it names.
    pub(super) fn fits(&self, rule: &RuleSpec, event: &Event) -> bool {
        event.kind.is_wanted_by(rule) && self.is_late_enough(rule, event)
    }

    /// Whether an event is of a namespace. One of which nobody knows that is told to nobody.
    pub(super) fn is_of(&self, namespace: NamespaceId, event: &Event) -> bool {
        let Some(of_schedules) = &self.of_schedules else { return true };
        let of_schedule = || of_schedules.get(&event.planned?.0).copied();
        self.task_of(event).map(|task| task.namespace).or_else(of_schedule) == Some(namespace)
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
        let is_single = self.has_one_namespace().await?;
        if !is_single || rules.iter().any(|rule| !rule.tasks.is_empty() || !rule.queues.is_empty()) {
            let ids: BTreeSet<TaskId> = events.iter().filter_map(|event| event.task).collect();
            context.tasks = self.readable_tasks(ids).await?;
        }
        if !is_single {
            let unknown = events.iter().filter(|event| context.task_of(event).is_none());
            let ids: BTreeSet<ScheduleId> = unknown.filter_map(|event| Some(event.planned?.0)).collect();
            let rows = read_each(ids, |id| self.0.store.schedule(id)).await?.into_iter();
            context.of_schedules = Some(rows.map(|(id, row)| (id, row.namespace)).collect());
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
    pub(super) async fn named_schedules(&self, rules: &[Rule]) -> Result<BTreeMap<(NamespaceId, String), ScheduleId>> {
        let mut names: BTreeMap<NamespaceId, BTreeSet<&String>> = BTreeMap::new();
        for rule in rules.iter().filter(|rule| !rule.spec.schedules.is_empty()) {
            names.entry(rule.namespace).or_default().extend(&rule.spec.schedules);
        }
        let mut there = BTreeMap::new();
        for (namespace, names) in names {
            let names = names.into_iter().cloned().collect();
            let found = skip_unreadable(self.0.store.schedule_ids(namespace, names).await)?;
            there.extend(found.into_iter().map(|(name, id)| ((namespace, name), id)));
        }
        Ok(there)
    }
}
