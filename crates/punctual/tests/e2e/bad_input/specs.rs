//! Definitions of tasks.

use serde_json::{Value, json};

use super::{Case, Refused, Taken, check};
use crate::raw::Request;

const INVALID: &str = "invalid_request";

fn probe_with(fields: Value) -> Value {
    let mut spec = json!({ "run": { "probe": {} } });
    for (key, value) in fields.as_object().expect("an object of fields") {
        spec[key] = value.clone();
    }
    spec
}

fn http_with(fields: Value) -> Value {
    let mut call = json!({ "url": "http://example.org/" });
    for (key, value) in fields.as_object().expect("an object of fields") {
        call[key] = value.clone();
    }
    json!({ "run": { "http": call } })
}

fn url(url: &str) -> Value {
    http_with(json!({ "url": url }))
}

fn headers(headers: Value) -> Value {
    http_with(json!({ "headers": headers }))
}

/// Specs with the field that is wrong.
fn specs() -> Vec<(&'static str, Value, &'static str)> {
    let many: Value = (0..65).map(|n| (format!("k{n}"), json!("v"))).collect::<serde_json::Map<_, _>>().into();
    let (probe, http) = (probe_with, http_with);
    vec![
        ("no run", json!({}), "/run: is required"),
        ("an empty run", json!({ "run": {} }), "/run"),
        ("two runs", json!({ "run": { "probe": {}, "handler": { "name": "a" } } }), "/run"),
        ("a run that there is not", json!({ "run": { "shell": "rm -rf /" } }), "`shell` is not one of"),
        ("a text for the run", json!({ "run": "probe" }), "/run"),
        ("a field that there is not", probe(json!({ "retries": 3 })), "/retries"),
        ("a field of the probe that there is not", json!({ "run": { "probe": { "slep": "1s" } } }), "/run/probe/slep"),
        ("a field of the call that there is not", http(json!({ "uri": "x" })), "/run/http/uri"),
        ("a field of the policy that there is not", probe(json!({ "retry": { "times": 3 } })), "/retry/times"),
        ("a handler without a name", json!({ "run": { "handler": {} } }), "/name: is required"),
        ("a handler with a blank", json!({ "run": { "handler": { "name": "a b" } } }), "/run/handler/name"),
        ("a sleep below zero", json!({ "run": { "probe": { "sleep": "-1s" } } }), "/run/probe/sleep"),
        (
            "a probe that fails less than never",
            json!({ "run": { "probe": { "fail_times": -1 } } }),
            "/run/probe/fail_times",
        ),
        (
            "a probe with too much output",
            json!({ "run": { "probe": { "output": "a".repeat(257 << 10) } } }),
            "/run/probe/output",
        ),
        ("an empty queue", probe(json!({ "queue": "" })), "/queue"),
        ("a queue with a slash", probe(json!({ "queue": "a/b" })), "/queue"),
        ("a queue of 129 letters", probe(json!({ "queue": "a".repeat(129) })), "/queue"),
        ("65 labels", probe(json!({ "labels": many })), "/labels"),
        ("a label without a name", probe(json!({ "labels": { "": "a" } })), "/labels"),
        ("a label with a line break", probe(json!({ "labels": { "a": "b\nc" } })), "/labels"),
        ("a label of 257 letters", probe(json!({ "labels": { "a": "b".repeat(257) } })), "/labels"),
        ("a number for a label", probe(json!({ "labels": { "a": 1 } })), "/labels/a"),
        ("labels in an array", probe(json!({ "labels": ["a"] })), "/labels"),
        ("priority 101", probe(json!({ "priority": 101 })), "/priority"),
        ("no timeout at all", probe(json!({ "timeout": "0s" })), "/timeout"),
        ("a timeout below zero", probe(json!({ "timeout": "-1s" })), "/timeout"),
        ("a timeout of 31 days", probe(json!({ "timeout": "744h" })), "/timeout"),
        ("a timeout that is not one", probe(json!({ "timeout": "soon" })), "/timeout"),
        ("a number below zero for the timeout", probe(json!({ "timeout": -30 })), "/timeout"),
        ("a list for the timeout", probe(json!({ "timeout": [30] })), "/timeout"),
        ("a timeout of NaN", probe(json!({ "timeout": "NaN" })), "/timeout"),
        ("a timeout without end", probe(json!({ "timeout": "inf" })), "/timeout"),
        ("a timeout of 1e300 seconds", probe(json!({ "timeout": "1e300" })), "/timeout"),
        ("no queue timeout at all", probe(json!({ "queue_timeout": "0s" })), "/queue_timeout"),
        ("a queue timeout of a century", probe(json!({ "queue_timeout": "876000h" })), "/queue_timeout"),
        ("1001 retries", probe(json!({ "retry": { "max": 1001 } })), "/retry"),
        ("-1 retries", probe(json!({ "retry": { "max": -1 } })), "/retry/max"),
        ("65,536 retries", probe(json!({ "retry": { "max": 65_536 } })), "/retry/max"),
        ("half a retry", probe(json!({ "retry": { "max": 0.5 } })), "/retry/max"),
        ("waits that shrink", probe(json!({ "retry": { "factor": 0.5 } })), "/retry"),
        ("waits that explode", probe(json!({ "retry": { "factor": 1e300 } })), "/retry"),
        ("a factor below zero", probe(json!({ "node_retry": { "factor": -2 } })), "/node_retry"),
        ("a jitter above one", probe(json!({ "retry": { "jitter": 1.1 } })), "/retry"),
        ("a jitter below zero", probe(json!({ "node_retry": { "jitter": -0.1 } })), "/node_retry"),
        ("a wait below zero", probe(json!({ "retry": { "initial": "-1s" } })), "/retry/initial"),
        ("a cap of 11 years", probe(json!({ "retry": { "cap": "96360h" } })), "/retry/cap"),
        ("a class of failures that there is not", probe(json!({ "retry": { "except": ["luck"] } })), "/retry/except"),
        ("one class without a list", probe(json!({ "retry": { "except": "task" } })), "/retry/except"),
        (
            "classes for the loss of a worker",
            probe(json!({ "node_retry": { "except": ["task"] } })),
            "/node_retry/except",
        ),
        ("a null for the policy", probe(json!({ "retry": null })), "/retry"),
        ("a delivery that nobody can promise", probe(json!({ "delivery": "always" })), "/delivery"),
        ("an end that there is not", probe(json!({ "on_lost": "ignore" })), "/on_lost"),
        ("no address", json!({ "run": { "http": {} } }), "/url: is required"),
        ("an empty address", url(""), "/run/http/url"),
        ("a relative address", url("/hook"), "/run/http/url"),
        ("an address without a scheme", url("example.org/hook"), "/run/http/url"),
        ("FTP", url("ftp://example.org/"), "/run/http/url"),
        ("a file", url("file:///etc/passwd"), "/run/http/url"),
        ("a script", url("javascript:alert(1)"), "/run/http/url"),
        ("no host", url("http://"), "/run/http/url"),
        ("a port alone", url("http://:80/"), "/run/http/url"),
        ("a port that there is not", url("http://example.org:99999/"), "/run/http/url"),
        ("a user name", url("http://me@example.org/"), "/run/http/url"),
        ("a password", url("http://me:secret@example.org/"), "/run/http/url"),
        ("blanks in the host", url("http://exa mple.org/"), "/run/http/url"),
        ("an address of 2049 letters", url(&format!("http://example.org/{}", "a".repeat(2030))), "/run/http/url"),
        ("an address of half a megabyte", url(&format!("http://{}/", "a".repeat(500_000))), "/run/http/url"),
        ("a method that there is not", http(json!({ "method": "BREW" })), "/run/http/method"),
        ("a method in lower case", http(json!({ "method": "get" })), "/run/http/method"),
        ("a method with a line break", http(json!({ "method": "GET\r\nX: y" })), "/run/http/method"),
        ("a body for a GET", http(json!({ "body": "a" })), "/run/http/body"),
        ("an object for a body", http(json!({ "method": "POST", "body": {} })), "/run/http/body"),
        ("a body of 257 KiB", http(json!({ "method": "POST", "body": "a".repeat(257 << 10) })), "/run/http/body"),
        ("65 headers", headers(many_headers()), "/run/http/headers"),
        ("a header with a line break", headers(json!({ "X-A": "b\r\nX-Evil: c" })), "/run/http/headers"),
        ("a header with a bare line feed", headers(json!({ "X-A": "b\nc" })), "/run/http/headers"),
        ("a header with a NUL", headers(json!({ "X-A": "b\u{0}c" })), "/run/http/headers"),
        ("a header's name with a line break", headers(json!({ "X-A: b\r\nX-Evil": "c" })), "/run/http/headers"),
        ("a header's name with a blank", headers(json!({ "X A": "b" })), "/run/http/headers"),
        ("a header without a name", headers(json!({ "": "b" })), "/run/http/headers"),
        ("a header of letters that HTTP lacks", headers(json!({ "X-Ä": "b" })), "/run/http/headers"),
        ("a host of its own", headers(json!({ "Host": "evil.example" })), "/run/http/headers"),
        ("a length of its own", headers(json!({ "content-length": "5" })), "/run/http/headers"),
        ("an encoding of its own", headers(json!({ "Transfer-Encoding": "chunked" })), "/run/http/headers"),
        ("an idempotency key of its own", headers(json!({ "IDEMPOTENCY-KEY": "a" })), "/run/http/headers"),
        ("a number for a header", headers(json!({ "X-A": 5 })), "/run/http/headers/X-A"),
        ("status 99", http(json!({ "expect_status": [99] })), "/run/http/expect_status"),
        ("status 600", http(json!({ "expect_status": [200, 600] })), "/run/http/expect_status"),
        ("status -1", http(json!({ "expect_status": [-1] })), "/run/http/expect_status/0"),
        ("status 65,536", http(json!({ "expect_status": [200, 65_536] })), "/run/http/expect_status/1"),
        ("a text for a status", http(json!({ "expect_status": ["2xx"] })), "/run/http/expect_status/0"),
        ("101 statuses", http(json!({ "expect_status": vec![200; 101] })), "/run/http/expect_status"),
        ("no time for a request", http(json!({ "timeout": "0s" })), "/run/http/timeout"),
        ("a request below zero", http(json!({ "timeout": "-5s" })), "/run/http/timeout"),
        ("a line break in the address", url("http://example.org/a\r\nX: y"), "/run/http/url"),
        ("status 600 to try again", http(json!({ "retry_status": [600] })), "/run/http/retry_status"),
        ("no regular expression", http(json!({ "expect_body": "(" })), "/run/http/expect_body"),
        ("a regular expression without bounds", http(json!({ "expect_body": "a{999}{999}" })), "/run/http/expect_body"),
        ("11 redirects", http(json!({ "follow_redirects": 11 })), "/run/http/follow_redirects"),
        ("a key with a line break", http(json!({ "sign_with": "a\nb" })), "/run/http/sign_with"),
        ("a signature of its own", headers(json!({ "Webhook-Signature": "v1,x" })), "/run/http/headers"),
        ("a mail to nobody", email(json!({ "to": [] })), "/run/email/to"),
        ("a mail to a name", email(json!({ "to": ["ops"] })), "/run/email/to/0"),
        ("a mail to 101", email(json!({ "to": vec!["a@example.org"; 101] })), "/run/email/to"),
        ("a mail with one more header", email(json!({ "subject": "a\r\nBcc: b@example.org" })), "/run/email/subject"),
        ("a mail with one more address", email(json!({ "cc": ["a@example.org\nb@example.org"] })), "/run/email/cc/0"),
        ("a mail with a NUL", email(json!({ "reply_to": "a\u{0}@example.org" })), "/run/email/reply_to"),
        ("a mail without a subject", email(json!({ "subject": "" })), "/run/email/subject"),
        ("a mail of 257 KiB", email(json!({ "text": "a".repeat(257 << 10) })), "/run/email/text"),
        ("a webhook elsewhere", slack("https://example.org/hook"), "/run/slack/webhook"),
        ("a webhook in the clear", slack("http://hooks.slack.com/services/x"), "/run/slack/webhook"),
        ("a webhook with a line break", slack("https://hooks.slack.com/a\r\nb"), "/run/slack/webhook"),
        ("a webhook without a name", slack(""), "/run/slack/webhook"),
    ]
}

fn email(fields: Value) -> Value {
    let mut mail = json!({ "to": ["ops@example.org"], "subject": "done" });
    for (key, value) in fields.as_object().expect("an object of fields") {
        mail[key] = value.clone();
    }
    json!({ "run": { "email": mail } })
}

fn slack(webhook: &str) -> Value {
    json!({ "run": { "slack": { "webhook": webhook, "text": "hi" } } })
}

fn many_headers() -> Value {
    (0..65).map(|n| (format!("X-{n}"), json!("v"))).collect::<serde_json::Map<_, _>>().into()
}

#[tokio::test]
async fn tasks_that_make_no_sense_are_refused() {
    let mut cases = Vec::new();
    for (name, spec, field) in specs() {
        // Wherever a task is defined: by its name, with its name, for one job.
        let ways = [
            ("", Request::new("PUT", "/v1/tasks/a"), spec.clone()),
            ("/spec", Request::new("POST", "/v1/tasks"), json!({ "name": "a", "spec": spec })),
            ("/inline", Request::new("POST", "/v1/jobs"), json!({ "inline": spec })),
        ];
        for (way, request, body) in ways {
            let expect = Refused(400, INVALID, field);
            cases.push(Case::new(format!("{name} {way}"), request.json(body.to_string()), expect));
        }
    }
    let create = |body: Value| Request::new("POST", "/v1/tasks").json(body.to_string());
    let spec = probe_with(json!({}));
    cases.extend([
        Case::new("no name", create(json!({ "spec": spec })), Refused(400, INVALID, "/name: is required")),
        Case::new("no spec", create(json!({ "name": "a" })), Refused(400, INVALID, "/spec: is required")),
        Case::new("an empty name", create(json!({ "name": "", "spec": spec })), Refused(400, INVALID, "/name")),
        Case::new("a number for the name", create(json!({ "name": 1, "spec": spec })), Refused(400, INVALID, "/name")),
        Case::new(
            "a long name",
            create(json!({ "name": "a".repeat(129), "spec": spec })),
            Refused(400, INVALID, "/name"),
        ),
        Case::new(
            "a name of another alphabet",
            create(json!({ "name": "задача", "spec": spec })),
            Refused(400, INVALID, "/name"),
        ),
        Case::new(
            "one more field",
            create(json!({ "name": "a", "spec": spec, "id": "x" })),
            Refused(400, INVALID, "/id"),
        ),
        Case::new(
            "an id of its own",
            create(json!({ "name": "a", "spec": spec, "revision": 9 })),
            Refused(400, INVALID, "/revision"),
        ),
    ]);
    check(cases).await;
}

#[tokio::test]
async fn odd_tasks_that_are_fine_are_taken() {
    let put = |spec: Value| Request::new("PUT", "/v1/tasks/odd").json(spec.to_string());
    check(vec![
        Case::new("the longest timeout", put(probe_with(json!({ "timeout": "720h" }))), Taken),
        Case::new("seconds", put(probe_with(json!({ "timeout": "0.000001" }))), Taken),
        Case::new("ISO 8601", put(probe_with(json!({ "timeout": "PT5M" }))), Taken),
        Case::new(
            "a thousand retries",
            put(probe_with(json!({ "retry": { "max": 1000, "factor": 100, "jitter": 1 } }))),
            Taken,
        ),
        Case::new("an IPv6 host", put(url("http://[::1]:80/")), Taken),
        Case::new("a host in Unicode", put(url("https://bücher.example/")), Taken),
        Case::new("a query", put(url("https://example.org/?a=b&c=%00#d")), Taken),
        Case::new("a header in UTF-8", put(headers(json!({ "X-A": "grüße" }))), Taken),
        Case::new("an empty header", put(headers(json!({ "X-A": "" }))), Taken),
        Case::new("every status", put(http_with(json!({ "expect_status": [100, 200, 404, 599] }))), Taken),
        Case::new("an empty body", put(http_with(json!({ "method": "POST", "body": "" }))), Taken),
    ])
    .await;
}
