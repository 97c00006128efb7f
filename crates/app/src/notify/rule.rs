//! A rule in one round: what it remembered, and what it remembers after the round.

use std::collections::BTreeSet;

use punctual_core::notice::RuleSpec;
use punctual_core::{ScheduleId, Span, Timestamp};
use punctual_store::{RuleRow, RuleUpdate};

use super::event::{Event, EventKind};
use super::late::{LateCursor, is_watching};
use super::planned::{OverduePlan, Walk, Walked};
use super::rules::read_spec;
use super::scene::Scene;
use super::waiting::RuleState;
use super::watcher::Sight;

/// How often a cursor is written that nothing else is to be written with.
const CURSOR_WRITTEN_EVERY: Span = Span::from_secs(30);
/// Overdue schedules that a rule remembers having told of; further ones are not told.
pub(super) const OVERDUE_MAX: usize = 200;

pub(super) struct Rule {
    pub(super) name: String,
    version: u64,
    pub(super) spec: RuleSpec,
    /// As it is in the store.
    stored: RuleState,
    /// As this round makes it.
    pub(super) state: RuleState,
}

impl Rule {
    /// `None` if it cannot be read. `known` is the cursor of this server's last round.
    pub(super) fn new(row: RuleRow, known: Option<&LateCursor>, now: Timestamp) -> Option<Self> {
        let spec = read_spec(&row)?;
        // State that cannot be read is given up: it may be of a newer version.
        let stored = RuleState::read(row.state.as_deref()).unwrap_or_default();
        let mut state = stored.clone();
        if !spec.enabled {
            // What waits is dropped; the window goes on.
            state = RuleState { sent_at: state.sent_at, ..RuleState::default() };
        }
        state.late = is_watching(&spec).then(|| match &stored.late {
            Some(stored) => stored.go_on(known, now).of_revision(row.revision, spec.late_after, now),
            None => LateCursor::begin(row.revision, spec.late_after, now),
        });
        Some(Self { name: row.name, version: row.version, spec, stored, state })
    }

    /// When its next message is to be sent.
    pub(super) fn send_at(&self) -> Option<Timestamp> {
        self.state.send_at(self.spec.window).filter(|_| self.spec.enabled)
    }

    pub(super) fn wants_overdue(&self) -> bool {
        self.spec.enabled && EventKind::Overdue.is_wanted_by(&self.spec)
    }

    pub(super) fn take_noticed(&mut self, events: &[Event], scene: &Scene, now: Timestamp) {
        if !self.spec.enabled {
            return;
        }
        for event in events {
            if !self.was_told(event, scene) && scene.fits(&self.spec, event) {
                self.state.add(event, now);
            }
        }
    }

    /// Whether a job that started late was told while it waited.
    fn was_told(&self, event: &Event, scene: &Scene) -> bool {
        let Some(cursor) = self.state.late.as_ref().filter(|_| event.kind == EventKind::Late) else { return false };
        cursor.was_told(event, self.spec.late_after, scene.own_late_after(event))
    }

    pub(super) fn take_sight(&mut self, sight: &Sight, scene: &Scene, now: Timestamp) {
        if !self.spec.enabled {
            return;
        }
        self.take_late(sight, scene, now);
        if let Some((walk, walked)) = &sight.walked {
            self.take_overdue(walk, walked, scene, now);
        }
    }

    fn take_late(&mut self, sight: &Sight, scene: &Scene, now: Timestamp) {
        let Some(mut cursor) = self.state.late.take() else { return };
        if let Some(look) = sight.late.get(&self.spec.late_after) {
            for event in look.new_to(&mut cursor) {
                if scene.fits(&self.spec, event) {
                    self.state.add(event, now);
                }
            }
        }
        self.state.late = Some(cursor);
    }

    /// Each schedule is told of once, until the time that was told has its verdict.
    fn take_overdue(&mut self, walk: &Walk, walked: &Walked, scene: &Scene, now: Timestamp) {
        let overdue: BTreeSet<ScheduleId> = walked.overdue.iter().map(|plan| plan.row.id).collect();
        let is_over = |id: &ScheduleId| walked.seen.contains(id) && !overdue.contains(id);
        self.state.overdue.retain(|id, slot| !is_over(id) && !walk.is_decided(*id, *slot));
        for plan in &walked.overdue {
            let event = overdue_event(plan, now);
            if self.state.overdue.contains_key(&plan.row.id) || !scene.fits(&self.spec, &event) {
                continue;
            }
            if self.state.overdue.len() >= OVERDUE_MAX {
                self.state.tell_of_more_overdue();
                continue;
            }
            self.state.overdue.insert(plan.row.id, plan.slot);
            self.state.add(&event, now);
        }
    }

    /// What is to be written of it. A cursor alone can wait: what it passed over would be passed over again.
    pub(super) fn update(&self, now: Timestamp) -> Option<RuleUpdate> {
        let without_cursor = |state: &RuleState| RuleState { late: None, ..state.clone() };
        let is_cursor_new = match (&self.stored.late, &self.state.late) {
            (Some(stored), Some(late)) => {
                stored.revision != late.revision || now.since(stored.looked_at) >= CURSOR_WRITTEN_EVERY
            }
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
        };
        if !is_cursor_new && without_cursor(&self.stored) == without_cursor(&self.state) {
            return None;
        }
        Some(RuleUpdate { name: self.name.clone(), version: self.version, state: self.state.write() })
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
