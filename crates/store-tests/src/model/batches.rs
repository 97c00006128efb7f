//! Batches.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::batch::{BatchEvent, MemberRef};
use punctual_core::shard::write::{Batch, Void};
use punctual_core::{BatchId, JobId, NamespaceId, TaskId, Timestamp};
use punctual_store::{BatchChange, BatchFilter, BatchRow, Batches, DueBatch, Result, batch_ends};

use super::{Hot, ModelStore, State, inconsistent};

impl State {
    pub(super) fn store_batch(&mut self, row: BatchRow) -> Result<()> {
        if self.batches.has(&row.id) {
            return Err(inconsistent(format!("{} is there already", row.id)));
        }
        for (task, _) in &row.tasks {
            if !self.tasks.has(task) {
                return Err(inconsistent(format!("there is no {task}")));
            }
            self.use_task(*task, row.tasks_used_until());
        }
        let wake_at = row.first_wake();
        self.batches.put(row.id, (row, wake_at));
        Ok(())
    }

    /// What follows from the ends of jobs. Answers the batches that are to be looked at.
    pub(super) fn step_batches(&mut self, batch: &Batch, void: &Void) -> Vec<BatchId> {
        let mut pressing = Vec::new();
        for (id, events) in batch_ends(batch, void) {
            let Some((row, _)) = self.batches.get(&id).cloned() else { continue };
            let changes = row.step(&events, batch.at);
            if changes.wake_at.is_some() {
                pressing.push(id);
            }
            self.batches.put(id, (changes.row, changes.wake_at));
        }
        pressing
    }

    fn kept_job(&self, job: JobId) -> Option<&Hot> {
        self.hot_job(job).map(|(_, hot)| hot).or_else(|| self.finished.get(&job).map(|finished| &finished.hot))
    }

    fn change_batch(&mut self, row: &BatchRow, event: BatchEvent, now: Timestamp) -> Result<BatchChange> {
        let changes = row.step(&[event], now);
        if changes.is_refused {
            return Ok(changes.into_answer(Vec::new()));
        }
        let input = |job: JobId| Some((job, self.kept_job(job)?.input.clone()));
        let inputs: BTreeMap<JobId, Option<Bytes>> =
            changes.compensations.iter().filter_map(|one| input(one.of)).collect();
        let gone: Vec<TaskId> = row.tasks.iter().map(|(task, _)| *task).filter(|task| !self.tasks.has(task)).collect();
        let changes = changes.into_change(&inputs, &gone, now);
        let jobs = changes.jobs(&inputs);
        self.batches.put(row.id, (changes.row.clone(), changes.wake_at));
        self.store_jobs(jobs.clone())?;
        Ok(changes.into_answer(jobs))
    }
}

impl ModelStore {
    pub fn change_batch_now(&self, id: BatchId, event: BatchEvent, now: Timestamp) -> Result<Option<BatchChange>> {
        self.state().all_or_nothing(|state| {
            let Some((row, _)) = state.batches.get(&id).cloned() else { return Ok(None) };
            state.change_batch(&row, event, now).map(Some)
        })
    }

    pub fn batch_now(&self, id: BatchId) -> Option<BatchRow> {
        self.state().batches.get(&id).map(|(row, _)| row.clone())
    }

    pub fn due_batches_now(&self, now: Timestamp, after: Option<DueBatch>, limit: usize) -> Vec<DueBatch> {
        let state = self.state();
        let due =
            |(row, at): &(BatchRow, Option<Timestamp>)| Some(DueBatch { at: at.filter(|at| *at <= now)?, id: row.id });
        let mut due: Vec<DueBatch> = state.batches.values().filter_map(due).collect();
        due.retain(|batch| after.is_none_or(|after| *batch > after));
        due.sort_unstable();
        due.truncate(limit);
        due
    }
}

#[async_trait]
impl Batches for ModelStore {
    async fn change_batch(&self, id: BatchId, event: BatchEvent, now: Timestamp) -> Result<Option<BatchChange>> {
        self.change_batch_now(id, event, now)
    }

    async fn batch(&self, id: BatchId) -> Result<Option<BatchRow>> {
        Ok(self.batch_now(id))
    }

    async fn batch_in(&self, namespace: NamespaceId, id: BatchId) -> Result<Option<BatchRow>> {
        Ok(self.batch_now(id).filter(|row| row.namespace == namespace))
    }

    async fn list_batches(&self, filter: BatchFilter) -> Result<Vec<BatchRow>> {
        let BatchFilter { namespace, status, before, limit } = filter;
        let fits = |row: &&BatchRow| {
            row.namespace == namespace
                && status.is_none_or(|status| row.status == status)
                && before.is_none_or(|before| row.id < before)
        };
        let state = self.state();
        Ok(state.batches.values().rev().map(|(row, _)| row).filter(fits).take(limit).cloned().collect())
    }

    async fn due_batches(&self, now: Timestamp, after: Option<DueBatch>, limit: usize) -> Result<Vec<DueBatch>> {
        Ok(self.due_batches_now(now, after, limit))
    }

    async fn member_of_job(&self, job: JobId) -> Result<Option<MemberRef>> {
        Ok(self.state().kept_job(job).and_then(|hot| hot.member))
    }
}
