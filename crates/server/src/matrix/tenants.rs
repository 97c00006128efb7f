//! Every operation by somebody of one namespace, about what there is in another.

use punctual_engine::SCHEDULER;

use super::*;

/// The ids of what somebody has in a namespace, where all that has a name has the same.
struct Tenancy {
    job: String,
    artifact: String,
    run: String,
    backfill: String,
    batch: String,
}

const NAME: &str = "the-same-name";
/// Those of the store that the app of these tests is on.
const SHARDS: usize = 4;

/// Fills a namespace as its administrator, and answers what there is.
async fn fill(router: &Router, admin: &Sender, mark: &str) -> Tenancy {
    let answer = async |method: &str, path: &str, body: Value| {
        let response = send(router, request(admin, method, path, Some(body))).await;
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.expect("a body");
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        assert!(status.is_success(), "{method} {path}: {status} {body}");
        body
    };
    let spec = json!({ "run": { "http": { "url": format!("https://{mark}.example.com/") } } });
    answer("PUT", &format!("/v1/tasks/{NAME}"), spec).await;
    let job = answer("POST", "/v1/jobs", json!({ "task": NAME, "input": mark, "delay": "1h" })).await;
    answer("PUT", &format!("/v1/queues/{NAME}"), json!({ "description": mark })).await;
    answer("POST", &format!("/v1/queues/{NAME}/pause"), json!({ "note": mark })).await;
    answer("PUT", &format!("/v1/calendars/{NAME}"), json!({ "dates": ["2030-12-25"] })).await;
    let declared = json!({ "name": mark, "size": 7, "sha256": "ab".repeat(32), "kind": "file" });
    let artifact = answer("POST", "/v1/artifacts", declared).await;
    let rule = json!({ "on": ["failed"], "email": { "to": [format!("{mark}@example.com")] } });
    answer("PUT", &format!("/v1/notifications/{NAME}"), rule).await;
    let ask = json!({ "name": "ask", "gate": { "note": mark } });
    let wait = json!({ "name": "wait", "gate": { "event": "go" } });
    answer("PUT", &format!("/v1/workflows/{NAME}"), json!({ "nodes": [ask, wait] })).await;
    let run = answer("POST", &format!("/v1/workflows/{NAME}/runs"), json!({ "input": mark })).await;
    let schedule = json!({ "task": NAME, "input": mark, "cron": "0 2 * * *" });
    answer("PUT", &format!("/v1/schedules/{NAME}"), schedule).await;
    let backfill = json!({ "from": "2026-11-17", "to": "2026-11-19", "include": "all" });
    let backfill = answer("POST", &format!("/v1/schedules/{NAME}/backfills"), backfill).await;
    let id = |body: &Value| body["id"].as_str().expect("an id").to_owned();
    let members = json!([{ "task": NAME, "input": mark }]);
    let batch = answer("POST", "/v1/batches", json!({ "name": mark, "members": members })).await;
    Tenancy { job: id(&job), artifact: id(&artifact), run: id(&run), backfill: id(&backfill), batch: id(&batch) }
}

/// What is asked for, such that nothing but the namespace is in its way.
fn body(operation: &str) -> Value {
    match operation {
        "skip_node" => json!({ "node": "ask" }),
        "decide_gate" => json!({ "node": "ask", "decision": "approve" }),
        "send_run_event" => json!({ "event": "go", "payload": "x" }),
        "create_backfill" => json!({ "from": "2026-11-17", "to": "2026-11-19", "include": "all" }),
        _ => json!({}),
    }
}

/// What somebody sees.
async fn shown(router: &Router, sender: &Sender) -> Vec<String> {
    let mut bodies = Vec::new();
    let lists = [
        "tasks",
        "jobs",
        "queues",
        "calendars",
        "artifacts",
        "notifications",
        "secrets",
        "workflows",
        "runs",
        "batches",
    ];
    let of_schedules = ["schedules", "backfills", &format!("schedules/{NAME}/occurrences")];
    for path in lists.into_iter().chain(of_schedules).map(|list| format!("/v1/{list}")) {
        let response = send(router, request(sender, "GET", &path, None)).await;
        assert_eq!(response.status(), 200, "{path}");
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.expect("a body");
        bodies.push(String::from_utf8(body.to_vec()).expect("text"));
    }
    bodies
}

#[tokio::test]
async fn nobody_finds_or_changes_anything_of_another_namespace() {
    // Schedules are decided by the owner of their shard.
    let world = World::with_engine(|config| config.member.roles.push(SCHEDULER.to_owned())).await;
    while world.engine.owned().len() < SHARDS {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // There are past times to run.
    world.pass(5 * 86_400);
    let router = router(&world);
    let (a, b) = (namespace_of(&world, TENANT).await, namespace_of(&world, "team-b").await);
    let in_a = Sender::Somebody(Principal::made_up_in(a, "key:team-a/test", Rights::all()));
    let in_b = Sender::Somebody(Principal::made_up_in(b, "key:team-b/test", Rights::all()));
    let theirs = fill(&router, &in_b, "mark-of-b").await;
    let before = shown(&router, &in_b).await;
    assert!(before.concat().contains("mark-of-b"));
    // What is asked for by id, and by the name that is the same in every namespace. What whoever asks makes comes last: it would be
    // found.
    let (making, others): (Vec<_>, Vec<_>) = operations().into_iter().partition(|operation| operation.method == "PUT");
    for operation in others.into_iter().chain(making) {
        let (id, needs) = (&operation.id, needs(&operation.id));
        if needs == Open {
            continue;
        }
        let path = operation.path.replace("/v1/jobs/{id}", &format!("/v1/jobs/{}", theirs.job));
        let path = path.replace("/v1/artifacts/{id}", &format!("/v1/artifacts/{}", theirs.artifact));
        let path = path.replace("/v1/runs/{id}", &format!("/v1/runs/{}", theirs.run));
        let path = path.replace("/v1/backfills/{id}", &format!("/v1/backfills/{}", theirs.backfill));
        let path = path.replace("/v1/batches/{id}", &format!("/v1/batches/{}", theirs.batch));
        let path = path.replace("/v1/namespaces/{name}", "/v1/namespaces/team-b").replace("{name}", NAME);
        let names_something = path != operation.path;
        // Definitions are made with these, in the namespace of whoever asks.
        let makes = operation.method == "PUT";
        let takes_body = ["POST", "PUT", "PATCH"].contains(&operation.method.as_str());
        let sent = request(&in_a, &operation.method, &path, takes_body.then(|| body(id)));
        let response = send(&router, sent).await;
        let status = response.status();
        assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{id}");
        if names_something && !makes {
            assert!(!status.is_success(), "{id} {path}: {status}");
        }
        let is_of_schedule = path.contains(&format!("/v1/schedules/{NAME}")) && !makes;
        let ids = [&theirs.run, &theirs.job, &theirs.backfill, &theirs.batch];
        let is_by_id = ids.into_iter().any(|id| path.contains(id.as_str()));
        if is_by_id || is_of_schedule || path.ends_with(&format!("/{NAME}/runs")) {
            assert_eq!(status, StatusCode::NOT_FOUND, "{id} {path}: as if it were not there");
        }
        if status.is_success() && response.headers().get(header::CONTENT_TYPE).is_some_and(is_stream) {
            continue;
        }
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.expect("a body");
        let body = String::from_utf8_lossy(&body);
        assert!(!body.contains("mark-of-b"), "{id}: {body}");
        let is_echo = |text: &String| names_something && body.matches(text.as_str()).count() <= 2;
        for text in [&theirs.job, &theirs.artifact, &theirs.run, &theirs.backfill, &theirs.batch] {
            assert!(!body.contains(text.as_str()) || is_echo(text) && !status.is_success(), "{id}: {body}");
        }
    }
    assert_eq!(shown(&router, &in_b).await, before);
}

fn is_stream(value: &http::HeaderValue) -> bool {
    value.as_bytes().starts_with(b"text/event-stream")
}
