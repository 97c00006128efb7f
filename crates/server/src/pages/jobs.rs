//! Lists of jobs, and one job with its log.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, header};
use punctual_api::ListQuery;
use punctual_app::permission::{ViewJobs, ViewLogs};
use punctual_app::{App, AppError, By, Checked, LOG_BYTES_MAX, LinesView, parameters};
use punctual_core::access::Right;
use punctual_core::{JobId, RunId};
use punctual_dashboard::{JobPage, LogPiece};
use serde::Deserialize;

use super::viewer::{Looks, notice};
use super::{Answer, answer, see, url_escaped};
use crate::parse::{JobPath, Params};
use crate::permit::Permit;

/// What a form of a page leaves empty is not asked for.
pub(super) fn given(value: Option<String>) -> Option<String> {
    value.filter(|value| !value.is_empty())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FindQuery {
    q: Option<String>,
}

impl Checked for FindQuery {}

/// An id leads to what it names; anything else is taken for the name of a task.
pub(super) async fn find(_: Permit<ViewJobs>, Params(query): Params<FindQuery>) -> Response {
    let text = query.q.unwrap_or_default();
    let text = text.trim();
    if let Ok(id) = text.parse::<JobId>() {
        return see(&format!("/jobs/{id}"));
    }
    if let Ok(id) = text.parse::<RunId>() {
        return see(&format!("/runs/{id}"));
    }
    see(&if text.is_empty() { "/jobs".to_owned() } else { format!("/jobs?task={}", url_escaped(text)) })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JobsQuery {
    state: Option<String>,
    task: Option<String>,
    kind: Option<String>,
    queue: Option<String>,
    tracing_id: Option<String>,
    scheduled_from: Option<String>,
    scheduled_before: Option<String>,
    order: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
    done: Option<String>,
}

impl Checked for JobsQuery {}

pub(super) async fn jobs(
    Permit(by): Permit<ViewJobs>,
    State(app): State<App>,
    looks: Looks,
    Params(query): Params<JobsQuery>,
) -> Answer {
    let done = query.done;
    let query = ListQuery {
        state: given(query.state),
        task: given(query.task),
        kind: given(query.kind),
        queue: given(query.queue),
        tracing_id: given(query.tracing_id),
        scheduled_from: given(query.scheduled_from),
        scheduled_before: given(query.scheduled_before),
        order: given(query.order),
        limit: given(query.limit),
        cursor: given(query.cursor),
    };
    query.check()?;
    let list = app.list_jobs(&by, query.clone()).await?;
    let viewer = looks.viewer(&app, by.principal()).await;
    Ok(answer(punctual_dashboard::jobs(&viewer, &query, &list, notice(done.as_deref()))))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JobQuery {
    attempt: Option<String>,
    offset: Option<String>,
    /// The number of the first line, of a log that is read on.
    line: Option<String>,
    done: Option<String>,
}

impl Checked for JobQuery {}

pub(super) async fn job(
    Permit(by): Permit<ViewJobs>,
    State(app): State<App>,
    looks: Looks,
    JobPath(id): JobPath,
    Params(query): Params<JobQuery>,
) -> Answer {
    let attempt = parameters::number("attempt", query.attempt.as_deref(), 0..=u32::MAX)?;
    let offset = parameters::number("offset", query.offset.as_deref(), 0..=LOG_BYTES_MAX)?.unwrap_or(0);
    let line = parameters::number("line", query.line.as_deref(), 1..=LOG_BYTES_MAX)?.unwrap_or(1);
    let job = app.job(&by, id, None).await?;
    let log = match by.may(Right::ViewLogs) {
        true if job.attempts.is_empty() => {
            Some(LogPiece { first_line: 1, follow_from: job.finished_at.is_none().then_some(0), ..LogPiece::default() })
        }
        true => Some(LogPiece { first_line: line, ..log(&app, &by.also()?, id, attempt, offset).await? }),
        false => None,
    };
    let viewer = looks.viewer(&app, by.principal()).await;
    Ok(answer(punctual_dashboard::job(&viewer, &JobPage { job, log }, notice(query.done.as_deref()))))
}

async fn log(app: &App, by: &By<ViewLogs>, id: JobId, attempt: Option<u32>, offset: u64) -> Result<LogPiece, AppError> {
    let LinesView { attempt, lines, next_offset, is_complete } = app.log_lines(by, id, attempt, offset).await?;
    let size = app.log_size(by, id, Some(attempt)).await?;
    let has_more = !lines.is_empty() && next_offset < size.bytes;
    let latest = app.attempt_numbers(by, id).await?.latest;
    let follows = !has_more && !is_complete && !size.is_over && attempt == latest;
    Ok(LogPiece {
        attempt,
        lines,
        next_offset: has_more.then_some(next_offset),
        offset,
        first_line: 1,
        follow_from: follows.then_some(next_offset),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AttemptQuery {
    attempt: Option<String>,
}

impl Checked for AttemptQuery {}

/// The whole log of an attempt, as it is so far.
pub(super) async fn log_file(
    Permit(by): Permit<ViewLogs>,
    State(app): State<App>,
    JobPath(id): JobPath,
    Params(query): Params<AttemptQuery>,
) -> Answer {
    let attempt = parameters::number("attempt", query.attempt.as_deref(), 0..=u32::MAX)?;
    let first = app.log(&by, id, attempt, 0).await?;
    let (attempt, begun) = (first.attempt, (Some(first.bytes), first.next_offset));
    // A piece at a time: a log may be larger than what a server has left.
    let pieces = stream::try_unfold(begun, move |(ready, offset)| {
        let (app, by) = (app.clone(), by.clone());
        async move {
            let (bytes, next): (Bytes, u64) = match ready {
                Some(bytes) => (bytes, offset),
                None => {
                    let view = app
                        .log(&by, id, Some(attempt), offset)
                        .await
                        .map_err(|error| std::io::Error::other(error.detail))?;
                    (view.bytes, view.next_offset)
                }
            };
            Ok::<_, std::io::Error>((!bytes.is_empty()).then_some((bytes, (None, next))))
        }
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // Nothing in a log is ever run, whatever it looks like.
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; sandbox"),
        ),
    ];
    Ok((headers, Body::from_stream(pieces)).into_response())
}
