//! Workflows and their runs.

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::shard::write::{Batch, Void};
use punctual_core::workflow::{NodeRef, RunEvent, RunStatus};
use punctual_core::{JobId, JobKey, NamespaceId, RunId, ShardId, TaskId, Timestamp};
use punctual_store::{
    DueRun, OpenRun, Result, RunChange, RunFilter, RunRow, RunStep, RunSteps, StoreError, VERSIONS_MAX, WORKFLOWS_MAX,
    WorkflowRow, WorkflowStored, Workflows, run_ends,
};

use super::{Hot, ModelStore, State, inconsistent};

impl State {
    fn newest(&self, namespace: NamespaceId, name: &str) -> Option<&WorkflowRow> {
        let all = (namespace, name.to_owned(), 0)..=(namespace, name.to_owned(), u32::MAX);
        self.workflows.range(all).next_back().map(|(_, row)| row)
    }

    fn put_workflow(&mut self, row: WorkflowRow) -> WorkflowStored {
        let newest = self.newest(row.namespace, &row.name).cloned();
        let version = match newest {
            Some(newest) if newest.spec == row.spec => return WorkflowStored::Unchanged(newest.version),
            Some(newest) if newest.version as usize >= VERSIONS_MAX => return WorkflowStored::Full,
            Some(newest) => newest.version + 1,
            None => {
                let mine = self.workflows.values().filter(|one| one.namespace == row.namespace && one.version == 1);
                if mine.count() >= WORKFLOWS_MAX {
                    return WorkflowStored::Full;
                }
                1
            }
        };
        self.workflows.put((row.namespace, row.name.clone(), version), WorkflowRow { version, ..row });
        WorkflowStored::New(version)
    }

    /// Applies events to a run. If what follows cannot be stored, the run fails instead.
    fn step_run(&mut self, row: RunRow, events: &[RunEvent], now: Timestamp) -> Result<RunChange> {
        let is_new = !self.runs.has(&row.id);
        let broken = match self.try_step(row.clone(), events, now) {
            Err(error @ StoreError::Inconsistent(_)) if !is_new => RunStep::broken(row, &error, now),
            stepped => return stepped,
        };
        self.write_run(&broken)?;
        Ok(broken.into_change())
    }

    fn try_step(&mut self, row: RunRow, events: &[RunEvent], now: Timestamp) -> Result<RunChange> {
        let version = (row.namespace, row.workflow.clone(), row.version);
        let definition = self.workflows.get(&version).ok_or_else(|| inconsistent(format!("{version:?} is gone")))?;
        let gone: Vec<TaskId> =
            row.tasks.iter().flatten().map(|(task, _)| *task).filter(|task| !self.tasks.has(task)).collect();
        let mut open = OpenRun::of_spec(row, &definition.spec)?.without_tasks(&gone);
        let step = loop {
            match open.step(events, now) {
                Ok(step) => break step,
                Err(missing) => {
                    let run = open.id();
                    for node in missing.0 {
                        open.known.read(node);
                        for ((_, _, item), output) in self.run_outputs.range((run, node, 0)..=(run, node, u32::MAX)) {
                            open.known.put(node, *item, output);
                        }
                    }
                }
            }
        };
        let taken = step.jobs.iter().find(|job| self.due_at.has(&job.id) || self.finished.has(&job.id));
        if let Some(job) = taken {
            return Err(inconsistent(format!("{} is there already", job.id)));
        }
        self.write_run(&step)?;
        Ok(step.into_change())
    }

    fn write_run(&mut self, step: &RunStep) -> Result<()> {
        if step.refused.is_some() {
            return Ok(());
        }
        self.runs.put(step.row.id, (step.row.clone(), step.wake_at));
        for (node, output) in &step.kept {
            self.run_outputs.put((node.run, node.node, node.item), output.clone());
        }
        for (task, _) in step.row.tasks.iter().flatten() {
            if self.tasks.has(task) {
                self.use_task(*task, step.row.tasks_used_until());
            }
        }
        self.store_jobs(step.jobs.clone())
    }

    /// What follows from the ends of jobs in a batch.
    pub(super) fn step_runs(&mut self, batch: &Batch, void: &Void) -> Result<RunSteps> {
        let mut steps = RunSteps::default();
        for (run, events) in run_ends(batch, void) {
            if let Some((row, _)) = self.runs.get(&run).cloned() {
                let RunChange { row, jobs, .. } = self.step_run(row, &events, batch.at)?;
                steps.add(&row, &jobs);
            }
        }
        Ok(steps)
    }
}

/// A job of a run that has not ended.
#[derive(Debug, Clone)]
pub struct JobOfRun {
    pub job: JobId,
    pub node: NodeRef,
    pub task: TaskId,
    pub input: Option<Bytes>,
}

impl ModelStore {
    pub fn put_workflow_now(&self, row: WorkflowRow) -> WorkflowStored {
        self.state().put_workflow(row)
    }

    pub fn start_run_now(&self, row: RunRow) -> Result<RunChange> {
        self.state().all_or_nothing(|state| {
            if state.runs.has(&row.id) {
                return Err(inconsistent(format!("{} is there already", row.id)));
            }
            let now = row.made.at;
            state.step_run(row, &[RunEvent::Tick], now)
        })
    }

    pub fn change_run_now(&self, id: RunId, event: RunEvent, now: Timestamp) -> Result<Option<RunChange>> {
        self.state().all_or_nothing(|state| {
            let Some((row, _)) = state.runs.get(&id).cloned() else { return Ok(None) };
            state.step_run(row, &[event], now).map(Some)
        })
    }

    pub fn run_now(&self, id: RunId) -> Option<RunRow> {
        self.state().runs.get(&id).map(|(row, _)| row.clone())
    }

    pub fn due_runs_now(&self, now: Timestamp, after: Option<DueRun>, limit: usize) -> Vec<DueRun> {
        let state = self.state();
        let due = |(row, at): &(RunRow, Option<Timestamp>)| {
            let at = at.filter(|at| *at <= now)?;
            Some(DueRun { at, id: row.id, has_ended: row.status != RunStatus::Running })
        };
        let mut due: Vec<DueRun> = state.runs.values().filter_map(due).collect();
        due.retain(|run| after.is_none_or(|after| (run.at, run.id) > (after.at, after.id)));
        due.sort_unstable();
        due.truncate(limit);
        due
    }

    /// The jobs of a run that have not ended, whatever the run says of them.
    pub fn jobs_of_run_now(&self, run: RunId) -> Vec<JobOfRun> {
        let state = self.state();
        let first = JobKey::original(JobId::first_at(Timestamp::EPOCH));
        let of_shard = state.hot.range((run.shard(), first)..).take_while(|((shard, _), _)| *shard == run.shard());
        let of_run = |((_, key), hot): (&(ShardId, JobKey), &Hot)| {
            let node = hot.node.filter(|node| node.run == run)?;
            Some(JobOfRun { job: key.id, node, task: hot.task, input: hot.input.clone() })
        };
        of_shard.filter_map(of_run).collect()
    }
}

#[async_trait]
impl Workflows for ModelStore {
    async fn put_workflow(&self, row: WorkflowRow) -> Result<WorkflowStored> {
        Ok(self.put_workflow_now(row))
    }

    async fn workflow(&self, namespace: NamespaceId, name: &str, version: Option<u32>) -> Result<Option<WorkflowRow>> {
        let state = self.state();
        Ok(match version {
            Some(version) => state.workflows.get(&(namespace, name.to_owned(), version)).cloned(),
            None => state.newest(namespace, name).cloned(),
        })
    }

    async fn list_workflows(
        &self,
        namespace: NamespaceId,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<WorkflowRow>> {
        let state = self.state();
        let mut names: Vec<&String> =
            state.workflows.values().filter(|row| row.namespace == namespace).map(|row| &row.name).collect();
        names.dedup();
        let names = names.into_iter().filter(|name| after.as_ref().is_none_or(|after| *name > after));
        Ok(names.take(limit).filter_map(|name| state.newest(namespace, name).cloned()).collect())
    }

    async fn start_run(&self, row: RunRow) -> Result<RunChange> {
        self.start_run_now(row)
    }

    async fn change_run(&self, id: RunId, event: RunEvent, now: Timestamp) -> Result<Option<RunChange>> {
        self.change_run_now(id, event, now)
    }

    async fn run(&self, id: RunId) -> Result<Option<RunRow>> {
        Ok(self.run_now(id))
    }

    async fn run_in(&self, namespace: NamespaceId, id: RunId) -> Result<Option<RunRow>> {
        Ok(self.run(id).await?.filter(|row| row.namespace == namespace))
    }

    async fn list_runs(&self, filter: RunFilter) -> Result<Vec<RunRow>> {
        let state = self.state();
        let fits = |row: &&RunRow| {
            row.namespace == filter.namespace
                && filter.workflow.as_ref().is_none_or(|workflow| row.workflow == *workflow)
                && filter.before.is_none_or(|before| row.id < before)
        };
        Ok(state.runs.values().rev().map(|(row, _)| row).filter(fits).take(filter.limit).cloned().collect())
    }

    async fn due_runs(&self, now: Timestamp, after: Option<DueRun>, limit: usize) -> Result<Vec<DueRun>> {
        Ok(self.due_runs_now(now, after, limit))
    }

    async fn node_of_job(&self, job: JobId) -> Result<Option<NodeRef>> {
        let state = self.state();
        let hot = state.due_at.get(&job).and_then(|due_at| {
            let key = punctual_core::JobKey { due_at: *due_at, id: job };
            state.hot.get(&(job.shard(), key))
        });
        Ok(hot.or_else(|| state.finished.get(&job).map(|finished| &finished.hot)).and_then(|hot| hot.node))
    }
}
