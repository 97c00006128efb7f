//! The verdict on one planned time.

use std::sync::Arc;

use crate::id::JobId;
use crate::job::{Counters, Input, JobKey, JobRow};
use crate::schedule::{Marks, OccurrenceRow, Planned, Source, SourceKind, Verdict};
use crate::shard::Answer;
use crate::shard::event::Loaded;
use crate::shard::notices::notice_of_verdict;
use crate::shard::schedules::overlap::OverlapDecision;
use crate::shard::schedules::table::{EntryIndex, ScheduleEntry};
use crate::shard::schedules::{Planner, Schedules};
use crate::shard::write::{Decision, FiredJob};
use crate::time::{Span, Timestamp};

/// How a job comes to be.
#[derive(Clone, Copy)]
pub(super) struct Firing {
    pub(super) kind: SourceKind,
    pub(super) due_at: Timestamp,
}

/// Whether the verdict is the first one, or that on a time that was queued.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum VerdictStep {
    First,
    Release,
}

impl Planner<'_> {
    /// Decides about a planned time whose slot has come.
    pub(super) fn decide(&mut self, place: EntryIndex, planned: Planned) {
        let Some(entry) = self.schedules.table.entry(place) else { return };
        if entry.is_used_up() {
            return self.schedules.end_or_stall(place, planned.slot);
        }
        if self.schedules.decided_before.contains(&(entry.id, planned.at)) {
            return;
        }
        if let Some(verdict) = entry.verdict_without_run(&planned) {
            self.decide_without_run(place, &planned, verdict, None);
            return;
        }
        let overlap = entry.plan.spec.overlap;
        let firing = Firing { kind: SourceKind::Planned, due_at: planned.slot };
        match self.decide_overlap(place, planned, firing, overlap) {
            OverlapDecision::InDoubt => self.schedules.stall(place, planned.slot),
            OverlapDecision::Fires(_)
            | OverlapDecision::Queued
            | OverlapDecision::CancelsPrevious
            | OverlapDecision::Skipped(_) => {}
        }
    }

    /// A verdict without a job.
    pub(super) fn decide_without_run(
        &mut self,
        place: EntryIndex,
        planned: &Planned,
        verdict: Verdict,
        reason: Option<String>,
    ) {
        let Some(entry) = self.schedules.table.entry(place) else { return };
        let occurrence = OccurrenceRow { reason, ..self.occurrence(entry, planned, verdict) };
        let notice = notice_of_verdict(&occurrence, self.schedules.table.task_of(entry));
        self.push_verdict(Box::new(Decision { occurrence, job: None, notice }));
    }

    pub(super) fn occurrence(&self, entry: &ScheduleEntry, planned: &Planned, verdict: Verdict) -> OccurrenceRow {
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
            requested_by: self.requester.clone(),
        }
    }

    /// Makes the job of an occurrence.
    pub(super) fn fire(
        &mut self,
        place: EntryIndex,
        occurrence: OccurrenceRow,
        firing: Firing,
        step: VerdictStep,
    ) -> Option<JobId> {
        let random = self.chance.bits();
        let task = Arc::clone(self.schedules.table.task_of(self.schedules.table.entry(place)?));
        let entry = self.schedules.table.entry_mut(place)?;
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
            VerdictStep::First => self.push_verdict(decision),
            VerdictStep::Release => self.push_release(decision),
        }
        if is_tracked {
            self.schedules.track(schedule).begin(id);
        }
        Some(id)
    }

    /// Answers the requests that wait for a first verdict, when it is durable or another owner gave it before.
    pub(super) fn answer_verdict(&mut self, occurrence: &OccurrenceRow, is_void: bool) {
        let OccurrenceRow { schedule, at, verdict, marks, .. } = *occurrence;
        if marks.has(Marks::MANUAL) {
            if is_void {
                // Somebody else has this very moment; ask again.
                self.schedules.change_answer(schedule, Answer::NotOwner);
            }
            self.answer(schedule);
        }
        if verdict == Verdict::Queued && is_void {
            self.schedules.never_queued(schedule, at);
        }
    }

    /// Another owner decided before: the run that was decided here does not exist.
    pub(super) fn never_fired(&mut self, job: &FiredJob) {
        let schedule = job.source.schedule;
        let table = &mut self.schedules.table;
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

impl Schedules {
    /// The job of a verdict that has become durable, as it is in the store. `None` if the schedule has been dropped or
    /// has another task by now: then a sweep finds the job.
    pub(super) fn stored_job(&self, job: &FiredJob, decided_at: Timestamp) -> Option<Loaded> {
        let entry = self.table.place(job.source.schedule).and_then(|place| self.table.entry(place))?;
        let task = self.table.task_of(entry);
        if task.id != job.task {
            return None;
        }
        let row = JobRow {
            key: JobKey::original(job.id),
            task: job.task,
            priority: job.priority,
            counters: Counters::NEW,
            submitted_at: decided_at,
            tracing_id: None,
            source: Some(Box::new(job.source)),
            node: None,
            member: None,
            give_backs: None,
            // Its length is not known here, and does not matter: it is read when the job starts.
            input: if job.has_input { Input::Stored { len: 0 } } else { Input::None },
        };
        Some(Loaded { row, task: Arc::clone(task) })
    }
}

impl ScheduleEntry {
    /// Whether a run of this kind is one of those that the schedule is limited to.
    fn counts(&self, kind: SourceKind) -> bool {
        self.plan.spec.max_runs.is_some() && kind != SourceKind::Manual
    }

    /// The verdicts that do not depend on other runs.
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

/// The pause between two replayed runs.
pub(super) fn replay_pause(per_minute: u32) -> Span {
    Span::from_micros(60_000_000 / i64::from(per_minute.max(1)))
}
