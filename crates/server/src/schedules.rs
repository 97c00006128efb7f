//! Schedules, and what becomes of their planned times.

use axum::extract::{FromRequestParts, State};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderName, StatusCode, header};
use punctual_api::{
    Forecast, ForecastQuery, NoteRequest, OccurrenceList, OccurrenceQuery, Preview, PreviewQuery, QueueCleared,
    RunAnswer, RunRequest, ScheduleBulkAnswer, ScheduleBulkRequest, ScheduleList, ScheduleQuery, ScheduleRequest,
    ScheduleView, SkipAnswer, SkipRequest, limits,
};
use punctual_app::permission::{ControlSchedules, EditSchedules, ViewSchedules};
use punctual_app::{App, AppError, Checked, Put, RequestZone, parameters};
use serde::Deserialize;

use crate::conditions::{When, tagged};
use crate::parse::{Json, JsonOrNothing, Name, NoParams, Params};
use crate::permit::Permit;
use crate::problem::{Problems, Refused};

const TIME_ZONE: HeaderName = HeaderName::from_static("time-zone");

/// The header `Time-Zone`: the zone of a schedule that names none.
pub(crate) struct Zone(Option<RequestZone>);

impl<S: Send + Sync> FromRequestParts<S> for Zone {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refused> {
        let mut values = parts.headers.get_all(TIME_ZONE).iter();
        let Some(value) = values.next() else { return Ok(Self(None)) };
        if values.next().is_some() {
            return Err(AppError::field("Time-Zone", "must be given once").into());
        }
        let text = value.to_str().map_err(|_| AppError::field("Time-Zone", "must be printable ASCII"))?;
        Ok(Self(Some(RequestZone::parse("Time-Zone", text)?)))
    }
}

/// Lists schedules in order of their names.
#[utoipa::path(get, path = "/v1/schedules", operation_id = "list_schedules", tag = "schedules", params(ScheduleQuery), responses(
    (status = 200, description = "A page of schedules", body = ScheduleList),
    Problems,
))]
pub(crate) async fn list(
    Permit(by): Permit<ViewSchedules>,
    State(app): State<App>,
    Params(query): Params<ScheduleQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.list_schedules(&by, query).await?).into_response())
}

/// Creates a schedule. The answer comes after the commit.
#[utoipa::path(post, path = "/v1/schedules", operation_id = "create_schedule", tag = "schedules",
    params(("Time-Zone" = Option<String>, Header, description = "The zone of a schedule that names none.")),
    request_body = ScheduleRequest, responses(
    (status = 201, description = "The schedule is durable", body = ScheduleView),
    Problems,
))]
pub(crate) async fn create(
    Permit(by): Permit<EditSchedules>,
    State(app): State<App>,
    _: NoParams,
    Zone(zone): Zone,
    body: Json<ScheduleRequest>,
) -> Result<Response, Refused> {
    Ok(created(&app.create_schedule(&by, body.value, zone.as_ref()).await?))
}

/// Creates up to 10,000 schedules. If anything is wrong with one of them, none is stored.
#[utoipa::path(post, path = "/v1/schedules/bulk", operation_id = "create_schedules", tag = "schedules",
    params(("Time-Zone" = Option<String>, Header, description = "The zone of schedules that name none.")),
    request_body = ScheduleBulkRequest, responses(
    (status = 200, description = "They are durable", body = ScheduleBulkAnswer),
    Problems,
))]
pub(crate) async fn create_bulk(
    Permit(by): Permit<EditSchedules>,
    State(app): State<App>,
    _: NoParams,
    Zone(zone): Zone,
    body: Json<ScheduleBulkRequest, { limits::BULK_BODY_BYTES_MAX }>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.create_schedules(&by, body.value, zone.as_ref()).await?).into_response())
}

/// Reads a schedule, by its name or its id.
#[utoipa::path(get, path = "/v1/schedules/{name}", operation_id = "get_schedule", tag = "schedules",
    params(("name" = String, Path), ("If-None-Match" = Option<String>, Header)), responses(
    (status = 200, description = "The schedule as it is now", body = ScheduleView),
    (status = 304, description = "The schedule is as the `ETag` says"),
    Problems,
))]
pub(crate) async fn read(
    Permit(by): Permit<ViewSchedules>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
) -> Result<Response, Refused> {
    let schedule = app.schedule(&by, &name).await?;
    Ok(tagged(StatusCode::OK, schedule.revision, &schedule))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PutQuery {
    /// Only if the schedule is still at this revision, as `If-Match` says it.
    revision: Option<String>,
}

impl PutQuery {
    fn read(&self) -> Result<Option<u32>, AppError> {
        parameters::number("revision", self.revision.as_deref(), 0..=u32::MAX)
    }
}

impl Checked for PutQuery {
    fn check(&self) -> Result<(), AppError> {
        self.read().map(drop)
    }
}

/// Creates a schedule, or replaces the definition of the one with this name. What has become of its
/// planned times stays on record; the answer says how its next starts move.
#[utoipa::path(put, path = "/v1/schedules/{name}", operation_id = "apply_schedule", tag = "schedules",
    params(("name" = String, Path), PutQuery, ("If-Match" = Option<String>, Header), ("If-None-Match" = Option<String>, Header),
        ("Time-Zone" = Option<String>, Header, description = "The zone of a schedule that names none.")),
    request_body = ScheduleRequest, responses(
    (status = 200, description = "The schedule as it is now", body = ScheduleView),
    (status = 201, description = "The schedule is durable", body = ScheduleView),
    Problems,
))]
pub(crate) async fn put(
    Permit(by): Permit<EditSchedules>,
    State(app): State<App>,
    Name(name): Name,
    Params(query): Params<PutQuery>,
    when: When,
    Zone(zone): Zone,
    body: Json<ScheduleRequest>,
) -> Result<Response, Refused> {
    let when = when.with_revision(query.read()?)?;
    Ok(match app.put_schedule(&by, &name, body.value, when, zone.as_ref()).await? {
        Put::Created(schedule) => created(&schedule),
        Put::Replaced(schedule) => tagged(StatusCode::OK, schedule.revision, &*schedule),
    })
}

fn created(schedule: &ScheduleView) -> Response {
    let mut response = tagged(StatusCode::CREATED, schedule.revision, schedule);
    let location = format!("/v1/schedules/{}", schedule.name);
    response.headers_mut().insert(header::LOCATION, location.parse().expect("a name is ASCII"));
    response
}

/// Deletes a schedule. What has become of its planned times stays on record.
#[utoipa::path(delete, path = "/v1/schedules/{name}", operation_id = "delete_schedule", tag = "schedules",
    params(("name" = String, Path), ("If-Match" = Option<String>, Header)), responses(
    (status = 204, description = "The schedule is gone"),
    Problems,
))]
pub(crate) async fn delete(
    Permit(by): Permit<EditSchedules>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
    When(when): When,
) -> Result<StatusCode, Refused> {
    app.delete_schedule(&by, &name, when).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pauses a schedule: its planned times are skipped until it is resumed.
#[utoipa::path(post, path = "/v1/schedules/{name}/pause", operation_id = "pause_schedule", tag = "schedules",
    params(("name" = String, Path)), request_body = Option<NoteRequest>, responses(
    (status = 200, description = "The schedule as it is now", body = ScheduleView),
    Problems,
))]
pub(crate) async fn pause(
    Permit(by): Permit<ControlSchedules>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
    JsonOrNothing(note): JsonOrNothing<NoteRequest>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.pause_schedule(&by, &name, note).await?).into_response())
}

/// Resumes a schedule that was paused.
#[utoipa::path(post, path = "/v1/schedules/{name}/resume", operation_id = "resume_schedule", tag = "schedules",
    params(("name" = String, Path)), request_body = Option<NoteRequest>, responses(
    (status = 200, description = "The schedule as it is now", body = ScheduleView),
    Problems,
))]
pub(crate) async fn resume(
    Permit(by): Permit<ControlSchedules>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
    JsonOrNothing(note): JsonOrNothing<NoteRequest>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.resume_schedule(&by, &name, note).await?).into_response())
}

/// Skips the next planned times.
#[utoipa::path(post, path = "/v1/schedules/{name}/skip", operation_id = "skip_schedule", tag = "schedules",
    params(("name" = String, Path)), request_body = Option<SkipRequest>, responses(
    (status = 200, description = "They will be skipped", body = SkipAnswer),
    Problems,
))]
pub(crate) async fn skip(
    Permit(by): Permit<ControlSchedules>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
    JsonOrNothing(request): JsonOrNothing<SkipRequest>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.skip_schedule(&by, &name, request).await?).into_response())
}

/// Runs a schedule's task once, now, beside the plan. If a run of the schedule has not ended, its overlap policy decides, or
/// the one of the request.
#[utoipa::path(post, path = "/v1/schedules/{name}/run", operation_id = "run_schedule", tag = "schedules",
    params(("name" = String, Path)), request_body = Option<RunRequest>, responses(
    (status = 200, description = "What became of it is durable", body = RunAnswer),
    Problems,
))]
pub(crate) async fn run(
    Permit(by): Permit<ControlSchedules>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
    JsonOrNothing(request): JsonOrNothing<RunRequest>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.run_schedule(&by, &name, request).await?).into_response())
}

/// Skips all runs that wait for the one before them. The run that is active goes on.
#[utoipa::path(delete, path = "/v1/schedules/{name}/queue", operation_id = "clear_schedule_queue", tag = "schedules",
    params(("name" = String, Path)), responses(
    (status = 200, description = "They are on record as skipped_by_request", body = QueueCleared),
    Problems,
))]
pub(crate) async fn clear_queue(
    Permit(by): Permit<ControlSchedules>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.clear_schedule_queue(&by, &name).await?).into_response())
}

/// What became of a schedule's planned times. Also of one that was deleted, by its id.
#[utoipa::path(get, path = "/v1/schedules/{name}/occurrences", operation_id = "list_occurrences", tag = "schedules", params(("name" = String, Path), OccurrenceQuery), responses(
    (status = 200, description = "A page of occurrences", body = OccurrenceList),
    Problems,
))]
pub(crate) async fn occurrences(
    Permit(by): Permit<ViewSchedules>,
    State(app): State<App>,
    Name(name): Name,
    Params(query): Params<OccurrenceQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.occurrences(&by, &name, query).await?).into_response())
}

/// When a schedule will fire.
#[utoipa::path(get, path = "/v1/schedules/{name}/preview", operation_id = "preview_schedule", tag = "schedules", params(("name" = String, Path), PreviewQuery), responses(
    (status = 200, description = "What is to come", body = Preview),
    Problems,
))]
pub(crate) async fn preview(
    Permit(by): Permit<ViewSchedules>,
    State(app): State<App>,
    Name(name): Name,
    Params(query): Params<PreviewQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.preview_schedule(&by, &name, query).await?).into_response())
}

/// Plays all schedules from one moment to another: how often they start, how many runs there are at once, and when.
#[utoipa::path(get, path = "/v1/forecast", operation_id = "forecast", tag = "schedules", params(ForecastQuery), responses(
    (status = 200, description = "What would happen", body = Forecast),
    Problems,
))]
pub(crate) async fn forecast(
    Permit(by): Permit<ViewSchedules>,
    State(app): State<App>,
    Params(query): Params<ForecastQuery>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.forecast(&by, query).await?).into_response())
}

/// When a schedule would fire. Nothing is stored; a task need not be named.
#[utoipa::path(post, path = "/v1/schedules/preview", operation_id = "preview", tag = "schedules",
    params(PreviewQuery, ("Time-Zone" = Option<String>, Header, description = "The zone of a schedule that names none.")),
    request_body = ScheduleRequest, responses(
    (status = 200, description = "What would come", body = Preview),
    Problems,
))]
pub(crate) async fn preview_new(
    Permit(by): Permit<ViewSchedules>,
    State(app): State<App>,
    Params(query): Params<PreviewQuery>,
    Zone(zone): Zone,
    body: Json<ScheduleRequest>,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.preview(&by, body.value, query, zone.as_ref()).await?).into_response())
}
