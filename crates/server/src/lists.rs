//! Where lists are made.
//!
//! A list reads up to thousands of rows. Lists have threads of their own with a low priority, few run at a time, and the
//! others wait in a line of limited length: however many clients ask for lists, starts and submissions get the processor
//! first. On a machine that has nothing else to do a list takes as long as it would anywhere.
//!
//! Namespaces take turns: of each, no more lists stand in line for a turn than run at a time, and its others wait behind these.
//! So a tenant that floods makes its own lists late.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::Method;
use punctual_api::ErrorKind;
use punctual_app::{App, AppError};
use punctual_core::NamespaceId;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::pages;
use crate::permit::Asker;
use crate::problem::Refused;

/// Those that wait for their turn if there is one namespace. Each has taken its connection and nothing else.
const WAITING_MAX: usize = 256;
/// Those of one namespace, if there are several, and those of all.
const WAITING_OF_NAMESPACE_MAX: usize = 128;
const WAITING_OF_ALL_MAX: usize = 1024;
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
    lines: Lines,
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
            lines: Lines::new(lists),
        }
    }
}

/// Whether a request reads many rows, or works out many times.
pub(crate) fn is_list(request: &Request) -> bool {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return false;
    }
    if pages::is_list(request.uri().path()) {
        return true;
    }
    let mut parts = request.uri().path().trim_start_matches('/').split('/');
    match [parts.next(), parts.next(), parts.next(), parts.next(), parts.next()] {
        [Some("v1"), Some(all), None, ..] => matches!(
            all,
            "artifacts"
                | "audit"
                | "backfills"
                | "batches"
                | "calendars"
                | "deliveries"
                | "forecast"
                | "jobs"
                | "notifications"
                | "overdue"
                | "queues"
                | "runs"
                | "schedules"
                | "tasks"
                | "workflows"
        ),
        [Some("v1"), Some("audit"), Some("export"), None, ..] => true,
        [Some("v1"), Some(_), Some(_), Some(of_one), None] => {
            matches!(of_one, "deliveries" | "members" | "occurrences" | "preview" | "runs")
        }
        _ => false,
    }
}

/// Answers the request when it is its turn.
pub(crate) async fn answer(app: &App, request: Request, next: Next) -> Response {
    let lane = &*LANE;
    let asker = request.extensions().get::<Asker>();
    let namespace = asker.map_or(NamespaceId::DEFAULT, |asker| asker.principal.namespace().id());
    let max = if app.has_several_namespaces() { WAITING_OF_NAMESPACE_MAX } else { WAITING_MAX };
    let Some(waits) = lane.lines.begin(namespace, max) else { return busy() };
    let Ok(Some(turn)) = tokio::time::timeout(WITHIN, waits.turn(&lane.turns)).await else { return busy() };
    drop(waits);
    let began = Instant::now();
    let list = lane.runtime.spawn(next.run(request));
    let abandoned = Abandoned(list.abort_handle());
    let response = list.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a request handler panicked");
        Refused(AppError::new(ErrorKind::Internal, "the request failed because of a defect")).into_response()
    });
    drop(abandoned);
    if lane.lines.are_waiting() {
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

/// The lines of all namespaces whose lists wait.
struct Lines {
    lines: Mutex<HashMap<NamespaceId, Line>>,
    heads: usize,
}

struct Line {
    waiting: usize,
    /// Those at its head stand in line for a turn with those of others.
    heads: Arc<Semaphore>,
}

impl Lines {
    fn new(heads: usize) -> Self {
        Self { lines: Mutex::default(), heads }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<NamespaceId, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place, unless `max` of the namespace wait already.
    fn begin(&self, namespace: NamespaceId, max: usize) -> Option<Waiting<'_>> {
        let mut lines = self.known();
        // Few: lines in which nobody waits are not kept.
        if lines.values().map(|line| line.waiting).sum::<usize>() >= WAITING_OF_ALL_MAX {
            return None;
        }
        let new = || Line { waiting: 0, heads: Arc::new(Semaphore::new(self.heads)) };
        let line = lines.entry(namespace).or_insert_with(new);
        if line.waiting >= max {
            return None;
        }
        line.waiting += 1;
        Some(Waiting { lines: self, namespace, heads: Arc::clone(&line.heads) })
    }

    fn are_waiting(&self) -> bool {
        !self.known().is_empty()
    }
}

/// A place in the line of a namespace.
struct Waiting<'l> {
    lines: &'l Lines,
    namespace: NamespaceId,
    heads: Arc<Semaphore>,
}

impl Waiting<'_> {
    /// Whoever has its turn leaves the head of its line.
    async fn turn<'t>(&self, turns: &'t Semaphore) -> Option<SemaphorePermit<'t>> {
        let _head = self.heads.acquire().await.ok()?;
        turns.acquire().await.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut lines = self.lines.known();
        if let Some(line) = lines.get_mut(&self.namespace) {
            line.waiting -= 1;
            if line.waiting == 0 {
                lines.remove(&self.namespace);
            }
        }
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
            "/",
            "/jobs?state=failed",
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
            "/v1/runs?limit=1000",
            "/v1/batches",
            "/v1/batches/batch_1/members?limit=1000",
            "/v1/workflows",
            "/v1/audit",
            "/v1/audit/export?after_seq=7",
        ] {
            assert!(is_list("GET", path) && is_list("HEAD", path) && !is_list("POST", path), "{path}");
        }
        for path in [
            "/livez",
            "/login",
            "/jobs/job_1",
            "/readyz",
            "/v1/jobs/job_1",
            "/v1/jobs/job_1/logs",
            "/v1/runs/run_1",
            "/v1/batches/batch_1",
            "/v1/workflows/nightly",
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

    const A: NamespaceId = NamespaceId(1);
    const B: NamespaceId = NamespaceId(2);

    #[test]
    fn each_line_has_a_limit_and_places_are_given_back() {
        let lines = Lines::new(1);
        let line: Vec<_> = (0..WAITING_MAX).map(|_| lines.begin(A, WAITING_MAX).expect("there is room")).collect();
        assert!(lines.begin(A, WAITING_MAX).is_none());
        assert!(lines.begin(B, WAITING_MAX).is_some(), "the line of another namespace");
        assert!(lines.are_waiting());
        drop(line);
        assert!(!lines.are_waiting());
        assert!(lines.begin(A, WAITING_MAX).is_some());
        let every = |number| lines.begin(NamespaceId(number), WAITING_MAX);
        let all: Vec<_> = (0..).map_while(every).collect();
        assert_eq!(all.len(), WAITING_OF_ALL_MAX);
    }

    #[tokio::test]
    async fn a_namespace_with_many_lists_leaves_every_other_turn_to_others() {
        static TURNS: Semaphore = Semaphore::const_new(1);
        static LINES: LazyLock<Lines> = LazyLock::new(|| Lines::new(1));
        let order: Arc<Mutex<Vec<NamespaceId>>> = Arc::default();
        let held = TURNS.acquire().await.expect("it is free");
        let mut lists = Vec::new();
        for namespace in [vec![A; 20], vec![B; 3]].concat() {
            let order = Arc::clone(&order);
            let waits = LINES.begin(namespace, WAITING_MAX).expect("there is room");
            lists.push(tokio::spawn(async move {
                let turn = waits.turn(&TURNS).await.expect("its turn comes");
                drop(waits);
                order.lock().expect("no panic").push(namespace);
                tokio::task::yield_now().await;
                drop(turn);
            }));
            // In this order.
            tokio::task::yield_now().await;
        }
        drop(held);
        for list in lists {
            list.await.expect("no panic");
        }
        let order = order.lock().expect("no panic").clone();
        assert_eq!(order.len(), 23);
        let last_of_b = order.iter().rposition(|namespace| *namespace == B).expect("its lists were made");
        assert!(last_of_b <= 7, "those of the flood wait: {order:?}");
    }
}
