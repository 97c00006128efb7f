//! Logs of attempts: a piece as text, or all of it live as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive};
use axum::response::{IntoResponse, Response, Sse};
use futures_util::stream;
use http::{HeaderMap, HeaderName, header};
use punctual_app::{App, AppError, LogView};
use punctual_core::JobId;
use serde::Deserialize;
use tokio::sync::SemaphorePermit;

use crate::guard;
use crate::parse::{JobPath, Params};
use crate::problem::{Problems, Refused};

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

/// Reads a piece of a log; `Punctual-Next-Offset` says where the next one begins.
/// With `Accept: text/event-stream` it is followed until the job has finished: each
/// event is a JSON string, its id the next offset, and `end` is the last.
#[utoipa::path(get, path = "/v1/jobs/{id}/logs", operation_id = "get_logs", tag = "jobs", params(("id" = String, Path), LogQuery), responses(
    (status = 200, description = "A piece of the log, or all of it as it comes", content((String = "text/plain"), (String = "text/event-stream"))),
    Problems,
))]
pub(crate) async fn read(
    State(app): State<App>,
    JobPath(id): JobPath,
    Params(query): Params<LogQuery>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let attempt = number("attempt", query.attempt.as_deref())?;
    let resumed = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let offset = number("offset", resumed.or(query.offset.as_deref()))?.unwrap_or(0);
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    let first = app.log(id, attempt, offset).await?;
    if accept.contains("text/event-stream") {
        return Ok(follow(app, id, attempt, first, guard::follower()?).into_response());
    }
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (NEXT_OFFSET, first.next_offset.to_string()),
        (ATTEMPT, first.attempt.to_string()),
    ];
    Ok((headers, first.bytes).into_response())
}

fn number<T: std::str::FromStr>(field: &str, text: Option<&str>) -> Result<Option<T>, AppError> {
    text.map(|text| text.parse().map_err(|_| AppError::field(field, "must be a number from 0 up"))).transpose()
}

struct Follower {
    app: App,
    id: JobId,
    /// `None` follows from attempt to attempt.
    only: Option<u32>,
    view: Option<LogView>,
    attempt: u32,
    offset: u64,
    _place: SemaphorePermit<'static>,
}

fn follow(
    app: App,
    id: JobId,
    only: Option<u32>,
    first: LogView,
    place: SemaphorePermit<'static>,
) -> Sse<impl stream::Stream<Item = Result<Event, Infallible>>> {
    let (attempt, offset) = (first.attempt, first.next_offset);
    let follower = Follower { app, id, only, attempt, offset, view: Some(first), _place: place };
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

impl Follower {
    async fn next(&mut self) -> Next {
        loop {
            let view = match self.view.take() {
                Some(view) => view,
                None => {
                    tokio::time::sleep(FOLLOW_EVERY).await;
                    match self.read().await {
                        Some(view) => view,
                        None => return Next::Broken,
                    }
                }
            };
            if !view.bytes.is_empty() {
                self.offset = view.next_offset;
                self.attempt = view.attempt;
                let text = String::from_utf8_lossy(&view.bytes);
                let data = serde_json::to_string(&text).expect("text is JSON");
                return Next::Piece(Event::default().id(self.offset.to_string()).data(data));
            }
            if view.is_complete {
                match self.is_over().await {
                    Some(true) => return Next::End,
                    Some(false) => {}
                    None => return Next::Broken,
                }
            }
        }
    }

    async fn read(&mut self) -> Option<LogView> {
        let view = self.app.log(self.id, self.only, self.offset).await.ok()?;
        if view.attempt != self.attempt {
            // A new attempt has begun: its log begins at zero.
            self.attempt = view.attempt;
            self.offset = 0;
            return self.app.log(self.id, self.only, 0).await.ok();
        }
        Some(view)
    }

    /// Whether no further attempt will come; `None` when nobody can tell.
    async fn is_over(&self) -> Option<bool> {
        if self.only.is_some() {
            return Some(true);
        }
        let job = self.app.job(self.id, None).await.ok()?;
        Some(punctual_core::JobState::parse(&job.state).is_none_or(|state| state.is_final()))
    }
}
