//! Every way to write a batch wrongly that we could think of. Each is refused with its place, and nothing is stored.

use serde_json::{Value, json};

use super::member;
use crate::checked::Checked;
use crate::harness::Home;

/// What is sent, and what the answer has to name: a place, or what is wrong with the whole.
type Case = (Value, &'static str);

/// A good batch of two, with these fields.
fn with(fields: &Value) -> Value {
    let mut batch = json!({ "members": [member(json!({})), member(json!({}))] });
    for (name, value) in fields.as_object().expect("fields") {
        batch[name] = value.clone();
    }
    batch
}

/// A batch of a good member and of one with these fields.
fn beside(fields: Value) -> Value {
    json!({ "members": [member(json!({})), fields] })
}

fn undone(compensation: Value) -> Value {
    with(&json!({ "outcome": "all_or_nothing", "compensation": compensation }))
}

fn wholes() -> Vec<Case> {
    let many = vec![json!({ "task": "t" }); 10_001];
    let gang = vec![json!({ "task": "t" }); 1_001];
    vec![
        (json!({}), "members"),
        (json!([]), "object"),
        (json!(null), "object"),
        (json!("members"), "object"),
        (json!({ "members": [] }), "/members"),
        (json!({ "members": null }), "/members"),
        (json!({ "members": "all" }), "/members"),
        (json!({ "members": { "0": {} } }), "/members"),
        (json!({ "members": many }), "/members"),
        (json!({ "members": gang, "start": "together" }), "/members"),
        (with(&json!({ "member": [] })), "member"),
        (with(&json!({ "name": 7 })), "/name"),
        (with(&json!({ "name": "" })), "/name"),
        (with(&json!({ "name": "x".repeat(129) })), "/name"),
        (with(&json!({ "name": "a\u{202e}b" })), "/name"),
        (with(&json!({ "run_at": "tomorrow" })), "/run_at"),
        (with(&json!({ "run_at": "2026-12-24T18:00:00" })), "/run_at"),
        (with(&json!({ "delay": "soon" })), "/delay"),
        (with(&json!({ "delay": -5 })), "/delay"),
        (with(&json!({ "delay": "1h", "run_at": "2030-12-24T18:00:00Z" })), "/delay"),
    ]
}

fn contracts() -> Vec<Case> {
    let together = |fields: Value| {
        let mut batch = with(&json!({ "start": "together" }));
        for (name, value) in fields.as_object().expect("fields") {
            batch[name] = value.clone();
        }
        batch
    };
    vec![
        (with(&json!({ "start": "gang" })), "/start"),
        (with(&json!({ "start": true })), "/start"),
        (with(&json!({ "outcome": "all" })), "/outcome"),
        (with(&json!({ "outcome": ["finish_all"] })), "/outcome"),
        (with(&json!({ "start_timeout": "5m" })), "/start_timeout"),
        (with(&json!({ "on_start_timeout": "wait" })), "/on_start_timeout"),
        (with(&json!({ "unplaceable": "fail" })), "/unplaceable"),
        (together(json!({ "start_timeout": "0s" })), "/start_timeout"),
        (together(json!({ "start_timeout": "999ms" })), "/start_timeout"),
        (together(json!({ "start_timeout": "-1m" })), "/start_timeout"),
        (together(json!({ "start_timeout": "31d" })), "/start_timeout"),
        (together(json!({ "start_timeout": "never" })), "/start_timeout"),
        (together(json!({ "on_start_timeout": "retry" })), "/on_start_timeout"),
        (together(json!({ "unplaceable": "ignore" })), "/unplaceable"),
        (with(&json!({ "compensation": super::compensation() })), "/compensation"),
        (undone(json!({})), "/compensation"),
        (undone(json!("undo")), "/compensation"),
        (undone(json!({ "task": "a b" })), "/compensation/task"),
        (undone(json!({ "task": "t", "inline": { "run": { "probe": {} } } })), "/compensation"),
        (undone(json!({ "inline": { "run": { "nothing": {} } } })), "/compensation/inline"),
        (undone(json!({ "task": "t", "input": 1 })), "input"),
    ]
}

fn members() -> Vec<Case> {
    let inline = |fields: Value| {
        let mut one = member(json!({}));
        for (name, value) in fields.as_object().expect("fields") {
            one["inline"][name] = value.clone();
        }
        beside(one)
    };
    let given = |fields: Value| {
        let mut one = member(json!({}));
        for (name, value) in fields.as_object().expect("fields") {
            one[name] = value.clone();
        }
        beside(one)
    };
    vec![
        (beside(json!({})), "/members/1"),
        (beside(json!(null)), "/members/1"),
        (beside(json!("t")), "/members/1"),
        (beside(json!([])), "/members/1"),
        (beside(json!({ "task": "" })), "/members/1/task"),
        (beside(json!({ "task": 5 })), "/members/1/task"),
        (beside(json!({ "task": "a/b" })), "/members/1/task"),
        (beside(json!({ "task": "x".repeat(129) })), "/members/1/task"),
        (beside(json!({ "inline": {} })), "/members/1/inline"),
        (beside(json!({ "inline": { "run": {} } })), "/members/1/inline"),
        (inline(json!({ "timeout": "0s" })), "/members/1/inline/timeout"),
        (inline(json!({ "queue": "" })), "/members/1/inline/queue"),
        (inline(json!({ "labels": { "gpu": 1 } })), "/members/1/inline/labels"),
        (inline(json!({ "retry": { "max": -1 } })), "/members/1/inline/retry"),
        (given(json!({ "task": "t" })), "/members/1"),
        (given(json!({ "priority": 101 })), "/members/1/priority"),
        (given(json!({ "priority": "high" })), "/members/1/priority"),
        (given(json!({ "input": "x".repeat(300_000) })), "/members/1/input"),
        (given(json!({ "run_at": "2030-12-24T18:00:00Z" })), "run_at"),
        (given(json!({ "tracing_id": "t" })), "tracing_id"),
        (given(json!({ "compensation": super::compensation() })), "/members/1/compensation"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_batch_is_refused_with_its_place_and_nothing_is_stored() {
    let home = Home::new();
    let server = home.server();
    let api = Checked::new(&server).await;
    let cases = [wholes(), contracts(), members()].concat();
    assert!(cases.len() >= 60, "{}", cases.len());
    let mut unplaced = Vec::new();
    for (batch, place) in &cases {
        let refused = api.post("/v1/batches", batch.clone()).await.refused(400, "invalid_request");
        if !refused.text.contains(place) {
            let shown: String = batch.to_string().chars().take(200).collect();
            unplaced.push(format!("{place} is not in {}\n  for {shown}", refused.text));
        }
    }
    assert!(unplaced.is_empty(), "{}", unplaced.join("\n"));
    // Each fault is named.
    let several = json!({ "members": [{}, member(json!({})), { "task": "a b" }], "outcome": "all_or_nothing", "compensation": {} });
    let several = api.post("/v1/batches", several).await.refused(400, "invalid_request");
    for place in ["/members/0", "/members/2/task", "/compensation"] {
        assert!(several.text.contains(place), "{place}: {}", several.text);
    }
    // What is only found when the tasks are looked up.
    let unknown = api.post("/v1/batches", beside(json!({ "task": "nobody" }))).await.refused(404, "task_not_found");
    assert!(unknown.text.contains("/members/1/task"), "{}", unknown.text);
    let unknown = api.post("/v1/batches", undone(json!({ "task": "nobody" }))).await.refused(404, "task_not_found");
    assert!(unknown.text.contains("/compensation/task"), "{}", unknown.text);
    let kinds = (0..33).map(|n| {
        let mut one = member(json!({}));
        one["inline"]["labels"] = json!({ "n": n.to_string() });
        one
    });
    let kinds = json!({ "start": "together", "members": kinds.collect::<Vec<_>>() });
    api.post("/v1/batches", kinds).await.refused(400, "invalid_request");
    for id in ["batch_", "job_01m7et433kee4803yssgvaf2fh", "x", "%00"] {
        let answer = api.get(&format!("/v1/batches/{id}")).await;
        assert!((400..500).contains(&answer.status), "{id}: {}", answer.text);
    }
    let nothing = "/v1/batches/batch_01m7et433kee4803yssgvaf2fh";
    api.get(nothing).await.refused(404, "batch_not_found");
    api.get(&format!("{nothing}/members")).await.refused(404, "batch_not_found");
    api.command(&format!("{nothing}/cancel")).await.refused(404, "batch_not_found");
    for query in ["limit=0", "limit=1001", "limit=x", "cursor=x", "state=done", "sort=id"] {
        api.get(&format!("/v1/batches?{query}")).await.refused(400, "invalid_request");
    }
    assert_eq!(api.get("/v1/batches").await.expect(200).body["batches"], json!([]));
    assert_eq!(api.get("/v1/jobs").await.expect(200).body["jobs"], json!([]));
}
