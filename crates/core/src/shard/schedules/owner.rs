//! What the owner asks of schedules, and what follows from the answers for its jobs.

use std::sync::Arc;

use crate::id::{JobId, ScheduleId, ShardId};
use crate::job::JobKey;
use crate::lifecycle::JobState;
use crate::schedule::{ScheduleCommand, Source, Verdict};
use crate::shard::event::{Command, LoadedSchedule, Made, ScheduleLoad, Token};
use crate::shard::live::Shard;
use crate::shard::schedules::Planner;
use crate::shard::schedules::decide::VerdictStep;
use crate::shard::schedules::load::LoadPart;
use crate::shard::schedules::planning::BACKLOG_MAX;
use crate::shard::write::{Decision, ScheduleWrite, Void};
use crate::shard::{Answer, Owner};
use crate::task::Task;
use crate::time::Timestamp;

/// Planned times that one turn looks at or decides about, over all shards: more would keep what else is due
/// waiting.
const TIMES_PER_TURN: usize = 4000;

/// Schedules of one read.
const PAGE_LEN: usize = 2000;

impl Owner {
    /// What decides about the schedules of a shard, if it is ours.
    fn planner(&mut self, id: ShardId) -> Option<Planner<'_>> {
        let shard = self.shards.get_mut(id)?;
        Some(Planner {
            shard: id,
            is_retiring: shard.is_retiring,
            schedules: &mut shard.schedules,
            config: &self.config,
            now: self.now,
            chance: &mut self.chance,
            outbox: &mut self.outbox,
            calendars: &mut self.calendars,
            answers: &mut self.effects.answers,
            requester: None,
        })
    }

    /// Decides about all planned times that have come, as far as there is room.
    pub(in crate::shard) fn plan(&mut self) {
        let mut room = TIMES_PER_TURN;
        // Each begins in its turn, so that none is always the last.
        for id in self.shards.ids_from(self.planning_turn) {
            let Some(shard) = self.shards.get(id) else { continue };
            let has_some = shard.schedules.next_wake().is_some_and(|wake| wake <= self.now);
            if has_some && self.can_plan(shard) {
                let looked_at = self.planner(id).map_or(0, |mut planner| planner.plan(room));
                room = room.saturating_sub(looked_at);
            }
            if room == 0 {
                self.planning_turn = ShardId(id.0.wrapping_add(1));
                return;
            }
        }
    }

    fn can_plan(&self, shard: &Shard) -> bool {
        !shard.is_retiring && self.outbox.backlog(shard.id) < BACKLOG_MAX
    }

    /// When planning has something to do. While the store is behind, its answer wakes us.
    pub(in crate::shard) fn next_planned(&self) -> Option<Timestamp> {
        let shards = self.owned().filter(|shard| self.can_plan(shard));
        shards.filter_map(|shard| shard.schedules.next_wake()).min()
    }

    /// Asks for the stored schedules of a shard.
    pub(in crate::shard) fn request_schedules(&mut self, shard: ShardId, after: Option<ScheduleId>) {
        let Some(epoch) = self.shard(shard).map(|shard| shard.epoch) else { return };
        self.effects.schedule_loads.push(ScheduleLoad { shard, epoch, after, limit: PAGE_LEN });
    }

    /// The answer to a load.
    pub(in crate::shard) fn schedules_page(
        &mut self,
        load: &ScheduleLoad,
        rows: Vec<LoadedSchedule>,
        next: Option<ScheduleId>,
        calendars: u32,
    ) {
        self.calendars.planned_by(calendars, rows.iter().map(|row| &row.plan));
        if self.shard(load.shard).is_none_or(|shard| shard.epoch != load.epoch) {
            return;
        }
        let Some(mut planner) = self.planner(load.shard) else { return };
        match next {
            Some(next) => {
                planner.take_in(rows, LoadPart::NotLast);
                self.request_schedules(load.shard, Some(next));
            }
            None => {
                planner.take_in(rows, LoadPart::Last);
                // A former owner may not have come to it.
                for schedule in self.shard(load.shard).map(|shard| shard.schedules.tracked()).unwrap_or_default() {
                    self.make_way(schedule);
                }
            }
        }
    }

    /// How many schedules are in memory, and of how many shards they are still being read.
    pub fn schedule_counts(&self) -> (usize, usize) {
        let held = self.owned().map(|shard| shard.schedules.len()).sum();
        (held, self.owned().filter(|shard| !shard.schedules.is_loaded).count())
    }

    /// Calendars have changed, and with them what these schedules plan from now on.
    pub(in crate::shard) fn calendars_changed(&mut self, rows: Vec<LoadedSchedule>, calendars: u32) {
        self.calendars.told_up_to(calendars);
        for row in rows {
            if let Some(mut planner) = self.planner(row.id.shard()) {
                planner.replanned(row);
            }
        }
    }

    /// The definition of a task has changed: what fires from now on follows it.
    pub(in crate::shard) fn schedules_follow_task(&mut self, task: &Arc<Task>) {
        for shard in self.shards.iter_mut() {
            shard.schedules.table.follow_task(task);
        }
    }

    /// Somebody asks something of a schedule.
    pub(in crate::shard) fn schedule_command(
        &mut self,
        token: Token,
        id: ScheduleId,
        command: ScheduleCommand,
        who: String,
        made: Option<Made>,
    ) {
        match self.planner(id.shard()) {
            Some(mut planner) => planner.command(token, id, command, who, made),
            None => self.answer_now(token, Answer::NotOwner),
        }
    }

    /// A write about a schedule of one of our shards is durable, or void.
    pub(in crate::shard) fn schedule_written(&mut self, write: &ScheduleWrite, void: &Void) {
        let Some(mut planner) = self.planner(write.shard()) else { return };
        match write {
            ScheduleWrite::Add(row) => planner.added(row, void),
            ScheduleWrite::Set { change: None, .. } | ScheduleWrite::StartedLate(_) => {}
            ScheduleWrite::Edit { id, .. } | ScheduleWrite::Set { id, .. } => planner.change_settled(*id),
            ScheduleWrite::Drop { id, .. } => planner.dropped(*id),
            ScheduleWrite::Decide(decision) => self.decided(decision, void),
            ScheduleWrite::Release(decision) => self.released(decision, void),
            ScheduleWrite::Watermark { .. } => planner.watermark_written(),
        }
    }

    /// A first verdict is durable, or was given before by another owner.
    fn decided(&mut self, decision: &Decision, void: &Void) {
        let occurrence = &decision.occurrence;
        let schedule = occurrence.schedule;
        let is_void = void.has_occurrence(schedule, occurrence.at);
        if let Some(mut planner) = self.planner(schedule.shard()) {
            planner.answer_verdict(occurrence, is_void);
        }
        if occurrence.verdict == Verdict::Queued && !is_void {
            self.make_way(schedule);
        }
        self.fired(decision, is_void);
        if let Some(mut planner) = self.planner(schedule.shard()) {
            planner.verdict_settled(schedule, VerdictStep::First);
        }
    }

    /// The last verdict on a time that was queued is durable.
    fn released(&mut self, decision: &Decision, void: &Void) {
        let schedule = decision.occurrence.schedule;
        self.fired(decision, void.has_occurrence(schedule, decision.occurrence.at));
        if let Some(mut planner) = self.planner(schedule.shard()) {
            planner.verdict_settled(schedule, VerdictStep::Release);
        }
    }

    /// A verdict is durable: its job is one of those to be started.
    fn fired(&mut self, decision: &Decision, is_void: bool) {
        let Some(job) = &decision.job else { return };
        let Some(mut planner) = self.planner(decision.occurrence.schedule.shard()) else { return };
        if is_void {
            return planner.never_fired(job);
        }
        match planner.schedules.stored_job(job, decision.occurrence.decided_at) {
            Some(job) => self.admit(job),
            None => self.read_again(JobKey::original(job.id)),
        }
    }

    /// Cancels the runs that a queued time replaces, now that the time is recorded.
    fn make_way(&mut self, id: ScheduleId) {
        let Some(shard) = self.shard(id.shard()).filter(|shard| !shard.is_retiring) else { return };
        for job in shard.schedules.runs_to_cancel(id) {
            self.command(Token::NOBODY, job, Command::Cancel);
        }
    }

    /// The run of a planned time starts now, for the first time.
    pub(in crate::shard) fn run_starts(&mut self, source: Source, job: JobId) {
        if let Some(mut planner) = self.planner(source.schedule.shard()) {
            planner.run_starts(source, job);
        }
    }

    /// A job that others may wait for has durably ended.
    pub(in crate::shard) fn run_ended(&mut self, schedule: ScheduleId, job: JobId, state: JobState) {
        if let Some(mut planner) = self.planner(schedule.shard()) {
            planner.run_ended(schedule, job, Some(state));
        }
    }
}
