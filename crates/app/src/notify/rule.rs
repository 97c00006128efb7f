//! A rule in one round: what it remembered, and what it remembers after the round.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::namespace::NamespaceId;
use punctual_core::notice::{Channel, NoticeKind, RuleSpec};
use punctual_core::{ScheduleId, Span, Timestamp};
use punctual_store::{RuleRow, RuleUpdate};

use super::cursor::{LateCursor, is_watching};
use super::event::{Event, EventKind};
use super::event_context::EventContext;
use super::index::Index;
use super::planned::OverduePlan;
use super::rules::read_spec;
use super::waiting::RuleState;
use super::watcher::{IndexedSight, WalkSight};
use crate::DECIDED_WITHIN_MIN;

/// How often a cursor is written that nothing else is to be written with.
const CURSOR_WRITTEN_EVERY: Span = Span::from_secs(30);
/// Overdue schedules that a rule remembers having told of; further ones are not told.
pub(super) const OVERDUE_MAX: usize = 200;
/// Schedules that have had one name, one after the other, and whose jobs are still told by it.
const NAMESAKES_MAX: usize = 3;

pub(super) struct Rule {
    pub(super) namespace: NamespaceId,
    pub(super) name: String,
    version: u64,
    pub(super) spec: RuleSpec,
    /// By then a planned time has its verdict, if anybody is there.
    decided_within: Span,
    /// Whether what it remembered could not be read.
    pub(super) has_forgotten: bool,
    /// As it is in the store.
    stored: RuleState,
    /// As this round makes it.
    pub(super) state: RuleState,
}

impl Rule {
    /// `None` if it cannot be read. `known` is the cursor of this server's last round.
    pub(super) fn new(row: RuleRow, known: Option<&LateCursor>, decided_within: Span, now: Timestamp) -> Option<Self> {
        let spec = read_spec(&row)?;
        // State that cannot be read is given up: it may be of a newer version.
        let stored = RuleState::read(row.state.as_deref());
        let has_forgotten = stored.is_none();
        let stored = stored.unwrap_or_default();
        let mut state = stored.clone();
        state.release_if_far(now);
        if !spec.enabled {
            // What waits is dropped; the window goes on.
            state = RuleState { sent_at: state.sent_at, schedules: state.schedules, ..RuleState::default() };
        }
        state.late = is_watching(&spec).then(|| match &stored.late {
            Some(stored) => stored.go_on(known).of_rule(&spec, row.revision, now),
            None => LateCursor::begin(&spec, row.revision, now),
        });
        Some(Self {
            namespace: row.namespace,
            name: row.name,
            version: row.version,
            spec,
            decided_within,
            has_forgotten,
            stored,
            state,
        })
    }

    /// When its next message is to be sent.
    pub(super) fn send_at(&self) -> Option<Timestamp> {
        self.state.send_at(self.spec.window).filter(|_| self.spec.enabled)
    }

    /// For how long nobody may have decided about a planned time; `None` if it does not want to know. Before, its owner
    /// may still run it.
    pub(super) fn overdue_after(&self) -> Option<Span> {
        let wants = |kind| self.spec.enabled && self.spec.wants(kind);
        let missed = wants(NoticeKind::Missed).then_some(self.decided_within);
        // It is late whether it will run or not.
        let late = wants(NoticeKind::Late).then(|| self.spec.late_after.max(DECIDED_WITHIN_MIN));
        missed.into_iter().chain(late).min()
    }

    /// The schedules that it names, and former ones of these names.
    pub(super) fn schedules(&self) -> impl Iterator<Item = ScheduleId> {
        self.state.schedules.values().flatten().copied()
    }

    /// Remembers which schedules have the names that it names. They are not there any more when their last jobs end.
    pub(super) fn know_schedules(&mut self, there: &BTreeMap<(NamespaceId, String), ScheduleId>) {
        let names = &self.spec.schedules;
        self.state.schedules.retain(|name, _| names.contains(name));
        let there = |name: &String| there.get_key_value(&(self.namespace, name.clone()));
        for ((_, name), id) in names.iter().filter_map(there) {
            let known = self.state.schedules.entry(name.clone()).or_default();
            if known.last() == Some(id) {
                continue;
            }
            known.retain(|known| known != id);
            known.push(*id);
            if known.len() > NAMESAKES_MAX {
                known.remove(0);
            }
        }
    }

    pub(super) fn take_noticed(&mut self, index: &Index<'_>, context: &EventContext, now: Timestamp) {
        if !self.spec.enabled {
            return;
        }
        for (_, event) in index.events_for(self) {
            if context.fits(&self.spec, event) && !self.was_told(event, context) {
                self.add(event, now);
            }
        }
    }

    fn add(&mut self, event: &Event, now: Timestamp) {
        match &self.spec.channel {
            Channel::Email { requester: true, .. } => self.state.add_for_requester(event, now),
            _ => self.state.add(event, now),
        }
    }

    /// Whether a job that started late was told while it waited.
    fn was_told(&self, event: &Event, context: &EventContext) -> bool {
        let Some(cursor) = self.state.late.as_ref().filter(|_| event.kind == EventKind::Late) else { return false };
        cursor.was_told(event, self.spec.late_after, context.own_late_after(event))
    }

    pub(super) fn take_sight(&mut self, sight: &IndexedSight<'_>, context: &EventContext, now: Timestamp) {
        if !self.spec.enabled {
            return;
        }
        self.take_late(sight, context, now);
        if let Some((walked, index)) = &sight.walked {
            self.take_overdue(walked, index, context, now);
        }
    }

    fn take_late(&mut self, sight: &IndexedSight<'_>, context: &EventContext, now: Timestamp) {
        let Some(mut cursor) = self.state.late.take() else { return };
        cursor.looked_at = now;
        cursor.forget_unused(now);
        for own in &mut cursor.own {
            let Some((look, index)) = sight.late.get(&own.late_after) else { continue };
            let mut has_told = false;
            for (place, event) in index.events_for(self) {
                let is_new = !own.progress.end().has_passed(look.found[place].0);
                let is_late = context.own_late_after(event) == Some(own.late_after) && context.fits(&self.spec, event);
                if is_new && is_late {
                    self.add(event, now);
                    has_told = true;
                    own.found_at = now;
                }
            }
            own.progress.look(look.end, look.at, has_told);
        }
        if let Some((look, index)) = sight.late.get(&self.spec.late_after) {
            let mut has_told = false;
            for (place, event) in index.events_for(self) {
                let key = look.found[place].0;
                if cursor.progress.end().has_passed(key) {
                    continue;
                }
                match context.own_late_after(event).filter(|own| *own > self.spec.late_after) {
                    Some(longer) => cursor.find(longer, key, now),
                    None if context.fits(&self.spec, event) => {
                        self.add(event, now);
                        has_told = true;
                    }
                    None => {}
                }
            }
            cursor.progress.look(look.end, look.at, has_told);
        }
        self.state.late = Some(cursor);
    }

    /// Each schedule is told of once, until the time that was told has its verdict.
    fn take_overdue(&mut self, walked: &WalkSight, index: &Index<'_>, context: &EventContext, now: Timestamp) {
        let Some(overdue_after) = self.overdue_after() else { return };
        let overdue: BTreeSet<ScheduleId> = walked.overdue.iter().map(|(plan, _)| plan.row.id).collect();
        let is_over = |id: &ScheduleId| walked.seen.contains(id) && !overdue.contains(id);
        self.state.overdue.retain(|id, slot| !is_over(id) && !walked.walk.is_decided(*id, *slot));
        self.state.has_told_of_more &= self.state.overdue.len() >= OVERDUE_MAX;
        for (place, event) in index.events_for(self) {
            let plan = &walked.overdue[place].0;
            let is_told = self.state.overdue.contains_key(&plan.row.id);
            if is_told || now < plan.slot + overdue_after || !context.fits(&self.spec, event) {
                continue;
            }
            if self.state.overdue.len() >= OVERDUE_MAX {
                self.state.tell_of_more_overdue(event, now);
                continue;
            }
            self.state.overdue.insert(plan.row.id, plan.slot);
            self.add(event, now);
        }
    }

    /// What is to be written of it. A cursor alone can wait: what it passed over would be passed over again.
    pub(super) fn update(&self, now: Timestamp) -> Option<RuleUpdate> {
        let is_cursor_new = match (&self.stored.late, &self.state.late) {
            (Some(stored), Some(late)) => {
                let is_other = (stored.revision, &stored.question) != (late.revision, &late.question);
                is_other || now.since(stored.looked_at) >= CURSOR_WRITTEN_EVERY
            }
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
        };
        if !is_cursor_new && self.stored.differs_by_its_cursor_only(&self.state) {
            return None;
        }
        let name = self.name.clone();
        Some(RuleUpdate { namespace: self.namespace, name, version: self.version, state: self.state.write() })
    }
}

pub(super) fn overdue_event(plan: &OverduePlan, now: Timestamp) -> Event {
    Event {
        kind: EventKind::Overdue,
        at: now,
        task: Some(plan.row.task),
        job: None,
        planned: Some((plan.row.id, plan.at)),
        count: 1,
        lateness: Some(now.since(plan.slot)),
        is_waiting: false,
    }
}
