//! Every route once, so that none is left out.

use serde_json::{Value, json};

use super::{World, far_future, probe, sleeper};
use crate::harness::eventually;

#[tokio::test]
async fn every_documented_route_answers_as_documented() {
    let world = World::working().await;
    let api = &world.api;
    api.get("/livez").await.expect(200);
    api.get("/readyz").await.expect(200);
    api.get("/openapi.json").await.expect(200);
    api.get("/problems/job_not_found").await.expect(200);
    api.get("/problems/none").await.expect(404);

    api.post("/v1/tasks", json!({ "name": "greet", "spec": probe(json!({ "output": "hello" })) })).await.expect(201);
    api.put("/v1/tasks/other", json!({ "run": { "http": { "url": "http://127.0.0.1:9/" } } })).await.expect(201);
    api.get("/v1/tasks/greet").await.expect(200);
    api.get("/v1/tasks").await.expect(200);

    let file = json!({ "size": 5, "sha256": "0".repeat(64) });
    let artifact = api.post("/v1/artifacts", file).await.expect(201);
    let upload = artifact.str("/upload/url").strip_prefix(&world.server.url).expect("it is the server's own");
    api.put(upload, json!("x")).await.refused(422, "size_mismatch");
    let artifact = format!("/v1/artifacts/{}", artifact.str("/id"));
    api.get(&artifact).await.expect(200);
    api.get("/v1/artifacts").await.expect(200);
    api.delete(&artifact).await.expect(204);

    let id = api.submit(json!({ "task": "greet" })).await;
    api.finished(&id).await;
    api.get(&format!("/v1/jobs/{id}/logs")).await.expect(200);
    api.get(&format!("/v1/jobs/{id}/logs/lines")).await.expect(200);
    api.listen(&format!("/v1/jobs/{id}/events"), &[]).await;
    api.listen("/v1/events", &[]).await;
    api.command(&format!("/v1/jobs/{id}/retry")).await.expect(200);
    api.finished(&id).await;

    let jobs: Vec<_> = (0..3).map(|_| far_future()).collect();
    let bulk = api.post("/v1/jobs/bulk", json!({ "jobs": jobs })).await.expect(201);
    api.delete(&format!("/v1/jobs/{}", bulk.str("/ids/0"))).await.expect(200);
    api.command(&format!("/v1/jobs/{}/cancel", bulk.str("/ids/1"))).await.expect(200);
    api.command(&format!("/v1/jobs/{}/run", bulk.str("/ids/2"))).await.expect(200);
    api.get("/v1/jobs").await.expect(200);

    visit_schedules(&world).await;
    visit_workflows(&world).await;
    visit_batches(&world).await;
    visit_notifications(&world).await;
    visit_identities(&world).await;
    visit_namespaces(&world).await;
    visit_queues(&world).await;

    api.get("/v1/workers").await.expect(200);
    let servers = api.get("/v1/servers").await.expect(200);
    assert_eq!(servers.body.pointer("/servers/0/answered"), Some(&Value::Bool(true)));
    api.get("/v1/server").await.expect(200);
    api.get("/v1/stats").await.expect(200);
    api.get("/v1/audit?principal=local&since=2020-01-01T00:00:00Z&limit=5").await.expect(200);
    api.get("/v1/audit/export?after_seq=1").await.expect(200);
    // Without TLS there is none.
    api.get("/v1/authority").await.refused(404, "not_found");
    api.post("/v1/authority/rotate", json!({ "overlap": "1s" })).await.refused(400, "invalid_request");
    api.get("/v1/cluster-secret").await.expect(200);
    api.command("/v1/cluster-secret/retire").await.refused(409, "cluster_secret_refused");
    api.post("/v1/cluster-secret/rotate", json!({ "overlap": "P1D" })).await.expect(200);
    api.delete("/v1/tasks/other").await.expect(204);

    visit_enrolments(&world).await;
    api.get("/v1/secrets").await.expect(200);

    let mut not_seen = api.not_yet_seen();
    // Their bodies are not JSON: the tests of artifacts send and fetch real files, and those of agents speak for
    // real attempts. Only servers with TLS have an authority.
    let elsewhere = [
        "get_authority",
        "rotate_authority",
        // Only a rotation that is under way has a former secret: its own tests drop it.
        "retire_cluster_secret",
        "upload_artifact",
        "download_artifact",
        "get_agent_work",
        "beat_agent",
        "append_agent_log",
        "end_agent_attempt",
        // These need TLS: the tests of enrolments have it.
        "create_worker_token",
        "edit_worker_token",
        "delete_worker_token",
        "edit_worker",
        "revoke_worker",
        // Values are no JSON either: the tests of secrets set, delete and seal them anew.
        "set_secret",
        "delete_secret",
        "rotate_root_key",
        "rotate_data_key",
        // These need a provider: the tests of OpenID Connect start one.
        "begin_browser_login",
        "finish_browser_login",
        "exchange_login",
        "begin_device_login",
        "poll_device_login",
    ];
    not_seen.retain(|operation| !elsewhere.contains(&operation.as_str()));
    assert!(not_seen.is_empty(), "the tour leaves out {not_seen:?}");
}

/// Without TLS nobody can join; other tests have workers that do.
async fn visit_enrolments(world: &World) {
    let api = &world.api;
    let token = json!({ "queues": ["images"], "kinds": ["binary"], "labels": { "gpu": "true" }, "expires_in": "1h" });
    api.post("/v1/worker-tokens", token).await.refused(409, "no_authority");
    api.get("/v1/worker-tokens").await.expect(200);
    let unknown = "01m7et433kee4803yssgvaf2fh";
    api.delete(&format!("/v1/worker-tokens/jointoken_{unknown}")).await.refused(404, "worker_token_not_found");
    api.get("/v1/worker-enrolments?limit=5").await.expect(200);
    api.delete(&format!("/v1/worker-enrolments/enrolment_{unknown}")).await.refused(404, "enrolment_not_found");
}

async fn visit_notifications(world: &World) {
    let api = &world.api;
    let rule = json!({ "on": ["failed"], "tasks": ["greet"], "webhook": { "url": "http://127.0.0.1:9/" } });
    api.put("/v1/notifications/ops", rule.clone()).await.expect(201);
    api.put("/v1/notifications/ops", rule.clone()).await.expect(200);
    api.get("/v1/notifications/ops").await.expect(200);
    api.get("/v1/notifications").await.expect(200);
    api.post("/v1/notifications/preview", json!({ "rule": rule })).await.expect(200);
    let job = api.command("/v1/notifications/ops/test").await.expect(200);
    assert!(job.str("/job").starts_with("job_"));
    api.get("/v1/notifications/ops/deliveries").await.expect(200);
    api.get("/v1/deliveries").await.expect(200);
    api.get("/v1/overdue").await.expect(200);
    api.delete("/v1/notifications/ops").await.expect(204);
}

async fn visit_queues(world: &World) {
    let api = &world.api;
    api.get("/v1/queues/mial").await.refused(404, "queue_not_found");
    let described =
        json!({ "description": "Mails", "defaults": { "timeout": "30s", "retry": { "max": 8 }, "priority": 3 } });
    api.put("/v1/queues/mail", described).await.expect(200);
    api.put("/v1/queues/mail", json!({ "defaults": { "timeout": 0 } })).await.refused(400, "invalid_request");
    let task = json!({ "run": { "probe": {} }, "queue": "mail" });
    let task = api.put("/v1/tasks/letter", task).await.expect(201);
    assert_eq!((task.str("/spec/timeout"), &task.body["spec"]["retry"]["max"]), ("PT30S", &json!(8)));
    api.post("/v1/queues/mail/pause", json!({ "note": "the provider is down" })).await.expect(200);
    let id = api.submit(json!({ "task": "letter" })).await;
    let job = api.get(&format!("/v1/jobs/{id}")).await.expect(200);
    assert!(job.str("/waiting_for").ends_with(": the provider is down"), "{}", job.text);
    let queue = api.get("/v1/queues/mail").await.expect(200);
    assert_eq!((queue.str("/state"), queue.str("/state_changed/who")), ("paused", "local"));
    api.get("/v1/queues?limit=2").await.expect(200);
    api.command("/v1/queues/mail/drain").await.expect(200);
    api.post("/v1/jobs", json!({ "task": "letter" })).await.refused(409, "queue_draining");
    api.command("/v1/queues/mail/resume").await.expect(200);
    api.delete(&format!("/v1/jobs/{id}")).await.expect(200);
    api.delete("/v1/tasks/letter").await.expect(204);
}

async fn visit_schedules(world: &World) {
    let api = &world.api;
    api.put("/v1/calendars/holidays", json!({ "dates": ["2026-12-25"] })).await.expect(200);
    api.get("/v1/calendars/holidays").await.expect(200);
    api.get("/v1/calendars").await.expect(200);
    api.get("/v1/forecast?assume=1s").await.expect(200);
    let daily = json!({ "task": "greet", "daily": "09:30", "zone": "Europe/Berlin", "catch_up": "all",
        "calendars": { "exclude": ["holidays"], "on_closed_day": "next_business_day" } });
    let mut named = daily.clone();
    named["name"] = json!("report");
    api.post("/v1/schedules/preview?count=3", daily.clone()).await.expect(200);
    let created = api.post("/v1/schedules", named).await.expect(201);
    assert_eq!(created.header("location"), Some("/v1/schedules/report"));
    api.put("/v1/schedules/report?revision=1", daily.clone()).await.expect(200);
    api.put("/v1/schedules/other", daily.clone()).await.expect(201);
    let bulk = json!({ "schedules": [daily, { "task": "greet", "every": "1h", "catch_up": { "mode": "none" } }] });
    api.post("/v1/schedules/bulk", bulk).await.expect(200);
    api.get("/v1/schedules").await.expect(200);
    api.get("/v1/schedules/report").await.expect(200);
    api.get("/v1/schedules/report/preview").await.expect(200);
    api.command("/v1/schedules/report/pause").await.expect(200);
    api.post("/v1/schedules/report/resume", json!({ "note": "all is well" })).await.expect(200);
    api.command("/v1/schedules/report/skip").await.expect(200);
    let run = api.command("/v1/schedules/report/run").await.expect(200);
    api.post("/v1/schedules/report/run", json!({ "overlap": "allow" })).await.expect(200);
    api.delete("/v1/schedules/report/queue").await.expect(200);
    api.finished(run.str("/job")).await;
    let range = json!({ "from": "2026-11-01", "to": "2026-11-04", "dry_run": true });
    api.post("/v1/schedules/report/backfills", range).await.expect(200);
    let range = json!({ "from": "2026-11-01", "to": "2026-11-04", "overlap": "allow", "max_active": 2 });
    let backfill = api.post("/v1/schedules/report/backfills", range).await.expect(201);
    let backfill = format!("/v1/backfills/{}", backfill.str("/id"));
    eventually("it is done", || async { api.get(&backfill).await.expect(200).body["state"] == "done" }).await;
    api.get("/v1/backfills?schedule=report").await.expect(200);
    api.get(&format!("{backfill}/runs")).await.expect(200);
    let path = "/v1/schedules/report/occurrences?before=2026-11-04";
    let before_it_was_made = api.get(path).await.expect(200).body["backfilled_only"].clone();
    assert_eq!(before_it_was_made[0]["backfilled"][0]["state"], "succeeded", "{before_it_was_made}");
    api.command(&format!("{backfill}/abort")).await.refused(409, "backfill_ended");
    let long = api.post("/v1/schedules/report/backfills", json!({ "from": "2020-01-01" })).await.expect(201);
    api.command(&format!("/v1/backfills/{}/abort", long.str("/id"))).await.expect(200);
    api.get("/v1/schedules/report/occurrences").await.expect(200);
    api.delete("/v1/calendars/holidays").await.refused(409, "calendar_in_use");
    api.delete("/v1/tasks/greet").await.refused(409, "task_in_use");
    for schedule in api.get("/v1/schedules").await.body["schedules"].as_array().expect("a list") {
        api.delete(&format!("/v1/schedules/{}", schedule["name"].as_str().expect("a name"))).await.expect(204);
    }
    api.delete("/v1/calendars/holidays").await.expect(204);
}

async fn visit_workflows(world: &World) {
    let api = &world.api;
    let probe = |name: &str, needs: &[&str]| json!({ "name": name, "needs": needs, "inline": { "run": { "probe": { "output": "[1]" } } } });
    let nodes = json!([
        probe("a", &[]),
        { "name": "each", "needs": ["a"], "for_each": { "from": "a" }, "inline": { "run": { "probe": {} } } },
        { "name": "ok", "needs": ["a"], "gate": { "note": "Go on?" } },
        probe("late", &["ok"]),
        probe("left", &["ok"]),
        { "name": "told", "needs": ["a"], "gate": { "event": "arrived" } },
    ]);
    let definition = json!({ "nodes": nodes, "on_end": [{ "name": "end", "inline": { "run": { "probe": {} } } }] });
    api.put("/v1/workflows/flow", definition.clone()).await.expect(201);
    api.put("/v1/workflows/flow", definition).await.expect(200);
    api.get("/v1/workflows").await.expect(200);
    api.get("/v1/workflows/flow?version=1").await.expect(200);
    let run = api.post("/v1/workflows/flow/runs", json!({ "input": { "day": 1 } })).await.expect(201);
    let run = format!("/v1/runs/{}", run.str("/id"));
    eventually("the gate is open", || async { api.get(&run).await.expect(200).body["nodes"][2]["state"] == "open" })
        .await;
    api.post(&format!("{run}/skip"), json!({ "node": "left" })).await.expect(200);
    api.post(&format!("{run}/events"), json!({ "event": "arrived", "payload": { "files": 3 } })).await.expect(200);
    api.post(&format!("{run}/decide"), json!({ "node": "ok", "decision": "reject" })).await.expect(200);
    let failed = || async { api.get(&run).await.expect(200).body["state"] == "failed" };
    eventually("the run fails", failed).await;
    api.post(&format!("{run}/resume"), json!({})).await.expect(200);
    api.command(&format!("{run}/cancel")).await.expect(200);
    api.post(&format!("{run}/rerun"), json!({})).await.expect(201);
    api.get("/v1/runs?workflow=flow&limit=1").await.expect(200);
    let job = api.get(&run).await.body["nodes"][0]["job"].as_str().expect("it had a job").to_owned();
    api.get(&format!("/v1/jobs/{job}")).await.expect(200);
}

async fn visit_batches(world: &World) {
    let api = &world.api;
    let probe = json!({ "run": { "probe": {} } });
    let undo = json!({ "inline": probe });
    let member = json!({ "inline": probe, "input": { "n": 1 }, "priority": 3, "compensation": undo });
    let batch = json!({ "name": "pair", "start": "together", "start_timeout": "1m", "on_start_timeout": "wait",
        "unplaceable": "wait", "outcome": "all_or_nothing", "compensation": undo, "members": [member, member] });
    let id = api.post("/v1/batches", batch.clone()).await.expect(201).str("/id").to_owned();
    let batch_at = format!("/v1/batches/{id}");
    eventually("the batch ends", || async { !api.get(&batch_at).await.expect(200).body["ended_at"].is_null() }).await;
    let members = api.get(&format!("{batch_at}/members?limit=1&state=succeeded")).await.expect(200).body;
    let job = members["members"][0]["job"].as_str().expect("it has a job").to_owned();
    api.get(&format!("/v1/jobs/{job}")).await.expect(200);
    api.get("/v1/batches?state=succeeded&limit=1").await.expect(200);
    let mut later = batch;
    later["delay"] = json!("1h");
    let id = api.post("/v1/batches", later).await.expect(201).str("/id").to_owned();
    api.get(&format!("/v1/batches/{id}")).await.expect(200);
    api.command(&format!("/v1/batches/{id}/cancel")).await.expect(200);
}

#[tokio::test]
async fn a_worker_that_connects_while_someone_looks_is_shown() {
    let mut world = World::idle().await;
    let url = format!("{}/v1/workers", world.server.url);
    let http = crate::checked::plain_http();
    let onlookers: Vec<_> = (0..8)
        .map(|_| {
            let (http, url) = (http.clone(), url.clone());
            tokio::spawn(async move {
                loop {
                    http.get(&url).send().await.expect("the server answers");
                }
            })
        })
        .collect();
    for turn in 0..10 {
        world.start_worker().await;
        let workers = world.api.get("/v1/workers").await.expect(200);
        assert_eq!(workers.body["workers"].as_array().map(Vec::len), Some(1), "turn {turn}: {}", workers.text);
        world.worker.take().expect("it was started").kill();
        eventually("it is away", || async { world.api.get("/v1/stats").await.body["workers"] == json!(0) }).await;
    }
    for onlooker in onlookers {
        onlooker.abort();
    }
}

#[tokio::test]
async fn the_server_and_its_workers_show_what_they_do() {
    let world = World::working().await;
    let api = &world.api;
    let id = api.submit(sleeper("5m")).await;
    api.command(&format!("/v1/jobs/{}/cancel", api.submit(far_future()).await)).await.expect(200);
    eventually("the job runs", || async { api.get("/v1/stats").await.expect(200).body["running"] == json!(1) }).await;

    let workers = api.get("/v1/workers").await.expect(200);
    assert_eq!(workers.body["workers"].as_array().map(Vec::len), Some(1));
    let worker = &workers.body["workers"][0];
    assert_eq!(worker["state"], "connected");
    assert_eq!(worker["queues"], json!(["default", "other"]));
    let capabilities = worker["capabilities"].as_array().expect("it says what it can do");
    assert!(capabilities.contains(&json!("probe")) && capabilities.contains(&json!("http")), "{worker}");

    let stats = api.get("/v1/stats").await.expect(200);
    for (figure, expected) in [("submitted", 2), ("started", 1), ("running", 1), ("cancelled", 1), ("workers", 1)] {
        assert_eq!(stats.body[figure], json!(expected), "{figure}");
    }
    assert!(stats.body["rss_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20));

    let node = api.get("/v1/server").await.expect(200);
    assert_eq!(node.body["shards_owned"], node.body["shards_total"]);
    let job = api.get(&format!("/v1/jobs/{id}")).await.expect(200);
    assert_eq!(job.str("/attempts/0/worker"), worker["id"].as_str().expect("an id"));
    assert_eq!(job.str("/attempts/0/server"), node.str("/id"));
    assert_eq!(job.body.pointer("/attempts/0/finished_at"), None::<&Value>);
}

async fn visit_identities(world: &World) {
    let api = &world.api;
    assert_eq!(api.get("/v1/whoami").await.expect(200).str("/name"), "local");
    let made =
        api.post("/v1/keys", json!({ "name": "ci", "rights": ["jobs.view"], "expires_in": "P90D" })).await.expect(201);
    assert_eq!(made.body.pointer("/key/rights"), Some(&json!(["jobs.view"])));
    api.post("/v1/keys", json!({ "name": "ci", "role": "viewer" })).await.refused(409, "key_exists");
    api.post("/v1/keys/ci/rotate", json!({ "overlap": "1h" })).await.expect(201);
    api.get("/v1/keys").await.expect(200);
    api.get(&format!("/v1/keys/{}", made.str("/key/id"))).await.expect(200);
    api.delete("/v1/keys/ci").await.expect(204);
    api.get("/v1/keys/ci").await.refused(404, "key_not_found");
    let user =
        json!({ "name": "ana", "role": "viewer", "password": "correct horse battery", "mail": "ana@example.com" });
    api.post("/v1/users", user).await.expect(201);
    api.get("/v1/users").await.expect(200);
    api.get("/v1/users/ana").await.expect(200);
    let path = "/v1/users/ana";
    api.send(reqwest::Method::PATCH, path, Some(json!({ "role": "operator" })), &[]).await.expect(200);
    api.put("/v1/users/ana/password", json!({ "password": "short" })).await.refused(400, "invalid_request");
    api.put("/v1/users/ana/password", json!({ "password": "another long password" })).await.expect(204);
    let login = json!({ "name": "ana", "password": "another long password" });
    let session = api.post("/v1/sessions", login).await.expect(201);
    api.get("/v1/sessions").await.expect(200);
    api.delete(&format!("/v1/sessions/{}", session.str("/session/id"))).await.expect(204);
    api.delete("/v1/users/ana").await.expect(204);
}

async fn visit_namespaces(world: &World) {
    let api = &world.api;
    api.post("/v1/namespaces", json!({ "name": "Team A" })).await.refused(400, "invalid_request");
    api.post("/v1/namespaces", json!({ "name": "team-a", "description": "Billing" })).await.expect(201);
    api.post("/v1/namespaces", json!({ "name": "team-a" })).await.refused(409, "namespace_exists");
    let list = api.get("/v1/namespaces").await.expect(200);
    let names = ["/namespaces/0/name", "/namespaces/1/name"].map(|pointer| list.str(pointer));
    assert_eq!(names, ["default", "team-a"]);
    let etag = api.get("/v1/namespaces/team-a").await.expect(200);
    let etag = etag.header("etag").expect("an ETag").to_owned();
    let patch = async |etag: &str| {
        let edit = json!({ "description": "" });
        api.send(reqwest::Method::PATCH, "/v1/namespaces/team-a", Some(edit), &[("If-Match", etag)]).await
    };
    patch(&etag).await.expect(200);
    patch(&etag).await.refused(412, "revision_conflict");
    let chosen = [("Punctual-Namespace", "team-a")];
    let task = json!({ "run": { "probe": {} } });
    api.send(reqwest::Method::PUT, "/v1/tasks/own", Some(task), &chosen).await.expect(201);
    api.get("/v1/tasks/own").await.refused(404, "task_not_found");
    api.delete("/v1/namespaces/team-a").await.refused(409, "namespace_in_use");
    api.send(reqwest::Method::DELETE, "/v1/tasks/own", None, &chosen).await.expect(204);
    api.delete("/v1/namespaces/team-a").await.expect(204);
    api.send(reqwest::Method::GET, "/v1/tasks", None, &chosen).await.refused(404, "namespace_not_found");
}
