//! Bodies of submissions: JSON that is not, does not fit, or is too much.

use serde_json::{Value, json};

use super::{Case, Cut, Refused, Taken, check, job_with, post_job};
use crate::raw::Request;

const INVALID: &str = "invalid_request";

/// Text that is no JSON, or no job at all.
fn texts() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let nested = |open: &str, close: &str| [open.repeat(10_000), close.repeat(10_000)].concat();
    vec![
        ("an empty body", b"".to_vec(), "not valid JSON"),
        ("blanks", b"  \n ".to_vec(), "not valid JSON"),
        ("a bare word", b"hello".to_vec(), "not valid JSON"),
        ("null", b"null".to_vec(), "null"),
        ("a number", b"42".to_vec(), "not a number"),
        ("a text", b"\"job\"".to_vec(), "string"),
        ("an array", b"[{}]".to_vec(), "must be"),
        ("cut in a key", b"{\"ta".to_vec(), "not valid JSON"),
        ("cut in a value", b"{\"task\":\"a".to_vec(), "not valid JSON"),
        ("cut before the end", b"{\"task\":\"a\"".to_vec(), "not valid JSON"),
        ("more after the end", b"{\"task\":\"a\"} {}".to_vec(), "not valid JSON"),
        ("a trailing comma", b"{\"task\":\"a\",}".to_vec(), "not valid JSON"),
        ("single quotes", b"{'task':'a'}".to_vec(), "not valid JSON"),
        ("a comment", b"{\"task\":\"a\" /* b */}".to_vec(), "not valid JSON"),
        ("a byte order mark", b"\xef\xbb\xbf{\"task\":\"a\"}".to_vec(), "not valid JSON"),
        ("UTF-16", b"\xff\xfe{\0\"\0".to_vec(), "not valid JSON"),
        ("a NUL byte", b"{\"task\":\"a\0b\"}".to_vec(), "not valid JSON"),
        ("a line break in a text", b"{\"task\":\"a\nb\"}".to_vec(), "not valid JSON"),
        ("bytes that are not UTF-8 in a text", b"{\"task\":\"\xff\xfe\"}".to_vec(), "/task"),
        ("bytes that are not UTF-8 in the input", b"{\"task\":\"a\",\"input\":\"\xc3\x28\"}".to_vec(), "/input"),
        ("an overlong encoding", b"{\"task\":\"\xc0\xaf\"}".to_vec(), "/task"),
        ("half a surrogate pair", b"{\"task\":\"\\ud800\"}".to_vec(), "/task"),
        ("NaN", b"{\"task\":\"a\",\"priority\":NaN}".to_vec(), "not valid JSON"),
        ("Infinity", b"{\"task\":\"a\",\"priority\":Infinity}".to_vec(), "not valid JSON"),
        ("a number of base 16", b"{\"task\":\"a\",\"priority\":0x10}".to_vec(), "not valid JSON"),
        ("a leading zero", b"{\"task\":\"a\",\"priority\":01}".to_vec(), "not valid JSON"),
        ("1e400 for a number", b"{\"task\":\"a\",\"priority\":1e400}".to_vec(), "number out of range"),
        ("arrays 10,000 deep", nested("[", "]").into_bytes(), "must be"),
        ("objects 10,000 deep", nested("{\"a\":", "}").into_bytes(), "not valid JSON"),
        ("open arrays 10,000 deep", "[".repeat(10_000).into_bytes(), ""),
        ("a task 10,000 deep", format!("{{\"task\":{}}}", nested("[", "]")).into_bytes(), "/task"),
        ("a spec 10,000 deep", format!("{{\"inline\":{}}}", nested("{\"run\":", "}")).into_bytes(), "not valid JSON"),
        ("an input 10,000 deep", format!("{{\"task\":\"a\",\"input\":{}}}", nested("[", "]")).into_bytes(), "/input"),
        (
            "an input 65 deep",
            format!("{{\"task\":\"a\",\"input\":{}{}}}", "[".repeat(65), "]".repeat(65)).into_bytes(),
            "/input",
        ),
        ("the same field twice", b"{\"task\":\"a\",\"task\":\"b\"}".to_vec(), "is given more than once"),
        ("the input twice", b"{\"task\":\"a\",\"input\":1,\"input\":2}".to_vec(), "is given more than once"),
        (
            "a field within the spec twice",
            b"{\"inline\":{\"queue\":\"a\",\"queue\":\"b\"}}".to_vec(),
            "is given more than once",
        ),
    ]
}

/// Jobs that are JSON and still no jobs.
fn jobs() -> Vec<(&'static str, Value, &'static str)> {
    let with = job_with;
    vec![
        ("neither a task nor an inline one", json!({}), "names no task"),
        ("both a task and an inline one", with(json!({ "task": "a" })), "both a task and an inline"),
        ("nulls for both", json!({ "task": null, "inline": null }), "names no task"),
        ("a field that there is not", with(json!({ "delay": "5s" })), "/delay"),
        ("a field in another case", with(json!({ "Priority": 1 })), "/Priority"),
        ("a number for the task", json!({ "task": 7 }), "/task"),
        ("an object for the task", json!({ "task": { "name": "a" } }), "/task"),
        ("an empty name", json!({ "task": "" }), "/task"),
        ("a name with a path", json!({ "task": "../../etc/passwd" }), "/task"),
        ("a name that begins with a dot", json!({ "task": ".hidden" }), "/task"),
        ("a name with a blank", json!({ "task": "a b" }), "/task"),
        ("a name with a NUL", json!({ "task": "a\u{0}b" }), "/task"),
        ("a name from right to left", json!({ "task": "\u{202e}evil" }), "/task"),
        ("a name with a zero-width joiner", json!({ "task": "pay\u{200d}roll" }), "/task"),
        ("a name of another alphabet", json!({ "task": "раyroll" }), "/task"),
        ("a name with SQL", json!({ "task": "a'; DROP TABLE job; --" }), "/task"),
        ("a name with HTML", json!({ "task": "<script>" }), "/task"),
        ("a name of 129 letters", json!({ "task": "a".repeat(129) }), "/task"),
        ("a name of half a megabyte", json!({ "task": "a".repeat(500_000) }), "/task"),
        ("a text for the inline task", json!({ "inline": "ls" }), "/inline"),
        ("an inline task without a run", json!({ "inline": {} }), "/run: is required"),
        ("a number for run_at", with(json!({ "run_at": 1_800_000_000 })), "/run_at"),
        ("no time at all", with(json!({ "run_at": "soon" })), "/run_at"),
        ("an empty time", with(json!({ "run_at": "" })), "/run_at"),
        ("a time without a zone", with(json!({ "run_at": "2099-01-01T00:00:00" })), "/run_at"),
        ("a date alone", with(json!({ "run_at": "2099-01-01" })), "/run_at"),
        ("a zone that there is not", with(json!({ "run_at": "2099-01-01T00:00:00+99:00" })), "/run_at"),
        ("the name of a zone", with(json!({ "run_at": "2099-01-01T00:00:00 Europe/Berlin" })), "/run_at"),
        ("the 30th of February", with(json!({ "run_at": "2099-02-30T00:00:00Z" })), "/run_at"),
        ("hour 25", with(json!({ "run_at": "2099-01-01T25:00:00Z" })), "/run_at"),
        ("second 61", with(json!({ "run_at": "2099-01-01T00:00:61Z" })), "/run_at"),
        ("the year 1969", with(json!({ "run_at": "1969-12-31T23:59:59Z" })), "/run_at"),
        ("the year 0000", with(json!({ "run_at": "0000-01-01T00:00:00Z" })), "/run_at"),
        ("the year 10000", with(json!({ "run_at": "10000-01-01T00:00:00Z" })), "/run_at"),
        ("the year 10000 with a sign", with(json!({ "run_at": "+010000-01-01T00:00:00Z" })), "/run_at"),
        ("a year before Christ", with(json!({ "run_at": "-000044-03-15T00:00:00Z" })), "/run_at"),
        ("a time of a megabyte", with(json!({ "run_at": "9".repeat(900_000) })), "/run_at"),
        ("a text for the priority", with(json!({ "priority": "high" })), "/priority"),
        ("a fraction for the priority", with(json!({ "priority": 1.5 })), "/priority"),
        ("priority 101", with(json!({ "priority": 101 })), "/priority"),
        ("priority -101", with(json!({ "priority": -101 })), "/priority"),
        ("priority 128", with(json!({ "priority": 128 })), "/priority"),
        ("the largest number for a priority", with(json!({ "priority": i64::MAX })), "/priority"),
        ("the smallest number for a priority", with(json!({ "priority": i64::MIN })), "/priority"),
        ("beyond the largest number", with(json!({ "priority": u64::MAX })), "/priority"),
        ("a number for the tracing id", with(json!({ "tracing_id": 5 })), "/tracing_id"),
        ("a tracing id of 257 letters", with(json!({ "tracing_id": "é".repeat(257) })), "/tracing_id"),
        ("a tracing id with a line break", with(json!({ "tracing_id": "a\r\nX-Evil: 1" })), "/tracing_id"),
        ("a tracing id with an escape", with(json!({ "tracing_id": "\u{1b}[31m" })), "/tracing_id"),
        ("an input of 257 KiB", with(json!({ "input": "a".repeat(257 << 10) })), "/input"),
    ]
}

#[tokio::test]
async fn jobs_that_make_no_sense_are_refused() {
    let mut cases = Vec::new();
    for (name, body, word) in texts() {
        cases.push(Case::new(name, post_job(body), Refused(400, INVALID, word)));
    }
    cases.push(Case::new(
        "-0 for a number",
        post_job(&b"{\"task\":\"a\",\"priority\":-0}"[..]),
        Refused(400, INVALID, "/priority"),
    ));
    for (name, job, word) in jobs() {
        cases.push(Case::new(name, post_job(job.to_string()), Refused(400, INVALID, word)));
        // The same among good ones: nothing of it is kept, and the place is named.
        let bulk = json!({ "jobs": [job_with(json!({})), job, job_with(json!({}))] });
        let request = Request::new("POST", "/v1/jobs/bulk").json(bulk.to_string());
        if bulk.to_string().len() < 100_000 {
            cases.push(Case::new(format!("{name}, in bulk"), request, Refused(400, INVALID, "/jobs/1")));
        }
    }
    cases.push(Case::new(
        "a task that there is not",
        post_job(&b"{\"task\":\"nobody\"}"[..]),
        Refused(404, "task_not_found", "nobody"),
    ));
    check(cases).await;
}

#[tokio::test]
async fn bulks_that_are_none_too_many_or_partly_bad_are_refused() {
    let bulk = |body: Value| Request::new("POST", "/v1/jobs/bulk").json(body.to_string());
    let many = |count: usize| json!({ "jobs": vec![json!({ "task": "a" }); count] });
    let mut last_bad = vec![job_with(json!({})); 999];
    last_bad.push(json!({ "task": "nobody" }));
    check(vec![
        Case::new("no jobs", bulk(json!({ "jobs": [] })), Refused(400, INVALID, "/jobs")),
        Case::new("no field for jobs", bulk(json!({})), Refused(400, INVALID, "/jobs: is required")),
        Case::new("null for jobs", bulk(json!({ "jobs": null })), Refused(400, INVALID, "/jobs")),
        Case::new("one job for jobs", bulk(json!({ "jobs": { "task": "a" } })), Refused(400, INVALID, "/jobs")),
        Case::new("a bare array", bulk(json!([{ "task": "a" }])), Refused(400, INVALID, "must be")),
        Case::new("another field", bulk(json!({ "jobs": [], "atomic": false })), Refused(400, INVALID, "/atomic")),
        Case::new("10,001 jobs", bulk(many(10_001)), Refused(400, INVALID, "10000")),
        Case::new("100,000 jobs", bulk(many(100_000)), Refused(400, INVALID, "10000")),
        Case::new(
            "the last of a thousand is bad",
            bulk(json!({ "jobs": last_bad })),
            Refused(404, "task_not_found", "/jobs/999"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn bodies_that_are_too_large_are_refused_and_not_kept() {
    let blank = |bytes: usize| vec![b' '; bytes];
    let pieces = |count: usize| vec![blank(64 << 10); count];
    let post = |path: &str| Request::new("POST", path).header("Content-Type", "application/json");
    let too_large = || Refused(413, "payload_too_large", "larger than");
    let promise = |length: &str| post("/v1/jobs").header("Content-Length", length).into_bytes();
    check(vec![
        Case::new("a byte too many", post("/v1/jobs").body(blank((1 << 20) + 1)), too_large()),
        Case::new("20 MiB", post("/v1/jobs").body(blank(20 << 20)), too_large()),
        Case::new("20 MiB for a task", Request::new("PUT", "/v1/tasks/a").json(blank(20 << 20)), too_large()),
        Case::new("a byte too many in bulk", post("/v1/jobs/bulk").body(blank((16 << 20) + 1)), too_large()),
        Case::new("40 MiB in bulk", post("/v1/jobs/bulk").body(blank(40 << 20)), too_large()),
        Case::raw("2 MiB in pieces", post("/v1/jobs").chunked(&pieces(32)), too_large()),
        Case::raw("20 MiB in pieces", post("/v1/jobs").chunked(&pieces(320)), too_large()),
        Case::raw("32 MiB in pieces, in bulk", post("/v1/jobs/bulk").chunked(&pieces(512)), too_large()),
        Case::raw("a promise of 2 GiB", promise("2147483648"), too_large()),
        Case::raw("a promise of all that there is", promise("9223372036854775807"), too_large()),
        Case::raw("a promise of more than all", promise("18446744073709551614"), Cut),
        Case::raw("a promise that no number holds", promise("99999999999999999999999"), Cut),
        Case::raw("a length below zero", promise("-1"), Cut),
        Case::raw("a length that is a word", promise("many"), Cut),
        Case::raw(
            "two lengths",
            post("/v1/jobs").header("Content-Length", "2").header("Content-Length", "3").into_bytes(),
            Cut,
        ),
        Case::raw("a length of 100 and 2 bytes", [promise("100"), b"{}".to_vec()].concat(), Cut),
    ])
    .await;
}

#[tokio::test]
async fn odd_jobs_that_are_fine_are_taken() {
    let fine = |fields: Value| post_job(job_with(fields).to_string());
    let raw = |input: &str| {
        let text = format!(
            "{{\"inline\":{{\"run\":{{\"probe\":{{}}}}}},\"run_at\":\"2099-01-01T00:00:00Z\",\"input\":{input}}}"
        );
        post_job(text)
    };
    let post = Request::new("POST", "/v1/jobs");
    check(vec![
        Case::new("a leap second", fine(json!({ "run_at": "2098-12-31T23:59:60Z" })), Taken),
        Case::new("the year 9999", fine(json!({ "run_at": "9999-12-30T00:00:00Z" })), Taken),
        Case::new(
            "the past",
            fine(json!({ "run_at": "1970-01-01T00:00:00Z", "inline": { "run": { "handler": { "name": "nobody" } } } })),
            Taken,
        ),
        Case::new("lower case", fine(json!({ "run_at": "2099-01-01t00:00:00z" })), Taken),
        Case::new("the highest priority", fine(json!({ "priority": 100 })), Taken),
        Case::new("the lowest priority", fine(json!({ "priority": -100 })), Taken),
        Case::new(
            "nulls for what may be absent",
            fine(json!({ "priority": null, "tracing_id": null, "task": null })),
            Taken,
        ),
        Case::new("a tracing id of 256 letters", fine(json!({ "tracing_id": "é".repeat(256) })), Taken),
        Case::new("an input of 255 KiB", fine(json!({ "input": "a".repeat(255 << 10) })), Taken),
        Case::new("an input 64 deep", raw(&["[".repeat(64), "]".repeat(64)].concat()), Taken),
        Case::new("brackets in texts", raw(&format!("\"{}\"", "[{\\\"".repeat(1000))), Taken),
        Case::new("numbers that few can read", raw("[1e400,-0,0.1e-999,123456789012345678901234567890]"), Taken),
        Case::new("the same key twice in the input", raw("{\"a\":1,\"a\":2}"), Taken),
        Case::new(
            "a charset",
            post.header("Content-Type", "Application/JSON; charset=utf-8").body(job_with(json!({})).to_string()),
            Taken,
        ),
    ])
    .await;
}
