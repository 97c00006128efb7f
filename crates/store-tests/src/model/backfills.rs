//! Backfills and their runs.

use async_trait::async_trait;
use punctual_core::{BackfillId, JobState, NamespaceId, ScheduleId, Timestamp};
use punctual_store::{
    BACKFILLS_MAX, BACKFILLS_OF_ALL_MAX, BackfillRow, BackfillRun, BackfillState, BackfillStep, Backfilled, Backfills,
    NewJob, Result, Stepped,
};

use super::{ModelStore, State, inconsistent};

impl ModelStore {
    pub fn add_backfill_now(&self, row: BackfillRow) -> Result<bool> {
        self.state().all_or_nothing(|state| {
            let makers = || state.running().filter(|row| row.progress.ended.is_none());
            let of_namespace = makers().filter(|other| other.namespace == row.namespace).count();
            if makers().count() >= BACKFILLS_OF_ALL_MAX || of_namespace >= BACKFILLS_MAX {
                return Ok(false);
            }
            if state.backfills.has(&row.id) {
                return Err(inconsistent(format!("{} is there already", row.id)));
            }
            state.backfills.put(row.id, row);
            Ok(true)
        })
    }

    pub fn backfill_now(&self, id: BackfillId) -> Option<BackfillRow> {
        self.state().backfills.get(&id).cloned()
    }

    pub fn list_backfills_now(
        &self,
        namespace: NamespaceId,
        schedule: Option<ScheduleId>,
        before: Option<BackfillId>,
        limit: usize,
    ) -> Vec<BackfillRow> {
        let state = self.state();
        let fits = |row: &&BackfillRow| {
            row.namespace == namespace
                && schedule.is_none_or(|schedule| row.schedule == schedule)
                && before.is_none_or(|before| row.id < before)
        };
        state.backfills.values().rev().filter(fits).take(limit).cloned().collect()
    }

    pub fn running_backfills_now(&self) -> Vec<BackfillRow> {
        self.state().running().cloned().collect()
    }

    pub fn step_backfill_now(&self, step: BackfillStep) -> Result<Stepped> {
        self.state().all_or_nothing(|state| {
            let BackfillStep { id, version, progress, made, ended } = step;
            let Some(row) = state.backfills.get(&id).filter(|row| row.version == version).cloned() else {
                return Ok(Stepped::Conflict);
            };
            state.backfills.put(id, BackfillRow { version: version + 1, progress, ..row });
            state.make_runs(id, made)?;
            for (at, end) in ended {
                state.end_run(id, at, end)?;
            }
            Ok(Stepped::Done)
        })
    }

    pub fn open_runs_now(&self, id: BackfillId, limit: usize) -> Vec<BackfillRun> {
        let state = self.state();
        state.runs_of(id).filter(|run| run.state.is_none()).take(limit).cloned().collect()
    }

    pub fn backfill_runs_now(&self, id: BackfillId, after: Option<Timestamp>, limit: usize) -> Vec<BackfillRun> {
        let state = self.state();
        state.runs_of(id).filter(|run| after.is_none_or(|after| run.at > after)).take(limit).cloned().collect()
    }

    pub fn backfilled_now(
        &self,
        schedule: ScheduleId,
        from: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Vec<Backfilled> {
        let state = self.state();
        let is_of = |backfill: BackfillId| state.backfills.get(&backfill).is_some_and(|row| row.schedule == schedule);
        let mut found: Vec<Backfilled> = state
            .backfill_runs
            .iter()
            .filter(|((backfill, at), _)| is_of(*backfill) && (from..=until).contains(at))
            .map(|((backfill, at), run)| Backfilled { at: *at, backfill: *backfill, job: run.job, state: run.state })
            .collect();
        found.sort_by_key(|run| (run.at, run.backfill));
        found.truncate(limit);
        found
    }
}

impl State {
    fn running(&self) -> impl Iterator<Item = &BackfillRow> {
        self.backfills.values().filter(|row| row.progress.state == BackfillState::Running)
    }

    fn runs_of(&self, id: BackfillId) -> impl Iterator<Item = &BackfillRun> {
        self.backfill_runs.range((id, Timestamp::EPOCH)..=(id, Timestamp::MAX)).map(|(_, run)| run)
    }

    fn make_runs(&mut self, id: BackfillId, made: Vec<(Timestamp, NewJob)>) -> Result<()> {
        let mut jobs = Vec::new();
        for (at, job) in made {
            if self.backfill_runs.has(&(id, at)) {
                return Err(inconsistent(format!("{at} of {id} has a run already")));
            }
            self.backfill_runs.put((id, at), BackfillRun { at, job: job.id, state: None });
            jobs.push(job);
        }
        self.store_jobs(jobs)
    }

    fn end_run(&mut self, id: BackfillId, at: Timestamp, end: JobState) -> Result<()> {
        if !end.is_final() {
            return Err(inconsistent(format!("no run ends as {end}")));
        }
        let Some(run) = self.backfill_runs.get(&(id, at)).cloned() else {
            return Err(inconsistent(format!("{at} of {id} has no run")));
        };
        self.backfill_runs.put((id, at), BackfillRun { state: Some(end), ..run });
        Ok(())
    }

    pub(super) fn forget_backfills(&mut self, before: Timestamp) {
        let is_old = |row: &BackfillRow| {
            row.progress.state != BackfillState::Running
                && row.progress.ended.as_ref().is_some_and(|ended| ended.at < before)
        };
        let old: Vec<BackfillId> = self.backfills.values().filter(|row| is_old(row)).map(|row| row.id).collect();
        self.backfills.take_all(|id, _| old.contains(id));
        self.backfill_runs.take_all(|(id, _), _| old.contains(id));
    }
}

#[async_trait]
impl Backfills for ModelStore {
    async fn add_backfill(&self, row: BackfillRow) -> Result<bool> {
        self.add_backfill_now(row)
    }
    async fn backfill(&self, id: BackfillId) -> Result<Option<BackfillRow>> {
        Ok(self.backfill_now(id))
    }
    async fn list_backfills(
        &self,
        namespace: NamespaceId,
        schedule: Option<ScheduleId>,
        before: Option<BackfillId>,
        limit: usize,
    ) -> Result<Vec<BackfillRow>> {
        Ok(self.list_backfills_now(namespace, schedule, before, limit))
    }
    async fn running_backfills(&self) -> Result<Vec<BackfillRow>> {
        Ok(self.running_backfills_now())
    }
    async fn step_backfill(&self, step: BackfillStep) -> Result<Stepped> {
        self.step_backfill_now(step)
    }
    async fn open_runs(&self, id: BackfillId, limit: usize) -> Result<Vec<BackfillRun>> {
        Ok(self.open_runs_now(id, limit))
    }
    async fn backfill_runs(&self, id: BackfillId, after: Option<Timestamp>, limit: usize) -> Result<Vec<BackfillRun>> {
        Ok(self.backfill_runs_now(id, after, limit))
    }
    async fn backfilled(
        &self,
        schedule: ScheduleId,
        from: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Backfilled>> {
        Ok(self.backfilled_now(schedule, from, until, limit))
    }
}
