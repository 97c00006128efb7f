//! What people do to runs, and what time alone brings about.

use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use punctual_api::{
    DecideRequest, ErrorKind, GateDecision, ResumeRequest, RunEventRequest, RunQuery, RunView, SkipNodeRequest,
    VersionQuery, WorkflowQuery,
};
use punctual_core::shard::event::Command;
use punctual_core::workflow::{GateVerdict, OUTPUT_KEPT_MAX, Refusal, RunEvent, RunStatus, WorkflowSpec};
use punctual_core::{JobId, RunId, json};
use punctual_store::{DueRun, RunChange, RunRow, StoreError};

use super::apply::read_spec;
use super::view::Quotes;
use crate::principal::By;
use crate::principal::permission::ControlJobs;
use crate::{App, AppError, Checked, Faults, Result, cut, validate};

/// Jobs that are cancelled at a time.
const CANCELS_AT_ONCE: usize = 32;
/// Runs that are advanced at a time.
pub(super) const RUNS_AT_ONCE: usize = 16;
/// A page of due runs.
const DUE_RUNS_MAX: usize = 500;
/// Pages of one look.
const DUE_PAGES_MAX: usize = 10;

impl App {
    /// Ends a run: nothing more of it starts, and its jobs are cancelled.
    pub async fn cancel_workflow_run(&self, by: &By<ControlJobs>, id: RunId) -> Result<RunView> {
        let (row, _) = self.with_spec(by, id).await?;
        self.change_run(by, row, RunEvent::Cancel { by: by.who().to_owned() }).await
    }

    /// Has a run go on that failed or was cancelled: what failed begins again, what succeeded stays.
    pub async fn resume_run(&self, by: &By<ControlJobs>, id: RunId, request: &ResumeRequest) -> Result<RunView> {
        let (row, spec) = self.with_spec(by, id).await?;
        let number = |(place, name): (usize, &String)| node(&spec, name, &format!("/skip/{place}"));
        let skip = request.skip.iter().enumerate().map(number).collect::<Result<_>>()?;
        self.change_run(by, row, RunEvent::Resume { skip }).await
    }

    /// Passes over a node that has not started.
    pub async fn skip_node(&self, by: &By<ControlJobs>, id: RunId, request: &SkipNodeRequest) -> Result<RunView> {
        let (row, spec) = self.with_spec(by, id).await?;
        let node = node(&spec, &request.node, "/node")?;
        self.change_run(by, row, RunEvent::Skip { node, by: by.who().to_owned() }).await
    }

    /// Decides a gate.
    pub async fn decide_gate(&self, by: &By<ControlJobs>, id: RunId, request: &DecideRequest) -> Result<RunView> {
        let (row, spec) = self.with_spec(by, id).await?;
        let node = node(&spec, &request.node, "/node")?;
        let verdict = match request.decision {
            GateDecision::Approve => GateVerdict::Approved,
            GateDecision::Reject => GateVerdict::Rejected,
        };
        self.change_run(by, row, RunEvent::Decide { node, verdict, by: by.who().to_owned() }).await
    }

    /// Tells a run of an outside event.
    pub async fn send_run_event(&self, by: &By<ControlJobs>, id: RunId, request: RunEventRequest) -> Result<RunView> {
        request.check()?;
        let (row, _) = self.with_spec(by, id).await?;
        let RunEventRequest { event, payload } = request;
        let payload = payload.map(|json| Bytes::from(Box::<str>::from(json).into_string()));
        self.change_run(by, row, RunEvent::Arrived { event, payload, by: by.who().to_owned() }).await
    }

    async fn with_spec(&self, by: &By<ControlJobs>, id: RunId) -> Result<(RunRow, WorkflowSpec)> {
        let row = self.read_run(by.namespace(), id).await?;
        let workflow = self.read_workflow(row.namespace, &row.workflow, Some(row.version)).await?;
        let spec = read_spec(&workflow)?;
        Ok((row, spec))
    }

    async fn change_run(&self, by: &By<ControlJobs>, row: RunRow, event: RunEvent) -> Result<RunView> {
        let id = row.id;
        let changed = self.0.store.change_run(id, event, self.now()).await?;
        let RunChange { row, jobs, cancels, refused } =
            changed.ok_or_else(|| AppError::new(ErrorKind::RunNotFound, format!("there is no run {id}")))?;
        if let Some(refusal) = refused {
            return Err(refused_because(refusal, &row));
        }
        self.tell_of_jobs(&jobs).await;
        self.cancel_jobs_of_run(&cancels).await;
        Ok(cut::run(by, self.run_view(&row, Quotes::of(by)).await?))
    }

    /// What is not answered is asked again: the run is looked at until its jobs have ended.
    async fn cancel_jobs_of_run(&self, jobs: &[JobId]) {
        for part in jobs.chunks(CANCELS_AT_ONCE) {
            for answer in join_all(part.iter().map(|job| self.command(*job, Command::Cancel))).await {
                if let Err(error) = answer
                    && !matches!(error.kind, ErrorKind::JobAlreadyFinished | ErrorKind::JobNotFound)
                {
                    tracing::debug!(%error.detail, "a job of a run could not be cancelled, and is tried again");
                }
            }
        }
    }

    /// Advances the runs of this server's shards whose time has come: gates that nobody decided, runs that take too long, and
    /// jobs that are still to be cancelled. Answers the runs that have ended and whose jobs have not heard of it. A look goes
    /// through some pages, and `looked` is where the next one goes on: runs of other servers are in them as well, and must
    /// not hide those of this one.
    pub(super) async fn advance_runs(&self, looked: &mut Option<DueRun>) -> Result<Vec<RunRow>> {
        let owned = self.0.cluster.owned_here();
        let mut ended = Vec::new();
        if owned.is_empty() {
            return Ok(ended);
        }
        for _ in 0..DUE_PAGES_MAX {
            let due = self.0.store.due_runs(self.now(), *looked, DUE_RUNS_MAX).await?;
            let mine: Vec<DueRun> = due.iter().copied().filter(|run| owned.contains(&run.id.shard())).collect();
            for part in mine.chunks(RUNS_AT_ONCE) {
                let rows = try_join_all(part.iter().map(|run| self.look_at(*run))).await?;
                ended.extend(rows.into_iter().flatten().filter(|row| row.state.awaits_report()));
            }
            *looked = due.last().copied().filter(|_| due.len() == DUE_RUNS_MAX);
            if looked.is_none() {
                break;
            }
        }
        Ok(ended)
    }

    async fn look_at(&self, run: DueRun) -> Result<Option<RunRow>> {
        // Nothing follows in a run that has ended, so that its row need not be written.
        if run.has_ended {
            Ok(self.0.store.run(run.id).await?)
        } else {
            self.change_and_tell(run.id, RunEvent::Tick).await
        }
    }

    pub(super) async fn advance_run(&self, id: RunId, event: RunEvent) -> Result<()> {
        self.change_and_tell(id, event).await.map(drop)
    }

    /// `None` if the run is not there, or cannot be read or written: it must not keep others from going on.
    async fn change_and_tell(&self, id: RunId, event: RunEvent) -> Result<Option<RunRow>> {
        match self.0.store.change_run(id, event, self.now()).await {
            Ok(None) => Ok(None),
            Ok(Some(RunChange { row, jobs, cancels, refused: _ })) => {
                self.tell_of_jobs(&jobs).await;
                self.cancel_jobs_of_run(&cancels).await;
                Ok(Some(row))
            }
            Err(StoreError::Inconsistent(error)) => {
                tracing::error!(run = %id, error, "a run was not advanced");
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn node(spec: &WorkflowSpec, name: &str, pointer: &str) -> Result<u16> {
    let place = spec.nodes.iter().position(|node| node.name == name);
    let place = place.ok_or_else(|| AppError::field(pointer, format!("the run has no node `{name}`")))?;
    Ok(place as u16)
}

fn refused_because(refusal: Refusal, row: &RunRow) -> AppError {
    let (detail, hint) = match refusal {
        Refusal::NotOpen => ("the node is not a gate that waits for a decision", "look at the states of its nodes"),
        Refusal::NoSuchEvent => (
            "no gate of the run waits for this event now",
            "look at the states of its nodes, and try again when it waits",
        ),
        Refusal::NotSkippable => (
            "the node cannot be skipped in its state",
            "skip what has not started; resume a failed run with `skip` to pass over what failed",
        ),
        Refusal::Ended => ("the run has ended, or only what comes after its nodes still runs", "look at its state"),
        Refusal::NotResumable => match row.status {
            RunStatus::Running => (
                "the run has not ended, and only a run that failed or was cancelled can be resumed",
                "see what it waits for with `punctual explain RUN`",
            ),
            RunStatus::Succeeded | RunStatus::Failed | RunStatus::Cancelled => (
                "only a run that failed or was cancelled can be resumed",
                "start another one with `punctual workflow rerun RUN`",
            ),
        },
    };
    AppError::new(ErrorKind::RunRefused, detail).hint(hint.replace("RUN", &row.id.to_string()))
}

impl Checked for RunQuery {}
impl Checked for WorkflowQuery {}
impl Checked for VersionQuery {}
impl Checked for ResumeRequest {}
impl Checked for SkipNodeRequest {}
impl Checked for DecideRequest {}
impl Checked for RunEventRequest {
    fn check(&self) -> Result<()> {
        let mut faults = Faults::default();
        faults.check(validate::name("/event", &self.event));
        if let Some(payload) = &self.payload {
            let len = payload.get().len();
            if len > OUTPUT_KEPT_MAX {
                faults.check(Err(AppError::too_long(
                    "/payload",
                    format!("must be at most {OUTPUT_KEPT_MAX} bytes, not {len}"),
                )));
            } else if json::depth(payload.get().as_bytes()) > json::DEPTH_MAX {
                let detail = format!("must be nested at most {} deep", json::DEPTH_MAX);
                faults.check(Err(AppError::too_long("/payload", detail)));
            }
        }
        faults.finish()
    }
}
