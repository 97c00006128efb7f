//! Join tokens and enrolled workers.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use punctual_api::{
    CreatedWorkerToken, EnrolmentList, EnrolmentQuery, EnrolmentView, WorkerEdit, WorkerToken, WorkerTokenList,
    WorkerTokenRequest,
};
use punctual_app::App;
use punctual_app::permission::{ManageWorkers, ViewWorkers};

use crate::parse::{EnrolmentPath, Json, NoParams, Params, WorkerTokenPath};
use crate::permit::Permit;
use crate::problem::{Problems, Refused};

/// Creates a token with which workers on other hosts join. Its text is only in this answer.
#[utoipa::path(post, path = "/v1/worker-tokens", operation_id = "create_worker_token", tag = "nodes",
    request_body = WorkerTokenRequest, responses(
    (status = 201, description = "The token with its secret text", body = CreatedWorkerToken),
    Problems,
))]
pub(crate) async fn create_token(
    Permit(by): Permit<ManageWorkers>,
    State(app): State<App>,
    request: Json<WorkerTokenRequest>,
) -> Result<Response, Refused> {
    let created = app.create_worker_token(&by, &request.value).await?;
    Ok((StatusCode::CREATED, axum::Json(created)).into_response())
}

/// Lists the join tokens without their secrets, the oldest first. Those that ended are listed for a week.
#[utoipa::path(get, path = "/v1/worker-tokens", operation_id = "list_worker_tokens", tag = "nodes", responses(
    (status = 200, description = "All join tokens", body = WorkerTokenList),
    Problems,
))]
pub(crate) async fn list_tokens(
    Permit(by): Permit<ManageWorkers>,
    State(app): State<App>,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.list_worker_tokens(&by).await?).into_response())
}

/// Deletes a join token: nobody joins with it any more. Workers that joined with it stay.
#[utoipa::path(delete, path = "/v1/worker-tokens/{id}", operation_id = "delete_worker_token", tag = "nodes",
    params(("id" = String, Path)), responses(
    (status = 204, description = "Nobody can join with it"),
    Problems,
))]
pub(crate) async fn delete_token(
    Permit(by): Permit<ManageWorkers>,
    State(app): State<App>,
    WorkerTokenPath(id): WorkerTokenPath,
    _: NoParams,
) -> Result<StatusCode, Refused> {
    app.delete_worker_token(&by, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Changes the namespaces of all workers that joined with a token, and of those that will. It counts within 5 seconds.
#[utoipa::path(patch, path = "/v1/worker-tokens/{id}", operation_id = "edit_worker_token", tag = "nodes",
    params(("id" = String, Path)), request_body = WorkerEdit, responses(
    (status = 200, description = "The token as it is now", body = WorkerToken),
    Problems,
))]
pub(crate) async fn edit_token(
    Permit(by): Permit<ManageWorkers>,
    State(app): State<App>,
    WorkerTokenPath(id): WorkerTokenPath,
    _: NoParams,
    Json { value: edit, .. }: Json<WorkerEdit>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.edit_worker_token(&by, id, &edit).await?).into_response())
}

/// Changes the namespaces whose jobs a worker runs. It counts within 5 seconds; what the worker runs goes on.
#[utoipa::path(patch, path = "/v1/worker-enrolments/{id}", operation_id = "edit_worker", tag = "nodes",
    params(("id" = String, Path)), request_body = WorkerEdit, responses(
    (status = 200, description = "The worker as it is now", body = EnrolmentView),
    Problems,
))]
pub(crate) async fn edit(
    Permit(by): Permit<ManageWorkers>,
    State(app): State<App>,
    EnrolmentPath(id): EnrolmentPath,
    _: NoParams,
    Json { value: edit, .. }: Json<WorkerEdit>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.edit_worker(&by, id, &edit).await?).into_response())
}

/// Lists the workers that joined, the oldest first. Those whose certificate expired are listed for a week.
#[utoipa::path(get, path = "/v1/worker-enrolments", operation_id = "list_worker_enrolments", tag = "nodes",
    params(EnrolmentQuery), responses(
    (status = 200, description = "The enrolled workers", body = EnrolmentList),
    Problems,
))]
pub(crate) async fn list(
    Permit(by): Permit<ViewWorkers>,
    State(app): State<App>,
    Params(query): Params<EnrolmentQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.list_enrolments(&by, &query).await?).into_response())
}

/// Revokes a worker: it is cut off on all servers within seconds, and what it runs is lost.
#[utoipa::path(delete, path = "/v1/worker-enrolments/{id}", operation_id = "revoke_worker", tag = "nodes",
    params(("id" = String, Path)), responses(
    (status = 204, description = "The worker is revoked"),
    Problems,
))]
pub(crate) async fn revoke(
    Permit(by): Permit<ManageWorkers>,
    State(app): State<App>,
    EnrolmentPath(id): EnrolmentPath,
    _: NoParams,
) -> Result<StatusCode, Refused> {
    app.revoke_worker(&by, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
