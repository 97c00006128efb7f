//! Batches, run by real servers and workers.

mod bad_input;
mod cluster;
mod commands;
mod crashes;
mod gangs;

use serde_json::{Value, json};

use crate::checked::Checked;
use crate::harness::{Home, eventually};

/// A member that runs a probe with these fields.
fn member(fields: Value) -> Value {
    json!({ "inline": { "run": { "probe": fields }, "retry": { "max": 0 } } })
}

fn compensation() -> Value {
    json!({ "inline": { "run": { "probe": { "output": "\"undone\"" } } } })
}

async fn create(api: &Checked, batch: Value) -> String {
    let created = api.post("/v1/batches", batch).await.expect(201);
    assert_eq!(created.header("location"), Some(format!("/v1/batches/{}", created.str("/id")).as_str()));
    created.str("/id").to_owned()
}

async fn read(api: &Checked, id: &str) -> Value {
    api.get(&format!("/v1/batches/{id}")).await.expect(200).body
}

async fn members(api: &Checked, id: &str) -> Vec<Value> {
    let page = api.get(&format!("/v1/batches/{id}/members?limit=1000")).await.expect(200).body;
    page["members"].as_array().expect("a list").clone()
}

/// The states of the members, in order.
async fn states(api: &Checked, id: &str) -> Vec<String> {
    let members = members(api, id).await;
    members.iter().map(|member| member["state"].as_str().expect("a text").to_owned()).collect()
}

async fn ended(api: &Checked, id: &str) -> Value {
    eventually("the batch ends", || async { !read(api, id).await["ended_at"].is_null() }).await;
    read(api, id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_batch_that_finishes_all_run_to_their_ends() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let api = Checked::new(&server).await;
    let all = vec![member(json!({})), member(json!({ "fail_times": 9 })), member(json!({}))];
    let id = create(&api, json!({ "name": "three", "members": all })).await;
    let done = ended(&api, &id).await;
    assert_eq!(
        (&done["state"], &done["reason"]),
        (&json!("failed"), &json!("1 of 3 members did not succeed")),
        "{done:#}"
    );
    assert_eq!(states(&api, &id).await, ["succeeded", "failed", "succeeded"]);
    assert_eq!(done["counts"], json!({ "succeeded": 2, "failed": 1 }));
    assert_eq!(done["first_failed"]["place"], 1);
    let job = members(&api, &id).await[1]["job"].as_str().expect("an id").to_owned();
    let job = api.get(&format!("/v1/jobs/{job}")).await.expect(200).body;
    assert_eq!(job["batch"], json!({ "batch": id, "place": 1, "is_compensation": false }));
    let listed = api.get("/v1/batches?state=failed").await.expect(200).body;
    assert_eq!((&listed["batches"][0]["id"], &listed["batches"][0]["members_ended"]), (&json!(id), &json!(3)));
    assert_eq!(api.get("/v1/batches?state=active").await.expect(200).body["batches"], json!([]));
    api.command(&format!("/v1/batches/{id}/cancel")).await.refused(409, "batch_refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_failure_undoes_what_had_succeeded_and_cancels_the_rest() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &["--slots", "10"]);
    let api = Checked::new(&server).await;
    let mut all = vec![member(json!({})), member(json!({})), member(json!({ "sleep": "1h" }))];
    all.push(member(json!({ "sleep": "1s", "fail_times": 9 })));
    all[0]["input"] = json!({ "account": 7 });
    let batch = json!({ "outcome": "all_or_nothing", "compensation": compensation(), "members": all });
    let id = create(&api, batch).await;
    let done = ended(&api, &id).await;
    assert_eq!((&done["state"], &done["reason"]), (&json!("failed"), &json!("member 3 failed")), "{done:#}");
    assert_eq!(states(&api, &id).await, ["compensated", "compensated", "cancelled", "failed"]);
    let members = members(&api, &id).await;
    assert_eq!(members.iter().filter(|member| member["compensation"].is_string()).count(), 2);
    let undone = members[0]["compensation"].as_str().expect("an id");
    let undone = api.get(&format!("/v1/jobs/{undone}")).await.expect(200).body;
    assert_eq!((&undone["state"], &undone["input"]), (&json!("succeeded"), &json!({ "account": 7 })));
    assert_eq!(undone["batch"]["is_compensation"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_the_future_waits_and_can_be_cancelled() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let id = create(&api, json!({ "delay": "1h", "members": vec![member(json!({})); 20] })).await;
    assert_eq!(read(&api, &id).await["state"], "scheduled");
    let stopping = api.command(&format!("/v1/batches/{id}/cancel")).await.expect(200).body;
    assert_eq!(stopping["state"], "stopping");
    let done = ended(&api, &id).await;
    assert_eq!((&done["state"], &done["counts"]), (&json!("cancelled"), &json!({ "cancelled": 20 })));
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_members_are_stored_at_once_and_listed_page_by_page() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let id = create(
        &api,
        json!({ "delay": "1h", "members": vec![json!({ "inline": { "run": { "probe": {} } } }); 10_000] }),
    )
    .await;
    let (mut places, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("/v1/batches/{id}/members?limit=1000{cursor}")).await.expect(200).body;
        places.extend(page["members"].as_array().expect("a list").iter().map(|one| one["place"].as_u64()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(places, (0..10_000).map(Some).collect::<Vec<_>>());
    api.command(&format!("/v1/batches/{id}/cancel")).await.expect(200);
    assert_eq!(ended(&api, &id).await["counts"], json!({ "cancelled": 10_000 }));
}
