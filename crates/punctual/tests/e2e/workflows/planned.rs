//! What holds for the jobs of a schedule holds for its runs of a workflow: catch-up, backfills, overlap and the record.

use std::time::Duration;

use serde_json::{Value, json};

use super::schedules::{job_ended, occurrences, runs};
use super::{apply, probe, read};
use crate::checked::Checked;
use crate::harness::{Home, eventually};

/// How late a server decides at most, so that the test need not be away for a minute.
const MISSED_AFTER: (&str, &str) = ("PUNCTUAL_MISSED_AFTER", "1s");

fn verdicts<'v>(all: &'v [Value], verdict: &str) -> Vec<&'v Value> {
    all.iter().filter(|one| one["verdict"] == verdict).collect()
}

/// A workflow of two nodes that ends by itself.
async fn apply_flow(api: &Checked) {
    apply(api, "flow", json!({ "nodes": [probe("a", &[], json!({})), probe("b", &["a"], json!({}))] })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn times_of_an_outage_are_caught_up_with_one_run_each() {
    let home = Home::new();
    let server = home.server_with("127.0.0.1:0", &[], &[MISSED_AFTER]);
    let address = server.address();
    let _worker = home.worker(&server, &[]);
    let api = Checked::new(&server).await;
    apply_flow(&api).await;
    let schedule = json!({ "name": "often", "workflow": "flow", "every": "1s", "catch_up": "all" });
    api.post("/v1/schedules", schedule).await.expect(201);
    eventually("it fires", || async { !runs(&api, "flow").await.is_empty() }).await;
    server.kill();
    // It is away for several of its times.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let server = home.server_with(&address, &[], &[MISSED_AFTER]);
    let api = Checked::new(&server).await;
    let caught_up = |all: &[Value]| all.iter().filter(|one| one.to_string().contains("\"replayed\"")).count();
    eventually("missed times are caught up", || async { caught_up(&occurrences(&api, "often").await) >= 3 }).await;
    api.command("/v1/schedules/often/pause").await.expect(200);
    eventually("each time has one run, and all have ended", || async {
        let fired = verdicts(&occurrences(&api, "often").await, "fired").len();
        let runs = runs(&api, "flow").await;
        runs.len() == fired && runs.iter().all(|run| run["state"] == "succeeded")
    })
    .await;
    let fired = occurrences(&api, "often").await;
    let replayed = fired.iter().find(|one| one.to_string().contains("\"replayed\"")).expect("it was caught up");
    let job = job_ended(&api, replayed["job"].as_str().expect("its job")).await;
    assert_eq!(job["state"], "succeeded", "{job:#}");
    assert_eq!(read(&api, job["run"].as_str().expect("its run")).await["job"], job["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_runs_a_workflow_for_each_past_time() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let api = Checked::new(&server).await;
    apply_flow(&api).await;
    let schedule = json!({ "name": "tick", "workflow": "flow", "every": "1s", "zone": "UTC", "input": { "day": 7 } });
    api.post("/v1/schedules", schedule).await.expect(201);
    api.command("/v1/schedules/tick/pause").await.expect(200);
    let before = runs(&api, "flow").await.len();
    let range = json!({ "from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:05Z" });
    let id = api.post("/v1/schedules/tick/backfills", range).await.expect(201).str("/id").to_owned();
    let backfill = async || api.get(&format!("/v1/backfills/{id}")).await.expect(200).body;
    eventually("the backfill is done", || async { backfill().await["state"] == "done" }).await;
    let done = backfill().await;
    assert_eq!((&done["made"], &done["succeeded"]), (&json!(5), &json!(5)), "{done:#}");
    let all = runs(&api, "flow").await;
    assert_eq!(all.len() - before, 5, "one run for each time");
    let listed = api.get(&format!("/v1/backfills/{id}/runs")).await.expect(200).body;
    for one in listed["runs"].as_array().expect("a list") {
        let job = job_ended(&api, one["job"].as_str().expect("its job")).await;
        let run = read(&api, job["run"].as_str().expect("its run")).await;
        assert_eq!((&run["state"], &run["input"]), (&json!("succeeded"), &json!({ "day": 7 })));
    }
}

/// The next time waits for the run, not for the job of a node.
#[tokio::test(flavor = "multi_thread")]
async fn queued_times_run_one_after_the_other_and_the_record_says_so() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    apply(&api, "gated", json!({ "nodes": [{ "name": "ok", "gate": {} }] })).await;
    let schedule = json!({ "name": "often", "workflow": "gated", "every": "1s", "overlap": "queue_all" });
    api.post("/v1/schedules", schedule).await.expect(201);
    eventually("times wait", || async { verdicts(&occurrences(&api, "often").await, "queued").len() >= 2 }).await;
    for started in 1..=3 {
        eventually("a run is under way", || async {
            runs(&api, "gated").await.iter().filter(|run| run["state"] == "running").count() == 1
        })
        .await;
        let fired = verdicts(&occurrences(&api, "often").await, "fired").len();
        assert_eq!((fired, runs(&api, "gated").await.len()), (started, started), "one at a time, and on record");
        let all = runs(&api, "gated").await;
        let id = all.iter().find(|run| run["state"] == "running").and_then(|run| run["id"].as_str()).expect("a run");
        api.post(&format!("/v1/runs/{id}/decide"), json!({ "node": "ok", "decision": "approve" })).await.expect(200);
        eventually("it ends", || async { read(&api, id).await["state"] == "succeeded" }).await;
    }
}
