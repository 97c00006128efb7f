//! What people, programs and attackers send that they should not. Every case is
//! refused with a stable code and a word on what is wrong; none breaks the server,
//! keeps it busy, fills its memory or leaves anything behind.

mod backfills;
mod bodies;
mod cli;
mod commands;
mod fields;
mod library_words;
mod paths;
mod schedules;
mod specs;
mod wire;

use std::time::{Duration, Instant};

use punctual_api::ErrorKind;
use serde_json::{Value, json};

use self::library_words::library_word;
use crate::harness::{Home, Server};
use crate::raw::{RawResponse, Request, exchange, exchange_and_leave};

/// Nobody waits longer for a refusal.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What a flood of bad input may cost.
const RSS_GROWTH_MAX_KIB: u64 = 64 << 10;

enum Expect {
    /// With this status and code, and this word in what it says.
    Refused(u16, &'static str, &'static str),
    /// As gRPC does it: in a header, under a status of 200.
    RefusedAsGrpc,
    /// Greeted, as whoever opens a stream is, and then the stream ends without another word.
    /// Why is in the trailers, which HTTP/1 does not show.
    Dismissed,
    /// Odd, and nothing wrong with it.
    Taken,
    /// Refused by HTTP itself: a 4xx without a problem, or a closed connection.
    Cut,
}
use Expect::{Cut, Dismissed, Refused, RefusedAsGrpc, Taken};

/// A welcome after it would be longer.
const GREETING_BYTES_MAX: usize = 160;

struct Case {
    name: String,
    bytes: Vec<u8>,
    expect: Expect,
}

impl Case {
    fn new(name: impl Into<String>, request: Request, expect: Expect) -> Self {
        Self::raw(name, request.into_bytes(), expect)
    }

    fn raw(name: impl Into<String>, bytes: Vec<u8>, expect: Expect) -> Self {
        Self { name: name.into(), bytes, expect }
    }
}

/// A job that is fine but for what is put over it.
fn job_with(fields: Value) -> Value {
    let mut job = json!({ "inline": { "run": { "probe": {} } }, "run_at": "2099-01-01T00:00:00Z" });
    for (key, value) in fields.as_object().expect("an object of fields") {
        job[key] = value.clone();
    }
    job
}

fn post_job(body: impl Into<Vec<u8>>) -> Request {
    Request::new("POST", "/v1/jobs").json(body)
}

async fn submitted(server: &Server) -> u64 {
    server.client().stats().await.expect("the server answers").submitted
}

/// Sends every case to one server and lists all that came back wrong.
async fn check(cases: Vec<Case>) {
    let home = Home::new();
    let server = home.server();
    // Not counted: what the first requests of any kind cost.
    for _ in 0..20 {
        let said = exchange(&server, &post_job(job_with(json!({})).to_string()).into_bytes()).await;
        assert_eq!(said.status, Some(201), "{}", said.text);
    }
    let (rss_before, submitted_before) = (server.process.rss_kib(), submitted(&server).await);
    let mut wrong = Vec::new();
    let mut taken = 0;
    for case in &cases {
        let begun = Instant::now();
        let said = match case.expect {
            Cut => tokio::time::timeout(ANSWER_WITHIN, exchange_and_leave(&server, &case.bytes)).await,
            Refused(..) | RefusedAsGrpc | Dismissed | Taken => {
                tokio::time::timeout(ANSWER_WITHIN, exchange(&server, &case.bytes)).await
            }
        };
        let complaint = match &said {
            Err(_) => Some(format!("no answer within {ANSWER_WITHIN:?}")),
            Ok(said) => judge(case, said),
        };
        taken += u64::from(said.is_ok_and(|said| said.status == Some(201) && !said.text.contains("\"revision\"")));
        wrong.extend(complaint.map(|complaint| format!("{} ({:?}): {complaint}", case.name, begun.elapsed())));
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));

    assert_eq!(submitted(&server).await - submitted_before, taken, "a refused request left jobs behind");
    let said = exchange(&server, &post_job(job_with(json!({})).to_string()).into_bytes()).await;
    assert_eq!(said.status, Some(201), "it still takes good jobs: {}", said.text);
    let growth = server.process.rss_kib().saturating_sub(rss_before);
    assert!(growth < RSS_GROWTH_MAX_KIB, "the server has grown by {growth} KiB");
}

fn judge(case: &Case, said: &RawResponse) -> Option<String> {
    let complain = |what: &str| Some(format!("{what}: {:?} {}", said.status, said.shortened()));
    match (&case.expect, said.status) {
        (_, Some(500..)) => complain("a fault of the server"),
        (Taken, Some(200..=299)) => None,
        (Taken, _) => complain("expected to be taken"),
        (RefusedAsGrpc, Some(200)) if said.header("grpc-status").is_some_and(|status| status != "0") => None,
        (RefusedAsGrpc, _) => complain("expected a status of gRPC"),
        (Dismissed, Some(200)) if said.text.len() < GREETING_BYTES_MAX => None,
        (Dismissed, _) => complain("expected a greeting and the end"),
        (Cut, None | Some(400..=499)) => None,
        (Cut, _) => complain("expected to be cut off"),
        (Refused(status, code, word), found) => {
            let problem: Value = serde_json::from_str(&said.text).unwrap_or_default();
            if (found, problem["code"].as_str()) != (Some(*status), Some(*code)) {
                return complain(&format!("expected {status} {code}"));
            }
            if said.header("content-type") != Some("application/problem+json") {
                return complain("not application/problem+json");
            }
            if said.header("x-request-id").is_none() || said.header("x-request-id") != problem["request_id"].as_str() {
                return complain("the request's id differs");
            }
            let kind = ErrorKind::from_code(code).expect("a code of the table");
            let expected = json!([format!("/problems/{code}"), kind.title(), status]);
            if json!([problem["type"], problem["title"], problem["status"]]) != expected {
                return complain("not the problem of the table");
            }
            let detail = problem["detail"].as_str().unwrap_or("");
            if detail.is_empty() || (problem["hint"].is_null() && problem["errors"].is_null()) {
                return complain("neither says where nor what to do");
            }
            if let Some(foreign) = library_word(&said.text) {
                return complain(&format!("in words of a library, `{foreign}`"));
            }
            let told = format!("{detail} {}", problem["hint"]);
            if !told.contains(word) {
                return complain(&format!("does not say `{word}`"));
            }
            // Refusals quote what was sent, but not all of it.
            (said.text.len() > 4096).then(|| format!("an answer of {} bytes", said.text.len()))
        }
    }
}
