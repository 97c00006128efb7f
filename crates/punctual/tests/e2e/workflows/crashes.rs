//! SIGKILL between and within the steps of runs. A witness inside the tasks writes down what begins and ends.

use std::path::Path;

use serde_json::json;

use super::{apply, ended, node, probe, read, start, states};
use crate::checked::Checked;
use crate::harness::{Home, eventually};

/// Jobs in the order in which they began.
fn begins(witness: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(witness).unwrap_or_default();
    let begin = |line: &str| {
        let mut words = line.split_whitespace();
        let (job, what) = (words.next()?, words.nth(1)?);
        (what == "begin").then(|| job.to_owned())
    };
    text.lines().filter_map(begin).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_survives_a_server_that_is_killed_at_each_step() {
    let home = Home::new();
    let witness = home.file("witness");
    let mut server = home.server();
    let address = server.address();
    let _worker = home.worker(&server, &["--slots", "10"]);
    let fields = json!({ "sleep": "300ms", "witness": witness.to_str().expect("the path is UTF-8") });
    let nodes = [
        probe("a", &[], fields.clone()),
        probe("b", &["a"], fields.clone()),
        probe("c", &["b"], fields.clone()),
        probe("d", &["b"], fields.clone()),
        probe("e", &["c", "d"], fields),
    ];
    let api = Checked::new(&server).await;
    apply(&api, "chain", json!({ "nodes": nodes })).await;
    let run = start(&api, "chain", json!({})).await;
    for step in 1..5 {
        eventually("the next step has begun", || async { begins(&witness).len() >= step }).await;
        server.kill();
        server = home.server_at(&address, &[]);
    }
    let api = Checked::new(&server).await;
    let run = ended(&api, &run).await;
    assert_eq!(run["state"], "succeeded", "{run:#}");
    let job = |name: &str| node(&run, name)["job"].as_str().expect("it had a job").to_owned();
    let begun = begins(&witness);
    assert_eq!(begun.len(), 5, "each job began once: {begun:?}");
    assert_eq!(begun[..2], [job("a"), job("b")]);
    assert!(begun[2..4].contains(&job("c")) && begun[2..4].contains(&job("d")), "{begun:?}");
    assert_eq!(begun[4], job("e"));
    let shown = api.get(&format!("/v1/jobs/{}", job("c"))).await.expect(200).body;
    let names = |side: &str| {
        let nodes = shown["workflow"][side].as_array().expect("a list");
        nodes.iter().map(|node| node["node"].as_str().expect("a text").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((names("before"), names("after")), (vec!["a".to_owned(), "b".to_owned()], vec!["e".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_outlives_the_server_and_a_cancelled_run_starts_nothing() {
    let home = Home::new();
    let server = home.server();
    let address = server.address();
    let api = Checked::new(&server).await;
    let nodes = [json!({ "name": "ok", "gate": {} }), probe("b", &["ok"], json!({ "output": "7" }))];
    apply(&api, "gated", json!({ "nodes": nodes })).await;
    let (run, other) = (start(&api, "gated", json!({})).await, start(&api, "gated", json!({})).await);
    let decide = json!({ "node": "ok", "decision": "approve" });
    api.post(&format!("/v1/runs/{run}/decide"), decide.clone()).await.expect(200);
    // No worker is there, so that its job waits.
    api.post(&format!("/v1/runs/{other}/decide"), decide.clone()).await.expect(200);
    api.command(&format!("/v1/runs/{other}/cancel")).await.expect(200);
    server.kill();

    let server = home.server_at(&address, &[]);
    let api = Checked::new(&server).await;
    let cancelled = ended(&api, &other).await;
    assert_eq!((cancelled["state"].as_str(), states(&cancelled)), (Some("cancelled"), vec!["succeeded", "cancelled"]));
    assert_eq!(states(&read(&api, &run).await), ["succeeded", "active"]);
    api.post(&format!("/v1/runs/{run}/decide"), decide).await.refused(409, "run_refused");
    let _worker = home.worker(&server, &[]);
    assert_eq!(ended(&api, &run).await["state"], "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_run_goes_on_where_it_failed() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let _worker = home.worker(&server, &[]);
    let list = json!({ "name": "each", "needs": ["a"], "for_each": { "from": "a", "at_once": 2 },
        "inline": { "run": { "probe": { "output": "1" } } } });
    let nodes = [
        probe("a", &[], json!({ "output": "[1, 2, 3]" })),
        list,
        probe("bad", &["each"], json!({ "fail_times": 1 })),
        probe("last", &["bad"], json!({})),
    ];
    let alarm = [json!({ "name": "alarm", "inline": { "run": { "probe": {} } } })];
    apply(&api, "flow", json!({ "nodes": nodes, "on_failure": alarm })).await;
    let run = start(&api, "flow", json!({ "input": { "day": 1 } })).await;
    let failed = ended(&api, &run).await;
    assert_eq!((failed["state"].as_str(), &failed["input"]), (Some("failed"), &json!({ "day": 1 })));
    assert_eq!(states(&failed), ["succeeded", "succeeded", "failed", "not_run", "succeeded"]);
    assert_eq!(node(&failed, "each")["items"]["succeeded"], 3);
    api.post(&format!("/v1/runs/{run}/resume"), json!({ "skip": ["bad"] })).await.expect(200);
    let resumed = ended(&api, &run).await;
    assert_eq!(states(&resumed), ["succeeded", "succeeded", "skipped", "skipped", "skipped"]);
    api.post(&format!("/v1/runs/{run}/resume"), json!({})).await.refused(409, "run_refused");
    let again = api.post(&format!("/v1/runs/{run}/rerun"), json!({})).await.expect(201);
    let again = ended(&api, again.str("/id")).await;
    assert_eq!((again["state"].as_str(), &again["input"]), (Some("failed"), &json!({ "day": 1 })));
}
