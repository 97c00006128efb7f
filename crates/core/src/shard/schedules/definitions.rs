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
use crate::shard::schedules::Schedules;
use crate::shard::schedules::progress::INSTANT;
use crate::shard::schedules::table::Place;
use crate::shard::write::ScheduleWrite;
use crate::shard::{Owner, planted};
use crate::time::Timestamp;

/// What waits for one schedule, at most. Whoever comes then has to ask again: each waits for a commit.
const DEFERRED_MAX: usize = 100;

/// What waits until all before it is durable.
pub(super) struct Deferred {
    asked: Asked,
    /// The moment from which on it counts, if all before that is decided; otherwise it is asked again.
    since: Option<Timestamp>,
}

pub(super) enum Asked {
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

impl Asked {
    /// What the schedule would plan from then on.
    fn plan(&self) -> Option<&Plan> {
        match self {
            Self::Command { made, .. } => made.as_ref().map(|made| &*made.plan),
            Self::Replan(row) => Some(&row.plan),
            Self::Cleared { .. } => None,
        }
    }

    /// Whoever waits for an answer.
    fn token(&self) -> Option<Token> {
        match *self {
            Self::Command { token, .. } | Self::Cleared { token, .. } => Some(token),
            Self::Replan(_) => None,
        }
    }
}

impl Deferred {
    /// Whoever waits for an answer.
    pub(super) fn token(&self) -> Option<Token> {
        self.asked.token()
    }
}

impl Schedules {
    /// Something that was asked for is not durable yet.
    pub(super) fn is_changing(&self, id: ScheduleId) -> bool {
        self.deferred.contains_key(&id) || self.waiting.contains_key(&id)
    }

    /// No more can wait.
    pub(super) fn is_deferring_many(&self, id: ScheduleId) -> bool {
        self.deferred.get(&id).is_some_and(|waiting| waiting.len() >= DEFERRED_MAX)
    }

    /// Nothing of it is decided before something on its way is known. What is asked for concerns what comes later
    /// than all that is not decided, so it waits, too.
    pub(super) fn is_held(&self, id: ScheduleId) -> bool {
        self.stalled.contains_key(&id) || self.deferred.contains_key(&id)
    }

    pub(super) fn defer(&mut self, id: ScheduleId, asked: Asked, since: Option<Timestamp>) {
        let waiting = self.deferred.entry(id).or_default();
        let deferred = Deferred { asked, since };
        match (&deferred.asked, waiting.last_mut()) {
            // Calendars are told of more than once; of those that have to be asked for anew, the last counts.
            (Asked::Replan(_), Some(last @ Deferred { asked: Asked::Replan(_), since: None })) => *last = deferred,
            _ => waiting.push(deferred),
        }
    }
}

impl Owner {
    pub(in crate::shard) fn calendars_changed(&mut self, rows: Vec<LoadedSchedule>, calendars: u32) {
        self.calendars = self.calendars.max(calendars);
        self.replanned(rows);
    }

    /// Plans count from now on. If they were made before calendars changed of which schedules have been told, they have
    /// to be made again.
    pub(in crate::shard) fn planned_by<'a>(&mut self, calendars: u32, plans: impl IntoIterator<Item = &'a Arc<Plan>>) {
        let is_outdated = calendars < self.calendars && plans.into_iter().any(|plan| !plan.spec.calendars.is_empty());
        if is_outdated {
            let since = self.effects.calendars_missed_since.get_or_insert(calendars);
            *since = calendars.min(*since);
        }
    }

    /// Calendars have changed, and with them what these schedules plan from now on.
    fn replanned(&mut self, rows: Vec<LoadedSchedule>) {
        for row in rows {
            let (id, shard) = (row.id, row.id.shard());
            if self.shard(shard).is_none_or(|shard| shard.is_retiring) {
                continue;
            }
            let mut schedules = self.take_schedules(shard);
            self.replan_one(&mut schedules, id, row);
            self.put_schedules(shard, schedules);
        }
    }

    fn replan_one(&mut self, schedules: &mut Schedules, id: ScheduleId, row: LoadedSchedule) {
        let Some(place) = schedules.table.place(id) else { return };
        let Some(entry) = schedules.table.entry(place) else { return };
        // Told more than once, in case it came too early.
        if Arc::ptr_eq(&entry.plan, &row.plan) || entry.revision != row.state.revision {
            return;
        }
        let asked = Asked::Replan(Box::new(row));
        // One that is far behind is told again.
        if !schedules.is_held(id) && !self.plan_up(schedules, place) {
            return;
        }
        if schedules.is_held(id) {
            return schedules.defer(id, asked, None);
        }
        self.define(schedules, place, asked);
    }

    /// The definition counts from now on; all before is decided, and must be on record.
    pub(super) fn define(&mut self, schedules: &mut Schedules, place: Place, asked: Asked) {
        let Some(entry) = schedules.table.entry(place) else { return };
        let (id, revision) = (entry.id, entry.revision);
        if let Asked::Command { token, command: ScheduleCommand::Edit { revision: Some(expected), .. }, .. } = &asked
            && *expected != revision
        {
            return self.reply_schedule(*token, ScheduleReply::Conflict { revision });
        }
        let since = self.now.max(schedules.progress.decided);
        self.decide_pending(schedules, place, asked.plan(), since);
        if !schedules.progress.is_under_way(id) {
            return self.apply(schedules, place, asked, since);
        }
        schedules.stall(place, since + INSTANT);
        schedules.defer(id, asked, Some(since));
    }

    /// Nothing of the schedule is on its way any more.
    pub(super) fn resume_deferred(&mut self, id: ScheduleId) {
        let Some(shard) = self.shard_mut(id.shard()) else { return };
        let Some(waiting) = shard.schedules.deferred.remove(&id) else { return };
        for Deferred { asked, since } in waiting {
            match (asked, since) {
                (asked, Some(since)) => self.apply_deferred(id, asked, since),
                (Asked::Command { token, command, who, made }, None) => {
                    self.schedule_command(token, id, command, who, made);
                }
                (Asked::Replan(row), None) => self.replanned(vec![*row]),
                (Asked::Cleared { .. }, None) => unreachable!("it is deferred with a moment from which on it counts"),
            }
        }
    }

    fn apply_deferred(&mut self, id: ScheduleId, asked: Asked, since: Timestamp) {
        let shard = self.shard(id.shard()).filter(|shard| !shard.is_retiring);
        let Some(place) = shard.and_then(|shard| shard.schedules.table.place(id)) else {
            if let Some(token) = asked.token() {
                self.reply_schedule(token, ScheduleReply::NotOwner);
            }
            return;
        };
        let mut schedules = self.take_schedules(id.shard());
        self.apply(&mut schedules, place, asked, since);
        self.put_schedules(id.shard(), schedules);
    }

    fn apply(&mut self, schedules: &mut Schedules, place: Place, asked: Asked, since: Timestamp) {
        match asked {
            Asked::Replan(row) => self.replan(schedules, place, *row, since),
            Asked::Cleared { token, count, who } => {
                self.queue_cleared(schedules, place, token, count, By { at: since, who });
            }
            Asked::Command { token, command, who, made } => {
                let by = By { at: since, who };
                match (command, made) {
                    (ScheduleCommand::Edit { edit, .. }, Some(made)) => {
                        self.edit_schedule(schedules, place, token, *edit, made, by);
                    }
                    (ScheduleCommand::Delete, _) => self.delete_schedule(schedules, place, token, by),
                    _ => self.reply_schedule(token, ScheduleReply::NotOwner),
                }
            }
        }
    }

    fn replan(&mut self, schedules: &mut Schedules, place: Place, row: LoadedSchedule, since: Timestamp) {
        let Some(entry) = schedules.table.entry_mut(place) else { return };
        entry.plan = row.plan;
        entry.since = since;
        let state = entry.state();
        schedules.floors.remove(&row.id);
        schedules.table.plan_from(place, since);
        self.push(ScheduleWrite::Set { id: row.id, state, change: None });
    }

    fn edit_schedule(
        &mut self,
        schedules: &mut Schedules,
        place: Place,
        token: Token,
        edit: ScheduleEdit,
        made: Made,
        by: By,
    ) {
        let since = by.at;
        let Some(entry) = schedules.table.entry_mut(place) else { return };
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
        schedules.table.set_task(place, made.task);
        schedules.editing.insert(id, made.calendars);
        schedules.floors.remove(&id);
        schedules.waits(id, token, ScheduleReply::Done { revision });
        let change = ScheduleChange { by, kind: ChangeKind::Edited, note: None, former_spec: None };
        let write = ScheduleWrite::Edit { id, edit: Arc::new(edit), state, change };
        self.push_change(schedules, place, Some(since), write);
    }

    fn delete_schedule(&mut self, schedules: &mut Schedules, place: Place, token: Token, by: By) {
        let Some(entry) = schedules.table.remove(place) else { return };
        let id = entry.id;
        schedules.floors.remove(&id);
        schedules.waits(id, token, ScheduleReply::Done { revision: entry.revision });
        let note = Some(String::from(entry.name));
        let change = ScheduleChange { by, kind: ChangeKind::Deleted, note, former_spec: None };
        self.push(ScheduleWrite::Drop { id, change });
    }

    /// Times that wait out their jitter while the definition changes: what the new one does not plan any more does
    /// not run.
    fn decide_pending(&mut self, schedules: &mut Schedules, place: Place, next: Option<&Plan>, since: Timestamp) {
        let Some(seed) = schedules.table.entry(place).map(|entry| entry.seed()) else { return };
        let goes_on = |planned: &Planned| {
            let still = next.and_then(|plan| plan.next_after(planned.at - INSTANT, seed));
            still.is_some_and(|still| still.at == planned.at && still.slot > since)
        };
        for slot in schedules.take_slots(place, |slot| !goes_on(&slot.planned)) {
            let reason = Some("the schedule was changed".to_owned());
            self.decide_without_run(schedules, place, &slot.planned, Verdict::SkippedByRequest, reason);
        }
    }
}
