//! What a batch does to schedules and their ledger, and the jobs that it makes.

use std::sync::Arc;

use punctual_core::schedule::{OccurrenceRow, ScheduleChange, ScheduleEdit, ScheduleRow, ScheduleState, Verdict};
use punctual_core::shard::write::{Batch, Decision, FiredJob, LateStart, ScheduleWrite, Void};
use punctual_core::{Counters, JobKey, ScheduleId, ShardId, Timestamp};
use punctual_store::Result;

use super::{Hot, Shard, State, inconsistent};

/// Whatever the order of the writes in a batch, they are applied in this one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    EditAndDrop,
    Add,
    Set,
    Decide,
    Release,
    StartedLate,
    Watermark,
}

const STEPS: [Step; 7] =
    [Step::EditAndDrop, Step::Add, Step::Set, Step::Decide, Step::Release, Step::StartedLate, Step::Watermark];

fn step_of(write: &ScheduleWrite) -> Step {
    match write {
        ScheduleWrite::Edit { .. } | ScheduleWrite::Drop { .. } => Step::EditAndDrop,
        ScheduleWrite::Add(_) => Step::Add,
        ScheduleWrite::Set { .. } => Step::Set,
        ScheduleWrite::Decide(_) => Step::Decide,
        ScheduleWrite::Release(_) => Step::Release,
        ScheduleWrite::StartedLate(_) => Step::StartedLate,
        ScheduleWrite::Watermark { .. } => Step::Watermark,
    }
}

impl State {
    pub(super) fn apply_to_schedules(&mut self, batch: &Batch, void: &mut Void) -> Result<()> {
        for step in STEPS {
            for (_, write) in batch.schedule_writes().filter(|(_, write)| step_of(write) == step) {
                self.apply_to_schedule(write, void)?;
            }
        }
        Ok(())
    }

    fn apply_to_schedule(&mut self, write: &ScheduleWrite, void: &mut Void) -> Result<()> {
        match write {
            ScheduleWrite::Add(row) => self.add_schedule(row, void)?,
            ScheduleWrite::Edit { id, edit, state, change } => self.edit_schedule(*id, edit, state, change)?,
            ScheduleWrite::Set { id, state, change } => self.set_schedule(*id, state, change.as_ref()),
            ScheduleWrite::Drop { id, change } => self.drop_schedule(*id, change),
            ScheduleWrite::Decide(decision) => {
                let OccurrenceRow { schedule, at, .. } = decision.occurrence;
                match self.occurrences.has(&(schedule, at)) {
                    true => void.occurrences.push((schedule, at)),
                    false => self.decide(decision)?,
                }
            }
            ScheduleWrite::Release(decision) => {
                let OccurrenceRow { schedule, at, .. } = decision.occurrence;
                match self.occurrences.get(&(schedule, at)).map(|row| (row.verdict, row.requested_by.clone())) {
                    // Who asked for it is on record since it was queued.
                    Some((Verdict::Queued, requested_by)) => {
                        let occurrence = OccurrenceRow { requested_by, ..decision.occurrence.clone() };
                        self.decide(&Decision { occurrence, ..Decision::clone(decision) })?;
                    }
                    _ => void.occurrences.push((schedule, at)),
                }
            }
            ScheduleWrite::StartedLate(late) => self.started_late(late),
            ScheduleWrite::Watermark { shard, at } => self.raise_watermark(*shard, *at),
        }
        Ok(())
    }

    fn add_schedule(&mut self, row: &Arc<ScheduleRow>, void: &mut Void) -> Result<()> {
        if self.schedule_names.has(&(row.namespace, row.name.clone())) || self.schedules.has(&row.id) {
            void.schedules.push(row.id);
            return Ok(());
        }
        self.expect_task_of(&row.edit)?;
        self.schedule_names.put((row.namespace, row.name.clone()), row.id);
        self.schedules.put(row.id, ScheduleRow::clone(row));
        Ok(())
    }

    fn expect_task_of(&self, edit: &ScheduleEdit) -> Result<()> {
        match self.tasks.has(&edit.task) {
            true => Ok(()),
            false => Err(inconsistent(format!("there is no {}", edit.task))),
        }
    }

    fn edit_schedule(
        &mut self,
        id: ScheduleId,
        edit: &Arc<ScheduleEdit>,
        state: &ScheduleState,
        change: &ScheduleChange,
    ) -> Result<()> {
        let Some(mut row) = self.schedules.get(&id).cloned() else { return Ok(()) };
        self.expect_task_of(edit)?;
        self.keep_change(id, ScheduleChange { former_spec: Some(row.edit.spec), ..change.clone() });
        row.edit = ScheduleEdit::clone(edit);
        let ScheduleState { runs, last_success, .. } = row.state;
        row.state = ScheduleState { runs, last_success, ..state.clone() };
        row.changed = change.by.clone();
        self.schedules.put(id, row);
        Ok(())
    }

    /// The run of a planned time has succeeded.
    pub(super) fn schedule_succeeded(&mut self, id: ScheduleId, at: Timestamp) {
        let Some(mut row) = self.schedules.get(&id).cloned() else { return };
        row.state.last_success = row.state.last_success.max(Some(at));
        self.schedules.put(id, row);
    }

    fn set_schedule(&mut self, id: ScheduleId, state: &ScheduleState, change: Option<&ScheduleChange>) {
        let Some(mut row) = self.schedules.get(&id).cloned() else { return };
        // Runs are counted with the verdicts that make them.
        let ScheduleState { runs, last_success, .. } = row.state;
        row.state = ScheduleState { runs, last_success, ..state.clone() };
        if let Some(change) = change {
            row.changed = change.by.clone();
            self.keep_change(id, change.clone());
        }
        self.schedules.put(id, row);
    }

    fn drop_schedule(&mut self, id: ScheduleId, change: &ScheduleChange) {
        let Some(row) = self.schedules.take(&id) else { return };
        self.schedule_names.take(&(row.namespace, row.name.clone()));
        self.keep_change(id, change.clone());
    }

    fn keep_change(&mut self, id: ScheduleId, change: ScheduleChange) {
        let last = self.schedule_changes.range((id, 0)..=(id, u64::MAX)).next_back();
        let number = last.map_or(0, |((_, number), _)| number + 1);
        self.schedule_changes.put((id, number), change);
    }

    fn decide(&mut self, decision: &Decision) -> Result<()> {
        let Decision { occurrence, job, notice: _ } = decision;
        self.occurrences.put((occurrence.schedule, occurrence.at), occurrence.clone());
        match job {
            Some(job) => self.fire(job, occurrence),
            None => Ok(()),
        }
    }

    fn fire(&mut self, job: &FiredJob, occurrence: &OccurrenceRow) -> Result<()> {
        if job.id.shard() != occurrence.schedule.shard() {
            return Err(inconsistent(format!("{} is not of the shard of {}", job.id, occurrence.schedule)));
        }
        let input = match job.has_input {
            true => self.schedules.get(&occurrence.schedule).and_then(|row| row.edit.input.clone()),
            false => None,
        };
        if job.is_counted
            && let Some(mut row) = self.schedules.get(&occurrence.schedule).cloned()
        {
            row.state.runs = row.state.runs.saturating_add(1);
            self.schedules.put(row.id, row);
        }
        let hot = Hot {
            task: job.task,
            priority: job.priority,
            counters: Counters::NEW,
            submitted_at: occurrence.decided_at,
            tracing_id: None,
            source: Some(job.source),
            requester: None,
            node: None,
            member: None,
            give_backs: None,
            input,
        };
        self.store_job(JobKey::original(job.id), hot)
    }

    fn started_late(&mut self, late: &LateStart) {
        let key = (late.schedule, late.at);
        let Some(mut row) = self.occurrences.get(&key).filter(|row| row.job == Some(late.job)).cloned() else { return };
        row.started_at = Some(late.started_at);
        row.marks = row.marks.with(late.marks);
        self.occurrences.put(key, row);
    }

    fn raise_watermark(&mut self, shard: ShardId, at: Timestamp) {
        let Some(row) = self.shards.get(&shard).cloned() else { return };
        self.shards.put(shard, Shard { watermark: row.watermark.max(at), ..row });
    }

    /// Old verdicts and changes. What is queued is not decided yet.
    pub(super) fn forget_ledger(&mut self, before: Timestamp) {
        self.occurrences.take_all(|(_, at), row| *at < before && row.verdict != Verdict::Queued);
        self.schedule_changes.take_all(|_, change| change.by.at < before);
    }
}
