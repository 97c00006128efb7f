//! Conditional requests, on everything that can be edited.

use reqwest::Method;
use serde_json::{Value, json};

use super::{World, probe};

/// What can be edited: its address, and two definitions of it.
fn definitions() -> [(&'static str, Value, Value); 5] {
    let rule = |to: &str| json!({ "email": { "to": [to] } });
    [
        ("/v1/tasks/report", probe(json!({})), probe(json!({ "output": "more" }))),
        ("/v1/queues/mail", json!({ "description": "mails" }), json!({ "defaults": { "timeout": "30s" } })),
        ("/v1/calendars/closed", json!({ "dates": ["2030-12-25"] }), json!({ "dates": ["2030-12-26"] })),
        ("/v1/notifications/ops", rule("a@example.org"), rule("b@example.org")),
        (
            "/v1/schedules/yearly",
            json!({ "inline": probe(json!({})), "cron": "0 9 1 1 *", "zone": "UTC" }),
            json!({ "inline": probe(json!({})), "cron": "0 9 2 1 *", "zone": "UTC" }),
        ),
    ]
}

#[tokio::test]
async fn a_change_is_made_only_at_the_revision_that_it_expects() {
    let world = World::idle().await;
    let api = &world.api;
    for (path, first, second) in definitions() {
        let put = async |body: &Value, name: &'static str, value: &str| {
            api.send(Method::PUT, path, Some(body.clone()), &[(name, value)]).await
        };
        put(&first, "if-match", "\"1\"").await.refused(412, "revision_conflict");
        put(&first, "if-match", "*").await.refused(412, "revision_conflict");
        let created = put(&first, "if-none-match", "*").await;
        assert!(matches!(created.status, 200 | 201), "{path}: {}", created.text);
        let revision = created.body["revision"].as_u64().expect("a revision");
        let again = put(&second, "if-none-match", "*").await.refused(412, "revision_conflict");
        let hint = again.str("/hint").to_owned();
        assert!(hint.contains(&format!("If-Match: \"{revision}\"")), "{path}: {hint}");

        // Two editors have read the same: the second is told.
        let read = api.get(path).await.expect(200);
        let etag = read.header("etag").expect("an ETag").to_owned();
        assert!(etag.starts_with(&format!("\"{revision}-")), "{path}: {etag}");
        let edited = put(&second, "if-match", &etag).await.expect(200);
        let revision = edited.body["revision"].as_u64().expect("a revision");
        let lost = put(&first, "if-match", &etag).await.refused(412, "revision_conflict");
        let said = format!("{} {}", lost.str("/detail"), lost.str("/hint"));
        assert!(said.contains(&format!("at revision {revision}")), "{path}: {said}");
        put(&first, "if-match", "*").await.expect(200);
        for (name, value) in [("if-match", "W/\"1\""), ("if-match", "yesterday"), ("if-none-match", "\"1\"")] {
            put(&first, name, value).await.refused(400, "invalid_request");
        }
        let both = [("if-match", "*"), ("if-none-match", "*")];
        api.send(Method::PUT, path, Some(first.clone()), &both).await.refused(400, "invalid_request");

        // Settings of a queue are replaced, and never deleted.
        if path.starts_with("/v1/queues/") {
            continue;
        }
        let delete = async |value: &str| api.send(Method::DELETE, path, None, &[("if-match", value)]).await;
        delete(&etag).await.refused(412, "revision_conflict");
        let none_match = api.send(Method::DELETE, path, None, &[("if-none-match", "*")]).await;
        none_match.refused(400, "invalid_request");
        let now = api.get(path).await.expect(200).header("etag").expect("an ETag").to_owned();
        delete(&now).await.expect(204);
        assert_eq!(delete(&now).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn what_a_client_has_is_not_sent_again() {
    let world = World::idle().await;
    let api = &world.api;
    for (path, first, second) in definitions() {
        assert!(matches!(api.put(path, first).await.status, 200 | 201));
        let known = async |etag: &str| api.send(Method::GET, path, None, &[("if-none-match", etag)]).await;
        let etag = api.get(path).await.expect(200).header("etag").expect("an ETag").to_owned();
        for same in [etag.clone(), format!("W/{etag}"), format!("\"0\", {etag}")] {
            let answer = known(&same).await.expect(304);
            assert_eq!((answer.text.as_str(), answer.header("etag")), ("", Some(etag.as_str())), "{path} {same}");
        }
        known("\"0\"").await.expect(200);
        api.put(path, second).await.expect(200);
        let changed = known(&etag).await.expect(200);
        assert_ne!(changed.header("etag"), Some(etag.as_str()), "{path}");
    }
}

#[tokio::test]
async fn an_etag_changes_with_the_running_state_and_still_names_the_revision() {
    let world = World::idle().await;
    let api = &world.api;
    let (path, first, second) = definitions().into_iter().next_back().expect("a schedule");
    api.put(path, first).await.expect(201);
    let etag = api.get(path).await.expect(200).header("etag").expect("an ETag").to_owned();
    api.command(&format!("{path}/pause")).await.expect(200);
    let paused = api.send(Method::GET, path, None, &[("if-none-match", &etag)]).await.expect(200);
    assert_eq!(paused.str("/state"), "paused");
    // Whoever read the definition before may change it: the definition is the same.
    api.send(Method::PUT, path, Some(second), &[("if-match", &etag)]).await.expect(200);
}
