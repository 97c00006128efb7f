//! Schedules, jobs and nodes that run workflows.

use serde_json::{Value, json};

use super::{apply, ended, node, probe, read, start};
use crate::checked::Checked;
use crate::harness::{Home, eventually};

pub(super) async fn runs(api: &Checked, workflow: &str) -> Vec<Value> {
    let listed = api.get(&format!("/v1/runs?workflow={workflow}")).await.expect(200).body;
    listed["runs"].as_array().expect("a list").clone()
}

pub(super) async fn occurrences(api: &Checked, schedule: &str) -> Vec<Value> {
    let listed = api.get(&format!("/v1/schedules/{schedule}/occurrences")).await.expect(200).body;
    listed["occurrences"].as_array().expect("a list").clone()
}

async fn job(api: &Checked, id: &str) -> Value {
    api.get(&format!("/v1/jobs/{id}")).await.expect(200).body
}

pub(super) async fn job_ended(api: &Checked, id: &str) -> Value {
    eventually("the job ends", || async {
        !["scheduled", "running"].contains(&job(api, id).await["state"].as_str().unwrap())
    })
    .await;
    job(api, id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_runs_a_workflow_and_its_occurrence_ends_with_the_run() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let api = Checked::new(&server).await;
    let nodes = [probe("a", &[], json!({ "output": "[1,2]" })), probe("b", &["a"], json!({}))];
    let output = json!({ "list": { "from": "a" }, "day": { "from": "run.day" } });
    apply(&api, "flow", json!({ "nodes": nodes, "output": output })).await;
    let schedule = json!({ "name": "often", "workflow": "flow", "every": "1s", "max_runs": 2, "input": { "day": 7 } });
    api.post("/v1/schedules", schedule).await.expect(201);
    eventually("both runs end", || async {
        let runs = runs(&api, "flow").await;
        runs.len() == 2 && runs.iter().all(|run| run["state"] == "succeeded")
    })
    .await;
    let fired = occurrences(&api, "often").await;
    let jobs: Vec<&str> = fired.iter().filter_map(|one| one["job"].as_str()).collect();
    assert_eq!(jobs.len(), 2, "{fired:?}");
    for id in jobs {
        let job = job_ended(&api, id).await;
        assert_eq!((&job["state"], &job["attempt_count"]), (&json!("succeeded"), &json!(1)));
        assert_eq!(job["output"], json!({ "list": [1, 2], "day": 7 }), "{job:#}");
        let run = read(&api, job["run"].as_str().expect("it names its run")).await;
        assert_eq!((&run["job"], &run["input"]), (&json!(id), &json!({ "day": 7 })));
    }
    assert_eq!(runs(&api, "flow").await.len(), 2, "one run for each occurrence");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_is_skipped_while_the_run_before_has_not_ended() {
    let home = Home::new();
    let server = home.server();
    let address = server.address();
    let api = Checked::new(&server).await;
    apply(&api, "gated", json!({ "nodes": [{ "name": "ok", "gate": {} }] })).await;
    let schedule = json!({ "name": "often", "workflow": "gated", "every": "1s", "overlap": "skip" });
    api.post("/v1/schedules", schedule).await.expect(201);
    let skipped = |all: &[Value]| all.iter().filter(|one| one["verdict"] == "skipped_overlap").count();
    eventually("times are skipped", || async { skipped(&occurrences(&api, "often").await) >= 2 }).await;
    assert_eq!(runs(&api, "gated").await.len(), 1);
    // The next server knows what the run before is.
    server.kill();
    let (server, api) = runs_of(&home, &address).await;
    let was = skipped(&occurrences(&api, "often").await);
    eventually("more times are skipped", || async { skipped(&occurrences(&api, "often").await) > was }).await;
    let first = runs(&api, "gated").await[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(runs(&api, "gated").await.len(), 1);
    api.post(&format!("/v1/runs/{first}/decide"), json!({ "node": "ok", "decision": "approve" })).await.expect(200);
    eventually("the next time runs", || async { runs(&api, "gated").await.len() == 2 }).await;
    drop(server);
}

async fn runs_of(home: &Home, address: &str) -> (crate::harness::Server, Checked) {
    let server = home.server_at(address, &[]);
    let api = Checked::new(&server).await;
    (server, api)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_cancelled_with_its_job_and_fails_with_a_failure() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let api = Checked::new(&server).await;
    apply(&api, "gated", json!({ "nodes": [{ "name": "ok", "gate": {} }] })).await;
    apply(&api, "bad", json!({ "nodes": [probe("a", &[], json!({ "fail_times": 9 }))] })).await;
    let submit = async |workflow: &str| {
        let body = json!({ "inline": { "run": { "workflow": { "name": workflow } }, "retry": { "max": 0 } } });
        api.post("/v1/jobs", body).await.expect(201).str("/id").to_owned()
    };
    let gated = submit("gated").await;
    eventually("it runs", || async { job(&api, &gated).await["state"] == "running" }).await;
    eventually("its run is there", || async { job(&api, &gated).await["run"].is_string() }).await;
    let shown = job(&api, &gated).await;
    assert!(shown["explanation"].as_str().unwrap().contains("a decision about `ok`"), "{shown:#}");
    api.command(&format!("/v1/jobs/{gated}/cancel")).await.expect(202);
    assert_eq!(job_ended(&api, &gated).await["state"], "cancelled");
    let run = read(&api, shown["run"].as_str().unwrap()).await;
    assert_eq!(run["state"], "cancelled", "{run:#}");
    let bad = job_ended(&api, &submit("bad").await).await;
    assert_eq!((&bad["state"], &bad["attempt_count"]), (&json!("failed"), &json!(1)));
    let gone = job_ended(&api, &submit("nothing").await).await;
    assert_eq!(gone["state"], "failed");
    assert!(gone.to_string().contains("there is no workflow nothing"), "{gone:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_runs_another_workflow() {
    let home = Home::new();
    let server = home.server();
    let address = server.address();
    let api = Checked::new(&server).await;
    let inner = [json!({ "name": "ok", "gate": {} }), probe("work", &["ok"], json!({ "output": "5" }))];
    apply(&api, "inner", json!({ "nodes": inner, "output": { "n": { "from": "work" } } })).await;
    let outer = [
        json!({ "name": "sub", "workflow": "inner" }),
        json!({ "name": "each", "needs": ["sub"], "for_each": { "from": "run.list" }, "workflow": "leaf" }),
    ];
    apply(&api, "leaf", json!({ "nodes": [probe("a", &[], json!({}))] })).await;
    apply(&api, "outer", json!({ "nodes": outer, "output": { "n": { "from": "sub.n" } } })).await;
    let cycle = api.put("/v1/workflows/inner", json!({ "nodes": [{ "name": "x", "workflow": "outer" }] })).await;
    let cycle = cycle.refused(400, "invalid_request");
    assert!(cycle.text.contains("inner > outer > inner") && cycle.text.contains("/nodes/0/workflow"), "{}", cycle.text);
    let run = start(&api, "outer", json!({ "input": { "list": [1, 2] } })).await;
    eventually("the inner run is there", || async { !runs(&api, "inner").await.is_empty() }).await;
    let inner = runs(&api, "inner").await[0]["id"].as_str().unwrap().to_owned();
    server.kill();
    let (server, api) = runs_of(&home, &address).await;
    let _worker = home.worker(&server, &[]);
    api.post(&format!("/v1/runs/{inner}/decide"), json!({ "node": "ok", "decision": "approve" })).await.expect(200);
    let done = ended(&api, &run).await;
    assert_eq!((&done["state"], &done["output"]), (&json!("succeeded"), &json!({ "n": 5 })), "{done:#}");
    assert_eq!(node(&done, "each")["items"]["succeeded"], 2);
    assert_eq!((runs(&api, "inner").await.len(), runs(&api, "leaf").await.len()), (1, 2));
    // Cancelling passes down.
    let run = start(&api, "outer", json!({ "input": { "list": [] } })).await;
    eventually("the inner run is there", || async { runs(&api, "inner").await.len() == 2 }).await;
    api.command(&format!("/v1/runs/{run}/cancel")).await.expect(200);
    assert_eq!(ended(&api, &run).await["state"], "cancelled");
    let inner = runs(&api, "inner").await[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(ended(&api, &inner).await["state"], "cancelled");
}
