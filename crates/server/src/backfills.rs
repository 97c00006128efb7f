//! Backfills: planned times of the past that are run now.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use punctual_api::{
    AbortRequest, BackfillList, BackfillPlan, BackfillQuery, BackfillRequest, BackfillRunList, BackfillRunQuery,
    BackfillView,
};
use punctual_app::permission::{ControlSchedules, ViewSchedules};
use punctual_app::{App, Backfilling};

use crate::parse::{BackfillPath, Json, JsonOrNothing, Name, NoParams, Params};
use crate::permit::Permit;
use crate::problem::{Problems, Refused};

/// Runs planned times of the past. What became of them at the time stays on record as it is.
#[utoipa::path(post, path = "/v1/schedules/{name}/backfills", operation_id = "create_backfill", tag = "backfills",
    params(("name" = String, Path)), request_body = BackfillRequest, responses(
    (status = 200, description = "What it would do: it was a dry run", body = BackfillPlan),
    (status = 201, description = "The backfill is durable", body = BackfillView),
    Problems,
))]
pub(crate) async fn start(
    Permit(by): Permit<ControlSchedules>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
    body: Json<BackfillRequest>,
) -> Result<Response, Refused> {
    Ok(match app.start_backfill(&by, &name, &body.value).await? {
        Backfilling::Planned(plan) => axum::Json(plan).into_response(),
        Backfilling::Started(backfill) => {
            let location = format!("/v1/backfills/{}", backfill.id);
            (StatusCode::CREATED, [(header::LOCATION, location)], axum::Json(backfill)).into_response()
        }
    })
}

/// Lists backfills, the latest first.
#[utoipa::path(get, path = "/v1/backfills", operation_id = "list_backfills", tag = "backfills", params(BackfillQuery), responses(
    (status = 200, description = "A page of backfills", body = BackfillList),
    Problems,
))]
pub(crate) async fn list(
    Permit(by): Permit<ViewSchedules>,
    State(app): State<App>,
    Params(query): Params<BackfillQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.list_backfills(&by, query).await?).into_response())
}

/// Reads a backfill and how far it has come.
#[utoipa::path(get, path = "/v1/backfills/{id}", operation_id = "get_backfill", tag = "backfills", params(("id" = String, Path)), responses(
    (status = 200, description = "The backfill as it is now", body = BackfillView),
    Problems,
))]
pub(crate) async fn read(
    Permit(by): Permit<ViewSchedules>,
    State(app): State<App>,
    BackfillPath(id): BackfillPath,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.backfill(&by, id).await?).into_response())
}

/// The times of a backfill that got a job, in order.
#[utoipa::path(get, path = "/v1/backfills/{id}/runs", operation_id = "list_backfill_runs", tag = "backfills",
    params(("id" = String, Path), BackfillRunQuery), responses(
    (status = 200, description = "A page of runs", body = BackfillRunList),
    Problems,
))]
pub(crate) async fn runs(
    Permit(by): Permit<ViewSchedules>,
    State(app): State<App>,
    BackfillPath(id): BackfillPath,
    Params(query): Params<BackfillRunQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.backfill_runs(&by, id, query).await?).into_response())
}

/// Aborts a backfill: it makes no more jobs. With `cancel`, those that have not ended are cancelled, too.
#[utoipa::path(post, path = "/v1/backfills/{id}/abort", operation_id = "abort_backfill", tag = "backfills",
    params(("id" = String, Path)), request_body = Option<AbortRequest>, responses(
    (status = 200, description = "The backfill as it is now", body = BackfillView),
    Problems,
))]
pub(crate) async fn abort(
    Permit(by): Permit<ControlSchedules>,
    State(app): State<App>,
    BackfillPath(id): BackfillPath,
    _: NoParams,
    JsonOrNothing(request): JsonOrNothing<AbortRequest>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.abort_backfill(&by, id, request).await?).into_response())
}
