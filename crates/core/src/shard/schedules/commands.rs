//! What people do to schedules: decided in the owner's one order, and answered when it is durable.

use std::sync::Arc;

use crate::id::ScheduleId;
use crate::schedule::{
    By, ChangeKind, Marks, Overlap, Pause, Planned, ScheduleChange, ScheduleCommand, ScheduleReply, ScheduleRow,
    SourceKind, Verdict,
};
use crate::shard::event::{LoadedSchedule, Made, Token};
use crate::shard::schedules::decide::Firing;
use crate::shard::schedules::definitions::DefinitionRequest;
use crate::shard::schedules::overlap::OverlapDecision;
use crate::shard::schedules::progress::INSTANT;
use crate::shard::schedules::table::EntryIndex;
use crate::shard::schedules::{Planner, Schedules};
use crate::shard::write::{ScheduleWrite, Void};
use crate::shard::{Answer, planted};
use crate::time::Span;

/// Planned times that are looked at to find those to be skipped: a calendar may leave none.
const TIMES_LOOKED_AT: usize = 10_000;

impl Schedules {
    /// A command is answered when the write that was just pushed for it is durable.
    pub(super) fn waits(&mut self, id: ScheduleId, token: Token, reply: ScheduleReply) {
        self.waiting.entry(id).or_default().push_back((token, reply.into()));
    }

    /// What waits for the next write of this schedule is answered otherwise.
    pub(super) fn change_answer(&mut self, id: ScheduleId, answer: impl Into<Answer>) {
        if let Some(waiting) = self.waiting.get_mut(&id).and_then(|waiting| waiting.front_mut()) {
            waiting.1 = answer.into();
        }
    }

    /// All who wait for an answer.
    pub(in crate::shard) fn askers(&self) -> impl Iterator<Item = Token> {
        let deferred = self.deferred.values().flatten().filter_map(|deferred| deferred.token());
        let waiting = self.waiting.values().flatten().map(|(token, _)| *token);
        waiting.chain(deferred).filter(|token| *token != Token::NOBODY)
    }
}

impl Planner<'_> {
    pub(super) fn command(
        &mut self,
        token: Token,
        id: ScheduleId,
        command: ScheduleCommand,
        who: String,
        made: Option<Made>,
    ) {
        if self.is_retiring {
            return self.reply(token, Answer::NotOwner);
        }
        let by = By { at: self.now, who };
        if let ScheduleCommand::Create(new) = command {
            return match made {
                Some(made) => self.create_schedule(token, ScheduleRow::new(*new, by), made),
                None => self.reply(token, Answer::NotOwner),
            };
        }
        if !self.schedules.is_loaded {
            return self.reply(token, Answer::NotOwner);
        }
        let Some(place) = self.schedules.table.place(id) else {
            // It may be on its way to the store.
            return match self.schedules.adding.contains_key(&id) {
                true => self.reply(token, Answer::NotOwner),
                false => self.reply(token, ScheduleReply::NotFound),
            };
        };
        // Whatever is asked for concerns what comes after this moment.
        let is_refused = self.schedules.is_deferring_many(id);
        if is_refused || (!self.schedules.is_held(id) && !self.plan_up(place)) {
            self.reply(token, Answer::NotOwner);
        } else if self.schedules.is_held(id) {
            self.schedules.defer(id, DefinitionRequest::Command { token, command, who: by.who, made }, None);
        } else {
            self.on_schedule(place, token, command, by, made);
        }
    }

    fn create_schedule(&mut self, token: Token, mut row: ScheduleRow, made: Made) {
        let id = row.id;
        // Asked again, because an answer was lost.
        if self.schedules.adding.contains_key(&id) {
            return self.reply(token, Answer::NotOwner);
        }
        if let Some(entry) = self.schedules.table.place(id).and_then(|place| self.schedules.table.entry(place)) {
            let revision = entry.revision;
            return self.reply(token, ScheduleReply::Done { revision });
        }
        row.state.since = row.state.since.max(self.schedules.progress.decided);
        self.schedules.adding.insert(id, (row.state.since, made));
        self.schedules.waits(id, token, ScheduleReply::Done { revision: row.state.revision });
        self.push(ScheduleWrite::Add(Arc::new(row)));
    }

    /// A creation is durable, or its name was taken.
    pub(super) fn added(&mut self, row: &ScheduleRow, void: &Void) {
        let made = self.schedules.adding.remove(&row.id);
        if void.schedules.contains(&row.id) {
            self.schedules.change_answer(row.id, ScheduleReply::NameTaken);
        } else if let (Some((_, made)), None) = (made, self.schedules.table.place(row.id)) {
            let loaded = LoadedSchedule {
                id: row.id,
                plan: made.plan,
                task: made.task,
                name: row.name.as_str().into(),
                priority: row.edit.priority,
                has_input: row.edit.input.is_some(),
                state: row.state.clone(),
            };
            let plan = Arc::clone(&loaded.plan);
            self.schedules.table.insert(loaded, row.state.since);
            self.calendars.planned_by(made.calendars, [&plan]);
        }
        self.answer(row.id);
    }

    fn on_schedule(&mut self, place: EntryIndex, token: Token, command: ScheduleCommand, by: By, made: Option<Made>) {
        match command {
            ScheduleCommand::Create(_) => unreachable!("answered by the caller"),
            ScheduleCommand::Edit { .. } if made.is_none() => self.reply(token, Answer::NotOwner),
            ScheduleCommand::Edit { .. } | ScheduleCommand::Delete | ScheduleCommand::DeleteRevision { .. } => {
                self.define(place, DefinitionRequest::Command { token, command, who: by.who, made });
            }
            ScheduleCommand::Pause { note } => {
                let Some(entry) = self.schedules.table.entry_mut(place) else { return };
                let pause = Pause { by: by.clone(), note: note.clone() };
                entry.change_rare(|rare| rare.pause = Some(pause));
                self.set_schedule(place, token, by, ChangeKind::Paused, note);
            }
            ScheduleCommand::Resume { note } => {
                let Some(entry) = self.schedules.table.entry_mut(place) else { return };
                // Whoever resumes it starts to count anew.
                entry.change_rare(|rare| (rare.pause, rare.failures) = (None, 0));
                self.set_schedule(place, token, by, ChangeKind::Resumed, note);
            }
            ScheduleCommand::SkipNext { count } => self.skip_next(place, token, count, by),
            ScheduleCommand::RunNow { overlap } => {
                self.run_schedule_now(place, token, overlap, by.who);
            }
            ScheduleCommand::ClearQueue => self.clear_queue(place, token, by.who),
        }
    }

    fn set_schedule(&mut self, place: EntryIndex, token: Token, by: By, kind: ChangeKind, note: Option<String>) {
        let Some(entry) = self.schedules.table.entry(place) else { return };
        let (id, revision, state) = (entry.id, entry.revision, entry.state());
        self.schedules.waits(id, token, ScheduleReply::Done { revision });
        let since = by.at.max(self.schedules.progress.decided);
        let change = Some(ScheduleChange { by, kind, note, former_spec: None });
        self.push_change(place, Some(since), ScheduleWrite::Set { id, state, change });
    }

    fn skip_next(&mut self, place: EntryIndex, token: Token, count: u32, by: By) {
        let from = self.now.max(self.schedules.progress.decided);
        let Some(entry) = self.schedules.table.entry_mut(place) else { return };
        let times = entry.times_from(from).take(TIMES_LOOKED_AT);
        let fires = times.filter(|planned| planned.unfired.is_none() && !entry.skips(planned.at));
        let Some(last) = fires.take(count.max(1) as usize).map(|planned| planned.at).max() else {
            return self.reply(token, ScheduleReply::Refused("it has no more planned times".to_owned()));
        };
        entry.change_rare(|rare| rare.skip_until = Some(last));
        let (id, state) = (entry.id, entry.state());
        self.schedules.waits(id, token, ScheduleReply::Skipping(last));
        let note = Some(format!("up to {last}"));
        let change = Some(ScheduleChange { by, kind: ChangeKind::Skipped, note, former_spec: None });
        self.push_change(place, Some(from), ScheduleWrite::Set { id, state, change });
    }

    fn run_schedule_now(&mut self, place: EntryIndex, token: Token, asked: Option<Overlap>, who: String) {
        let Some(entry) = self.schedules.table.entry(place) else { return };
        let (id, spec) = (entry.id, &entry.plan.spec);
        let overlap = asked.unwrap_or(spec.overlap);
        if overlap != Overlap::Allow && !spec.is_tracked() {
            let reason = "its overlap policy is `allow`, so nobody keeps track of whether a run has ended";
            return self.reply(token, ScheduleReply::Refused(reason.to_owned()));
        }
        let overlap = if planted!(self.config, ManualRunsMeet) { Overlap::Allow } else { overlap };
        // Each has a row of its own in the ledger, however quickly they follow each other.
        let at = self.now.max(self.schedules.last_manual + Span::from_micros(1));
        self.schedules.last_manual = at;
        let planned = Planned { at, slot: at, marks: Marks::MANUAL, count: 1, unfired: None };
        let firing = Firing { kind: SourceKind::Manual, due_at: self.now };
        self.requester = Some(who.clone());
        let decided = self.decide_overlap(place, planned, firing, overlap);
        self.requester = None;
        let reply = match decided {
            OverlapDecision::Fires(job) => ScheduleReply::Fired(job),
            OverlapDecision::Queued => ScheduleReply::Queued { at },
            OverlapDecision::CancelsPrevious => ScheduleReply::CancelsPrevious { at },
            OverlapDecision::Skipped(reason) => ScheduleReply::SkippedOverlap { at, reason },
            OverlapDecision::InDoubt => {
                let since = self.now.max(self.schedules.progress.decided);
                self.schedules.stall(place, since + INSTANT);
                let command = ScheduleCommand::RunNow { overlap: asked };
                return self.schedules.defer(id, DefinitionRequest::Command { token, command, who, made: None }, None);
            }
        };
        self.schedules.waits(id, token, reply);
    }

    fn clear_queue(&mut self, place: EntryIndex, token: Token, who: String) {
        let Some(id) = self.schedules.table.entry(place).map(|entry| entry.id) else { return };
        let waiting = self.schedules.take_queued(id);
        if waiting.is_empty() {
            return self.reply(token, ScheduleReply::Cleared { count: 0 });
        }
        let count = waiting.len() as u32;
        self.release_without_run(waiting, Verdict::SkippedByRequest, &format!("{who} cleared the queue"));
        // It is answered when all of them are on record: a batch may fail and the next one apply.
        let since = self.now.max(self.schedules.progress.decided);
        self.schedules.stall(place, since + INSTANT);
        self.schedules.defer(id, DefinitionRequest::Cleared { token, count, who }, Some(since));
    }

    /// All that waited is on record as skipped.
    pub(super) fn queue_cleared(&mut self, place: EntryIndex, token: Token, count: u32, by: By) {
        let Some(entry) = self.schedules.table.entry(place) else { return };
        let (id, state, since) = (entry.id, entry.state(), by.at);
        self.schedules.waits(id, token, ScheduleReply::Cleared { count });
        let note = Some(format!("{count} waiting"));
        let change = Some(ScheduleChange { by, kind: ChangeKind::QueueCleared, note, former_spec: None });
        self.push_change(place, Some(since), ScheduleWrite::Set { id, state, change });
    }

    /// The write that a command waits for is durable.
    pub(super) fn answer(&mut self, id: ScheduleId) {
        let Some(waiting) = self.schedules.waiting.get_mut(&id) else { return };
        let answered = waiting.pop_front();
        if waiting.is_empty() {
            self.schedules.waiting.remove(&id);
        }
        if let Some((token, answer)) = answered {
            self.reply(token, answer);
        }
    }

    pub(super) fn reply(&mut self, token: Token, answer: impl Into<Answer>) {
        if token != Token::NOBODY {
            self.answers.push((token, answer.into()));
        }
    }
}
