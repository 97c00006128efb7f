//! The verdict on one planned time.

use std::sync::Arc;

use crate::id::{JobId, ScheduleId};
use crate::job::{Counters, Input, JobKey, JobRow};
use crate::schedule::{Marks, OccurrenceRow, Planned, ScheduleReply, Source, SourceKind, Verdict};
use crate::shard::Owner;
use crate::shard::event::Loaded;
use crate::shard::notices::notice_of_verdict;
use crate::shard::schedules::Schedules;
use crate::shard::schedules::overlap::Met;
use crate::shard::schedules::table::{Entry, Place};
use crate::shard::write::{Decision, FiredJob, Void};
use crate::time::{Span, Timestamp};

/// How a job comes to be.
#[derive(Clone, Copy)]
pub(super) struct Firing {
    pub(super) kind: SourceKind,
    pub(super) due_at: Timestamp,
}

/// Whether the verdict is the first one, or that on a time that was queued.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    First,
    Release,
}

impl Owner {
    /// Decides about a planned time whose slot has come.
    pub(super) fn decide(&mut self, schedules: &mut Schedules, place: Place, planned: Planned) {
        let Some(entry) = schedules.table.entry(place) else { return };
        if entry.is_used_up() {
            return schedules.end_or_stall(place, planned.slot);
        }
        if schedules.decided_before.contains(&(entry.id, planned.at)) {
            return;
        }
        if let Some(verdict) = entry.verdict_without_run(&planned) {
            self.decide_without_run(schedules, place, &planned, verdict, None);
            return;
        }
        let overlap = entry.plan.spec.overlap;
        let firing = Firing { kind: SourceKind::Planned, due_at: planned.slot };
        match self.decide_overlap(schedules, place, planned, firing, overlap) {
            Met::InDoubt => schedules.stall(place, planned.slot),
            Met::Fires(_) | Met::Queued | Met::CancelsPrevious | Met::Skipped(_) => {}
        }
    }

    /// A verdict without a job.
    pub(super) fn decide_without_run(
        &mut self,
        schedules: &mut Schedules,
        place: Place,
        planned: &Planned,
        verdict: Verdict,
        reason: Option<String>,
    ) {
        let Some(entry) = schedules.table.entry(place) else { return };
        let occurrence = OccurrenceRow { reason, ..self.occurrence(entry, planned, verdict) };
        let notice = notice_of_verdict(&occurrence, schedules.table.task_of(entry));
        self.push_verdict(schedules, Box::new(Decision { occurrence, job: None, notice }));
    }

    pub(super) fn occurrence(&self, entry: &Entry, planned: &Planned, verdict: Verdict) -> OccurrenceRow {
        OccurrenceRow {
            schedule: entry.id,
            at: planned.at,
            slot: planned.slot,
            verdict,
            decided_at: self.now,
            marks: planned.marks,
            count: planned.count,
            job: None,
            started_at: None,
            reason: None,
        }
    }

    /// Makes the job of an occurrence.
    pub(super) fn fire(
        &mut self,
        schedules: &mut Schedules,
        place: Place,
        occurrence: OccurrenceRow,
        firing: Firing,
        step: Step,
    ) -> Option<JobId> {
        let random = self.chance.bits();
        let task = Arc::clone(schedules.table.task_of(schedules.table.entry(place)?));
        let entry = schedules.table.entry_mut(place)?;
        let id = JobId::new(firing.due_at, entry.id.shard(), random);
        let is_tracked = entry.plan.spec.is_tracked();
        let source = Source { schedule: entry.id, at: occurrence.at, kind: firing.kind, is_tracked };
        let priority = entry.priority.unwrap_or(task.spec.priority);
        let is_counted = entry.counts(firing.kind);
        let job = FiredJob { id, task: task.id, priority, source, has_input: entry.has_input, is_counted };
        let marks = occurrence.marks.with_if(Marks::REPLAYED, firing.kind == SourceKind::Replayed);
        let occurrence = OccurrenceRow { verdict: Verdict::Fired, marks, job: Some(id), ..occurrence };
        let decision = Box::new(Decision { occurrence, job: Some(job), notice: None });
        let schedule = entry.id;
        if is_counted {
            entry.change_rare(|rare| rare.runs += 1);
        }
        match step {
            Step::First => self.push_verdict(schedules, decision),
            Step::Release => self.push_release(schedules, decision),
        }
        if is_tracked {
            schedules.track(schedule).begin(id);
        }
        Some(id)
    }

    /// A first verdict is durable, or was given before by another owner.
    pub(in crate::shard) fn decided(&mut self, decision: &Decision, void: &Void) {
        let OccurrenceRow { schedule, at, verdict, marks, .. } = decision.occurrence;
        let is_void = void.has_occurrence(schedule, at);
        if marks.has(Marks::MANUAL) {
            if is_void {
                // Somebody else has this very moment; ask again.
                self.change_reply(schedule, ScheduleReply::NotOwner);
            }
            self.answer_schedule(schedule);
        }
        if verdict == Verdict::Queued {
            match self.shard_mut(schedule.shard()) {
                Some(shard) if is_void => shard.schedules.never_queued(schedule, at),
                _ => self.make_way(schedule),
            }
        }
        self.fired(decision, is_void);
        self.verdict_settled(schedule, Step::First);
    }

    /// The last verdict on a time that was queued is durable.
    pub(in crate::shard) fn released(&mut self, decision: &Decision, void: &Void) {
        let OccurrenceRow { schedule, at, .. } = decision.occurrence;
        self.fired(decision, void.has_occurrence(schedule, at));
        self.verdict_settled(schedule, Step::Release);
    }

    /// A verdict is durable: its job is one of those to be started.
    fn fired(&mut self, decision: &Decision, is_void: bool) {
        let schedule = decision.occurrence.schedule;
        let Some(job) = &decision.job else { return };
        let Some(shard) = self.shard_mut(schedule.shard()) else { return };
        if is_void {
            return self.never_fired(schedule, job);
        }
        let Some(place) = shard.schedules.table.place(schedule) else {
            // It was dropped meanwhile; the sweep finds the job.
            self.read_again(JobKey::original(job.id));
            return;
        };
        let table = &shard.schedules.table;
        let task = Arc::clone(table.task_of(table.entry(place).expect("it was just found")));
        if task.id != job.task {
            self.read_again(JobKey::original(job.id));
            return;
        }
        let row = JobRow {
            key: JobKey::original(job.id),
            task: job.task,
            priority: job.priority,
            counters: Counters::NEW,
            submitted_at: decision.occurrence.decided_at,
            tracing_id: None,
            source: Some(Box::new(job.source)),
            give_backs: None,
            // Its length is not known here, and does not matter: it is read when the job starts.
            input: if job.has_input { Input::Stored { len: 0 } } else { Input::None },
        };
        self.admit(Loaded { row, task });
    }
}

impl Owner {
    /// Another owner decided before: the run that was decided here does not exist.
    fn never_fired(&mut self, schedule: ScheduleId, job: &FiredJob) {
        let Some(shard) = self.shard_mut(schedule.shard()) else { return };
        let table = &mut shard.schedules.table;
        if let Some(entry) = table.place(schedule).and_then(|place| table.entry_mut(place))
            && job.is_counted
        {
            entry.change_rare(|rare| rare.runs = rare.runs.saturating_sub(1));
        }
        if job.source.is_tracked {
            self.run_ended(schedule, job.id, None);
        }
    }
}

impl Entry {
    /// Whether a run of this kind is one of those that the schedule is limited to.
    fn counts(&self, kind: SourceKind) -> bool {
        self.plan.spec.max_runs.is_some() && kind != SourceKind::Manual
    }

    /// What is decided without looking at other runs.
    pub(super) fn verdict_without_run(&self, planned: &Planned) -> Option<Verdict> {
        if let Some(unfired) = planned.unfired {
            return Some(unfired.verdict());
        }
        if self.skips(planned.at) {
            return Some(Verdict::SkippedByRequest);
        }
        self.is_paused_at(planned.slot).then_some(Verdict::SkippedPaused)
    }
}

/// From one replayed run to the next.
pub(super) fn replay_pause(per_minute: u32) -> Span {
    Span::from_micros(60_000_000 / i64::from(per_minute.max(1)))
}
