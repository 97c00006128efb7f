//! What people do to schedules: decided in the owner's one order, and answered when it is durable.

use std::sync::Arc;

use crate::id::ScheduleId;
use crate::schedule::{
    By, ChangeKind, Marks, Overlap, Pause, Planned, ScheduleChange, ScheduleCommand, ScheduleReply, ScheduleRow,
    SourceKind, Verdict,
};
use crate::shard::event::{LoadedSchedule, Made, Token};
use crate::shard::schedules::Schedules;
use crate::shard::schedules::decide::Firing;
use crate::shard::schedules::definitions::Asked;
use crate::shard::schedules::overlap::Met;
use crate::shard::schedules::progress::INSTANT;
use crate::shard::schedules::table::Place;
use crate::shard::write::{ScheduleWrite, Void};
use crate::shard::{Owner, planted};
use crate::time::Span;

/// Planned times that are looked at to find those to be skipped: a calendar may leave none.
const TIMES_LOOKED_AT: usize = 10_000;

impl Schedules {
    /// A command is answered when the write that was just pushed for it is durable.
    pub(super) fn waits(&mut self, id: ScheduleId, token: Token, reply: ScheduleReply) {
        self.waiting.entry(id).or_default().push_back((token, reply));
    }
}

impl Owner {
    pub(in crate::shard) fn schedule_command(
        &mut self,
        token: Token,
        id: ScheduleId,
        command: ScheduleCommand,
        who: String,
        made: Option<Made>,
    ) {
        let Some(shard) = self.shard(id.shard()).filter(|shard| !shard.is_retiring) else {
            return self.reply_schedule(token, ScheduleReply::NotOwner);
        };
        let by = By { at: self.now, who };
        if let ScheduleCommand::Create(new) = command {
            return match made {
                Some(made) => self.create_schedule(token, ScheduleRow::new(*new, by), made),
                None => self.reply_schedule(token, ScheduleReply::NotOwner),
            };
        }
        if !shard.schedules.is_loaded {
            return self.reply_schedule(token, ScheduleReply::NotOwner);
        }
        let Some(place) = shard.schedules.table.place(id) else {
            // It may be on its way to the store.
            let reply = match shard.schedules.adding.contains_key(&id) {
                true => ScheduleReply::NotOwner,
                false => ScheduleReply::NotFound,
            };
            return self.reply_schedule(token, reply);
        };
        let mut schedules = self.take_schedules(id.shard());
        // Whatever is asked for concerns what comes after this moment.
        let is_refused = schedules.is_deferring_many(id);
        if is_refused || (!schedules.is_held(id) && !self.plan_up(&mut schedules, place)) {
            self.reply_schedule(token, ScheduleReply::NotOwner);
        } else if schedules.is_held(id) {
            schedules.defer(id, Asked::Command { token, command, who: by.who, made }, None);
        } else {
            self.on_schedule(&mut schedules, place, token, command, by, made);
        }
        self.put_schedules(id.shard(), schedules);
    }

    fn create_schedule(&mut self, token: Token, mut row: ScheduleRow, made: Made) {
        let id = row.id;
        let Some(shard) = self.shard_mut(id.shard()) else { return };
        // Asked again, because an answer was lost.
        if shard.schedules.adding.contains_key(&id) {
            return self.reply_schedule(token, ScheduleReply::NotOwner);
        }
        if let Some(entry) = shard.schedules.table.place(id).and_then(|place| shard.schedules.table.entry(place)) {
            let revision = entry.revision;
            return self.reply_schedule(token, ScheduleReply::Done { revision });
        }
        row.state.since = row.state.since.max(shard.schedules.progress.decided);
        shard.schedules.adding.insert(id, (row.state.since, made));
        shard.schedules.waits(id, token, ScheduleReply::Done { revision: row.state.revision });
        self.push(ScheduleWrite::Add(Arc::new(row)));
    }

    /// A creation is durable, or its name was taken.
    pub(in crate::shard) fn schedule_added(&mut self, row: &ScheduleRow, void: &Void) {
        let Some(shard) = self.shard_mut(row.id.shard()) else { return };
        let schedules = &mut shard.schedules;
        let made = schedules.adding.remove(&row.id);
        if void.schedules.contains(&row.id) {
            self.change_reply(row.id, ScheduleReply::NameTaken);
        } else if let (Some((_, made)), None) = (made, schedules.table.place(row.id)) {
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
            schedules.table.insert(loaded, row.state.since);
            self.planned_by(made.calendars, [&plan]);
        }
        self.answer_schedule(row.id);
    }

    fn on_schedule(
        &mut self,
        schedules: &mut Schedules,
        place: Place,
        token: Token,
        command: ScheduleCommand,
        by: By,
        made: Option<Made>,
    ) {
        match command {
            ScheduleCommand::Create(_) => unreachable!("answered by the caller"),
            ScheduleCommand::Edit { .. } if made.is_none() => self.reply_schedule(token, ScheduleReply::NotOwner),
            ScheduleCommand::Edit { .. } | ScheduleCommand::Delete => {
                self.define(schedules, place, Asked::Command { token, command, who: by.who, made });
            }
            ScheduleCommand::Pause { note } => {
                let Some(entry) = schedules.table.entry_mut(place) else { return };
                let pause = Pause { by: by.clone(), note: note.clone() };
                entry.change_rare(|rare| rare.pause = Some(pause));
                self.set_schedule(schedules, place, token, by, ChangeKind::Paused, note);
            }
            ScheduleCommand::Resume { note } => {
                let Some(entry) = schedules.table.entry_mut(place) else { return };
                // Whoever resumes it starts to count anew.
                entry.change_rare(|rare| (rare.pause, rare.failures) = (None, 0));
                self.set_schedule(schedules, place, token, by, ChangeKind::Resumed, note);
            }
            ScheduleCommand::SkipNext { count } => self.skip_next(schedules, place, token, count, by),
            ScheduleCommand::RunNow { overlap } => {
                self.run_schedule_now(schedules, place, token, overlap, by.who);
            }
            ScheduleCommand::ClearQueue => self.clear_queue(schedules, place, token, by.who),
        }
    }

    fn set_schedule(
        &mut self,
        schedules: &mut Schedules,
        place: Place,
        token: Token,
        by: By,
        kind: ChangeKind,
        note: Option<String>,
    ) {
        let Some(entry) = schedules.table.entry(place) else { return };
        let (id, revision, state) = (entry.id, entry.revision, entry.state());
        schedules.waits(id, token, ScheduleReply::Done { revision });
        let since = by.at.max(schedules.progress.decided);
        let change = Some(ScheduleChange { by, kind, note, former_spec: None });
        self.push_change(schedules, place, Some(since), ScheduleWrite::Set { id, state, change });
    }

    fn skip_next(&mut self, schedules: &mut Schedules, place: Place, token: Token, count: u32, by: By) {
        let from = self.now.max(schedules.progress.decided);
        let Some(entry) = schedules.table.entry_mut(place) else { return };
        let times = entry.times_from(from).take(TIMES_LOOKED_AT);
        let fires = times.filter(|planned| planned.unfired.is_none() && !entry.skips(planned.at));
        let Some(last) = fires.take(count.max(1) as usize).map(|planned| planned.at).max() else {
            return self.reply_schedule(token, ScheduleReply::Refused("it has no more planned times".to_owned()));
        };
        entry.change_rare(|rare| rare.skip_until = Some(last));
        let (id, state) = (entry.id, entry.state());
        schedules.waits(id, token, ScheduleReply::Skipping(last));
        let note = Some(format!("up to {last}"));
        let change = Some(ScheduleChange { by, kind: ChangeKind::Skipped, note, former_spec: None });
        self.push_change(schedules, place, Some(from), ScheduleWrite::Set { id, state, change });
    }

    fn run_schedule_now(
        &mut self,
        schedules: &mut Schedules,
        place: Place,
        token: Token,
        asked: Option<Overlap>,
        who: String,
    ) {
        let Some(entry) = schedules.table.entry(place) else { return };
        let (id, spec) = (entry.id, &entry.plan.spec);
        let overlap = asked.unwrap_or(spec.overlap);
        if overlap != Overlap::Allow && !spec.is_tracked() {
            let reason = "its overlap policy is `allow`, so nobody keeps track of whether a run has ended";
            return self.reply_schedule(token, ScheduleReply::Refused(reason.to_owned()));
        }
        let overlap = if planted!(self.config, ManualRunsMeet) { Overlap::Allow } else { overlap };
        // Each has a row of its own in the ledger, however quickly they follow each other.
        let at = self.now.max(schedules.last_manual + Span::from_micros(1));
        schedules.last_manual = at;
        let planned = Planned { at, slot: at, marks: Marks::MANUAL, count: 1, unfired: None };
        let firing = Firing { kind: SourceKind::Manual, due_at: self.now };
        let reply = match self.decide_overlap(schedules, place, planned, firing, overlap) {
            Met::Fires(job) => ScheduleReply::Fired(job),
            Met::Queued => ScheduleReply::Queued { at },
            Met::CancelsPrevious => ScheduleReply::CancelsPrevious { at },
            Met::Skipped(reason) => ScheduleReply::SkippedOverlap { at, reason },
            Met::InDoubt => {
                let since = self.now.max(schedules.progress.decided);
                schedules.stall(place, since + INSTANT);
                let command = ScheduleCommand::RunNow { overlap: asked };
                return schedules.defer(id, Asked::Command { token, command, who, made: None }, None);
            }
        };
        schedules.waits(id, token, reply);
    }

    fn clear_queue(&mut self, schedules: &mut Schedules, place: Place, token: Token, who: String) {
        let Some(id) = schedules.table.entry(place).map(|entry| entry.id) else { return };
        let waiting = schedules.take_queued(id);
        if waiting.is_empty() {
            return self.reply_schedule(token, ScheduleReply::Cleared { count: 0 });
        }
        let count = waiting.len() as u32;
        self.release_without_run(schedules, waiting, Verdict::SkippedByRequest, &format!("{who} cleared the queue"));
        // It is answered when all of them are on record: a batch may fail and the next one apply.
        let since = self.now.max(schedules.progress.decided);
        schedules.stall(place, since + INSTANT);
        schedules.defer(id, Asked::Cleared { token, count, who }, Some(since));
    }

    /// All that waited is on record as skipped.
    pub(super) fn queue_cleared(&mut self, schedules: &mut Schedules, place: Place, token: Token, count: u32, by: By) {
        let Some(entry) = schedules.table.entry(place) else { return };
        let (id, state, since) = (entry.id, entry.state(), by.at);
        schedules.waits(id, token, ScheduleReply::Cleared { count });
        let note = Some(format!("{count} waiting"));
        let change = Some(ScheduleChange { by, kind: ChangeKind::QueueCleared, note, former_spec: None });
        self.push_change(schedules, place, Some(since), ScheduleWrite::Set { id, state, change });
    }

    /// What waits for the next write of this schedule is answered otherwise.
    pub(super) fn change_reply(&mut self, id: ScheduleId, reply: ScheduleReply) {
        let Some(shard) = self.shard_mut(id.shard()) else { return };
        if let Some(waiting) = shard.schedules.waiting.get_mut(&id).and_then(|waiting| waiting.front_mut()) {
            waiting.1 = reply;
        }
    }

    /// The write that a command waits for is durable.
    pub(in crate::shard) fn answer_schedule(&mut self, id: ScheduleId) {
        let Some(shard) = self.shard_mut(id.shard()) else { return };
        let Some(waiting) = shard.schedules.waiting.get_mut(&id) else { return };
        let answered = waiting.pop_front();
        if waiting.is_empty() {
            shard.schedules.waiting.remove(&id);
        }
        if let Some((token, reply)) = answered {
            self.reply_schedule(token, reply);
        }
    }

    pub(super) fn reply_schedule(&mut self, token: Token, reply: ScheduleReply) {
        if token != Token::NOBODY {
            self.effects.schedule_replies.push((token, reply));
        }
    }

    /// The shard is not ours any more: whoever waits asks again.
    pub(in crate::shard) fn forget_schedules(&mut self, schedules: Schedules) {
        let deferred = schedules.deferred.into_values().flatten().filter_map(|deferred| deferred.token());
        for token in schedules.waiting.into_values().flatten().map(|(token, _)| token).chain(deferred) {
            self.reply_schedule(token, ScheduleReply::NotOwner);
        }
    }
}
