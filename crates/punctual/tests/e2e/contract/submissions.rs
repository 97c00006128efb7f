//! What the answer to a submission says, and when it comes.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{World, probe, sleeper};
use crate::artifacts::{declaration, program, put};
use crate::harness::PUNCTUAL;

#[tokio::test]
async fn a_submission_is_answered_with_what_is_known_of_the_job_and_where_to_go_on() {
    let world = World::working().await;
    let api = &world.api;
    api.put("/v1/tasks/greet", probe(json!({ "output": "hello" }))).await.expect(201);
    let request = json!({ "task": "greet", "tracing_id": "order 17" });
    let answer = api.post("/v1/jobs", request).await.expect(201);
    let id = answer.str("/id").to_owned();
    assert_eq!((answer.str("/state"), answer.str("/title")), ("scheduled", "greet"));
    assert_eq!(
        (answer.str("/task/name"), answer.str("/task/kind"), answer.str("/tracing_id")),
        ("greet", "probe", "order 17")
    );
    assert_eq!(answer.str("/links/self"), format!("/v1/jobs/{id}"));
    assert_eq!(answer.header("location"), Some(answer.str("/links/self")));
    assert_eq!(answer.body.get("content"), None, "it has no file");
    api.finished(&id).await;
    assert_eq!(api.get(answer.str("/links/self")).await.expect(200).str("/id"), id);
    api.get(answer.str("/links/logs")).await.expect(200);

    // The path of the stored content, as the artifact itself shows it.
    let bytes = program(5_000, 3);
    let declared = api.post("/v1/artifacts", declaration(&bytes)).await.expect(201);
    assert_eq!(declared.body.get("path"), None, "nothing has arrived");
    put(declared.str("/upload/url"), bytes).await.expect(200);
    let artifact = api.get(&format!("/v1/artifacts/{}", declared.str("/id"))).await.expect(200);
    let binary = json!({ "run": { "binary": { "artifact": declared.str("/id") } } });
    let answer = api.post("/v1/jobs", json!({ "inline": binary, "delay": "1h" })).await.expect(201);
    assert_eq!(answer.str("/content/0/artifact"), declared.str("/id"));
    assert_eq!(answer.str("/content/0/path"), artifact.str("/path"));
    assert!(artifact.str("/path").ends_with(declared.str("/id")), "{}", artifact.text);
    assert_eq!(answer.str("/content/0/link"), format!("/v1/artifacts/{}", declared.str("/id")));

    let printed = Command::new(PUNCTUAL)
        .args(["run", "greet", "-o", "json", "--in", "1h", "--server", &world.server.url])
        .output()
        .expect("the command runs");
    let printed: Value = serde_json::from_slice(&printed.stdout).expect("JSON");
    assert_eq!((&printed["state"], &printed["title"]), (&json!("scheduled"), &json!("greet")));
    assert!(printed["links"]["logs"].as_str().is_some_and(|link| link.ends_with("/logs")), "{printed}");
}

#[tokio::test]
async fn a_delay_is_counted_from_the_request_and_excludes_a_time() {
    let world = World::working().await;
    let api = &world.api;
    let answer = api.post("/v1/jobs", json!({ "inline": probe(json!({})), "delay": "300ms" })).await.expect(201);
    let job = api.finished(answer.str("/id")).await;
    let time = |pointer: &str| punctual_core::Timestamp::parse(job.str(pointer)).expect("a time");
    let waited = time("/scheduled_at").since(time("/submitted_at"));
    assert_eq!(waited, punctual_core::Span::from_millis(300));
    assert!(time("/attempts/0/started_at") >= time("/scheduled_at"), "{}", job.text);

    let both = json!({ "inline": probe(json!({})), "delay": "1s", "run_at": "2099-01-01T00:00:00Z" });
    let refused = api.post("/v1/jobs", both.clone()).await.refused(400, "invalid_request");
    assert_eq!(refused.str("/errors/0/pointer"), "/delay");
    let bulk = api.post("/v1/jobs/bulk", json!({ "jobs": [both] })).await.refused(400, "invalid_request");
    assert_eq!(bulk.str("/errors/0/pointer"), "/jobs/0/delay");
}

#[tokio::test]
async fn a_submission_that_waits_is_answered_when_the_job_has_ended_or_the_time_is_over() {
    let world = World::working().await;
    let api = &world.api;
    let quick = json!({ "inline": probe(json!({ "output": "7", "sleep": "50ms" })) });
    let answer = api.post("/v1/jobs?wait=30s", quick).await.expect(201);
    assert_eq!((answer.str("/state"), answer.str("/job/state")), ("succeeded", "succeeded"));
    assert_eq!(answer.body["job"]["output"], json!(7), "{}", answer.text);

    let begun = Instant::now();
    let slow = sleeper("1h");
    let answer = api.post("/v1/jobs?wait=300ms", slow.clone()).await.expect(201);
    assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
    assert!(["scheduled", "running"].contains(&answer.str("/state")), "{}", answer.text);
    api.command(&format!("/v1/jobs/{}/cancel", answer.str("/id"))).await;

    // Too long is refused, and nothing is submitted.
    let before = api.get("/v1/jobs").await.expect(200).body["jobs"].as_array().map(Vec::len);
    api.post("/v1/jobs?wait=61s", slow).await.refused(400, "invalid_request");
    assert_eq!(api.get("/v1/jobs").await.expect(200).body["jobs"].as_array().map(Vec::len), before);
}

#[tokio::test]
async fn a_client_that_leaves_while_it_waits_leaves_the_job_alone() {
    let world = World::working().await;
    let api = &world.api;
    let http = crate::checked::plain_http();
    let body = json!({ "inline": probe(json!({ "sleep": "500ms" })), "tracing_id": "left" });
    let request = http.post(format!("{}/v1/jobs?wait=30s", world.server.url)).json(&body);
    assert!(request.timeout(Duration::from_millis(200)).send().await.is_err(), "it does not wait");
    let jobs = api.get("/v1/jobs").await.expect(200);
    let id = jobs.str("/jobs/0/id");
    assert_eq!(api.finished(id).await.str("/state"), "succeeded");
}
