//! Chooses what happens to backfills.

use punctual_core::{BackfillId, JobState, NamespaceId, TaskId, Timestamp};
use punctual_store::{BackfillProgress, BackfillRow, BackfillState, BackfillStep, NewJob};

use super::operation::Operation;
use super::plan::{ENDS, Plan, all_tasks};
use super::schedules::all_schedules;
use crate::fixture::at;
use crate::model::ModelStore;
use crate::report_fixture::{backfill_id, new_backfill};
use crate::schedule_fixture::by;

const BACKFILLS: u64 = 5;

/// Everything that can be seen of them.
pub(super) fn final_reads() -> Vec<Operation> {
    let mut final_reads = vec![Operation::RunningBackfills, Operation::ListBackfills(None, None, 100)];
    for n in 0..BACKFILLS {
        final_reads.push(Operation::OpenRuns(backfill_id(n), 100));
        final_reads.push(Operation::BackfillRuns(backfill_id(n), None, 100));
    }
    for id in all_schedules() {
        final_reads.push(Operation::ListBackfills(Some(id), None, 100));
        final_reads.push(Operation::Backfilled(id, Timestamp::EPOCH, Timestamp::MAX, 100));
    }
    final_reads
}

impl Plan {
    pub(super) fn backfill(&mut self, model: &ModelStore) -> Operation {
        let n = self.random.below(BACKFILLS);
        let id = backfill_id(n);
        let limit = self.random.below(4) as usize;
        match self.random.below(20) {
            0..5 => {
                let schedule = self.random.pick(&all_schedules()[..3]);
                let progress = self.progress();
                Operation::AddBackfill(BackfillRow {
                    namespace: self.namespace(),
                    schedule,
                    progress,
                    ..new_backfill(n)
                })
            }
            5 => Operation::Backfill(id),
            6 => {
                let schedule = self.random.one_in(2).then(|| self.schedule());
                Operation::ListBackfills(schedule, self.random.one_in(2).then_some(id), limit)
            }
            7 => Operation::RunningBackfills,
            8 => Operation::OpenRuns(id, limit),
            9 => Operation::BackfillRuns(id, self.random.one_in(2).then(|| self.planned()), limit),
            10 => Operation::Backfilled(self.schedule(), self.planned(), self.planned(), limit),
            _ => self.step(model, id),
        }
    }

    fn progress(&mut self) -> BackfillProgress {
        let state = match self.random.below(6) {
            0 => BackfillState::Done,
            1 => BackfillState::Aborted,
            _ => BackfillState::Running,
        };
        BackfillProgress {
            state,
            reached: self.random.one_in(2).then(|| self.planned()),
            total: self.random.draw() as u32,
            made: self.random.below(9) as u32,
            passed_over: self.random.below(9) as u32,
            succeeded: self.random.below(9) as u32,
            failed: self.random.below(9) as u32,
            cancelled: self.random.below(9) as u32,
            ended: (state != BackfillState::Running).then(|| by("bob", self.now)),
            note: self.random.one_in(2).then(|| format!("note {}", self.now)),
        }
    }

    /// Mostly one that fits: of a backfill that is there and the version that it has, and of times without a run.
    fn step(&mut self, model: &ModelStore, id: BackfillId) -> Operation {
        let there = model.list_backfills_now(NamespaceId::DEFAULT, None, None, 100);
        let id = if there.is_empty() || self.random.one_in(8) { id } else { self.random.pick(&there).id };
        let version = model.backfill_now(id).map_or(0, |row| row.version) + u64::from(self.random.one_in(8));
        let runs = model.backfill_runs_now(id, None, 100);
        let known: Vec<TaskId> = model.tasks_by_id_now(&all_tasks()).iter().map(|task| task.id).collect();
        let mut made: Vec<(Timestamp, NewJob)> = Vec::new();
        for _ in 0..self.random.below(3) {
            let time = self.planned();
            let is_new = runs.iter().all(|run| run.at != time) && made.iter().all(|(at, _)| *at != time);
            if is_new || self.random.one_in(8) {
                made.push((time, self.known_job(&known)));
            }
        }
        self.jobs.extend(made.iter().map(|(_, job)| job.id));
        let mut ended: Vec<(Timestamp, JobState)> = Vec::new();
        for run in runs.iter().filter(|_| self.random.one_in(3)).map(|run| run.at).collect::<Vec<_>>() {
            ended.push((run, self.random.pick(&ENDS)));
        }
        if self.random.one_in(20) {
            ended.push((at(7), JobState::Failed));
        }
        Operation::StepBackfill(BackfillStep { id, version, progress: self.progress(), made, ended })
    }
}
