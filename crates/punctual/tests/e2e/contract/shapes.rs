//! The same field has the same type in lists and in details, and HEAD is answered wherever GET is.

use serde_json::{Value, json};

use super::{World, probe};
use crate::checked::plain_http;
use crate::harness::eventually;

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Fields of both that differ in type, with those of objects in them.
fn differences(place: &str, row: &Value, detail: &Value, found: &mut Vec<String>) {
    let (Value::Object(row), Value::Object(detail)) = (row, detail) else { return };
    for (name, in_row) in row {
        let Some(in_detail) = detail.get(name) else { continue };
        if kind(in_row) != kind(in_detail) {
            found.push(format!("{place}{name}: {} in the list, {} in the details", kind(in_row), kind(in_detail)));
        }
        differences(&format!("{place}{name}."), in_row, in_detail, found);
    }
}

#[tokio::test]
async fn a_field_has_the_same_type_in_lists_and_in_details() {
    let world = World::working().await;
    let api = &world.api;
    api.put("/v1/tasks/quick", probe(json!({ "output": "hi" }))).await.expect(201);
    let done = api.submit(json!({ "task": "quick", "tracing_id": "a", "input": { "a": 1 } })).await;
    api.finished(&done).await;
    let mut failing = probe(json!({ "fail_times": 9 }));
    failing["retry"] = json!({ "max": 0 });
    let failed = api.submit(json!({ "inline": failing })).await;
    api.finished(&failed).await;
    api.submit(json!({ "inline": probe(json!({ "sleep": "10m" })) })).await;
    api.put("/v1/calendars/holidays", json!({ "dates": ["2026-12-25"] })).await.expect(200);
    api.put("/v1/schedules/daily", json!({ "task": "quick", "daily": "09:00" })).await.expect(201);
    api.command("/v1/schedules/daily/run").await.expect(200);
    let rule = json!({ "on": ["failed"], "webhook": { "url": "http://127.0.0.1:9/" } });
    api.put("/v1/notifications/ops", rule).await.expect(201);
    api.post("/v1/artifacts", json!({ "size": 5, "sha256": "0".repeat(64), "name": "x" })).await.expect(201);
    let backfill = json!({ "from": "2026-01-01", "to": "2026-01-03" });
    api.post("/v1/schedules/daily/backfills", backfill).await;

    let mut wrong = Vec::new();
    let mut compared = 0;
    for (list, member, key) in [
        ("/v1/jobs", "jobs", "id"),
        ("/v1/tasks", "tasks", "name"),
        ("/v1/schedules", "schedules", "name"),
        ("/v1/calendars", "calendars", "name"),
        ("/v1/queues", "queues", "name"),
        ("/v1/notifications", "notifications", "name"),
        ("/v1/artifacts", "artifacts", "id"),
        ("/v1/backfills", "backfills", "id"),
    ] {
        let page = api.get(list).await.expect(200).body;
        let rows = page[member].as_array().unwrap_or_else(|| panic!("no {member} in {page}"));
        for row in rows {
            let path = format!("{list}/{}", row[key].as_str().expect("a name"));
            let detail = api.get(&path).await.expect(200).body;
            differences(&format!("{member}."), row, &detail, &mut wrong);
            compared += 1;
        }
    }
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared >= 9, "only {compared} rows were compared");
    let summary = api.get("/v1/jobs?state=failed").await.expect(200).body["jobs"][0].clone();
    assert_eq!(summary["attempt_count"], api.get(&format!("/v1/jobs/{failed}")).await.body["attempt_count"]);
}

#[tokio::test]
async fn head_is_answered_wherever_get_is() {
    let world = World::working().await;
    let api = &world.api;
    api.put("/v1/tasks/quick", probe(json!({ "output": "hi" }))).await.expect(201);
    let job = api.submit(json!({ "task": "quick" })).await;
    api.finished(&job).await;
    eventually("its log is there", || async { api.get(&format!("/v1/jobs/{job}/logs")).await.status == 200 }).await;
    let paths = [
        "/livez".to_owned(),
        "/readyz".to_owned(),
        "/openapi.json".to_owned(),
        "/problems/job_not_found".to_owned(),
        "/v1/tasks".to_owned(),
        "/v1/tasks/quick".to_owned(),
        "/v1/tasks/none".to_owned(),
        format!("/v1/jobs/{job}"),
        format!("/v1/jobs/{job}/logs"),
        format!("/v1/jobs/{job}/events"),
        "/v1/events".to_owned(),
        "/v1/jobs".to_owned(),
        "/v1/jobs?limit=0".to_owned(),
        "/v1/schedules".to_owned(),
        "/v1/calendars".to_owned(),
        "/v1/notifications".to_owned(),
        "/v1/deliveries".to_owned(),
        "/v1/backfills".to_owned(),
        "/v1/artifacts".to_owned(),
        "/v1/workers".to_owned(),
        "/v1/servers".to_owned(),
        "/v1/server".to_owned(),
        "/v1/stats".to_owned(),
        "/v1/overdue".to_owned(),
        "/v1/audit".to_owned(),
        "/v1/audit/export".to_owned(),
    ];
    let http = plain_http();
    for path in paths {
        let url = format!("{}{path}", world.server.url);
        let head = http.head(&url).send().await.unwrap_or_else(|error| panic!("{path}: {error}"));
        // A stream has no end to wait for.
        let get = http.get(&url).send().await.expect("an answer");
        assert_eq!(head.status(), get.status(), "{path}");
        assert_eq!(head.headers().get("content-type"), get.headers().get("content-type"), "{path}");
        let has_length = |headers: &reqwest::header::HeaderMap| headers.contains_key("content-length");
        assert_eq!(has_length(head.headers()), has_length(get.headers()), "{path}");
        assert!(head.bytes().await.expect("no body").is_empty(), "{path}");
    }
}
