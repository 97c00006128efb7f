//! Batches.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, header};
use punctual_api::{BatchList, BatchQuery, BatchRequest, BatchView, MemberList, MemberQuery, limits};
use punctual_app::App;
use punctual_app::permission::{ControlJobs, SubmitJobs, ViewJobs};

use crate::jobs::{created, keyed};
use crate::parse::{BatchPath, Json, NoParams, Params};
use crate::permit::Permit;
use crate::problem::{Problems, Refused};

/// Stores a batch with all of its members, or nothing.
#[utoipa::path(post, path = "/v1/batches", operation_id = "create_batch", tag = "batches",
    params(("Idempotency-Key" = Option<String>, Header)), request_body = BatchRequest, responses(
    (status = 201, description = "The batch and its jobs are durable", body = BatchView),
    Problems,
))]
pub(crate) async fn create(
    Permit(by): Permit<SubmitJobs>,
    State(app): State<App>,
    _: NoParams,
    headers: HeaderMap,
    body: Json<BatchRequest, { limits::BULK_BODY_BYTES_MAX }>,
) -> Result<Response, Refused> {
    let keyed = keyed(&headers, &body.bytes)?;
    let answer = Box::pin(app.create_batch(&by, body.value, keyed)).await?;
    let json = serde_json::to_vec(&answer.answer).expect("an answer is JSON");
    let mut response = created(json, answer.is_replayed);
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/batches/{}", answer.answer.id)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Lists batches, the latest first.
#[utoipa::path(get, path = "/v1/batches", operation_id = "list_batches", tag = "batches", params(BatchQuery), responses(
    (status = 200, description = "A page of batches", body = BatchList),
    Problems,
))]
pub(crate) async fn list(
    Permit(by): Permit<ViewJobs>,
    State(app): State<App>,
    Params(query): Params<BatchQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.list_batches(&by, query).await?).into_response())
}

/// Reads a batch, with how many of its members are in which state.
#[utoipa::path(get, path = "/v1/batches/{id}", operation_id = "get_batch", tag = "batches", params(("id" = String, Path)), responses(
    (status = 200, description = "The batch as it is now", body = BatchView),
    Problems,
))]
pub(crate) async fn read(
    Permit(by): Permit<ViewJobs>,
    State(app): State<App>,
    BatchPath(id): BatchPath,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.batch(&by, id).await?).into_response())
}

/// Lists the members of a batch, in the order of the request.
#[utoipa::path(get, path = "/v1/batches/{id}/members", operation_id = "list_batch_members", tag = "batches",
    params(("id" = String, Path), MemberQuery), responses(
    (status = 200, description = "A page of members", body = MemberList),
    Problems,
))]
pub(crate) async fn members(
    Permit(by): Permit<ViewJobs>,
    State(app): State<App>,
    BatchPath(id): BatchPath,
    Params(query): Params<MemberQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.list_members(&by, id, query).await?).into_response())
}

/// Ends a batch: its jobs are cancelled, and what succeeded of one that is all or nothing is undone.
#[utoipa::path(post, path = "/v1/batches/{id}/cancel", operation_id = "cancel_batch", tag = "batches", params(("id" = String, Path)), responses(
    (status = 200, description = "The batch as it is now", body = BatchView),
    Problems,
))]
pub(crate) async fn cancel(
    Permit(by): Permit<ControlJobs>,
    State(app): State<App>,
    BatchPath(id): BatchPath,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.cancel_batch(&by, id).await?).into_response())
}
