//! Every route and call against everybody who may send it. A route or a call that is not in its table fails the test. Principals
//! are made up here; the end-to-end tests `hostile_clients::every_route` send credentials that a server made.

mod calls;
mod tenants;
#[path = "../../app/tests/world/mod.rs"]
pub(crate) mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody as _};
use http::{Request, Response, StatusCode, header};
use punctual_api::{AuditExportQuery, AuditQuery, NamespaceRequest};
use punctual_app::{AuditVerifier, Namespace, Principal, SocketUser, Transport};
use punctual_core::access::{Reach, Right, Rights, Role};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use self::world::{World, by};
use crate::{Network, Rest, access, audited};

/// What an operation asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Right(Right),
    /// Somebody who proved who they are.
    Anybody,
    /// Nothing, or a credential of its own: the token of an attempt, a signed address.
    Open,
}

use Needs::{Anybody, Open};

const fn right(right: Right) -> Needs {
    Needs::Right(right)
}

/// By `operationId`.
const TABLE: &[(&str, Needs)] = &[
    ("view_overview", right(Right::ViewJobs)),
    ("find", right(Right::ViewJobs)),
    ("view_jobs", right(Right::ViewJobs)),
    ("view_job", right(Right::ViewJobs)),
    ("view_job_form", right(Right::SubmitJobs)),
    ("preview_job", right(Right::SubmitJobs)),
    ("view_tasks", right(Right::ViewTasks)),
    ("view_task", right(Right::ViewTasks)),
    ("view_schedules", right(Right::ViewSchedules)),
    ("view_schedule", right(Right::ViewSchedules)),
    ("view_schedule_form", right(Right::EditSchedules)),
    ("view_schedule_edit", right(Right::ViewSchedules)),
    ("view_workflows", right(Right::ViewTasks)),
    ("view_workflow", right(Right::ViewTasks)),
    ("view_runs", right(Right::ViewJobs)),
    ("view_run", right(Right::ViewJobs)),
    ("view_queues", right(Right::ViewJobs)),
    ("view_workers", right(Right::ViewWorkers)),
    ("view_cluster", right(Right::ViewCluster)),
    ("view_notifications", right(Right::ViewNotifications)),
    ("view_artifacts", right(Right::ViewArtifacts)),
    ("view_secrets", right(Right::ViewSecrets)),
    ("view_keys", right(Right::CreateKeys)),
    ("view_people", right(Right::ManagePeople)),
    ("view_namespaces", right(Right::ViewJobs)),
    ("view_audit", right(Right::ReadAudit)),
    ("view_login", Open),
    ("view_asset", Open),
    ("log_out", Anybody),
    ("set_preferences", Anybody),
    ("list_tasks", right(Right::ViewTasks)),
    ("create_task", right(Right::EditTasks)),
    ("get_task", right(Right::ViewTasks)),
    ("apply_task", right(Right::EditTasks)),
    ("delete_task", right(Right::EditTasks)),
    ("list_artifacts", right(Right::ViewArtifacts)),
    ("create_artifact", right(Right::EditArtifacts)),
    ("get_artifact", right(Right::ViewArtifacts)),
    ("delete_artifact", right(Right::EditArtifacts)),
    ("download_artifact", Open),
    ("upload_artifact", Open),
    ("list_jobs", right(Right::ViewJobs)),
    ("create_job", right(Right::SubmitJobs)),
    ("create_jobs", right(Right::SubmitJobs)),
    ("get_job", right(Right::ViewJobs)),
    ("delete_job", right(Right::ControlJobs)),
    ("cancel_job", right(Right::ControlJobs)),
    ("retry_job", right(Right::ControlJobs)),
    ("run_job_now", right(Right::ControlJobs)),
    ("get_logs", right(Right::ViewLogs)),
    ("get_log_lines", right(Right::ViewLogs)),
    ("watch_job", right(Right::ViewJobs)),
    ("watch_jobs", right(Right::ViewJobs)),
    ("list_schedules", right(Right::ViewSchedules)),
    ("create_schedule", right(Right::EditSchedules)),
    ("create_schedules", right(Right::EditSchedules)),
    ("preview", right(Right::ViewSchedules)),
    ("forecast", right(Right::ViewSchedules)),
    ("get_schedule", right(Right::ViewSchedules)),
    ("apply_schedule", right(Right::EditSchedules)),
    ("delete_schedule", right(Right::EditSchedules)),
    ("pause_schedule", right(Right::ControlSchedules)),
    ("resume_schedule", right(Right::ControlSchedules)),
    ("skip_schedule", right(Right::ControlSchedules)),
    ("run_schedule", right(Right::ControlSchedules)),
    ("clear_schedule_queue", right(Right::ControlSchedules)),
    ("list_occurrences", right(Right::ViewSchedules)),
    ("preview_schedule", right(Right::ViewSchedules)),
    ("list_batches", right(Right::ViewJobs)),
    ("create_batch", right(Right::SubmitJobs)),
    ("get_batch", right(Right::ViewJobs)),
    ("list_batch_members", right(Right::ViewJobs)),
    ("cancel_batch", right(Right::ControlJobs)),
    ("list_workflows", right(Right::ViewTasks)),
    ("get_workflow", right(Right::ViewTasks)),
    ("apply_workflow", right(Right::EditTasks)),
    ("create_run", right(Right::SubmitJobs)),
    ("list_runs", right(Right::ViewJobs)),
    ("get_run", right(Right::ViewJobs)),
    ("cancel_run", right(Right::ControlJobs)),
    ("resume_run", right(Right::ControlJobs)),
    ("rerun", right(Right::SubmitJobs)),
    ("skip_node", right(Right::ControlJobs)),
    ("decide_gate", right(Right::ControlJobs)),
    ("send_run_event", right(Right::ControlJobs)),
    ("create_backfill", right(Right::ControlSchedules)),
    ("list_backfills", right(Right::ViewSchedules)),
    ("get_backfill", right(Right::ViewSchedules)),
    ("list_backfill_runs", right(Right::ViewSchedules)),
    ("abort_backfill", right(Right::ControlSchedules)),
    ("list_calendars", right(Right::ViewSchedules)),
    ("get_calendar", right(Right::ViewSchedules)),
    ("apply_calendar", right(Right::EditSchedules)),
    ("delete_calendar", right(Right::EditSchedules)),
    ("list_queues", right(Right::ViewJobs)),
    ("get_queue", right(Right::ViewJobs)),
    ("apply_queue", right(Right::EditTasks)),
    ("pause_queue", right(Right::ControlJobs)),
    ("resume_queue", right(Right::ControlJobs)),
    ("drain_queue", right(Right::ControlJobs)),
    ("list_notifications", right(Right::ViewNotifications)),
    ("preview_notification", right(Right::ViewNotifications)),
    ("get_notification", right(Right::ViewNotifications)),
    ("apply_notification", right(Right::EditNotifications)),
    ("delete_notification", right(Right::EditNotifications)),
    ("test_notification", right(Right::EditNotifications)),
    ("list_notification_deliveries", right(Right::ViewNotifications)),
    ("list_deliveries", right(Right::ViewNotifications)),
    ("get_overdue", right(Right::ViewJobs)),
    ("list_keys", right(Right::CreateKeys)),
    ("create_key", right(Right::CreateKeys)),
    ("get_key", right(Right::CreateKeys)),
    ("rotate_key", right(Right::CreateKeys)),
    ("revoke_key", right(Right::CreateKeys)),
    ("list_users", right(Right::ManagePeople)),
    ("create_user", right(Right::ManagePeople)),
    ("get_user", right(Right::ManagePeople)),
    ("edit_user", right(Right::ManagePeople)),
    ("delete_user", right(Right::ManagePeople)),
    ("set_password", Anybody),
    ("login", Open),
    ("begin_browser_login", Open),
    ("finish_browser_login", Open),
    ("exchange_login", Open),
    ("begin_device_login", Open),
    ("poll_device_login", Open),
    ("list_sessions", Anybody),
    ("end_session", Anybody),
    ("whoami", Anybody),
    ("list_secrets", right(Right::ViewSecrets)),
    ("set_secret", right(Right::EditSecrets)),
    ("delete_secret", right(Right::EditSecrets)),
    ("rotate_root_key", right(Right::ManageCluster)),
    ("rotate_data_key", right(Right::ManageCluster)),
    ("list_audit", right(Right::ReadAudit)),
    ("export_audit", right(Right::ReadAudit)),
    ("list_namespaces", Anybody),
    ("create_namespace", right(Right::ManageNamespaces)),
    ("get_namespace", Anybody),
    ("edit_namespace", right(Right::ManageNamespaces)),
    ("delete_namespace", right(Right::ManageNamespaces)),
    ("list_workers", right(Right::ViewWorkers)),
    ("create_worker_token", right(Right::ManageWorkers)),
    ("list_worker_tokens", right(Right::ManageWorkers)),
    ("edit_worker_token", right(Right::ManageWorkers)),
    ("delete_worker_token", right(Right::ManageWorkers)),
    ("list_worker_enrolments", right(Right::ViewWorkers)),
    ("edit_worker", right(Right::ManageWorkers)),
    ("revoke_worker", right(Right::ManageWorkers)),
    ("get_authority", right(Right::ViewCluster)),
    ("rotate_authority", right(Right::ManageCluster)),
    ("get_cluster_secret", right(Right::ViewCluster)),
    ("rotate_cluster_secret", right(Right::ManageCluster)),
    ("retire_cluster_secret", right(Right::ManageCluster)),
    ("list_servers", right(Right::ViewCluster)),
    ("get_server", right(Right::ViewCluster)),
    ("get_stats", right(Right::ViewCluster)),
    ("get_agent_work", Open),
    ("beat_agent", Open),
    ("append_agent_log", Open),
    ("end_agent_attempt", Open),
    ("live", Open),
    ("ready", Open),
    ("get_problem", Open),
    ("get_openapi", Anybody),
];

struct Operation {
    id: String,
    method: String,
    path: String,
}

fn operations() -> Vec<Operation> {
    let document = crate::openapi();
    let paths = document["paths"].as_object().expect("there are paths");
    let each = paths.iter().flat_map(|(path, methods)| {
        methods.as_object().expect("a path has methods").iter().map(|(method, operation)| Operation {
            id: operation["operationId"].as_str().expect("an id").to_owned(),
            method: method.to_uppercase(),
            path: path.clone(),
        })
    });
    let pages = crate::pages::ROUTES.iter().map(|route| Operation {
        id: route.operation.to_owned(),
        method: route.method.to_string(),
        path: route.path.to_owned(),
    });
    each.chain(pages).collect()
}

fn needs(id: &str) -> Needs {
    let found = TABLE.iter().find(|(known, _)| *known == id);
    found.unwrap_or_else(|| panic!("{id} is not in the table: say which right it needs")).1
}

/// Whoever sends a request.
#[derive(Debug, Clone)]
enum Sender {
    Nobody,
    Malformed,
    Somebody(Principal),
}

fn with_rights(rights: Rights) -> Sender {
    Sender::Somebody(Principal::made_up("key:test", rights))
}

fn local() -> Sender {
    with_rights(Rights::all())
}

fn request(sender: &Sender, method: &str, path: &str, body: Option<Value>) -> Request<Body> {
    let path = path
        .replace("{name}", "nothing")
        .replace("{key}", "nothing")
        .replace("{user}", "nobody")
        .replace("{session}", "0000000000000001")
        .replace("{job}", "job_01m7et433kee4803yssgvaf2fh")
        .replace("{attempt}", "1")
        .replace("{node}", "nothing")
        .replace("{code}", "forbidden");
    let path = path.replace("/v1/worker-tokens/{id}", "/v1/worker-tokens/jointoken_01m7et433kee4803yssgvaf2fh");
    let path = path.replace("/v1/worker-enrolments/{id}", "/v1/worker-enrolments/enrolment_01m7et433kee4803yssgvaf2fh");
    let kinds = [("artifacts", "artifact"), ("backfills", "backfill"), ("batches", "batch"), ("runs", "run")];
    let kind = kinds.into_iter().find(|(kind, _)| path.contains(kind)).map_or("job", |(_, prefix)| prefix);
    let path = path.replace("{id}", &format!("{kind}_01m7et433kee4803yssgvaf2fh"));
    let mut request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
    let transport = Transport { socket_user: SocketUser::Other(4711), ..Transport::default() };
    request = request.extension(transport);
    match sender {
        Sender::Nobody => {}
        Sender::Malformed => request = request.header(header::AUTHORIZATION, "Bearer punctual_nonsense"),
        Sender::Somebody(principal) => request = request.extension(principal.clone()),
    }
    match body {
        Some(body) => {
            let request = request.header(header::CONTENT_TYPE, "application/json");
            request.body(Body::from(body.to_string())).expect("a request")
        }
        None => request.body(Body::empty()).expect("a request"),
    }
}

async fn send(router: &Router, request: Request<Body>) -> Response<Body> {
    router.clone().oneshot(request).await.expect("the router answers")
}

async fn code(response: Response<Body>) -> String {
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
    problem["code"].as_str().unwrap_or_default().to_owned()
}

async fn status_of(router: &Router, sender: &Sender, operation: &Operation) -> (StatusCode, String) {
    let takes_body = ["POST", "PUT", "PATCH"].contains(&operation.method.as_str());
    let body = takes_body.then(|| json!({}));
    let response = send(router, request(sender, &operation.method, &operation.path, body)).await;
    let status = response.status();
    if status.is_success() {
        // It may be a stream without an end.
        return (status, String::new());
    }
    (status, code(response).await)
}

fn router(world: &World) -> Router {
    crate::router(world.app.clone(), Rest::Served, Network::default(), 100)
}

#[test]
fn every_operation_is_in_the_table_once() {
    let mut left: BTreeMap<&str, Needs> = TABLE.iter().copied().collect();
    assert_eq!(left.len(), TABLE.len(), "one is there twice");
    for Operation { id, path, method } in operations() {
        let needs = needs(&id);
        assert_eq!(
            access::is_open(&method.parse().expect("a method"), &path),
            needs == Open,
            "{id}: `access` says otherwise"
        );
        left.remove(id.as_str());
    }
    assert!(left.is_empty(), "these are no operations: {left:?}");
    for id in audited::LEFT_OUT {
        needs(id);
    }
}

#[tokio::test]
async fn every_operation_is_closed_to_everybody_without_its_right() {
    let world = World::new().await;
    let router = router(&world);
    for operation in operations() {
        let (id, needs) = (&operation.id, needs(&operation.id));
        if needs == Open {
            let (status, code) = status_of(&router, &Sender::Nobody, &operation).await;
            assert!(!["unauthenticated", "forbidden"].contains(&code.as_str()), "{id}: {status} {code}");
            continue;
        }
        let (status, code) = status_of(&router, &Sender::Nobody, &operation).await;
        assert_eq!((status.as_u16(), code.as_str()), (401, "unauthenticated"), "{id} without a credential");
        let (status, code) = status_of(&router, &Sender::Malformed, &operation).await;
        assert_eq!((status.as_u16(), code.as_str()), (401, "invalid_token"), "{id} with a malformed credential");
        let mut senders = vec![(local(), true)];
        if let Needs::Right(right) = needs {
            let only = Rights::of(&[right]);
            senders.extend([(with_rights(only), true), (with_rights(Rights::all().without(only)), false)]);
            senders.extend(Role::ALL.map(|role| (with_rights(role.rights()), role.rights().contains(right))));
            // The same of a namespace: nothing that is of the cluster.
            let tenant = namespace_of(&world, TENANT).await;
            // It has the lines of all namespaces.
            let is_of_cluster = id == "export_audit";
            senders.extend(Role::ALL.map(|role| {
                let rights = role.rights_in_namespace();
                let sender = Principal::made_up_in(tenant.clone(), "key:team-a/test", rights);
                (Sender::Somebody(sender), rights.contains(right) && !is_of_cluster)
            }));
            let all = Principal::made_up_in(tenant.clone(), "key:team-a/test", Rights::all());
            senders.push((Sender::Somebody(all), right.reach() == Reach::Namespace && !is_of_cluster));
        } else {
            senders.push((with_rights(Rights::NONE), true));
        }
        for (sender, is_let_in) in senders {
            let (status, code) = status_of(&router, &sender, &operation).await;
            let is_refused = code == "forbidden" || status == StatusCode::UNAUTHORIZED;
            assert_eq!(!is_refused, is_let_in, "{id} by {sender:?}: {status} {code}");
            assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{id} by {sender:?}");
        }
    }
}

/// The namespace of this name, which is made if it is not there.
pub(crate) async fn namespace_of(world: &World, name: &str) -> Namespace {
    let local = Transport { socket_user: SocketUser::Own, ..Transport::default() };
    let there = || world.app.authenticate(&local, None, Some(name)).map(|found| found.namespace().clone());
    if let Ok(found) = there() {
        return found;
    }
    let request = NamespaceRequest { name: name.to_owned(), ..NamespaceRequest::default() };
    world.app.create_namespace(&by(&world.app), request).await.expect("a namespace");
    there().expect("it is there")
}

const TENANT: &str = "team-a";

#[tokio::test]
async fn what_reaches_beyond_the_sandbox_takes_a_right_of_its_own() {
    let world = World::new().await;
    let router = router(&world);
    let developer = Role::Developer.rights();
    let command = json!({ "command": { "line": "id" } });
    let private = json!({ "http": { "url": "http://10.0.0.1/" } });
    let program = json!({ "binary": { "artifact": "artifact_01m7et433kee4803yssgvaf2fh", "network": "host" } });
    for (run, right) in
        [(command, Right::UseCommands), (private, Right::UsePrivateAddresses), (program, Right::UseNetwork)]
    {
        let spec = json!({ "run": run });
        let schedule = json!({ "inline": spec, "daily": "09:00" });
        let ask = json!({ "name": "ask", "gate": {} });
        for (method, path, body) in [
            ("PUT", "/v1/tasks/t", spec.clone()),
            ("POST", "/v1/tasks", json!({ "name": "t", "spec": spec })),
            ("POST", "/v1/jobs", json!({ "inline": spec })),
            ("POST", "/v1/jobs/bulk", json!({ "jobs": [{ "task": "t" }, { "inline": spec }] })),
            ("POST", "/v1/batches", json!({ "members": [{ "task": "t" }, { "inline": spec }] })),
            (
                "POST",
                "/v1/batches",
                json!({ "outcome": "all_or_nothing", "compensation": { "inline": spec }, "members": [{ "task": "t" }] }),
            ),
            ("PUT", "/v1/schedules/s", schedule.clone()),
            ("POST", "/v1/schedules", schedule.clone()),
            ("POST", "/v1/schedules/bulk", json!({ "schedules": [schedule] })),
            ("PUT", "/v1/workflows/w", json!({ "nodes": [{ "name": "n", "inline": spec }] })),
            ("PUT", "/v1/workflows/w", json!({ "nodes": [ask], "on_end": [{ "name": "n", "inline": spec }] })),
        ] {
            let response = send(&router, request(&with_rights(developer), method, path, Some(body.clone()))).await;
            assert_eq!(code(response).await, "forbidden", "{method} {path} {right}");
            let granted = with_rights(developer.union(Rights::of(&[right])));
            let response = send(&router, request(&granted, method, path, Some(body))).await;
            assert_ne!(code(response).await, "forbidden", "{method} {path} {right}");
        }
    }
    let inline = json!({ "inline": { "run": { "probe": {} } } });
    let operator = with_rights(Role::Operator.rights());
    let response = send(&router, request(&operator, "POST", "/v1/jobs", Some(inline))).await;
    assert_eq!(code(response).await, "forbidden", "a job that is defined inline defines a task");
}

#[tokio::test]
async fn a_viewer_sees_no_inputs() {
    let world = World::new().await;
    let router = router(&world);
    let run =
        json!({ "http": { "url": "https://example.com/s3cret", "headers": { "X": "s3cret" }, "method": "POST" } });
    let created = json!({ "name": "hook", "spec": { "run": run } });
    assert_eq!(send(&router, request(&local(), "POST", "/v1/tasks", Some(created))).await.status(), 201);
    let submitted = json!({ "task": "hook", "input": "s3cret" });
    let response = send(&router, request(&local(), "POST", "/v1/jobs", Some(submitted))).await;
    assert_eq!(response.status(), 201);
    let text = async |sender: &Sender, path: &str| {
        let response = send(&router, request(sender, "GET", path, None)).await;
        assert_eq!(response.status(), 200, "{path}");
        let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.expect("a body");
        String::from_utf8(body.to_vec()).expect("text")
    };
    let job: Value = serde_json::from_str(&text(&local(), "/v1/jobs").await).expect("JSON");
    let job = format!("/v1/jobs/{}", job["jobs"][0]["id"].as_str().expect("one job"));
    let values = json!({ "field": { "value": "s3cret" } });
    let nodes = json!([{ "name": "ask", "gate": {} }, { "name": "n", "needs": ["ask"], "inline": { "run": run }, "input": values }]);
    let flow = json!({ "nodes": nodes, "output": values });
    assert_eq!(send(&router, request(&local(), "PUT", "/v1/workflows/flow", Some(flow))).await.status(), 201);
    let given = json!({ "input": "s3cret" });
    let started = send(&router, request(&local(), "POST", "/v1/workflows/flow/runs", Some(given))).await;
    assert_eq!(started.status(), 201);
    let run = started.headers()[header::LOCATION].to_str().expect("ASCII").to_owned();
    for path in ["/v1/tasks/hook", "/v1/tasks", job.as_str(), "/v1/workflows/flow", run.as_str()] {
        assert!(text(&local(), path).await.contains("s3cret"), "{path}");
        assert!(!text(&with_rights(Role::Viewer.rights()), path).await.contains("s3cret"), "{path}");
    }
}

#[tokio::test]
async fn a_stream_ends_when_its_credential_does_not_count_any_more() {
    let world = World::new().await;
    // Nothing vouches for this key when the stream is looked at again.
    let response = send(&router(&world), request(&local(), "GET", "/v1/events", None)).await;
    assert_eq!(response.status(), 200);
    let mut body = std::pin::pin!(response.into_body());
    let end = std::future::poll_fn(|context| body.as_mut().poll_frame(context));
    let end = tokio::time::timeout(Duration::from_secs(5), end).await.expect("within 5 s");
    assert!(end.is_none(), "{end:?}");
}

#[tokio::test]
async fn changes_and_refusals_are_on_record() {
    let world = World::new().await;
    let router = router(&world);
    let ana = Sender::Somebody(Principal::made_up("user:ana", Rights::all()));
    let spec = json!({ "run": { "http": { "url": "https://example.com/s3cret" } } });
    for _ in 0..2 {
        assert!(send(&router, request(&ana, "PUT", "/v1/tasks/hook", Some(spec.clone()))).await.status().is_success());
    }
    assert_eq!(send(&router, request(&ana, "POST", "/v1/jobs", Some(json!({ "task": "hook" })))).await.status(), 201);
    let viewer = Sender::Somebody(Principal::made_up("user:eve", Role::Viewer.rights()));
    assert_eq!(send(&router, request(&viewer, "DELETE", "/v1/tasks/hook", None)).await.status(), 403);
    assert_eq!(send(&router, request(&Sender::Malformed, "GET", "/v1/jobs", None)).await.status(), 401);
    assert_eq!(send(&router, request(&ana, "DELETE", "/v1/tasks/hook", None)).await.status(), 204);
    // Nobody waits for the lines of refusals.
    let lines = async || world.app.audit(&by(&world.app), AuditQuery::default()).await.expect("the log").entries;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while lines().await.len() < 5 {
        assert!(tokio::time::Instant::now() < deadline, "{:#?}", lines().await);
        tokio::task::yield_now().await;
    }
    let mut shown: Vec<String> = lines()
        .await
        .into_iter()
        .map(|entry| {
            let line = entry.line;
            let (object, before) = (line.object.unwrap_or_default(), line.before.unwrap_or_default());
            format!("{} {} {object} [{before}] {}", line.principal, line.action, line.outcome)
        })
        .collect();
    shown.sort();
    assert_eq!(
        shown,
        [
            "nobody list_jobs  [] invalid_token",
            "user:ana apply_task hook [] done",
            "user:ana apply_task hook [revision 1, http, queue default] done",
            "user:ana delete_task hook [revision 2, http, queue default] done",
            "user:eve delete_task hook [] forbidden",
        ]
    );
    let export = world.app.export_audit(&by(&world.app), AuditExportQuery::default()).await.expect("an export");
    assert!(export.is_complete && !export.lines.concat().contains("s3cret"));
    let mut verifier = AuditVerifier::new(&export.head).expect("a base");
    export.lines.iter().for_each(|line| verifier.line(line).expect("a line of the chain"));
    assert_eq!(verifier.finish(&export.head, None).expect("a head").lines, 5);
}
