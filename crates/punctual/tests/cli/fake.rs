//! Answers each request line with a canned status and body.

use std::collections::BTreeMap;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use serde_json::{Value, json};

pub(crate) const DONE: &str = "job_01m7et433kee4803yssgvaf2fh";
pub(crate) const FAILED: &str = "job_01m7et4344e91804jsy8wksbxz";
pub(crate) const WAITING: &str = "job_01m7et469xean809rsrp4x17cq";

/// Ends with the test's process.
pub(crate) fn start() -> String {
    start_with([])
}

/// The same with answers that go before the usual ones.
pub(crate) fn start_with(others: impl IntoIterator<Item = (String, (u16, Value))>) -> String {
    let mut answers = answers();
    answers.extend(others);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let router = Router::new().fallback(async move |method: Method, uri: Uri| {
                let line = format!("{method} {}", uri.path());
                let missing = || (404, problem("job_not_found", 404, "there is no such job"));
                let (status, body) = answers.get(&line).cloned().unwrap_or_else(missing);
                (StatusCode::from_u16(status).unwrap(), body.to_string())
            });
            axum::serve(listener, router).await.unwrap();
        });
    });
    url
}

fn answers() -> BTreeMap<String, (u16, Value)> {
    let submitted = json!({ "id": WAITING, "scheduled_at": "2030-01-01T00:00:00Z", "due_at": "2030-01-01T00:00:00Z" });
    let jobs = json!({
        "jobs": [summary(FAILED, "failed", Some("exit 1")), summary(DONE, "succeeded", None)],
        "next_cursor": "abc",
    });
    let task = json!({
        "id": "task_01m7et433kee4803yssgvaf2fh",
        "name": "ping",
        "revision": 3,
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
        "spec": { "run": { "http": { "url": "http://127.0.0.1/" } } },
    });
    let mut answers = crate::fake_schedules::answers();
    answers.extend(crate::fake_notifications::answers());
    answers.extend(crate::fake_backfills::answers());
    answers.extend([
        ("GET /v1/jobs".to_owned(), (200, jobs)),
        ("POST /v1/jobs".to_owned(), (201, submitted)),
        (format!("GET /v1/jobs/{DONE}"), (200, job(DONE, "succeeded"))),
        (format!("GET /v1/jobs/{FAILED}"), (200, failed_job())),
        (format!("GET /v1/jobs/{WAITING}"), (200, job(WAITING, "scheduled"))),
        (
            format!("POST /v1/jobs/{WAITING}/cancel"),
            (200, json!({ "id": WAITING, "state": "cancelled", "pending": false })),
        ),
        (format!("POST /v1/jobs/{DONE}/cancel"), (409, problem("job_already_finished", 409, "the job has finished"))),
        ("GET /v1/tasks/ping".to_owned(), (200, task.clone())),
        ("PUT /v1/tasks/ping".to_owned(), (200, task)),
        ("GET /v1/tasks/nope".to_owned(), (404, problem("task_not_found", 404, "there is no task named nope"))),
        ("GET /v1/tasks".to_owned(), (503, problem("unavailable", 503, "the server is stopping"))),
        ("DELETE /v1/tasks/ping".to_owned(), (403, problem("forbidden_host", 403, "this host name is not served"))),
        ("GET /v1/workers".to_owned(), (200, json!({ "workers": [] }))),
    ]);
    answers
}

pub(crate) fn problem(code: &str, status: u16, detail: &str) -> Value {
    json!({
        "type": format!("/problems/{code}"), "title": code, "status": status, "detail": detail,
        "code": code, "request_id": "r1", "retryable": false,
    })
}

pub(crate) fn task_ref() -> Value {
    json!({ "id": "task_01m7et433kee4803yssgvaf2fh", "name": "ping", "kind": "http", "queue": "default" })
}

fn summary(id: &str, state: &str, reason: Option<&str>) -> Value {
    json!({
        "id": id, "task": task_ref(), "state": state, "priority": 0, "attempt_count": 1, "reason": reason,
        "submitted_at": "2026-01-01T00:00:00Z", "scheduled_at": "2026-01-01T00:00:00Z",
        "due_at": "2026-01-01T00:00:00Z",
    })
}

fn failed_job() -> Value {
    let mut job = job(FAILED, "failed");
    job["attempts"][0]["reason"] = json!("it used too much memory");
    job["attempts"][0]["details"] = json!({
        "class": "limit", "signal": 9, "limit": "oom", "peak_memory_bytes": 536_870_912, "cpu_us": 1_200_000,
        "sandbox": "full", "a_newer_field": true,
    });
    job
}

fn job(id: &str, state: &str) -> Value {
    json!({
        "id": id, "task": task_ref(), "state": state, "priority": 0, "explanation": format!("It is {state}."),
        "submitted_at": "2026-01-01T00:00:00Z", "scheduled_at": "2026-01-01T00:00:00Z",
        "due_at": "2026-01-01T00:00:00Z",
        "finished_at": "2026-01-01T00:00:01Z", "cancel_requested": false,
        "attempts": [{
            "attempt": 1, "state": state, "worker": "worker_01m7et40a5e6hs5g996vdmh7f3",
            "server": "server_01m7etg8hwe0sbbaq92e8h11ex", "due_at": "2026-01-01T00:00:00Z", "picked_up_at": "2026-01-01T00:00:00Z",
            "started_at": "2026-01-01T00:00:00.002Z", "finished_at": "2026-01-01T00:00:01Z",
        }],
        "input": { "big": 12345678901234567890u64 }, "output": "hi",
    })
}
