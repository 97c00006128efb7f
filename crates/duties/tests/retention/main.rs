//! Retention: each namespace lets go of its own history after its own period, and of nothing else.

#[path = "../../../app/tests/world/peers.rs"]
mod peers;
#[path = "../../../app/tests/schedules/worker.rs"]
#[expect(dead_code, reason = "tests of schedules use more of it")]
mod worker;
#[path = "../../../app/tests/schedules/world.rs"]
#[expect(dead_code, reason = "tests of schedules use more of it")]
mod world;

use std::sync::Arc;
use std::time::Duration;

use punctual_api::{
    ArtifactKind, ArtifactRequest, ErrorKind, JobRequest, NamespaceRequest, QuotasEdit, ScheduleRequest,
};
use punctual_app::permission::{
    EditArtifacts, EditSchedules, ManageNamespaces, SubmitJobs, ViewArtifacts, ViewJobs, ViewSchedules,
};
use punctual_app::{App, By, Permission, SocketUser, Transport};
use punctual_core::{AttemptNo, JobId, Span};
use punctual_duties::{Context, Duty, Retention};
use punctual_engine::RETENTION;
use punctual_store::LogChunk;
use punctual_store_tests::fixture::text;

use crate::worker::{Lasts, Worker};
use crate::world::{World, by, eventually};

/// Of the namespace that has a retention of its own; the cluster's is an hour.
const OWN: &str = "10m";

fn by_in<R: Permission>(app: &App, namespace: &str) -> By<R> {
    let local = Transport { socket_user: SocketUser::Own, ..Transport::default() };
    Arc::new(app.authenticate(&local, None, Some(namespace)).unwrap()).permit().unwrap()
}

/// The retention of a world, which ticks when the test says so.
struct Ticked {
    world: World,
    retention: Retention,
}

impl Ticked {
    async fn new() -> Self {
        let world = World::new().await;
        let context = Context {
            app: world.owner.clone(),
            store: Arc::clone(&world.store),
            engine: world.engine.clone(),
            blobs: world.blobs.clone(),
            settings: world.settings.clone(),
            prune_every: Span::from_secs(60),
        };
        eventually("it holds the lease", || async { world.engine.holds(RETENTION) }).await;
        let retention = Retention::new(&context);
        world.owner.refresh_namespaces().await.unwrap();
        for name in ["team-a", "team-b"] {
            let quotas = match name {
                "team-a" => serde_json::from_str(&format!(r#"{{"retention":"{OWN}"}}"#)).unwrap(),
                _ => QuotasEdit::default(),
            };
            let request = NamespaceRequest { name: name.to_owned(), quotas, ..NamespaceRequest::default() };
            world.owner.create_namespace(&by::<ManageNamespaces>(&world.owner), request).await.unwrap();
        }
        Self { world, retention }
    }

    async fn pass(&mut self, secs: i64) {
        self.world.pass(Span::from_secs(secs));
        self.retention.tick().await.unwrap();
    }

    /// A job that ran and printed something.
    async fn ran(&self, namespace: &str) -> JobId {
        let app = &self.world.owner;
        let request: JobRequest = serde_json::from_str(r#"{"inline":{"run":{"probe":{}}}}"#).unwrap();
        let id = app.submit(&by_in::<SubmitJobs>(app, namespace), request, None, None).await.unwrap().answer.id;
        let chunk = LogChunk { job: id, attempt: AttemptNo(1), offset: 0, bytes: text("hello"), marks: text("") };
        app.append_logs(vec![chunk]).await.unwrap();
        eventually("it has ended", || async {
            app.job(&by_in::<ViewJobs>(app, namespace), id, None).await.unwrap().state == "succeeded"
        })
        .await;
        id
    }

    /// Whether the job and its log are there: both or neither.
    async fn is_there(&self, namespace: &str, id: JobId) -> bool {
        let found = self.world.owner.job(&by_in::<ViewJobs>(&self.world.owner, namespace), id, None).await;
        let log = self.world.store.log_end(id, AttemptNo(1)).await.unwrap();
        match found {
            Ok(_) => assert_eq!(log, 5, "the log of a job that is there"),
            Err(error) => assert_eq!((error.kind, log), (ErrorKind::JobNotFound, 0), "{error}"),
        }
        log > 0
    }
}

#[tokio::test]
async fn a_namespace_lets_go_of_its_jobs_and_logs_after_its_own_period_and_others_after_theirs() {
    let mut ticked = Ticked::new().await;
    let _worker = Worker::start(&ticked.world.owner, Lasts::For(Duration::ZERO)).await;
    let names = ["team-a", "team-b", "default"];
    let mut jobs = Vec::new();
    for name in names {
        jobs.push((name, ticked.ran(name).await));
    }
    let there = async |ticked: &Ticked| {
        let mut there = Vec::new();
        for (name, id) in &jobs {
            there.push(ticked.is_there(name, *id).await);
        }
        there
    };
    ticked.pass(570).await;
    assert_eq!(there(&ticked).await, [true, true, true], "the period is not over");
    let young = ticked.ran("team-a").await;
    ticked.pass(60).await;
    assert_eq!(there(&ticked).await, [false, true, true], "only that of the namespace is");
    assert!(ticked.is_there("team-a", young).await, "each by its own end");
    ticked.pass(600).await;
    assert!(!ticked.is_there("team-a", young).await);
    assert_eq!(there(&ticked).await, [false, true, true]);
    ticked.pass(3600).await;
    assert_eq!(there(&ticked).await, [false, false, false], "that of the cluster");
}

#[tokio::test]
async fn definitions_and_artifacts_of_a_namespace_do_not_go_by_its_retention() {
    let mut ticked = Ticked::new().await;
    let app = ticked.world.owner.clone();
    let request = ArtifactRequest { name: None, size: 100, sha256: "ab".repeat(32), kind: ArtifactKind::File };
    let of_a = by_in::<EditArtifacts>(&app, "team-a");
    let (artifact, _) = app.create_artifact(&of_a, request, "http://127.0.0.1:8020").await.unwrap();
    let schedule: ScheduleRequest =
        serde_json::from_str(r#"{"name":"nightly","inline":{"run":{"probe":{}}},"daily":"09:00"}"#).unwrap();
    app.create_schedule(&by_in::<EditSchedules>(&app, "team-a"), schedule, None).await.unwrap();
    ticked.pass(1000).await;
    app.artifact(&by_in::<ViewArtifacts>(&app, "team-a"), artifact.id).await.unwrap();
    app.schedule(&by_in::<ViewSchedules>(&app, "team-a"), "nightly").await.unwrap();
}
