//! Jobs.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use punctual_api::{Answered, BulkRequest, BulkSubmitted, Job, JobList, JobRequest, JobSubmitted, ListQuery, limits};
use punctual_app::permission::{ControlJobs, SubmitJobs, ViewJobs};
use punctual_app::{App, AppError, Checked, Faults, KeyedRequest, WaitFor};
use serde::Deserialize;

use crate::parse::{JobPath, Json, NoParams, Params};
use crate::permit::Permit;
use crate::problem::{Problems, Refused};
use crate::submitted_json::submitted_json;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Submits one job. The answer comes after the commit; with `wait`, when the job has finished or that time is over.
#[utoipa::path(post, path = "/v1/jobs", operation_id = "create_job", tag = "jobs",
    params(("Idempotency-Key" = Option<String>, Header, description = "Repeating a request with its key submits nothing twice. Kept for 24 hours."), ReadQuery),
    request_body = JobRequest, responses(
    (status = 201, description = "The job is durable", body = JobSubmitted),
    Problems,
))]
pub(crate) async fn submit(
    Permit(by): Permit<SubmitJobs>,
    State(app): State<App>,
    Params(query): Params<ReadQuery>,
    headers: HeaderMap,
    body: Json<JobRequest>,
) -> Result<Response, Refused> {
    let mut faults = Faults::default();
    let wait = faults.value(query.wait.as_deref().map(WaitFor::parse).transpose()).flatten();
    let keyed = faults.value(keyed(&headers, &body.bytes)).flatten();
    faults.finish()?;
    let submitted = app.submit(&by, body.value, keyed, wait).await?;
    let mut response = created(submitted_json(&submitted.answer), submitted.is_replayed);
    let location = HeaderValue::try_from(submitted.answer.links.itself).expect("an id is ASCII");
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}

/// Submits up to 10,000 jobs: all of them or none.
#[utoipa::path(post, path = "/v1/jobs/bulk", operation_id = "create_jobs", tag = "jobs",
    params(("Idempotency-Key" = Option<String>, Header)), request_body = BulkRequest, responses(
    (status = 201, description = "All jobs are durable", body = BulkSubmitted),
    Problems,
))]
pub(crate) async fn submit_bulk(
    Permit(by): Permit<SubmitJobs>,
    State(app): State<App>,
    _: NoParams,
    headers: HeaderMap,
    body: Json<BulkRequest, { limits::BULK_BODY_BYTES_MAX }>,
) -> Result<Response, Refused> {
    let keyed = keyed(&headers, &body.bytes)?;
    let submitted = app.submit_bulk(&by, body.value, keyed).await?;
    let json = serde_json::to_vec(&submitted.answer).expect("an answer is JSON");
    Ok(created(json, submitted.is_replayed))
}

pub(crate) fn keyed<'a>(headers: &'a HeaderMap, body: &'a [u8]) -> Result<Option<KeyedRequest<'a>>, AppError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let refused = |detail: &str| AppError::field("Idempotency-Key", detail);
    if values.next().is_some() {
        return Err(refused("must be given once"));
    }
    let key = value.to_str().map_err(|_| refused("must be printable ASCII"))?;
    Ok(Some(KeyedRequest { key, body }))
}

pub(crate) fn created(json: Vec<u8>, is_replayed: bool) -> Response {
    let content_type = [(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"))];
    let mut response = (StatusCode::CREATED, content_type, json).into_response();
    if is_replayed {
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, http::HeaderValue::from_static("true"));
    }
    response
}

/// Lists jobs in the order of `scheduled_at`, without payloads.
#[utoipa::path(get, path = "/v1/jobs", operation_id = "list_jobs", tag = "jobs", params(ListQuery), responses(
    (status = 200, description = "A page of jobs", body = JobList),
    Problems,
))]
pub(crate) async fn list(
    Permit(by): Permit<ViewJobs>,
    State(app): State<App>,
    Params(query): Params<ListQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.list_jobs(&by, query).await?).into_response())
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReadQuery {
    /// Answer when the job has finished, or after this time: `30s`; at most 60s.
    wait: Option<String>,
}

impl Checked for ReadQuery {
    fn check(&self) -> Result<(), AppError> {
        self.wait.as_deref().map_or(Ok(()), |wait| WaitFor::parse(wait).map(drop))
    }
}

/// Reads a job with its attempts and every recorded moment.
#[utoipa::path(get, path = "/v1/jobs/{id}", operation_id = "get_job", tag = "jobs", params(("id" = String, Path), ReadQuery), responses(
    (status = 200, description = "The job as it is now", body = Job),
    Problems,
))]
pub(crate) async fn read(
    Permit(by): Permit<ViewJobs>,
    State(app): State<App>,
    JobPath(id): JobPath,
    Params(query): Params<ReadQuery>,
) -> Result<Response, Refused> {
    let wait = query.wait.as_deref().map(WaitFor::parse).transpose()?;
    Ok(axum::Json(app.job(&by, id, wait).await?).into_response())
}

/// Deletes a job that has not started. Once this is answered with success, it never will.
#[utoipa::path(delete, path = "/v1/jobs/{id}", operation_id = "delete_job", tag = "jobs", params(("id" = String, Path)), responses(
    (status = 200, description = "Done", body = Answered),
    Problems,
))]
pub(crate) async fn delete(
    Permit(by): Permit<ControlJobs>,
    State(app): State<App>,
    JobPath(id): JobPath,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(answered(app.delete_job(&by, id).await?))
}

/// Ends a job. 200: it is cancelled. 202: it runs, and its worker is being asked.
#[utoipa::path(post, path = "/v1/jobs/{id}/cancel", operation_id = "cancel_job", tag = "jobs", params(("id" = String, Path)), responses(
    (status = 200, description = "Done", body = Answered),
    (status = 202, description = "A running attempt was asked to end", body = Answered),
    Problems,
))]
pub(crate) async fn cancel(
    Permit(by): Permit<ControlJobs>,
    State(app): State<App>,
    JobPath(id): JobPath,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(answered(app.cancel_job(&by, id).await?))
}

/// Makes a finished job eligible again, with a fresh count of retries.
#[utoipa::path(post, path = "/v1/jobs/{id}/retry", operation_id = "retry_job", tag = "jobs", params(("id" = String, Path)), responses(
    (status = 200, description = "Done", body = Answered),
    Problems,
))]
pub(crate) async fn retry(
    Permit(by): Permit<ControlJobs>,
    State(app): State<App>,
    JobPath(id): JobPath,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(answered(app.retry_job(&by, id).await?))
}

/// Starts a waiting job now.
#[utoipa::path(post, path = "/v1/jobs/{id}/run", operation_id = "run_job_now", tag = "jobs", params(("id" = String, Path)), responses(
    (status = 200, description = "Done", body = Answered),
    Problems,
))]
pub(crate) async fn run_now(
    Permit(by): Permit<ControlJobs>,
    State(app): State<App>,
    JobPath(id): JobPath,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(answered(app.run_job_now(&by, id).await?))
}

fn answered(answer: Answered) -> Response {
    let status = if answer.pending { StatusCode::ACCEPTED } else { StatusCode::OK };
    (status, axum::Json(answer)).into_response()
}
