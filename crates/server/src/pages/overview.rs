//! The overview, and what all pages load.

use axum::extract::State;
use axum::response::IntoResponse;
use http::{HeaderValue, header};
use punctual_api::{ErrorKind, ForecastQuery, ListQuery, OverdueQuery, QueueQuery, ScheduleQuery, WorkerQuery};
use punctual_app::permission::{ViewJobs, ViewSchedules, ViewWorkers};
use punctual_app::{App, AppError, By, Checked};
use punctual_core::access::Right;
use punctual_core::{Span, Timestamp};
use punctual_dashboard::{HORIZON, Overview};
use serde::Deserialize;

use super::viewer::{Looks, notice};
use super::{Answer, answer};
use crate::parse::{Name, NoParams, Params};
use crate::permit::Permit;

/// A page that was reached by a button says what the button did.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Done {
    pub(super) done: Option<String>,
}

impl Checked for Done {}

const QUEUES_SHOWN: &str = "200";
const RUNNING_SHOWN: &str = "11";
const FAILED_SHOWN: &str = "100";
/// The picture has more bars than anybody could tell apart, and the page is still made in some milliseconds.
const RECENT_SHOWN: &str = "500";
const WAITING_SHOWN: &str = "10";
const SCHEDULES_SHOWN: &str = "100";
const FAILED_WITHIN: Span = Span::from_secs(86_400);

pub(super) async fn overview(
    Permit(by): Permit<ViewJobs>,
    State(app): State<App>,
    looks: Looks,
    Params(query): Params<Done>,
) -> Answer {
    let now = app.now();
    let at = |offset: i64| Some(Timestamp::saturating_from_micros(now.as_micros().saturating_add(offset)).to_string());
    let of = |state: Option<&str>, order: &str, limit: &str| ListQuery {
        state: state.map(str::to_owned),
        order: Some(order.to_owned()),
        limit: Some(limit.to_owned()),
        ..ListQuery::default()
    };
    let failed =
        ListQuery { scheduled_from: at(-FAILED_WITHIN.as_micros()), ..of(Some("failed"), "desc", FAILED_SHOWN) };
    let recent = ListQuery {
        scheduled_from: at(-HORIZON.as_micros()),
        scheduled_before: at(1),
        ..of(None, "desc", RECENT_SHOWN)
    };
    let waiting = ListQuery { scheduled_from: at(0), ..of(Some("scheduled"), "asc", WAITING_SHOWN) };
    let queues = app.list_queues(&by, &QueueQuery { limit: Some(QUEUES_SHOWN.to_owned()), cursor: None }).await?;
    let (forecast, schedules) = match by.may(Right::ViewSchedules) {
        true => planned(&app, &by.also()?, at(HORIZON.as_micros())).await?,
        false => (None, None),
    };
    let shown = Overview {
        has_more_queues: queues.next_cursor.is_some(),
        queues: queues.queues,
        running: app.list_jobs(&by, of(Some("running"), "desc", RUNNING_SHOWN)).await?,
        failed: app.list_jobs(&by, failed).await?,
        recent: app.list_jobs(&by, recent).await?,
        waiting: app.list_jobs(&by, waiting).await?,
        overdue: app.overdue(&by, OverdueQuery { after: None }).await?,
        workers: match by.may(Right::ViewWorkers) {
            true => Some(app.workers(&by.also::<ViewWorkers>()?, &WorkerQuery { gone: None }).await?.workers),
            false => None,
        },
        forecast,
        schedules,
    };
    let viewer = looks.viewer(&app, by.principal()).await;
    Ok(answer(punctual_dashboard::overview(&viewer, &shown, notice(query.done.as_deref()))))
}

type Planned = (Option<punctual_api::Forecast>, Option<Vec<punctual_api::ScheduleSummary>>);

/// What schedules will start. Of many schedules, nobody plays all through for a page that is renewed every second: what comes
/// next is then left to their own page.
async fn planned(app: &App, by: &By<ViewSchedules>, until: Option<String>) -> Result<Planned, AppError> {
    let query = ScheduleQuery {
        paused: Some("false".to_owned()),
        limit: Some(SCHEDULES_SHOWN.to_owned()),
        ..ScheduleQuery::default()
    };
    let list = app.list_schedules(by, query).await?;
    if list.next_cursor.is_some() {
        return Ok((None, None));
    }
    // Another forecast may be under way: then this page has none.
    let forecast = app.forecast(by, ForecastQuery { to: until, ..ForecastQuery::default() }).await;
    Ok((forecast.ok(), Some(list.schedules)))
}

/// A style or a script. Its address changes with its content.
pub(super) async fn asset(Name(name): Name, _: NoParams) -> Answer {
    let Some(asset) = punctual_dashboard::asset(&name) else {
        return Err(AppError::new(ErrorKind::NotFound, "there is no such file").hint("load the page again").into());
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(asset.content_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
    ];
    Ok((headers, asset.content).into_response())
}
