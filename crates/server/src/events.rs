//! Changes of jobs as server-sent events. Hints to look again: one may be lost.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive};
use axum::response::{IntoResponse, Response, Sse};
use futures_util::stream;
use punctual_api::JobChange;
use punctual_app::permission::ViewJobs;
use punctual_app::{App, Changes, Heard};
use punctual_core::JobId;
use punctual_core::shard::event::Change;
use tokio::sync::SemaphorePermit;

use crate::guard;
use crate::parse::{JobPath, NoParams};
use crate::permit::Permit;
use crate::problem::{Problems, Refused};

/// Follows all jobs. Each `change` event is a JobChange; `missed` says that some were lost: how
/// many, or 0 if nobody knows.
#[utoipa::path(get, path = "/v1/events", operation_id = "watch_jobs", tag = "jobs", responses(
    (status = 200, description = "Changes as they come: each `change` event has a JobChange as its data", body = punctual_api::JobChange, content_type = "text/event-stream"),
    Problems,
))]
pub(crate) async fn all(
    Permit(by): Permit<ViewJobs>,
    State(app): State<App>,
    _: NoParams,
) -> Result<Response, Refused> {
    let place = guard::follower()?;
    Ok(stream_changes(app.changes(&by).await, None, place))
}

/// Follows one job, until it has finished.
#[utoipa::path(get, path = "/v1/jobs/{id}/events", operation_id = "watch_job", tag = "jobs", params(("id" = String, Path)), responses(
    (status = 200, description = "Changes as they come: each `change` event has a JobChange as its data", body = punctual_api::JobChange, content_type = "text/event-stream"),
    Problems,
))]
pub(crate) async fn of_job(
    Permit(by): Permit<ViewJobs>,
    State(app): State<App>,
    JobPath(id): JobPath,
    _: NoParams,
) -> Result<Response, Refused> {
    // Subscribed before the look, or a change in between would be missed.
    let changes = app.changes(&by).await;
    let job = app.job(&by, id, None).await?;
    let first = JobChange {
        id,
        state: job.state,
        attempt: job.attempts.last().map(|attempt| attempt.attempt),
        at: job.finished_at.unwrap_or_else(|| app.now()),
    };
    Ok(stream_changes(changes, Some((id, first)), guard::follower()?))
}

struct Watcher {
    changes: Changes,
    only: Option<JobId>,
    first: Option<JobChange>,
    is_over: bool,
    _place: SemaphorePermit<'static>,
}

fn stream_changes(changes: Changes, of: Option<(JobId, JobChange)>, place: SemaphorePermit<'static>) -> Response {
    let (only, first) = of.unzip();
    let watcher = Watcher { changes, only, first, is_over: false, _place: place };
    let events = stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await?;
        Some((Ok::<_, Infallible>(event), watcher))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response()
}

impl Watcher {
    async fn next(&mut self) -> Option<Event> {
        if self.is_over {
            return None;
        }
        if let Some(first) = self.first.take() {
            return Some(self.event(first));
        }
        loop {
            match self.changes.next().await? {
                Heard::Change(change) if self.only.is_none_or(|only| only == change.id) => {
                    let change = view(change);
                    return Some(self.event(change));
                }
                Heard::Change(_) => {}
                Heard::Missed(count) => {
                    return Some(Event::default().event("missed").data(count.unwrap_or(0).to_string()));
                }
            }
        }
    }

    fn event(&mut self, change: JobChange) -> Event {
        let is_final = punctual_core::JobState::parse(&change.state).is_some_and(|state| state.is_final());
        self.is_over = self.only.is_some() && is_final;
        Event::default().event("change").data(serde_json::to_string(&change).expect("a change is JSON"))
    }
}

fn view(change: Change) -> JobChange {
    JobChange {
        id: change.id,
        state: change.state.as_str().to_owned(),
        attempt: change.attempt.map(|attempt| attempt.0),
        at: change.at,
    }
}
