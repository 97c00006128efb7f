//! Runs that wait are rows. In memory are only as many jobs as the window holds, whatever their number.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{apply, probe};
use crate::checked::Checked;
use crate::harness::{Home, eventually};

/// The least that the setting allows.
const WINDOW: u64 = 100;
const RUNS: usize = 600;
/// Requests side by side.
const AT_A_TIME: usize = 50;

async fn start_all(api: &Checked, workflow: &str, runs: usize) {
    let path = format!("/v1/workflows/{workflow}/runs");
    for _ in 0..runs / AT_A_TIME {
        let started = join_all((0..AT_A_TIME).map(|_| api.post(&path, json!({})))).await;
        started.into_iter().for_each(|answer| drop(answer.expect(201)));
    }
}

async fn stats(api: &Checked) -> Value {
    api.get("/v1/stats").await.expect(200).body
}

fn in_memory(stats: &Value) -> u64 {
    stats["ready"].as_u64().expect("a number") + stats["waiting"].as_u64().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_wait_need_no_more_memory_than_the_window() {
    let home = Home::new();
    let server = home.server_with("127.0.0.1:0", &[], &[("PUNCTUAL_WINDOW_MAX", &WINDOW.to_string())]);
    let api = Checked::new(&server).await;
    apply(&api, "gated", json!({ "nodes": [{ "name": "ok", "gate": {} }, probe("b", &["ok"], json!({}))] })).await;
    start_all(&api, "gated", RUNS / 4).await;
    assert_eq!(in_memory(&stats(&api).await), 0, "a run that waits for a person is not in memory at all");
    // Nobody runs their first jobs yet.
    apply(&api, "flow", json!({ "nodes": [probe("a", &[], json!({})), probe("b", &["a"], json!({}))] })).await;
    for _ in 0..4 {
        start_all(&api, "flow", RUNS / 4).await;
        let held = in_memory(&stats(&api).await);
        // A few of each pool come in whatever the others take.
        assert!(held <= WINDOW + 64, "{held} jobs are in memory");
    }
    // What was left in the store is read when there is room, and so is what follows from it.
    let _worker = home.worker(&server, &["--slots", "100"]);
    eventually("all jobs of all runs end", || async { stats(&api).await["succeeded"] == json!(2 * RUNS) }).await;
    let listed = api.get("/v1/runs?workflow=flow&limit=1000").await.expect(200).body;
    let listed = listed["runs"].as_array().expect("a list");
    assert!(listed.iter().all(|run| run["state"] == "succeeded"));
}
