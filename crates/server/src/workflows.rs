//! Workflows and their runs.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use punctual_api::{
    DecideRequest, ResumeRequest, RunEventRequest, RunList, RunQuery, RunView, SkipNodeRequest, VersionQuery,
    WorkflowApplied, WorkflowList, WorkflowQuery, WorkflowRunRequest, WorkflowView,
};
use punctual_app::App;
use punctual_app::permission::{ControlJobs, EditTasks, SubmitJobs, ViewJobs, ViewTasks};
use punctual_core::workflow::WorkflowSpec;

use crate::parse::{Json, JsonOrNothing, Name, NoParams, Params, RunPath};
use crate::permit::Permit;
use crate::problem::{Problems, Refused};

/// Lists the newest version of each workflow, in order of name.
#[utoipa::path(get, path = "/v1/workflows", operation_id = "list_workflows", tag = "workflows", params(WorkflowQuery), responses(
    (status = 200, description = "A page of workflows", body = WorkflowList),
    Problems,
))]
pub(crate) async fn list(
    Permit(by): Permit<ViewTasks>,
    State(app): State<App>,
    Params(query): Params<WorkflowQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.list_workflows(&by, &query).await?).into_response())
}

/// Reads a version of a workflow.
#[utoipa::path(get, path = "/v1/workflows/{name}", operation_id = "get_workflow", tag = "workflows",
    params(("name" = String, Path), VersionQuery), responses(
    (status = 200, description = "The definition", body = WorkflowView),
    Problems,
))]
pub(crate) async fn read(
    Permit(by): Permit<ViewTasks>,
    State(app): State<App>,
    Name(name): Name,
    Params(query): Params<VersionQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.workflow(&by, &name, &query).await?).into_response())
}

/// Stores a definition as a new version, unless it is the newest one already. Runs keep the version that they started with.
#[utoipa::path(put, path = "/v1/workflows/{name}", operation_id = "apply_workflow", tag = "workflows",
    params(("name" = String, Path)), request_body = WorkflowSpec, responses(
    (status = 200, description = "The newest version has this definition already", body = WorkflowApplied),
    (status = 201, description = "The version is durable", body = WorkflowApplied),
    Problems,
))]
pub(crate) async fn put(
    Permit(by): Permit<EditTasks>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
    body: Json<WorkflowSpec>,
) -> Result<Response, Refused> {
    let applied = app.apply_workflow(&by, &name, &body.value).await?;
    let status = if applied.is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, axum::Json(applied)).into_response())
}

/// Starts a run of a workflow.
#[utoipa::path(post, path = "/v1/workflows/{name}/runs", operation_id = "create_run", tag = "workflows",
    params(("name" = String, Path)), request_body = Option<WorkflowRunRequest>, responses(
    (status = 201, description = "The run is durable", body = RunView),
    Problems,
))]
pub(crate) async fn start(
    Permit(by): Permit<SubmitJobs>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
    JsonOrNothing(request): JsonOrNothing<WorkflowRunRequest>,
) -> Result<Response, Refused> {
    Ok(created(app.start_run(&by, &name, request).await?))
}

/// Lists runs, the latest first.
#[utoipa::path(get, path = "/v1/runs", operation_id = "list_runs", tag = "workflows", params(RunQuery), responses(
    (status = 200, description = "A page of runs", body = RunList),
    Problems,
))]
pub(crate) async fn list_runs(
    Permit(by): Permit<ViewJobs>,
    State(app): State<App>,
    Params(query): Params<RunQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.list_runs(&by, query).await?).into_response())
}

/// Reads a run, with the state and the job of each node.
#[utoipa::path(get, path = "/v1/runs/{id}", operation_id = "get_run", tag = "workflows", params(("id" = String, Path)), responses(
    (status = 200, description = "The run as it is now", body = RunView),
    Problems,
))]
pub(crate) async fn read_run(
    Permit(by): Permit<ViewJobs>,
    State(app): State<App>,
    RunPath(id): RunPath,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.run(&by, id).await?).into_response())
}

/// Ends a run: nothing more of it starts, and its jobs are cancelled.
#[utoipa::path(post, path = "/v1/runs/{id}/cancel", operation_id = "cancel_run", tag = "workflows", params(("id" = String, Path)), responses(
    (status = 200, description = "The run as it is now", body = RunView),
    Problems,
))]
pub(crate) async fn cancel(
    Permit(by): Permit<ControlJobs>,
    State(app): State<App>,
    RunPath(id): RunPath,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.cancel_workflow_run(&by, id).await?).into_response())
}

/// Has a run go on that failed or was cancelled: what failed begins again, what succeeded stays.
#[utoipa::path(post, path = "/v1/runs/{id}/resume", operation_id = "resume_run", tag = "workflows",
    params(("id" = String, Path)), request_body = Option<ResumeRequest>, responses(
    (status = 200, description = "The run as it is now", body = RunView),
    Problems,
))]
pub(crate) async fn resume(
    Permit(by): Permit<ControlJobs>,
    State(app): State<App>,
    RunPath(id): RunPath,
    _: NoParams,
    JsonOrNothing(request): JsonOrNothing<ResumeRequest>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.resume_run(&by, id, &request).await?).into_response())
}

/// Starts another run of the same version, with the same input or another one.
#[utoipa::path(post, path = "/v1/runs/{id}/rerun", operation_id = "rerun", tag = "workflows",
    params(("id" = String, Path)), request_body = Option<WorkflowRunRequest>, responses(
    (status = 201, description = "The new run", body = RunView),
    Problems,
))]
pub(crate) async fn rerun(
    Permit(by): Permit<SubmitJobs>,
    State(app): State<App>,
    RunPath(id): RunPath,
    _: NoParams,
    JsonOrNothing(request): JsonOrNothing<WorkflowRunRequest>,
) -> Result<Response, Refused> {
    Ok(created(app.rerun(&by, id, request).await?))
}

/// Passes over a node that has not started.
#[utoipa::path(post, path = "/v1/runs/{id}/skip", operation_id = "skip_node", tag = "workflows",
    params(("id" = String, Path)), request_body = SkipNodeRequest, responses(
    (status = 200, description = "The run as it is now", body = RunView),
    Problems,
))]
pub(crate) async fn skip(
    Permit(by): Permit<ControlJobs>,
    State(app): State<App>,
    RunPath(id): RunPath,
    _: NoParams,
    body: Json<SkipNodeRequest>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.skip_node(&by, id, &body.value).await?).into_response())
}

/// Approves or rejects a gate.
#[utoipa::path(post, path = "/v1/runs/{id}/decide", operation_id = "decide_gate", tag = "workflows",
    params(("id" = String, Path)), request_body = DecideRequest, responses(
    (status = 200, description = "The run as it is now", body = RunView),
    Problems,
))]
pub(crate) async fn decide(
    Permit(by): Permit<ControlJobs>,
    State(app): State<App>,
    RunPath(id): RunPath,
    _: NoParams,
    body: Json<DecideRequest>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.decide_gate(&by, id, &body.value).await?).into_response())
}

/// Tells a run of an outside event: the gates that wait for it succeed, with the payload as their output.
#[utoipa::path(post, path = "/v1/runs/{id}/events", operation_id = "send_run_event", tag = "workflows",
    params(("id" = String, Path)), request_body = RunEventRequest, responses(
    (status = 200, description = "The run as it is now", body = RunView),
    Problems,
))]
pub(crate) async fn send_event(
    Permit(by): Permit<ControlJobs>,
    State(app): State<App>,
    RunPath(id): RunPath,
    _: NoParams,
    body: Json<RunEventRequest>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.send_run_event(&by, id, body.value).await?).into_response())
}

fn created(run: RunView) -> Response {
    let location = format!("/v1/runs/{}", run.id);
    (StatusCode::CREATED, [(header::LOCATION, location)], axum::Json(run)).into_response()
}
