//! Batches that start together.

use serde_json::{Value, json};

use super::{create, ended, member, read, states};
use crate::checked::Checked;
use crate::harness::{Home, eventually};

fn gang(members: Vec<Value>, fields: Value) -> Value {
    let mut batch = json!({ "start": "together", "members": members });
    for (name, value) in fields.as_object().expect("fields") {
        batch[name] = value.clone();
    }
    batch
}

async fn explanation(api: &Checked, id: &str) -> String {
    read(api, id).await["explanation"].as_str().expect("a text").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_says_what_it_waits_for_and_starts_when_there_is_a_slot_for_each() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &["--slots", "4"]);
    let api = Checked::new(&server).await;
    let busy = create(&api, json!({ "members": vec![member(json!({ "sleep": "2s" })); 3] })).await;
    eventually("three slots are taken", || async { api.get("/v1/stats").await.expect(200).body["running"] == 3 }).await;
    let id = create(&api, gang(vec![member(json!({})); 4], json!({}))).await;
    eventually("it says what it waits for", || async {
        explanation(&api, &id).await.contains("waits for 3 more slots")
    })
    .await;
    let job = super::members(&api, &id).await[2]["job"].as_str().expect("an id").to_owned();
    let job = api.get(&format!("/v1/jobs/{job}")).await.expect(200).body;
    let text = job["explanation"].as_str().expect("a text");
    assert!(text.contains(&format!("It is member 2 of {id}")) && text.contains("3 more slots"), "{text}");
    assert_eq!(ended(&api, &id).await["state"], "succeeded");
    assert_eq!(read(&api, &busy).await["state"], "succeeded", "nothing was taken from it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gang_that_the_fleet_cannot_start_says_so_and_waits_or_fails_as_declared() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &["--slots", "2", "--labels", "gpu=yes"]);
    let api = Checked::new(&server).await;
    eventually("the worker is connected", || async { api.get("/v1/stats").await.expect(200).body["workers"] == 1 })
        .await;
    let mut needs_gpu = member(json!({}));
    needs_gpu["inline"]["labels"] = json!({ "gpu": "yes" });
    let lacking = "needs 3 slots with label gpu=yes at once, 2 exist";
    let refused = gang(vec![needs_gpu.clone(); 3], json!({ "unplaceable": "fail" }));
    let refused = api.post("/v1/batches", refused).await.refused(409, "batch_unplaceable");
    assert!(refused.text.contains(lacking), "{}", refused.text);
    assert_eq!(api.get("/v1/batches").await.expect(200).body["batches"], json!([]), "nothing was stored");
    let later = gang(vec![needs_gpu.clone(); 3], json!({ "unplaceable": "fail", "delay": "1s" }));
    let later = create(&api, later).await;
    let waits = create(&api, gang(vec![needs_gpu; 3], json!({ "start_timeout": "4s" }))).await;
    assert!(explanation(&api, &waits).await.contains(lacking), "{}", explanation(&api, &waits).await);
    let done = ended(&api, &later).await;
    assert!(done["reason"].as_str().is_some_and(|reason| reason.contains(lacking)), "{done:#}");
    let done = ended(&api, &waits).await;
    assert_eq!(done["state"], "failed", "{done:#}");
    assert!(states(&api, &waits).await.iter().all(|state| state == "failed" || state == "cancelled"));
    // Neither holds anybody back any more.
    let other = create(&api, json!({ "members": [member(json!({}))] })).await;
    assert_eq!(ended(&api, &other).await["state"], "succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_cancelled_before_the_start_stops_its_gang() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let id = create(&api, gang(vec![member(json!({})); 3], json!({}))).await;
    let job = super::members(&api, &id).await[1]["job"].as_str().expect("an id").to_owned();
    api.command(&format!("/v1/jobs/{job}/cancel")).await.expect(200);
    let done = ended(&api, &id).await;
    assert_eq!(done["reason"], "member 1 was cancelled before it started");
    assert_eq!(states(&api, &id).await, ["cancelled"; 3]);
}
