//! The buttons. Each does what a route of REST does, and shows the page again with what was done.

use axum::extract::{Path, State};
use axum::response::Response;
use punctual_api::{
    DecideRequest, GateDecision, NoteRequest, ResumeRequest, RunOutcome, RunRequest, SkipRequest, WorkflowRunRequest,
};
use punctual_app::permission::{ControlJobs, ControlSchedules, SubmitJobs};
use punctual_app::{App, AppError};
use punctual_core::{JobId, RunId};
use punctual_dashboard::Confirmation;

use super::{Answer, see, url_escaped};
use crate::parse::{JobPath, Name, RunPath};
use crate::permit::Permit;

fn job_page(id: JobId, notice: Confirmation) -> Response {
    see(&format!("/jobs/{id}?done={}", notice.name()))
}

fn run_page(id: RunId, notice: Confirmation) -> Response {
    see(&format!("/runs/{id}?done={}", notice.name()))
}

fn schedule_page(name: &str, notice: Confirmation) -> Response {
    see(&format!("/schedules/{}?done={}", url_escaped(name), notice.name()))
}

fn queues_page(notice: Confirmation) -> Response {
    see(&format!("/queues?done={}", notice.name()))
}

pub(super) async fn cancel_job(
    Permit(by): Permit<ControlJobs>,
    State(app): State<App>,
    JobPath(id): JobPath,
) -> Answer {
    let answered = app.cancel_job(&by, id).await?;
    Ok(job_page(id, if answered.pending { Confirmation::CancelRequested } else { Confirmation::Cancelled }))
}

pub(super) async fn delete_job(
    Permit(by): Permit<ControlJobs>,
    State(app): State<App>,
    JobPath(id): JobPath,
) -> Answer {
    app.delete_job(&by, id).await?;
    Ok(see(&format!("/jobs?done={}", Confirmation::Deleted.name())))
}

pub(super) async fn retry_job(Permit(by): Permit<ControlJobs>, State(app): State<App>, JobPath(id): JobPath) -> Answer {
    app.retry_job(&by, id).await?;
    Ok(job_page(id, Confirmation::Retried))
}

pub(super) async fn run_job_now(
    Permit(by): Permit<ControlJobs>,
    State(app): State<App>,
    JobPath(id): JobPath,
) -> Answer {
    app.run_job_now(&by, id).await?;
    Ok(job_page(id, Confirmation::Started))
}

pub(super) async fn pause_queue(Permit(by): Permit<ControlJobs>, State(app): State<App>, Name(name): Name) -> Answer {
    app.pause_queue(&by, &name, NoteRequest::default()).await?;
    Ok(queues_page(Confirmation::Paused))
}

pub(super) async fn resume_queue(Permit(by): Permit<ControlJobs>, State(app): State<App>, Name(name): Name) -> Answer {
    app.resume_queue(&by, &name, NoteRequest::default()).await?;
    Ok(queues_page(Confirmation::Resumed))
}

pub(super) async fn drain_queue(Permit(by): Permit<ControlJobs>, State(app): State<App>, Name(name): Name) -> Answer {
    app.drain_queue(&by, &name, NoteRequest::default()).await?;
    Ok(queues_page(Confirmation::Drained))
}

pub(super) async fn pause_schedule(
    Permit(by): Permit<ControlSchedules>,
    State(app): State<App>,
    Name(name): Name,
) -> Answer {
    app.pause_schedule(&by, &name, NoteRequest::default()).await?;
    Ok(schedule_page(&name, Confirmation::Paused))
}

pub(super) async fn resume_schedule(
    Permit(by): Permit<ControlSchedules>,
    State(app): State<App>,
    Name(name): Name,
) -> Answer {
    app.resume_schedule(&by, &name, NoteRequest::default()).await?;
    Ok(schedule_page(&name, Confirmation::Resumed))
}

pub(super) async fn run_schedule(
    Permit(by): Permit<ControlSchedules>,
    State(app): State<App>,
    Name(name): Name,
) -> Answer {
    let answer = app.run_schedule(&by, &name, RunRequest::default()).await?;
    let notice = match answer.outcome {
        RunOutcome::Started | RunOutcome::CancelsPrevious => Confirmation::RunStarted,
        RunOutcome::Queued | RunOutcome::Skipped => Confirmation::RunNotStarted,
    };
    Ok(schedule_page(&name, notice))
}

pub(super) async fn skip_schedule(
    Permit(by): Permit<ControlSchedules>,
    State(app): State<App>,
    Name(name): Name,
) -> Answer {
    app.skip_schedule(&by, &name, SkipRequest::default()).await?;
    Ok(schedule_page(&name, Confirmation::Skipped))
}

pub(super) async fn run_workflow(Permit(by): Permit<SubmitJobs>, State(app): State<App>, Name(name): Name) -> Answer {
    let run = app.start_run(&by, &name, WorkflowRunRequest::default()).await?;
    Ok(run_page(run.id, Confirmation::RunStarted))
}

pub(super) async fn rerun(Permit(by): Permit<SubmitJobs>, State(app): State<App>, RunPath(id): RunPath) -> Answer {
    let run = app.rerun(&by, id, WorkflowRunRequest::default()).await?;
    Ok(run_page(run.id, Confirmation::RunStarted))
}

pub(super) async fn cancel_run(
    Permit(by): Permit<ControlJobs>,
    State(app): State<App>,
    RunPath(id): RunPath,
) -> Answer {
    app.cancel_workflow_run(&by, id).await?;
    Ok(run_page(id, Confirmation::Cancelled))
}

pub(super) async fn resume_run(
    Permit(by): Permit<ControlJobs>,
    State(app): State<App>,
    RunPath(id): RunPath,
) -> Answer {
    app.resume_run(&by, id, &ResumeRequest::default()).await?;
    Ok(run_page(id, Confirmation::Resumed))
}

/// The run and the node in the address of a button.
type Gate = Path<(String, String)>;

pub(super) async fn approve(permit: Permit<ControlJobs>, app: State<App>, gate: Gate) -> Answer {
    decide(permit, app, gate, GateDecision::Approve).await
}

pub(super) async fn reject(permit: Permit<ControlJobs>, app: State<App>, gate: Gate) -> Answer {
    decide(permit, app, gate, GateDecision::Reject).await
}

async fn decide(
    Permit(by): Permit<ControlJobs>,
    State(app): State<App>,
    Path((id, node)): Gate,
    decision: GateDecision,
) -> Answer {
    let id: RunId = id.parse().map_err(|error: punctual_core::id::BadId| AppError::field("id", error.to_string()))?;
    app.decide_gate(&by, id, &DecideRequest { node, decision }).await?;
    Ok(run_page(id, Confirmation::Decided))
}
