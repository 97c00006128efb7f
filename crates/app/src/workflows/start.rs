//! Starting runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use punctual_api::{ErrorKind, RunView, WorkflowRunRequest};
use punctual_core::run::Run;
use punctual_core::schedule::By as DoneAt;
use punctual_core::shard::event::Assignment;
use punctual_core::task::Task;
use punctual_core::workflow::{RunJob, RunState, RunStatus, WorkflowSpec};
use punctual_core::{JobId, NamespaceId, RunId};
use punctual_store::{NewJob, RunChange, RunRow, WorkflowRow};

use super::apply::{read_spec, task_places};
use crate::principal::By;
use crate::principal::permission::SubmitJobs;
use crate::submit::{WantedTask, near_future};
use crate::{App, AppError, Checked, Faults, Result, cut, validate};

/// How deep workflows may run each other.
pub(super) const NESTING_MAX: usize = 5;

/// A run that is about to start.
struct NewRun<'a> {
    id: RunId,
    namespace: NamespaceId,
    who: &'a str,
    workflow: WorkflowRow,
    /// That of `workflow`.
    spec: &'a WorkflowSpec,
    input: Option<Bytes>,
    job: Option<RunJob>,
}

impl App {
    /// Starts a run of a workflow. It keeps the version that it starts with.
    pub async fn start_run(&self, by: &By<SubmitJobs>, name: &str, request: WorkflowRunRequest) -> Result<RunView> {
        request.check()?;
        let row = self.read_workflow(by.namespace(), name, request.version).await?;
        let input = request.input.map(|json| Bytes::from(Box::<str>::from(json).into_string()));
        Ok(cut::run(by, self.run_workflow(by.namespace(), by.who(), row, input).await?))
    }

    /// Starts another run of the same version, with the same input or another one.
    pub async fn rerun(&self, by: &By<SubmitJobs>, id: RunId, request: WorkflowRunRequest) -> Result<RunView> {
        request.check()?;
        let before = self.read_run(by.namespace(), id).await?;
        let version = request.version.unwrap_or(before.version);
        let row = self.read_workflow(by.namespace(), &before.workflow, Some(version)).await?;
        let input = match request.input {
            Some(json) => Some(Bytes::from(Box::<str>::from(json).into_string())),
            None => before.input,
        };
        Ok(cut::run(by, self.run_workflow(by.namespace(), by.who(), row, input).await?))
    }

    async fn run_workflow(
        &self,
        namespace: NamespaceId,
        who: &str,
        row: WorkflowRow,
        input: Option<Bytes>,
    ) -> Result<RunView> {
        let shards = self.shards_for_new_jobs();
        let turn = self.0.shard_turn.fetch_add(1, Ordering::Relaxed);
        let id = RunId::new(self.now(), shards[(turn % shards.len() as u64) as usize], self.random());
        let spec = read_spec(&row)?;
        let run = self.store_run(NewRun { id, namespace, who, workflow: row, spec: &spec, input, job: None }).await?;
        super::view::run(&run, &spec, &BTreeMap::new())
    }

    /// Starts the run that an attempt of a job is, unless it was started before.
    pub(super) async fn start_run_of(&self, assignment: &Assignment) -> Result<()> {
        let Run::Workflow(wanted) = &assignment.task.spec.run else { return Err(AppError::out_of_place()) };
        let (job, attempt) = (assignment.key.id, assignment.attempt.0);
        let id = RunId::of_attempt(job, attempt);
        if self.0.store.run(id).await?.is_some() {
            return Ok(());
        }
        let namespace = assignment.task.namespace;
        let workflow = self.read_workflow(namespace, &wanted.name, wanted.version).await?;
        self.check_nesting(job).await?;
        let spec = read_spec(&workflow)?;
        let input = assignment.input.clone().into_bytes();
        let (who, job) = (job.to_string(), Some(RunJob { job, attempt, is_reported: false }));
        let new = NewRun { id, namespace, who: &who, workflow, spec: &spec, input, job };
        match self.store_run(new).await {
            // Another server was quicker.
            Err(_) if self.0.store.run(id).await?.is_some() => Ok(()),
            started => started.map(drop),
        }
    }

    /// Refuses a job of a run that is nested too deep to start another run.
    async fn check_nesting(&self, job: JobId) -> Result<()> {
        let mut job = job;
        for _ in 1..NESTING_MAX {
            let Some(node) = self.0.store.node_of_job(job).await? else { return Ok(()) };
            let parent = self.0.store.run(node.run).await?.and_then(|run| run.state.job);
            match parent {
                Some(parent) => job = parent.job,
                None => return Ok(()),
            }
        }
        if self.0.store.node_of_job(job).await?.is_none() {
            return Ok(());
        }
        let error = AppError::new(ErrorKind::RunRefused, format!("workflows may run each other {NESTING_MAX} deep"));
        Err(error.hint("have one workflow of the chain run the tasks of the next one itself"))
    }

    async fn store_run(&self, new: NewRun<'_>) -> Result<RunRow> {
        let NewRun { id, namespace, who, workflow, spec, input, job } = new;
        let places = task_places(spec);
        let work: Vec<usize> =
            (0..places.len()).filter(|&at| places[at].name.is_some() || places[at].inline.is_some()).collect();
        let wanted: Vec<WantedTask<'_>> =
            work.iter().map(|&at| WantedTask { name: places[at].name, inline: places[at].inline.as_deref() }).collect();
        let found = match &wanted[..] {
            [] => Vec::new(),
            wanted => {
                let resolved = self.resolve_tasks(namespace, wanted, |at| places[work[at]].pointer.clone()).await;
                resolved.map_err(|error| gone(error, &workflow))?
            }
        };
        let mut tasks: Vec<Option<Arc<Task>>> = vec![None; places.len()];
        for (at, task) in work.into_iter().zip(found) {
            tasks[at] = Some(task);
        }
        // Of its jobs nobody knows the number. Once started it is never held up, so that nothing half-done remains. A run that a
        // job is was not asked for by anybody now: it starts although there is no room, and counts.
        let admitted = match job {
            None => Some(self.admit_jobs(namespace, 1).await?),
            Some(_) => None,
        };
        let now = self.now();
        let run = RunRow {
            id,
            namespace,
            workflow: workflow.name,
            version: workflow.version,
            made: DoneAt { at: now, who: who.to_owned() },
            input: input.filter(|input| &input[..] != b"null"),
            tasks: tasks.iter().map(|task| task.as_ref().map(|task| (task.id, task.spec.priority))).collect(),
            state: RunState { job, ..RunState::new(places.len(), now + spec.timeout) },
            status: RunStatus::Running,
        };
        let RunChange { row: run, jobs, .. } = self.0.store.start_run(run).await?;
        if let Some(admitted) = admitted {
            admitted.stored(1);
        }
        self.tell_of_jobs(&jobs).await;
        Ok(run)
    }

    /// Passes word of jobs of runs on. If it is lost, the owners' sweeps find them.
    pub(crate) async fn tell_of_jobs(&self, jobs: &[NewJob]) {
        if jobs.is_empty() {
            return;
        }
        let found = match self.tasks_by_id(jobs.iter().map(|job| job.task)).await {
            Ok(found) => found,
            Err(error) => return tracing::debug!(%error, "the owners of jobs of a run got no hint"),
        };
        let known: Vec<(NewJob, Arc<Task>)> =
            jobs.iter().filter_map(|job| Some((job.clone(), Arc::clone(found.get(&job.task)?)))).collect();
        let (jobs, tasks): (Vec<NewJob>, Vec<Arc<Task>>) = known.into_iter().unzip();
        self.tell_owners(near_future(&jobs, &tasks, self.now()));
    }
}

/// A task was deleted since the definition was stored.
fn gone(error: AppError, row: &WorkflowRow) -> AppError {
    if error.kind != ErrorKind::TaskNotFound {
        return error;
    }
    let detail = format!("version {} of {} cannot run: {}", row.version, row.name, error.detail);
    AppError::new(ErrorKind::RunRefused, detail).hint("create the task again, or apply a definition without it")
}

impl Checked for WorkflowRunRequest {
    fn check(&self) -> Result<()> {
        let mut faults = Faults::default();
        if let Some(input) = &self.input {
            faults.check(validate::input(input.get()));
        }
        faults.finish()
    }
}
