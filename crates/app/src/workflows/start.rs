//! Starting runs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use punctual_api::{ErrorKind, RunView, WorkflowRunRequest};
use punctual_core::schedule::By as DoneAt;
use punctual_core::task::Task;
use punctual_core::workflow::{RunState, RunStatus};
use punctual_core::{NamespaceId, RunId};
use punctual_store::{NewJob, RunChange, RunRow, WorkflowRow};

use super::apply::{read_spec, task_places};
use crate::principal::By;
use crate::principal::permission::SubmitJobs;
use crate::submit::{WantedTask, near_future};
use crate::{App, AppError, Checked, Faults, Result, cut, validate};

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
        let spec = read_spec(&row)?;
        let places = task_places(&spec);
        let work: Vec<usize> =
            (0..places.len()).filter(|&at| places[at].name.is_some() || places[at].inline.is_some()).collect();
        let wanted: Vec<WantedTask<'_>> =
            work.iter().map(|&at| WantedTask { name: places[at].name, inline: places[at].inline }).collect();
        let found = match &wanted[..] {
            [] => Vec::new(),
            wanted => {
                let resolved = self.resolve_tasks(namespace, wanted, |at| places[work[at]].pointer.clone()).await;
                resolved.map_err(|error| gone(error, &row))?
            }
        };
        let mut tasks: Vec<Option<Arc<Task>>> = vec![None; places.len()];
        for (at, task) in work.into_iter().zip(found) {
            tasks[at] = Some(task);
        }
        // Of its jobs nobody knows the number. Once started it is never held up, so that nothing half-done remains.
        let admitted = self.admit_jobs(namespace, 1).await?;
        let now = self.now();
        let shards = self.shards_for_new_jobs();
        let turn = self.0.shard_turn.fetch_add(1, Ordering::Relaxed);
        let run = RunRow {
            id: RunId::new(now, shards[(turn % shards.len() as u64) as usize], self.random()),
            namespace,
            workflow: row.name,
            version: row.version,
            made: DoneAt { at: now, who: who.to_owned() },
            input: input.filter(|input| &input[..] != b"null"),
            tasks: tasks.iter().map(|task| task.as_ref().map(|task| (task.id, task.spec.priority))).collect(),
            state: RunState::new(places.len(), now + spec.timeout),
            status: RunStatus::Running,
        };
        let RunChange { row: run, jobs, .. } = self.0.store.start_run(run).await?;
        admitted.stored(1);
        self.tell_of_jobs(&jobs).await;
        super::view::run(&run, &spec)
    }

    /// Passes word of jobs of runs on. If it is lost, the owners' sweeps find them.
    pub(super) async fn tell_of_jobs(&self, jobs: &[NewJob]) {
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
