//! Paths, queries and headers.

use serde_json::json;

use super::{Case, Cut, Refused, Taken, check, job_with};
use crate::raw::Request;

const INVALID: &str = "invalid_request";
/// Well formed, and of no job.
const UNKNOWN: &str = "job_01m7etxc82e7j8000xwvsb0mnb";

#[tokio::test]
async fn queries_that_make_no_sense_are_refused() {
    let mut cases = Vec::new();
    for (query, word) in [
        ("limit=0", "limit"),
        ("limit=-1", "limit"),
        ("limit=1001", "limit"),
        ("limit=ten", "limit"),
        ("limit=", "limit"),
        ("limit=1e2", "limit"),
        ("limit=99999999999999999999", "limit"),
        ("limit=5&limit=6", "limit"),
        ("cursor=", "cursor"),
        ("cursor=abc", "cursor"),
        ("cursor=000000000000000000000000000000000000000000000000", "cursor"),
        ("cursor=ffffffffffffffffffffffffffffffffffffffffffffffff", "cursor"),
        ("cursor=00000000000000000000000000000000", "cursor"),
        ("cursor=ffffffffffffffffffffffffffffffff", "cursor"),
        ("cursor=%00", "cursor"),
        (
            "cursor=%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9%C3%A9",
            "cursor",
        ),
        ("state=done", "state"),
        ("state=", "state"),
        ("state=failed,", "state"),
        ("state=Failed", "state"),
        ("state=failed;deleted", "state"),
        ("state=failed,failed,failed,failed,failed,failed,failed,failed,failed,failed,bogus", "bogus"),
        ("kind=shell", "kind"),
        ("kind=", "kind"),
        ("queue=", "queue"),
        ("queue=..%2f..", "queue"),
        ("task=", "task"),
        ("task=%00", "task"),
        ("order=up", "order"),
        ("scheduled_from=yesterday", "scheduled_from"),
        ("scheduled_from=2099-01-01T00:00:00", "scheduled_from"),
        ("scheduled_before=2099-01-01T00:00:00+01:00", "scheduled_before"),
        ("scheduled_before=1969-01-01T00:00:00Z", "scheduled_before"),
        ("scheduled_before=", "scheduled_before"),
        ("page=2", "page"),
        ("Limit=5", "Limit"),
        ("state%00=failed", "there is no parameter"),
        ("a[b]=c", "a[b]: there is no parameter"),
        ("stat=failed", "did you mean `state`?"),
    ] {
        let request = Request::new("GET", &format!("/v1/jobs?{query}"));
        cases.push(Case::new(format!("GET /v1/jobs?{query}"), request, Refused(400, INVALID, word)));
    }
    for (path, word) in [
        ("/v1/tasks?limit=0", "limit"),
        ("/v1/tasks?cursor=..%2F", "cursor"),
        ("/v1/tasks?name=a", "name"),
        ("/v1/workers?all=1", "all"),
        ("/v1/workers?gone=some", "gone"),
        ("/v1/server?verbose", "verbose"),
        ("/v1/stats?since=1h", "since"),
        ("/v1/events?job=1", "job"),
        ("/openapi.json?format=yaml", "format"),
    ] {
        cases.push(Case::new(path, Request::new("GET", path), Refused(400, INVALID, word)));
    }
    for (query, word) in [
        ("wait=soon", "wait"),
        ("wait=61s", "wait"),
        ("wait=-1s", "wait"),
        ("wait=NaN", "wait"),
        ("wait=", "wait"),
        ("wait=1s&wait=2s", "wait"),
        ("Wait=1s", "Wait"),
    ] {
        let request = Request::new("GET", &format!("/v1/jobs/{UNKNOWN}?{query}"));
        cases.push(Case::new(format!("a job ?{query}"), request, Refused(400, INVALID, word)));
    }
    for (query, word) in [
        ("offset=-1", "offset"),
        ("offset=18446744073709551616", "offset"),
        ("offset=", "offset"),
        ("attempt=-1", "attempt"),
        ("attempt=4294967296", "attempt"),
        ("attempt=first", "attempt"),
        ("tail=5", "tail"),
    ] {
        let request = Request::new("GET", &format!("/v1/jobs/{UNKNOWN}/logs?{query}"));
        cases.push(Case::new(format!("logs ?{query}"), request, Refused(400, INVALID, word)));
    }
    let submit = Request::new("POST", "/v1/jobs?wait=61s").json(job_with(json!({})).to_string());
    cases.push(Case::new("a submission that waits for too long", submit, Refused(400, INVALID, "wait")));
    let follow = Request::new("GET", &format!("/v1/jobs/{UNKNOWN}/logs"));
    let follow = follow.header("Accept", "text/event-stream").header("Last-Event-ID", "end");
    cases.push(Case::new("a last event that is none", follow, Refused(400, INVALID, "Last-Event-ID")));
    check(cases).await;
}

#[tokio::test]
async fn ids_and_names_that_are_none_are_refused() {
    let mut cases = Vec::new();
    let long = "a".repeat(20_000);
    for id in [
        "1",
        "job_",
        "job_00000000000000000000000000",
        "job_zzzzzzzzzzzzzzzzzzzzzzzzzz",
        "JOB_01m7etxc82e7j8000xwvsb0mnb",
        "job_01M7ETXC82E7J8000XWVSB0MNB",
        "job_01m7etxc82e7j8000xwvsb0mn",
        "job_01m7etxc82e7j8000xwvsb0mnbb",
        "task_01m7etxc82e7j8000xwvsb0mnb",
        "worker_01m7etxc82e7j8000xwvsb0mnb",
        "01m7etxc82e7j8000xwvsb0mnb",
        "018f3c5e-7c2a-7000-8000-000000000000",
        "job_01m7etxc82e7j8000xwvsb0mn%00",
        "job_%C3%A9",
        "%FF",
        "..%2F..%2Fetc%2Fpasswd",
        "%20",
        "null",
        &long,
    ] {
        for (method, part) in [("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/logs"), ("GET", "/events")] {
            let path = format!("/v1/jobs/{id}{part}");
            let name: String = format!("{method} {path}").chars().take(100).collect();
            let word = if id == "%FF" { "UTF-8" } else { "job_" };
            cases.push(Case::new(name, Request::new(method, &path), Refused(400, INVALID, word)));
        }
    }
    // Well formed, and of nothing: the least, the greatest, another shard, a time that there is not.
    for id in
        [UNKNOWN, "job_00000000007000g0000000000g", "job_7zzzzzzzzzfzzvzzzzzzzzzzzz", "job_01m7etxc82e7jvzzzxwvsb0mnb"]
    {
        let exists =
            punctual_core::JobId::PREFIX.len() + 1 + 26 == id.len() && id.parse::<punctual_core::JobId>().is_ok();
        let expect = || if exists { Refused(404, "job_not_found", id) } else { Refused(400, INVALID, "job_") };
        for (method, part) in [
            ("GET", ""),
            ("GET", "?wait=1s"),
            ("DELETE", ""),
            ("POST", "/cancel"),
            ("POST", "/retry"),
            ("POST", "/run"),
            ("GET", "/logs"),
            ("GET", "/logs?offset=1048576"),
            ("GET", "/events"),
        ] {
            let path = format!("/v1/jobs/{id}{part}");
            let expect = match expect() {
                // A constant word: the id itself is in the path of the case.
                Refused(404, code, _) => Refused(404, code, "there is no job"),
                other => other,
            };
            cases.push(Case::new(format!("{method} {path}"), Request::new(method, &path), expect));
        }
    }
    let spec = "{\"run\":{\"probe\":{}}}";
    for name in [
        "..%2F..%2Fetc",
        ".hidden",
        "a%20b",
        "%00",
        "%E2%80%AEevil",
        "a%2Fb",
        "%F0%9F%92%A9",
        &"a".repeat(129),
        "a%0d%0ab",
        "%25",
    ] {
        for (method, body) in [("GET", None), ("DELETE", None), ("PUT", Some(spec))] {
            let path = format!("/v1/tasks/{name}");
            let request = Request::new(method, &path);
            let request = if let Some(body) = body { request.json(body) } else { request };
            cases.push(Case::new(format!("{method} {path}"), request, Refused(400, INVALID, "name")));
        }
    }
    for method in ["GET", "DELETE"] {
        cases.push(Case::new(
            "an unknown task",
            Request::new(method, "/v1/tasks/nobody"),
            Refused(404, "task_not_found", "nobody"),
        ));
        cases.push(Case::new("not UTF-8", Request::new(method, "/v1/tasks/%C3%28"), Refused(400, INVALID, "UTF-8")));
    }
    check(cases).await;
}

#[tokio::test]
async fn addresses_and_methods_that_there_are_not_are_refused() {
    let mut cases = Vec::new();
    for path in [
        "/index.html",
        "/v1",
        "/v1/",
        "/v2/jobs",
        "/v1/jobs/",
        "//v1/jobs",
        "/v1//jobs",
        "/v1/job",
        "/V1/jobs",
        "/v1/tasks/a/b",
        "/v1/tasks/../jobs",
        "/../../etc/passwd",
        "/.git/config",
        "/v1/jobs/bulk/x",
        "/favicon.ico",
        "/metrics",
        "/%2e%2e",
        "/v1%2Fjobs",
        "/punctual.worker.v1.Worker",
        "/punctual.other.v1.Thing/Work",
        "/index.php?a=b",
    ] {
        cases.push(Case::new(path, Request::new("GET", path), Refused(404, "not_found", "openapi.json")));
    }
    for (method, path) in [
        ("PUT", "/v1/jobs"),
        ("PATCH", "/v1/jobs"),
        ("DELETE", "/v1/jobs"),
        ("PUT", "/v1/jobs/bulk"),
        ("POST", "/v1/tasks/a"),
        ("GET", "/v1/jobs/x/cancel"),
        ("DELETE", "/v1/workers"),
        ("POST", "/livez"),
        ("OPTIONS", "/v1/jobs"),
        ("TRACE", "/v1/jobs"),
        ("PROPFIND", "/v1/jobs"),
        ("BREW", "/v1/jobs"),
        ("GET", "/punctual.worker.v1.Worker/Work"),
    ] {
        let expect = Refused(405, "method_not_allowed", "Allow");
        cases.push(Case::new(format!("{method} {path}"), Request::new(method, path), expect));
    }
    check(cases).await;
}

#[tokio::test]
async fn headers_that_make_no_sense_are_refused() {
    let body = || job_with(json!({})).to_string();
    let post = || Request::new("POST", "/v1/jobs");
    let keyed = |key: &[u8]| post().json(body()).header("Idempotency-Key", key);
    let typed = |content_type: &[u8]| post().header("Content-Type", content_type).body(body());
    let matching =
        |etag: &str| Request::new("PUT", "/v1/tasks/a").json("{\"run\":{\"probe\":{}}}").header("If-Match", etag);
    let media = || Refused(415, "unsupported_media_type", "application/json");
    let key = || Refused(400, INVALID, "Idempotency-Key");
    check(vec![
        Case::new("no content type", post().body(body()), media()),
        Case::new("an empty content type", typed(b""), media()),
        Case::new("a form", typed(b"application/x-www-form-urlencoded"), media()),
        Case::new("plain text", typed(b"text/plain"), media()),
        Case::new("a multipart form", typed(b"multipart/form-data; boundary=x"), media()),
        Case::new("JSON of another kind", typed(b"application/problem+json"), media()),
        Case::new("JSON in the parameters", typed(b"text/plain; application/json"), media()),
        Case::new("a content type that is not ASCII", typed(b"application/json\xff"), media()),
        Case::new("a task without a content type", Request::new("PUT", "/v1/tasks/a").body("{}"), media()),
        Case::new("no body and no type", Request::new("POST", "/v1/jobs/bulk"), media()),
        Case::new(
            "a gzipped body",
            post().json(body()).header("Content-Encoding", "gzip"),
            Refused(415, "unsupported_media_type", "Content-Encoding"),
        ),
        Case::new("an empty key", keyed(b""), key()),
        Case::new("a key of blanks", keyed(b"   "), key()),
        Case::new("a key of 256 letters", keyed(&[b'a'; 256]), key()),
        Case::new("a key of 10,000 letters", keyed(&[b'a'; 10_000]), key()),
        Case::new("a key with a tab", keyed(b"a\tb"), key()),
        Case::new("a key that is not ASCII", keyed("grüße".as_bytes()), key()),
        Case::new("a key that is not UTF-8", keyed(b"a\xffb"), key()),
        Case::new("two keys", keyed(b"a").header("Idempotency-Key", "b"), key()),
        Case::new("a key with a NUL", keyed(b"a\0b"), Cut),
        Case::new("a key of 255 letters", keyed(&[b'a'; 255]), Taken),
        Case::new("any revision of no task", matching("*"), Refused(412, "revision_conflict", "does not exist")),
        Case::new("a digest that is none", matching("\"1-x\""), Refused(400, INVALID, "If-Match")),
        Case::new("a weak revision", matching("W/\"1\""), Refused(400, INVALID, "If-Match")),
        Case::new("a revision below zero", matching("\"-1\""), Refused(400, INVALID, "If-Match")),
        Case::new("a revision beyond all", matching("\"4294967296\""), Refused(400, INVALID, "If-Match")),
        Case::new("two revisions", matching("\"1\", \"2\""), Refused(400, INVALID, "If-Match")),
        Case::new("no revision", matching(""), Refused(400, INVALID, "If-Match")),
        Case::new("a revision of no task", matching("\"1\""), Refused(412, "revision_conflict", "revision 1")),
    ])
    .await;
}
