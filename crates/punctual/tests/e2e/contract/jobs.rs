//! Jobs: what is asked for, what is recorded, and how to learn of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual_core::Span;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{FAR, World, far_future, probe, sleeper};
use crate::harness::eventually;

#[tokio::test]
async fn a_job_shows_what_it_was_asked_for_and_every_recorded_moment() {
    let world = World::working().await;
    let api = &world.api;
    let mut spec = probe(json!({ "fail_times": 1, "output": "{\"sum\":3}" }));
    spec["retry"] = json!({ "max": 2, "initial": "0s" });
    api.put("/v1/tasks/sum", spec).await.expect(201);
    let request = json!({ "task": "sum", "input": { "a": [1, 2] }, "priority": -7, "tracing_id": "trace/1 é" });
    let id = api.submit(request).await;
    let job = api.finished(&id).await;

    assert_eq!(job.str("/state"), "succeeded");
    assert_eq!(job.body["input"], json!({ "a": [1, 2] }));
    assert_eq!(job.body["output"], json!({ "sum": 3 }), "JSON output is JSON");
    assert_eq!((&job.body["priority"], job.str("/tracing_id")), (&json!(-7), "trace/1 é"));
    assert_eq!((job.str("/task/name"), job.str("/task/kind"), job.str("/task/queue")), ("sum", "probe", "default"));
    let states: Vec<_> = job.body["attempts"].as_array().expect("attempts").iter().map(|one| &one["state"]).collect();
    assert_eq!(states, ["failed", "succeeded"]);
    assert!(job.str("/attempts/0/reason").contains("failed as asked"));

    let moments = [
        "/submitted_at",
        "/attempts/0/picked_up_at",
        "/attempts/0/started_at",
        "/attempts/0/finished_at",
        "/attempts/1/picked_up_at",
        "/attempts/1/started_at",
        "/attempts/1/finished_at",
    ];
    let times: Vec<_> = moments.iter().map(|moment| job.str(moment)).collect();
    assert!(times.is_sorted(), "{moments:?} {times:?}");
    assert_eq!(job.str("/finished_at"), times[6]);
}

#[tokio::test]
async fn a_failure_of_a_class_that_is_excepted_is_not_retried_and_shows_its_class() {
    let world = World::working().await;
    let api = &world.api;
    for (except, attempts) in [("timeout", 1), ("network", 3)] {
        let mut spec = probe(json!({ "sleep": "1h" }));
        spec["timeout"] = json!("20ms");
        spec["retry"] = json!({ "max": 2, "initial": "0s", "except": [except] });
        let id = api.submit(json!({ "inline": spec })).await;
        let job = api.finished(&id).await;
        assert_eq!(job.str("/state"), "failed");
        let tried = job.body["attempts"].as_array().expect("attempts");
        assert_eq!(tried.len(), attempts, "except {except}");
        for attempt in tried {
            assert_eq!(attempt["state"], "timed_out");
            assert_eq!(attempt["details"], json!({ "class": "timeout" }));
        }
    }
}

#[tokio::test]
async fn any_json_goes_in_and_comes_back() {
    let world = World::idle().await;
    let api = &world.api;
    for input in
        [json!(0), json!(-1.5), json!(true), json!("text"), json!([]), json!({}), json!([null, { "a": "\u{0}" }])]
    {
        let mut job = far_future();
        job["input"] = input.clone();
        let id = api.submit(job).await;
        assert_eq!(api.get(&format!("/v1/jobs/{id}")).await.expect(200).body["input"], input);
    }
}

#[tokio::test]
async fn a_job_is_due_when_it_was_asked_for_or_now() {
    let world = World::idle().await;
    let api = &world.api;
    for (run_at, due_at) in [
        ("2099-01-01T00:00:00Z", "2099-01-01T00:00:00.000000Z"),
        ("2099-01-01T00:00:00.0000001+01:00", "2098-12-31T23:00:00.000001Z"),
        ("9999-12-30T12:00:00Z", "9999-12-30T12:00:00.000000Z"),
    ] {
        let mut job = far_future();
        job["run_at"] = json!(run_at);
        let submitted = api.post("/v1/jobs", job).await.expect(201);
        assert_eq!((submitted.str("/scheduled_at"), submitted.str("/due_at")), (due_at, due_at));
        let path = format!("/v1/jobs/{}", submitted.str("/id"));
        assert_eq!(submitted.header("location"), Some(path.as_str()));
        let read = api.get(&path).await.expect(200);
        assert_eq!((read.str("/due_at"), read.str("/state")), (due_at, "scheduled"));
        assert_eq!(read.str("/scheduled_at"), due_at);
        assert!(read.str("/explanation").contains("It starts at"), "{}", read.str("/explanation"));
    }
    let mut job = far_future();
    job["run_at"] = json!("1970-01-01T00:00:00Z");
    let submitted = api.post("/v1/jobs", job).await.expect(201);
    let read = api.get(&format!("/v1/jobs/{}", submitted.str("/id"))).await.expect(200);
    assert_eq!(read.str("/due_at"), read.str("/submitted_at"), "a time in the past means now");
}

/// The ids of the jobs in a list with these filters.
async fn listed(world: &World, query: &str) -> Vec<String> {
    let list = world.api.get(&format!("/v1/jobs?{query}")).await.expect(200);
    let ids = list.body["jobs"].as_array().expect("a list").iter().map(|job| job["id"].as_str().expect("an id"));
    ids.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_retry_moves_the_due_time_and_not_the_time_that_was_asked_for() {
    let world = World::working().await;
    let api = &world.api;
    for (wait, state) in [("1s", "succeeded"), ("5m", "scheduled")] {
        let mut task = probe(json!({ "fail_times": 1 }));
        task["retry"] = json!({ "max": 1, "initial": wait, "jitter": 0.0 });
        let submitted = api.post("/v1/jobs", json!({ "inline": task })).await.expect(201);
        let (id, asked) = (submitted.str("/id").to_owned(), submitted.str("/scheduled_at").to_owned());
        let path = format!("/v1/jobs/{id}");
        eventually("the first attempt to fail", || async {
            let job = api.get(&path).await.expect(200);
            job.str("/state") == state && job.body["attempts"][0]["state"] == "failed"
        })
        .await;
        let job = api.get(&path).await.expect(200);
        assert_eq!(job.str("/scheduled_at"), asked);
        assert_eq!(job.str("/attempts/0/due_at"), asked);
        assert!(*job.str("/due_at") > *asked, "{}", job.text);
        if state == "succeeded" {
            assert_eq!(job.str("/attempts/1/due_at"), job.str("/due_at"));
            let late_by = Span::parse(job.str("/late_by")).unwrap();
            assert!(late_by < Span::from_secs(1), "it is that of the first start: {late_by}");
        } else {
            assert!(job.str("/explanation").contains(&format!("It was scheduled for {asked}")), "{}", job.text);
        }
        // Lists go by the time that was asked for, and show it.
        let summary = api.get(&format!("/v1/jobs?scheduled_from={asked}&limit=1&order=asc")).await.expect(200);
        assert_eq!(summary.str("/jobs/0/id"), id);
        assert_eq!(summary.str("/jobs/0/scheduled_at"), asked);
        assert_eq!(summary.str("/jobs/0/due_at"), job.str("/due_at"));
        assert_eq!(listed(&world, &format!("scheduled_from={}", job.str("/due_at"))).await, [""; 0]);
        assert!(!listed(&world, &format!("scheduled_before={asked}")).await.contains(&id));
    }
}

#[tokio::test]
async fn jobs_in_bulk_get_their_ids_in_the_order_of_the_request() {
    let world = World::idle().await;
    let api = &world.api;
    let jobs: Vec<Value> =
        (0..600).map(|n| json!({ "inline": probe(json!({})), "run_at": FAR, "tracing_id": n.to_string() })).collect();
    let answer = api.post("/v1/jobs/bulk", json!({ "jobs": jobs })).await.expect(201);
    assert_eq!(answer.body["ids"].as_array().map(Vec::len), Some(600));
    for n in [0, 1, 299, 599] {
        let job = api.get(&format!("/v1/jobs/{}", answer.str(&format!("/ids/{n}")))).await.expect(200);
        assert_eq!(job.str("/tracing_id"), n.to_string());
    }
}

#[tokio::test]
async fn waiting_ends_with_the_job_or_with_the_time() {
    let world = World::working().await;
    let api = &world.api;
    let id = api.submit(sleeper("300ms")).await;
    let job = api.get(&format!("/v1/jobs/{id}?wait=60s")).await.expect(200);
    assert_eq!(job.str("/state"), "succeeded");

    let id = api.submit(far_future()).await;
    let begun = Instant::now();
    let job = api.get(&format!("/v1/jobs/{id}?wait=100ms")).await.expect(200);
    assert_eq!(job.str("/state"), "scheduled");
    assert!((Duration::from_millis(100)..Duration::from_secs(10)).contains(&begun.elapsed()));
}

#[tokio::test]
async fn changes_are_told_of_one_job_until_it_ends_and_of_all_without_end() {
    let mut world = World::idle().await;
    let id = world.api.submit(sleeper("50ms")).await;
    let one = world.api.listen(&format!("/v1/jobs/{id}/events"), &[]).await;
    let mut all = world.api.listen("/v1/events", &[]).await;
    world.start_worker().await;

    let document = &world.api.document;
    let mut states = Vec::new();
    for event in one.all().await {
        assert_eq!(event.name, "change");
        assert_eq!(document.misfits_of("JobChange", &event.json()), [""; 0]);
        states.push(event.json()["state"].as_str().expect("a state").to_owned());
    }
    assert_eq!(states, ["scheduled", "running", "succeeded"]);
    for state in ["running", "succeeded"] {
        let event = all.next().await.expect("a change").json();
        assert_eq!((&event["id"], &event["state"], &event["attempt"]), (&json!(id), &json!(state), &json!(1)));
    }
    assert!(all.is_quiet(Duration::from_millis(300)).await);
}

#[tokio::test]
async fn a_webhook_carries_the_input_and_the_key_that_makes_it_safe_to_repeat() {
    type Seen = Arc<Mutex<Vec<(String, String, String)>>>;
    async fn take(
        axum::extract::State(seen): axum::extract::State<Seen>,
        headers: axum::http::HeaderMap,
        body: String,
    ) -> &'static str {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("").to_owned();
        seen.lock().await.push((header("idempotency-key"), header("x-kind"), body));
        "{\"taken\":true}"
    }
    let seen = Seen::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let router = axum::Router::new().route("/hook", axum::routing::post(take)).with_state(Arc::clone(&seen));
    tokio::spawn(async move { axum::serve(listener, router).await });

    let world = World::working().await;
    let call = json!({ "url": format!("http://{address}/hook"), "method": "POST", "headers": { "X-Kind": "order" } });
    let id = world.api.submit(json!({ "inline": { "run": { "http": call } }, "input": { "n": 7 } })).await;
    let job = world.api.finished(&id).await;
    assert_eq!((job.str("/state"), job.str("/task/kind")), ("succeeded", "http"), "{}", job.text);
    assert_eq!(*seen.lock().await, [(id, "order".to_owned(), "{\"n\":7}".to_owned())]);
}
