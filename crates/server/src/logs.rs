//! Logs of attempts, as text or as lines: a piece, a range of bytes, or all of it live as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive};
use axum::response::{IntoResponse, Response, Sse};
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use punctual_api::{ErrorKind, LogLines};
use punctual_app::permission::ViewLogs;
use punctual_app::{
    App, AppError, AttemptNumbers, By, Checked, Faults, LOG_BYTES_MAX, LinesView, LogSize, LogView, parameters,
};
use punctual_core::JobId;
use serde::Deserialize;
use tokio::sync::SemaphorePermit;

use crate::guard;
use crate::parse::{JobPath, Params};
use crate::permit::Permit;
use crate::problem::{Problems, Refused};
use crate::range::{ByteRange, range};

const NEXT_OFFSET: HeaderName = HeaderName::from_static("punctual-next-offset");
const ATTEMPT: HeaderName = HeaderName::from_static("punctual-attempt");

/// How often a follower looks for more.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogQuery {
    /// The number of the attempt; the latest by default.
    attempt: Option<String>,
    /// The byte to begin with.
    offset: Option<String>,
}

/// What a reader gets. Each has a path of its own, because most clients accept any content type: a generated client would not know
/// what it gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Lines,
}

/// What the parameters mean.
struct LogSelection {
    attempt: Option<u32>,
    offset: Option<u64>,
}

impl LogQuery {
    fn read(&self) -> Result<LogSelection, AppError> {
        let mut faults = Faults::default();
        let attempt = parameters::number("attempt", self.attempt.as_deref(), 0..=u32::MAX);
        let attempt = faults.value(attempt).flatten();
        let offset = parameters::number("offset", self.offset.as_deref(), 0..=LOG_BYTES_MAX);
        let offset = faults.value(offset).flatten();
        faults.finish()?;
        Ok(LogSelection { attempt, offset })
    }
}

impl Checked for LogQuery {
    fn check(&self) -> Result<(), AppError> {
        self.read().map(drop)
    }
}

/// Reads a piece of a log as text; `Punctual-Next-Offset` says where the next one begins. With `Range` and no `offset`,
/// exactly those bytes. With `Accept: text/event-stream` it is followed from attempt to attempt until the job has
/// finished: each event is a JSON string, its id the attempt and the next offset, such as `2-1024`, and
/// `end` is the last. `Last-Event-ID` goes on after an event.
#[utoipa::path(get, path = "/v1/jobs/{id}/logs", operation_id = "get_logs", tag = "jobs",
    params(("id" = String, Path), LogQuery, ("Range" = Option<String>, Header, description = "One range of bytes")), responses(
    (status = 200, description = "A piece of the log, or all of it as it comes", content((String = "text/plain"), (String = "text/event-stream"))),
    (status = 206, description = "The bytes that were asked for", body = String, content_type = "text/plain"),
    (status = 416, description = "There is nothing in this range", body = punctual_api::Problem, content_type = "application/problem+json"),
    Problems,
))]
pub(crate) async fn read(
    Permit(by): Permit<ViewLogs>,
    State(app): State<App>,
    JobPath(id): JobPath,
    Params(query): Params<LogQuery>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let selection = query.read()?;
    if wants_events(&headers) {
        return follow(app, by, id, selection, &headers, Format::Text).await;
    }
    let LogSelection { attempt: only, offset } = selection;
    // Without a validator that could match, `If-Range` asks for the whole.
    if let (Some(value), None, None) = (headers.get(header::RANGE), offset, headers.get(header::IF_RANGE)) {
        let size = app.log_size(&by, id, only).await?;
        match range(value, size.bytes) {
            ByteRange::Part(part) => return read_part(&app, &by, id, size, part).await,
            ByteRange::Nothing => return Ok(nothing_there(size)),
            ByteRange::Whole => {}
        }
    }
    let view = app.log(&by, id, only, offset.unwrap_or(0)).await?;
    let mut response = text(view.bytes, view.attempt);
    response.headers_mut().insert(NEXT_OFFSET, view.next_offset.into());
    Ok(response)
}

/// Reads whole lines of a log, with the time and the stream of each. With `Accept: text/event-stream` they are followed as
/// those of `/v1/jobs/{id}/logs` are, in events that are arrays of lines. Offsets are the same there and here.
#[utoipa::path(get, path = "/v1/jobs/{id}/logs/lines", operation_id = "get_log_lines", tag = "jobs",
    params(("id" = String, Path), LogQuery), responses(
    (status = 200, description = "Lines of the log, or all of them as they come", content((LogLines = "application/json"), (String = "text/event-stream"))),
    Problems,
))]
pub(crate) async fn read_lines(
    Permit(by): Permit<ViewLogs>,
    State(app): State<App>,
    JobPath(id): JobPath,
    Params(query): Params<LogQuery>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let selection = query.read()?;
    if wants_events(&headers) {
        return follow(app, by, id, selection, &headers, Format::Lines).await;
    }
    let LogSelection { attempt, offset } = selection;
    let LinesView { attempt, lines, next_offset, .. } = app.log_lines(&by, id, attempt, offset.unwrap_or(0)).await?;
    let mut response = axum::Json(LogLines { attempt, next_offset, lines }).into_response();
    response.headers_mut().insert(ATTEMPT, attempt.into());
    response.headers_mut().insert(NEXT_OFFSET, next_offset.into());
    Ok(response)
}

/// What a follower is sent next.
struct Piece {
    attempt: u32,
    /// `None`: there is nothing so far.
    data: Option<String>,
    next_offset: u64,
    is_complete: bool,
}

async fn piece(
    app: &App,
    by: &By<ViewLogs>,
    id: JobId,
    attempt: Option<u32>,
    offset: u64,
    format: Format,
) -> Result<Piece, AppError> {
    match format {
        Format::Text => {
            let LogView { attempt, bytes, next_offset, is_complete } = app.log(by, id, attempt, offset).await?;
            let text = String::from_utf8_lossy(&bytes);
            let data = (!text.is_empty()).then(|| serde_json::to_string(&text).expect("text is JSON"));
            Ok(Piece { attempt, data, next_offset, is_complete })
        }
        Format::Lines => {
            let LinesView { attempt, lines, next_offset, is_complete } = app.log_lines(by, id, attempt, offset).await?;
            let data = (!lines.is_empty()).then(|| serde_json::to_string(&lines).expect("lines are JSON"));
            Ok(Piece { attempt, data, next_offset, is_complete })
        }
    }
}

fn text(bytes: bytes::Bytes, attempt: u32) -> Response {
    let mut response = Response::new(bytes.into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(ATTEMPT, attempt.into());
    response
}

async fn read_part(
    app: &App,
    by: &By<ViewLogs>,
    id: JobId,
    size: LogSize,
    part: std::ops::Range<u64>,
) -> Result<Response, Refused> {
    let bytes = app.log_range(by, id, size.attempt, part.clone()).await?;
    let mut response = text(bytes, size.attempt);
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    // A log that is being written has no length yet.
    let whole = if size.is_over { size.bytes.to_string() } else { "*".to_owned() };
    let described = format!("bytes {}-{}/{whole}", part.start, part.end - 1);
    response.headers_mut().insert(header::CONTENT_RANGE, described.parse().expect("numbers are ASCII"));
    response.headers_mut().insert(NEXT_OFFSET, part.end.into());
    Ok(response)
}

fn nothing_there(size: LogSize) -> Response {
    let detail = format!("the log of attempt {} has {} bytes", size.attempt, size.bytes);
    let error =
        AppError::new(ErrorKind::RangeNotSatisfiable, detail).hint("ask for bytes that are there, such as bytes=0-");
    let mut response = Refused(error).into_response();
    let whole = format!("bytes */{}", size.bytes);
    response.headers_mut().insert(header::CONTENT_RANGE, whole.parse().expect("numbers are ASCII"));
    response
}

/// `2-1024`, or an offset alone.
fn last_event(text: &str) -> Result<(Option<u32>, u64), AppError> {
    let bad = || AppError::field("Last-Event-ID", "must be the id of an event, such as 2-1024");
    match text.split_once('-') {
        Some((attempt, offset)) => Ok((Some(attempt.parse().map_err(|_| bad())?), offset.parse().map_err(|_| bad())?)),
        None => Ok((None, text.parse().map_err(|_| bad())?)),
    }
}

struct Follower {
    app: App,
    by: By<ViewLogs>,
    id: JobId,
    /// `None` follows from attempt to attempt.
    only: Option<u32>,
    format: Format,
    piece: Option<Piece>,
    /// 0: there is none yet.
    attempt: u32,
    offset: u64,
    _place: SemaphorePermit<'static>,
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    accept.contains("text/event-stream")
}

async fn follow(
    app: App,
    by: By<ViewLogs>,
    id: JobId,
    selection: LogSelection,
    headers: &HeaderMap,
    format: Format,
) -> Result<Response, Refused> {
    let LogSelection { attempt: only, offset } = selection;
    let resumed = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let (attempt, offset) = match resumed.map(last_event).transpose()? {
        Some((attempt, offset)) => (attempt.or(only), offset),
        None => (only, offset.unwrap_or(0)),
    };
    let first = piece(&app, &by, id, attempt, offset, format).await?;
    Ok(events(app, by, id, only, first, format, guard::follower()?).into_response())
}

fn events(
    app: App,
    by: By<ViewLogs>,
    id: JobId,
    only: Option<u32>,
    first: Piece,
    format: Format,
    place: SemaphorePermit<'static>,
) -> Sse<impl stream::Stream<Item = Result<Event, Infallible>>> {
    let (attempt, offset) = (first.attempt, first.next_offset);
    let follower = Follower { app, by, id, only, format, attempt, offset, piece: Some(first), _place: place };
    let events = stream::unfold(Some(follower), |follower| async move {
        let mut follower = follower?;
        match follower.next().await {
            Next::Piece(event) => Some((Ok(event), Some(follower))),
            Next::End => Some((Ok(Event::default().event("end").data("\"\"")), None)),
            // Without an end, whoever follows knows that there may be more.
            Next::Broken => None,
        }
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(15)))
}

enum Next {
    Piece(Event),
    /// There will be no more.
    End,
    /// The server is stopping, or the job is gone.
    Broken,
}

/// What follows the end of an attempt's log.
enum Then {
    Attempt(u32),
    End,
    /// Nobody can tell yet.
    Wait,
}

impl Follower {
    async fn next(&mut self) -> Next {
        loop {
            let piece = match self.piece.take() {
                Some(piece) => piece,
                None => match self.read().await {
                    Some(piece) => piece,
                    None => return Next::Broken,
                },
            };
            self.attempt = piece.attempt;
            if let Some(data) = piece.data {
                self.offset = piece.next_offset;
                let id = format!("{}-{}", self.attempt, self.offset);
                return Next::Piece(Event::default().id(id).data(data));
            }
            if piece.is_complete {
                match self.then().await {
                    Some(Then::Attempt(next)) => {
                        self.attempt = next;
                        self.offset = 0;
                        continue;
                    }
                    Some(Then::End) => return Next::End,
                    Some(Then::Wait) => {}
                    None => return Next::Broken,
                }
            }
            tokio::time::sleep(FOLLOW_EVERY).await;
        }
    }

    /// On in the attempt at hand, to its end: a next one that has begun waits.
    async fn read(&mut self) -> Option<Piece> {
        let attempt = if self.attempt > 0 { Some(self.attempt) } else { self.only };
        piece(&self.app, &self.by, self.id, attempt, self.offset, self.format).await.ok()
    }

    /// `None` when the job cannot be read.
    async fn then(&self) -> Option<Then> {
        if self.only.is_some() {
            return Some(Then::End);
        }
        let AttemptNumbers { latest, is_final, .. } = self.app.attempt_numbers(&self.by, self.id).await.ok()?;
        Some(if latest > self.attempt {
            Then::Attempt(self.attempt + 1)
        } else if is_final {
            Then::End
        } else {
            Then::Wait
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn following_goes_on_after_the_event_that_came_last() {
        for (text, expected) in [("2-1024", (Some(2), 1024)), ("77", (None, 77))] {
            assert_eq!(last_event(text).unwrap(), expected, "{text}");
        }
        for text in ["", "-", "2-", "-5", "x-1", "1-2-3"] {
            assert!(last_event(text).is_err(), "{text}");
        }
    }
}
