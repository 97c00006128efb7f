//! Calendars.

use axum::extract::{FromRequest, Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use punctual_api::{CalendarList, CalendarQuery, CalendarRequest, CalendarView, limits};
use punctual_app::permission::{EditSchedules, ViewSchedules};
use punctual_app::{App, AppError};

use crate::bodies::read_body;
use crate::conditions::{When, tagged};
use crate::parse::{Json, Name, NoParams, Params, check_content_encoding, content_type};
use crate::permit::Permit;
use crate::problem::{Problems, Refused};

/// Lists the calendars in order of their names.
#[utoipa::path(get, path = "/v1/calendars", operation_id = "list_calendars", tag = "calendars", responses(
    (status = 200, description = "All calendars", body = CalendarList),
    Problems,
))]
pub(crate) async fn list(
    Permit(by): Permit<ViewSchedules>,
    State(app): State<App>,
    _: NoParams,
) -> Result<Response, Refused> {
    Ok(axum::Json(app.list_calendars(&by).await?).into_response())
}

/// Reads a calendar.
#[utoipa::path(get, path = "/v1/calendars/{name}", operation_id = "get_calendar", tag = "calendars",
    params(("name" = String, Path), ("If-None-Match" = Option<String>, Header)), responses(
    (status = 200, description = "The calendar as it is now", body = CalendarView),
    (status = 304, description = "The calendar is as the `ETag` says"),
    Problems,
))]
pub(crate) async fn read(
    Permit(by): Permit<ViewSchedules>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
) -> Result<Response, Refused> {
    let calendar = app.calendar(&by, &name).await?;
    Ok(tagged(StatusCode::OK, calendar.revision, &calendar))
}

/// A list of dates, or an iCalendar file.
pub(crate) enum Dates {
    Listed(CalendarRequest),
    File(Vec<u8>),
}

impl<S: Send + Sync> FromRequest<S> for Dates {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        if !content_type(request.headers()).eq_ignore_ascii_case("text/calendar") {
            return Ok(Self::Listed(Json::<CalendarRequest>::from_request(request, state).await?.value));
        }
        check_content_encoding(request.headers())?;
        let bytes = read_body(request.into_body(), limits::BODY_BYTES_MAX).await?;
        Ok(Self::File(bytes.into()))
    }
}

/// Stores a calendar, or replaces the dates of the one with this name. Schedules follow within seconds.
#[utoipa::path(put, path = "/v1/calendars/{name}", operation_id = "apply_calendar", tag = "calendars",
    params(("name" = String, Path), CalendarQuery, ("If-Match" = Option<String>, Header), ("If-None-Match" = Option<String>, Header)),
    request_body(content((CalendarRequest = "application/json"), (String = "text/calendar"))), responses(
    (status = 200, description = "The calendar as it is now", body = CalendarView),
    Problems,
))]
pub(crate) async fn put(
    Permit(by): Permit<EditSchedules>,
    State(app): State<App>,
    Name(name): Name,
    Params(query): Params<CalendarQuery>,
    When(when): When,
    dates: Dates,
) -> Result<Response, Refused> {
    let calendar = match dates {
        Dates::Listed(_) if query != CalendarQuery::default() => {
            let error = AppError::invalid("the parameters `zone` and `skip_unsupported` are for iCalendar files");
            return Err(error.hint("send the file as text/calendar, or leave out the parameters").into());
        }
        Dates::Listed(request) => app.put_calendar(&by, &name, &request, when).await?,
        Dates::File(file) => app.put_icalendar(&by, &name, file, &query, when).await?,
    };
    Ok(tagged(StatusCode::OK, calendar.revision, &calendar))
}

/// Deletes a calendar that no schedule refers to.
#[utoipa::path(delete, path = "/v1/calendars/{name}", operation_id = "delete_calendar", tag = "calendars",
    params(("name" = String, Path), ("If-Match" = Option<String>, Header)), responses(
    (status = 204, description = "The calendar is gone"),
    Problems,
))]
pub(crate) async fn delete(
    Permit(by): Permit<EditSchedules>,
    State(app): State<App>,
    Name(name): Name,
    _: NoParams,
    When(when): When,
) -> Result<StatusCode, Refused> {
    app.delete_calendar(&by, &name, when).await?;
    Ok(StatusCode::NO_CONTENT)
}
