//! New definitions of a schedule: an edit, a deletion, calendars that mean other days.
//!
//! A definition counts from a moment on. All before it must be on record first, because a batch may fail and the next
//! one apply. While verdicts are on their way, the moment is kept, and the schedule decides nothing after it: so what
//! waits does so for those verdicts only, however slow the store is.

use std::sync::Arc;

use crate::id::ScheduleId;
use crate::schedule::{
    By, ChangeKind, Plan, Planned, ScheduleChange, ScheduleCommand, ScheduleEdit, ScheduleReply, Verdict,
};
use crate::shard::event::{LoadedSchedule, Made, Token};
use crate::shard::schedules::progress::INSTANT;
use crate::shard::schedules::table::EntryIndex;
use crate::shard::schedules::{Planner, Schedules};
use crate::shard::write::ScheduleWrite;
use crate::shard::{Answer, planted};
use crate::time::Timestamp;

/// The maximum number of requests that wait for one schedule. Further requests must be repeated: each waits for a
/// commit.
const DEFERRED_MAX: usize = 100;

/// What waits until all before it is durable.
pub(super) struct DeferredRequest {
    request: DefinitionRequest,
    /// The moment from which on it counts, if all before that is decided; otherwise it is asked again.
    since: Option<Timestamp>,
}

pub(super) enum DefinitionRequest {
    Command {
        token: Token,
        command: ScheduleCommand,
        who: String,
        made: Option<Made>,
    },
    Replan(Box<LoadedSchedule>),
    /// What waited is released, and that is to be on record.
    Cleared {
        token: Token,
        count: u32,
        who: String,
    },
}

impl DefinitionRequest {
    /// What the schedule would plan from then on.
    fn plan(&self) -> Option<&Plan> {
        match self {
            Self::Command { made, .. } => made.as_ref().map(|made| &*made.plan),
            Self::Replan(row) => Some(&row.plan),
            Self::Cleared { .. } => None,
        }
    }

    /// The token of the request that waits for an answer.
    fn token(&self) -> Option<Token> {
        match *self {
            Self::Command { token, .. } | Self::Cleared { token, .. } => Some(token),
            Self::Replan(_) => None,
        }
    }
}

impl DeferredRequest {
    /// The token of the request that waits for an answer.
    pub(super) fn token(&self) -> Option<Token> {
        self.request.token()
    }
}

impl Schedules {
    /// Whether a requested change is not durable yet.
    pub(super) fn is_changing(&self, id: ScheduleId) -> bool {
        self.deferred.contains_key(&id) || self.waiting.contains_key(&id)
    }

    /// No more can wait.
    pub(super) fn is_deferring_many(&self, id: ScheduleId) -> bool {
        self.deferred.get(&id).is_some_and(|waiting| waiting.len() >= DEFERRED_MAX)
    }

    /// Whether nothing of the schedule can be decided until something pending is known. Requests concern later times,
    /// so they wait too.
    pub(super) fn is_held(&self, id: ScheduleId) -> bool {
        self.stalled.contains_key(&id) || self.deferred.contains_key(&id)
    }

    pub(super) fn defer(&mut self, id: ScheduleId, request: DefinitionRequest, since: Option<Timestamp>) {
        let waiting = self.deferred.entry(id).or_default();
        let deferred = DeferredRequest { request, since };
        match (&deferred.request, waiting.last_mut()) {
            // Calendars are told of more than once; of those that have to be asked for anew, the last counts.
            (
                DefinitionRequest::Replan(_),
                Some(last @ DeferredRequest { request: DefinitionRequest::Replan(_), since: None }),
            ) => *last = deferred,
            _ => waiting.push(deferred),
        }
    }
}

impl Planner<'_> {
    /// Calendars have changed, and with them what a schedule plans from now on.
    pub(super) fn replanned(&mut self, row: LoadedSchedule) {
        if self.is_retiring {
            return;
        }
        let id = row.id;
        let Some(place) = self.schedules.table.place(id) else { return };
        let Some(entry) = self.schedules.table.entry(place) else { return };
        // Told more than once, in case it came too early.
        if Arc::ptr_eq(&entry.plan, &row.plan) || entry.revision != row.state.revision {
            return;
        }
        let request = DefinitionRequest::Replan(Box::new(row));
        // One that is far behind is told again.
        if !self.schedules.is_held(id) && !self.plan_up(place) {
            return;
        }
        if self.schedules.is_held(id) {
            return self.schedules.defer(id, request, None);
        }
        self.define(place, request);
    }

    /// The definition counts from now on; all before is decided, and must be on record.
    pub(super) fn define(&mut self, place: EntryIndex, request: DefinitionRequest) {
        let Some(entry) = self.schedules.table.entry(place) else { return };
        let (id, revision) = (entry.id, entry.revision);
        if let DefinitionRequest::Command { token, command, .. } = &request
            && command.expected_revision().is_some_and(|expected| expected != revision)
        {
            return self.reply(*token, ScheduleReply::Conflict { revision });
        }
        let since = self.now.max(self.schedules.progress.decided);
        self.decide_pending(place, request.plan(), since);
        if !self.schedules.progress.is_under_way(id) {
            return self.apply(place, request, since);
        }
        self.schedules.stall(place, since + INSTANT);
        self.schedules.defer(id, request, Some(since));
    }

    /// Continues with deferred requests, when nothing of the schedule is pending any more.
    pub(super) fn resume_deferred(&mut self, id: ScheduleId) {
        let Some(waiting) = self.schedules.deferred.remove(&id) else { return };
        for DeferredRequest { request, since } in waiting {
            match (request, since) {
                (request, Some(since)) => self.apply_deferred(id, request, since),
                (DefinitionRequest::Command { token, command, who, made }, None) => {
                    self.command(token, id, command, who, made);
                }
                (DefinitionRequest::Replan(row), None) => self.replanned(*row),
                (DefinitionRequest::Cleared { .. }, None) => {
                    unreachable!("it is deferred with a moment from which on it counts")
                }
            }
        }
    }

    fn apply_deferred(&mut self, id: ScheduleId, request: DefinitionRequest, since: Timestamp) {
        let Some(place) = self.schedules.table.place(id).filter(|_| !self.is_retiring) else {
            if let Some(token) = request.token() {
                self.reply(token, Answer::NotOwner);
            }
            return;
        };
        self.apply(place, request, since);
    }

    fn apply(&mut self, place: EntryIndex, request: DefinitionRequest, since: Timestamp) {
        match request {
            DefinitionRequest::Replan(row) => self.replan(place, *row, since),
            DefinitionRequest::Cleared { token, count, who } => {
                self.queue_cleared(place, token, count, By { at: since, who });
            }
            DefinitionRequest::Command { token, command, who, made } => {
                let by = By { at: since, who };
                match (command, made) {
                    (ScheduleCommand::Edit { edit, .. }, Some(made)) => {
                        self.edit_schedule(place, token, *edit, made, by);
                    }
                    (ScheduleCommand::Delete | ScheduleCommand::DeleteRevision { .. }, _) => {
                        self.delete_schedule(place, token, by)
                    }
                    _ => self.reply(token, Answer::NotOwner),
                }
            }
        }
    }

    fn replan(&mut self, place: EntryIndex, row: LoadedSchedule, since: Timestamp) {
        let Some(entry) = self.schedules.table.entry_mut(place) else { return };
        entry.plan = row.plan;
        entry.since = since;
        let state = entry.state();
        self.schedules.floors.remove(&row.id);
        self.schedules.table.plan_from(place, since);
        self.push(ScheduleWrite::Set { id: row.id, state, change: None });
    }

    fn edit_schedule(&mut self, place: EntryIndex, token: Token, edit: ScheduleEdit, made: Made, by: By) {
        let since = by.at;
        let Some(entry) = self.schedules.table.entry_mut(place) else { return };
        let id = entry.id;
        entry.plan = made.plan;
        entry.priority = edit.priority;
        entry.has_input = edit.input.is_some();
        entry.revision = entry.revision.saturating_add(1);
        entry.since = since;
        // A skip stays, like a pause: whoever asked for it did not ask for this definition alone.
        if planted!(self.config, EditDropsSkip) {
            entry.change_rare(|rare| rare.skip_until = None);
        }
        let (state, revision) = (entry.state(), entry.revision);
        self.schedules.table.set_task(place, made.task);
        self.schedules.editing.insert(id, made.calendars);
        self.schedules.floors.remove(&id);
        self.schedules.waits(id, token, ScheduleReply::Done { revision });
        let change = ScheduleChange { by, kind: ChangeKind::Edited, note: None, former_spec: None };
        let write = ScheduleWrite::Edit { id, edit: Arc::new(edit), state, change };
        self.push_change(place, Some(since), write);
    }

    fn delete_schedule(&mut self, place: EntryIndex, token: Token, by: By) {
        let Some(entry) = self.schedules.table.remove(place) else { return };
        let id = entry.id;
        self.schedules.floors.remove(&id);
        self.schedules.waits(id, token, ScheduleReply::Done { revision: entry.revision });
        let note = Some(String::from(entry.name));
        let change = ScheduleChange { by, kind: ChangeKind::Deleted, note, former_spec: None };
        self.push(ScheduleWrite::Drop { id, change });
    }

    /// Times that wait out their jitter while the definition changes: what the new one does not plan any more does
    /// not run.
    fn decide_pending(&mut self, place: EntryIndex, next: Option<&Plan>, since: Timestamp) {
        let Some(seed) = self.schedules.table.entry(place).map(|entry| entry.seed()) else { return };
        let goes_on = |planned: &Planned| {
            let still = next.and_then(|plan| plan.next_after(planned.at - INSTANT, seed));
            still.is_some_and(|still| still.at == planned.at && still.slot > since)
        };
        for slot in self.schedules.take_slots(place, |slot| !goes_on(&slot.planned)) {
            let reason = Some("the schedule was changed".to_owned());
            self.decide_without_run(place, &slot.planned, Verdict::SkippedByRequest, reason);
        }
    }
}
