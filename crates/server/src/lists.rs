//! Where lists are made.
//!
//! A list reads up to thousands of rows. Lists have threads of their own with a low priority, few run at a time, and the
//! others wait in a line of limited length: however many clients ask for lists, starts and submissions get the processor
//! first. On a machine that has nothing else to do a list takes as long as it would anywhere.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::Method;
use punctual_api::ErrorKind;
use punctual_app::AppError;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::problem::Refused;

/// Those that wait for their turn. Each has taken its connection and nothing else.
const WAITING_MAX: usize = 256;
/// Whoever asked has gone by then, or asks again.
const WITHIN: Duration = Duration::from_secs(10);
/// The next list waits no longer for its turn to be free.
const REST_MAX: Duration = Duration::from_millis(200);
/// As `nice` counts: 0 is usual and 19 is last.
const NICENESS: i32 = 10;
/// Of so many cores one makes lists.
const CORES_PER_LIST: usize = 4;

static LANE: LazyLock<Lane> = LazyLock::new(Lane::new);

struct Lane {
    runtime: Runtime,
    turns: Semaphore,
    waiting: AtomicUsize,
}

impl Lane {
    fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let lists = cores.div_ceil(CORES_PER_LIST);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(lists)
            // The store reads in one; a page of schedules is made in another.
            .max_blocking_threads(2 * lists)
            .thread_name("punctual-lists")
            .on_thread_start(|| {
                // Without it lists are made all the same.
                let _ = rustix::process::setpriority_process(None, NICENESS);
            })
            .enable_all()
            .build();
        Self {
            runtime: runtime.expect("threads for lists can be started"),
            turns: Semaphore::new(lists),
            waiting: AtomicUsize::new(0),
        }
    }
}

/// Whether a request reads many rows, or works out many times.
pub(crate) fn is_list(request: &Request) -> bool {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return false;
    }
    let mut parts = request.uri().path().trim_start_matches('/').split('/');
    match [parts.next(), parts.next(), parts.next(), parts.next(), parts.next()] {
        [Some("v1"), Some(all), None, ..] => matches!(
            all,
            "artifacts"
                | "audit"
                | "backfills"
                | "calendars"
                | "deliveries"
                | "forecast"
                | "jobs"
                | "notifications"
                | "overdue"
                | "queues"
                | "schedules"
                | "tasks"
        ),
        [Some("v1"), Some("audit"), Some("export"), None, ..] => true,
        [Some("v1"), Some(_), Some(_), Some(of_one), None] => {
            matches!(of_one, "deliveries" | "occurrences" | "preview" | "runs")
        }
        _ => false,
    }
}

/// Answers the request when it is its turn.
pub(crate) async fn answer(request: Request, next: Next) -> Response {
    let lane = &*LANE;
    let _waits = match Waiting::begin(&lane.waiting) {
        Some(waits) => waits,
        None => return busy(),
    };
    let Ok(Ok(turn)) = tokio::time::timeout(WITHIN, lane.turns.acquire()).await else { return busy() };
    drop(_waits);
    let began = Instant::now();
    let list = lane.runtime.spawn(next.run(request));
    let abandoned = Abandoned(list.abort_handle());
    let response = list.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a request handler panicked");
        Refused(AppError::new(ErrorKind::Internal, "the request failed because of a defect")).into_response()
    });
    drop(abandoned);
    if lane.waiting.load(Ordering::Relaxed) > 0 {
        lane.runtime.spawn(rest(turn, began.elapsed().min(REST_MAX)));
    }
    response
}

/// Keeps a turn for as long as its list took. A database works for lists with the same priority as for everything else, so while
/// lists wait in line it has nothing to do for them half of the time.
async fn rest(turn: SemaphorePermit<'static>, time: Duration) {
    tokio::time::sleep(time).await;
    drop(turn);
}

fn busy() -> Response {
    let error = AppError::new(ErrorKind::TooManyRequests, "too many lists are asked for");
    Refused(error.hint("wait a moment, and follow changes with /v1/events instead of listing again")).into_response()
}

/// A place in the line.
struct Waiting<'l>(&'l AtomicUsize);

impl<'l> Waiting<'l> {
    fn begin(waiting: &'l AtomicUsize) -> Option<Self> {
        let place = Self(waiting);
        (waiting.fetch_add(1, Ordering::Relaxed) < WAITING_MAX).then_some(place)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Nobody waits for the list any more.
struct Abandoned(AbortHandle);

impl Drop for Abandoned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn lists_are_told_from_what_takes_one_row() {
        let is_list = |method: &str, path: &str| {
            is_list(&http::Request::builder().method(method).uri(path).body(Body::empty()).unwrap())
        };
        for path in [
            "/v1/jobs",
            "/v1/jobs?limit=1000",
            "/v1/tasks",
            "/v1/schedules",
            "/v1/schedules/nightly/occurrences",
            "/v1/schedules/nightly/preview?count=5",
            "/v1/backfills/b/runs",
            "/v1/notifications/n/deliveries",
            "/v1/forecast",
            "/v1/overdue",
            "/v1/audit",
            "/v1/audit/export?after_seq=7",
        ] {
            assert!(is_list("GET", path) && is_list("HEAD", path) && !is_list("POST", path), "{path}");
        }
        for path in [
            "/",
            "/livez",
            "/readyz",
            "/v1/jobs/job_1",
            "/v1/jobs/job_1/logs",
            "/v1/jobs/job_1/events",
            "/v1/events",
            "/v1/stats",
            "/v1/workers",
            "/v1/server",
            "/v1/agent/job_1/1",
            "/v1/artifacts/a/content",
        ] {
            assert!(!is_list("GET", path), "{path}");
        }
    }

    #[test]
    fn the_line_has_a_limit_and_places_are_given_back() {
        let waiting = AtomicUsize::new(0);
        let line: Vec<_> = (0..WAITING_MAX).map(|_| Waiting::begin(&waiting).expect("there is room")).collect();
        assert!(Waiting::begin(&waiting).is_none());
        assert_eq!(waiting.load(Ordering::Relaxed), WAITING_MAX);
        drop(line);
        assert!(Waiting::begin(&waiting).is_some());
    }
}
