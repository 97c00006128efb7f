//! Workflows, run by real servers and workers.

mod bad_definitions;
mod bad_input;
mod commands;
mod crashes;
mod examples;
mod memory;
mod planned;
mod schedules;

use serde_json::{Value, json};

use crate::checked::Checked;
use crate::harness::eventually;

/// A node that runs a probe with these fields, after other nodes.
fn probe(name: &str, needs: &[&str], fields: Value) -> Value {
    json!({ "name": name, "needs": needs, "inline": { "run": { "probe": fields }, "retry": { "max": 0 } } })
}

async fn apply(api: &Checked, name: &str, definition: Value) {
    api.put(&format!("/v1/workflows/{name}"), definition).await.expect(201);
}

async fn start(api: &Checked, name: &str, body: Value) -> String {
    let started = api.post(&format!("/v1/workflows/{name}/runs"), body).await.expect(201);
    assert_eq!(started.header("location"), Some(format!("/v1/runs/{}", started.str("/id")).as_str()));
    started.str("/id").to_owned()
}

async fn read(api: &Checked, id: &str) -> Value {
    api.get(&format!("/v1/runs/{id}")).await.expect(200).body
}

/// The states of the nodes, as they stand in the definition.
fn states(run: &Value) -> Vec<&str> {
    run["nodes"].as_array().expect("a list").iter().map(|node| node["state"].as_str().expect("a text")).collect()
}

fn node<'r>(run: &'r Value, name: &str) -> &'r Value {
    run["nodes"].as_array().expect("a list").iter().find(|node| node["name"] == name).expect("the node is there")
}

async fn ended(api: &Checked, id: &str) -> Value {
    eventually("the run ends", || async { read(api, id).await["state"] != "running" }).await;
    read(api, id).await
}
