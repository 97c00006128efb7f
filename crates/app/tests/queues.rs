//! Queues: what they show, what pausing and draining them does to requests, and what is refused.

mod world;

use std::sync::Arc;

use punctual_api::{
    ErrorKind, JobRequest, NamespaceRequest, NoteRequest, QueueDefaults, QueueQuery, QueueRequest, QueueView,
};
use punctual_app::permission::{ControlJobs, EditTasks, ManageNamespaces, ServeJobs, SubmitJobs, ViewJobs};
use punctual_app::{App, AppError, By, GivenPolicies, Permission, Precondition, SocketUser, Transport, WorkerHello};
use punctual_core::namespace::ServedNamespaces;
use punctual_core::queue::QueueState;
use punctual_core::schedule::By as ChangedBy;
use punctual_core::shard::event::{StreamId, WorkerSpec};
use punctual_core::task::{Probe, Run, TaskSpec};
use punctual_core::{NamespaceId, Span, WorkerId};
use punctual_engine::{OutgoingReceiver, WorkerSession};
use punctual_store::{QUEUES_MAX, QueueRow, Queues};
use punctual_store_tests::fixture::at;

use world::{World, by};

fn local_in<R: Permission>(app: &App, name: &str) -> By<R> {
    let local = Transport { socket_user: SocketUser::Own, ..Transport::default() };
    Arc::new(app.authenticate(&local, None, Some(name)).unwrap()).permit().unwrap()
}

fn spec(queue: &str) -> TaskSpec {
    TaskSpec { queue: queue.to_owned(), ..TaskSpec::new(Run::Probe(Probe::default())) }
}

async fn with_task(app: &App, by: &By<EditTasks>, queue: &str) {
    app.create_task(by, format!("of-{queue}"), spec(queue)).await.unwrap();
}

fn note(text: &str) -> NoteRequest {
    NoteRequest { note: Some(text.to_owned()) }
}

async fn names(app: &App, limit: &str, cursor: Option<String>) -> (Vec<String>, Option<String>) {
    let query = QueueQuery { limit: Some(limit.to_owned()), cursor };
    let list = app.list_queues(&by::<ViewJobs>(app), &query).await.unwrap();
    (list.queues.into_iter().map(|queue| queue.name).collect(), list.next_cursor)
}

async fn submit(app: &App, by: &By<SubmitJobs>, task: &str) -> Result<(), AppError> {
    let request = JobRequest { task: Some(task.to_owned()), ..JobRequest::default() };
    app.submit(by, request, None, None).await.map(drop)
}

#[tokio::test]
async fn queues_are_listed_by_name_page_by_page_wherever_they_come_from() {
    let world = World::new().await;
    let app = &world.app;
    for queue in ["web", "mail", "a-b"] {
        with_task(app, &by(app), queue).await;
    }
    app.put_queue(&by(app), "ahead", QueueRequest::default(), Precondition::None).await.unwrap();
    app.pause_queue(&by(app), "mail", NoteRequest::default()).await.unwrap();
    let (first, cursor) = names(app, "3", None).await;
    assert_eq!((&first[..], cursor.as_deref()), (&["a-b", "ahead", "mail"].map(str::to_owned)[..], Some("after:mail")));
    for bad in ["garbage", "mail", "after:"] {
        let query = QueueQuery { limit: None, cursor: Some(bad.to_owned()) };
        let error = app.list_queues(&by::<ViewJobs>(app), &query).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest, "{bad}");
    }
    let (rest, cursor) = names(app, "3", cursor).await;
    assert_eq!((&rest[..], cursor), (&["web".to_owned()][..], None));
}

/// A worker that serves a queue, until it is dropped.
fn serve(app: &App, number: u64, queue: &str, namespaces: ServedNamespaces) -> (WorkerSession, OutgoingReceiver) {
    let spec = WorkerSpec {
        namespaces,
        queues: vec![queue.to_owned()],
        capabilities: vec!["probe".to_owned()],
        labels: Default::default(),
        credit: 1,
    };
    let hello = WorkerHello {
        worker: WorkerId::new(at(0), number),
        name: format!("w{number}"),
        host: None,
        version: "0".to_owned(),
        spec,
        held: Vec::new(),
        acquired: 0,
        commands_as: String::new(),
    };
    app.connect_worker(&by::<ServeJobs>(app), StreamId(number), hello).unwrap()
}

#[tokio::test]
async fn the_queues_of_workers_of_one_namespace_are_there_and_those_of_shared_workers_are_not_shown_to_tenants() {
    let world = World::new().await;
    let app = &world.app;
    let _alone = serve(app, 1, "alone", ServedNamespaces::All);
    assert_eq!(names(app, "9", None).await.0, ["alone"], "there is one namespace");
    app.refresh_namespaces().await.unwrap();
    let request = NamespaceRequest { name: "team-a".to_owned(), ..NamespaceRequest::default() };
    app.create_namespace(&by::<ManageNamespaces>(app), request).await.unwrap();
    let tenant = local_in::<ViewJobs>(app, "team-a");
    let only = |ids: &[NamespaceId]| ServedNamespaces::Only(ids.iter().copied().collect());
    let _images = serve(app, 2, "images", only(&[tenant.namespace()]));
    let _shared = serve(app, 3, "shared", only(&[tenant.namespace(), NamespaceId::DEFAULT]));
    let _theirs = serve(app, 4, "theirs", only(&[NamespaceId::DEFAULT]));
    let seen = app.list_queues(&tenant, &QueueQuery::default()).await.unwrap().queues;
    assert_eq!(seen.iter().map(|queue| queue.name.as_str()).collect::<Vec<_>>(), ["images"]);
    assert!(app.queue(&tenant, "images").await.unwrap().is_served);
    for other in ["alone", "shared", "theirs"] {
        assert_eq!(app.queue(&tenant, other).await.unwrap_err().kind, ErrorKind::QueueNotFound, "{other}");
    }
}

#[tokio::test]
async fn a_queue_that_nothing_names_is_not_there_and_cannot_be_paused_by_a_slip() {
    let world = World::new().await;
    let app = &world.app;
    with_task(app, &by(app), "mail").await;
    for name in ["mial", "mai", "mail-", "zzz", "0"] {
        let error = app.pause_queue(&by(app), name, NoteRequest::default()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::QueueNotFound, "{name}");
        assert_eq!(app.queue(&by(app), name).await.unwrap_err().kind, ErrorKind::QueueNotFound, "{name}");
    }
    assert_eq!(world.store.queues_now().rows, []);
    let bad = app.pause_queue(&by(app), "m l", NoteRequest::default()).await.unwrap_err();
    assert_eq!(bad.kind, ErrorKind::InvalidRequest);
    let long = app.pause_queue(&by(app), "mail", note(&"x".repeat(257))).await.unwrap_err();
    assert_eq!(long.kind, ErrorKind::InvalidRequest);
}

#[tokio::test]
async fn a_pause_says_who_and_why_and_asking_again_changes_nothing() {
    let world = World::new().await;
    let app = &world.app;
    with_task(app, &by(app), "mail").await;
    let before = app.queue(&by(app), "mail").await.unwrap();
    assert_eq!((before.state.as_str(), before.revision, before.state_changed.is_none()), ("active", 0, true));
    let resumed = app.resume_queue(&by(app), "mail", NoteRequest::default()).await.unwrap();
    assert_eq!((resumed.revision, resumed.changed), (0, None), "it was active");
    let paused = app.pause_queue(&by(app), "mail", note("the provider is down")).await.unwrap();
    assert_eq!((paused.state.as_str(), paused.note.as_deref()), ("paused", Some("the provider is down")));
    assert_eq!(paused.state_changed.as_ref().unwrap().who, "local");
    let again = app.pause_queue(&by(app), "mail", NoteRequest::default()).await.unwrap();
    assert_eq!((again.revision, again.note), (1, paused.note));
    world.pass(60);
    let other = app.pause_queue(&by(app), "mail", note("still down")).await.unwrap();
    let later = other.state_changed.as_ref().unwrap().at.since(again.state_changed.unwrap().at);
    assert_eq!(later, Span::from_secs(60));
    assert_eq!((other.revision, other.note.as_deref()), (2, Some("still down")));
    let described = QueueRequest { description: Some("mails".to_owned()), ..QueueRequest::default() };
    let described = app.put_queue(&by(app), "mail", described, Precondition::Revision(2)).await.unwrap();
    assert_eq!((described.state.as_str(), described.note.as_deref()), ("paused", Some("still down")), "it stays");
    let resumed = app.resume_queue(&by(app), "mail", NoteRequest::default()).await.unwrap();
    assert_eq!((resumed.state.as_str(), resumed.note, resumed.revision), ("active", None, 4));
    assert_eq!(resumed.description.as_deref(), Some("mails"));
}

#[tokio::test]
async fn a_draining_queue_refuses_submissions_and_no_other_queue_does() {
    let world = World::new().await;
    let app = &world.app;
    for queue in ["mail", "web"] {
        with_task(app, &by(app), queue).await;
    }
    app.drain_queue(&by(app), "mail", note("moving to web")).await.unwrap();
    let error = submit(app, &by(app), "of-mail").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::QueueDraining);
    assert!(
        error.detail.contains("queue mail is draining since") && error.detail.ends_with("moving to web"),
        "{error:?}"
    );
    submit(app, &by(app), "of-web").await.unwrap();
    // A pause in its place accepts jobs again.
    app.pause_queue(&by(app), "mail", NoteRequest::default()).await.unwrap();
    submit(app, &by(app), "of-mail").await.unwrap();
}

#[tokio::test]
async fn an_owner_that_does_not_answer_is_named() {
    let world = World::new().await;
    let app = &world.app;
    with_task(app, &by(app), "mail").await;
    let gone = punctual_store_tests::fixture::server(9);
    world.store.acquire_now(gone, Span::from_secs(1), 1).unwrap();
    let paused = app.pause_queue(&by(app), "mail", NoteRequest::default()).await.unwrap();
    assert_eq!(paused.unconfirmed_servers, [gone], "its lease may be over, and nobody has taken its shard");
}

#[tokio::test]
async fn each_namespace_has_queues_of_its_own() {
    let world = World::new().await;
    let app = &world.app;
    app.refresh_namespaces().await.unwrap();
    let request = NamespaceRequest { name: "team-a".to_owned(), ..NamespaceRequest::default() };
    app.create_namespace(&by::<ManageNamespaces>(app), request).await.unwrap();
    with_task(app, &by(app), "mail").await;
    let tenant = local_in::<ControlJobs>(app, "team-a");
    let error = app.pause_queue(&tenant, "mail", NoteRequest::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::QueueNotFound);
    with_task(app, &local_in(app, "team-a"), "mail").await;
    app.drain_queue(&tenant, "mail", NoteRequest::default()).await.unwrap();
    assert_eq!(submit(app, &local_in(app, "team-a"), "of-mail").await.unwrap_err().kind, ErrorKind::QueueDraining);
    submit(app, &by(app), "of-mail").await.unwrap();
    let own: QueueView = app.queue(&by(app), "mail").await.unwrap();
    assert_eq!(own.state, "active");
}

#[tokio::test]
async fn defaults_hold_for_tasks_that_name_no_such_policy() {
    let world = World::new().await;
    let app = &world.app;
    let defaults = QueueDefaults { timeout: Some(Span::from_secs(5)), ..QueueDefaults::default() };
    let request = QueueRequest { defaults, ..QueueRequest::default() };
    app.put_queue(&by(app), "mail", request, Precondition::None).await.unwrap();
    let of = async |queue: &str, given: &[u8]| {
        let by = by::<EditTasks>(app);
        app.with_queue_defaults(&by, spec(queue), GivenPolicies::of_spec(given)).await.unwrap().timeout
    };
    assert_eq!(of("mail", b"{}").await, Span::from_secs(5));
    assert_eq!(of("mail", br#"{"timeout":"1h"}"#).await, spec("mail").timeout);
    assert_eq!(of("web", b"{}").await, spec("web").timeout);
}

#[tokio::test]
async fn defaults_that_no_task_could_have_are_refused_with_their_place() {
    let world = World::new().await;
    let app = &world.app;
    for (defaults, place) in [
        (r#"{"timeout":0}"#, "/defaults/timeout"),
        (r#"{"timeout":"31d"}"#, "/defaults/timeout"),
        (r#"{"queue_timeout":0}"#, "/defaults/queue_timeout"),
        (r#"{"retry":{"max":1001}}"#, "/defaults/retry"),
        (r#"{"retry":{"factor":0.5}}"#, "/defaults/retry"),
        (r#"{"node_retry":{"except":["task"]}}"#, "/defaults/node_retry/except"),
    ] {
        let request = QueueRequest { defaults: serde_json::from_str(defaults).unwrap(), ..QueueRequest::default() };
        let error = app.put_queue(&by(app), "mail", request, Precondition::None).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidRequest, "{defaults}");
        assert!(error.errors.iter().any(|field| field.pointer.starts_with(place)), "{defaults}: {error:?}");
    }
    let stale = app.put_queue(&by(app), "mail", QueueRequest::default(), Precondition::Revision(3)).await.unwrap_err();
    assert_eq!(stale.kind, ErrorKind::RevisionConflict);
    assert_eq!(world.store.queues_now().rows, []);
}

#[tokio::test]
async fn a_namespace_has_only_so_many_queues_with_settings() {
    let world = World::new().await;
    let app = &world.app;
    for number in 0..QUEUES_MAX {
        let by = ChangedBy { at: punctual_core::Timestamp::EPOCH, who: "local".to_owned() };
        let row = QueueRow {
            namespace: punctual_core::NamespaceId::DEFAULT,
            name: format!("q{number}"),
            revision: 1,
            state: QueueState::Active,
            state_by: by.clone(),
            note: None,
            changed: by,
            spec: "{}".to_owned(),
        };
        world.store.put_queue(row).await.unwrap();
    }
    let error = app.put_queue(&by(app), "one-more", QueueRequest::default(), Precondition::None).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooManyQueues);
    app.pause_queue(&by(app), "q0", NoteRequest::default()).await.unwrap();
    // A queue can be stopped although as many are described as may be.
    with_task(app, &by(app), "incident").await;
    app.pause_queue(&by(app), "incident", NoteRequest::default()).await.unwrap();
}
