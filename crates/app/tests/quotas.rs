//! Quotas of namespaces: what is refused, with which words, and what is not.

mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_api::{
    ArtifactKind, ArtifactRequest, BulkRequest, ErrorKind, JobRequest, NamespaceEdit, NamespaceRequest, NamespaceUsage,
    Quotas, QuotasEdit, ScheduleRequest,
};
use punctual_app::permission::{EditArtifacts, EditSchedules, ManageNamespaces, SubmitJobs};
use punctual_app::{App, AppError, Permission, Precondition, SocketUser, Transport};
use punctual_core::{AttemptNo, JobId, Span};
use punctual_store::{Counted, LogChunk, QuotaUse, Retention};
use punctual_store_tests::fixture::{Owner, at, ended, text};

use world::{RETENTION, World, by};

/// The server's own user in a namespace.
fn local_in<R: Permission>(app: &App, name: &str) -> punctual_app::By<R> {
    let local = Transport { socket_user: SocketUser::Own, ..Transport::default() };
    Arc::new(app.authenticate(&local, None, Some(name)).unwrap()).permit().unwrap()
}

fn quotas(text: &str) -> QuotasEdit {
    serde_json::from_str(text).unwrap()
}

async fn world_with(text: &str) -> World {
    let world = World::new().await;
    world.app.refresh_namespaces().await.unwrap();
    for name in ["team-a", "team-b"] {
        let quotas = if name == "team-a" { quotas(text) } else { QuotasEdit::default() };
        let request = NamespaceRequest { name: name.to_owned(), quotas, ..NamespaceRequest::default() };
        world.app.create_namespace(&by::<ManageNamespaces>(&world.app), request).await.unwrap();
    }
    world
}

async fn edit(app: &App, name: &str, text: &str) -> Result<Quotas, AppError> {
    let edit = NamespaceEdit { quotas: quotas(text), ..NamespaceEdit::default() };
    let edited = app.edit_namespace(&by::<ManageNamespaces>(app), name, edit, Precondition::None).await?;
    Ok(edited.quotas)
}

/// Each is due at a time of its own: another server of a test gives ids without chance.
fn job() -> JobRequest {
    static MADE: AtomicU64 = AtomicU64::new(3600);
    let delay = MADE.fetch_add(1, Ordering::Relaxed);
    serde_json::from_str(&format!(r#"{{"inline":{{"run":{{"probe":{{}}}}}},"delay":{delay}}}"#)).unwrap()
}

async fn submit(app: &App, namespace: &str, count: usize) -> Result<Vec<JobId>, AppError> {
    let by = local_in::<SubmitJobs>(app, namespace);
    if count == 1 {
        return Ok(vec![app.submit(&by, job(), None, None).await?.answer.id]);
    }
    let request = BulkRequest { jobs: (0..count).map(|_| job()).collect() };
    Ok(app.submit_bulk(&by, request, None).await?.answer.ids)
}

async fn usage(app: &App, name: &str) -> NamespaceUsage {
    let by = by::<ManageNamespaces>(app);
    app.namespace(by.principal(), name).await.unwrap().usage.unwrap()
}

#[tokio::test]
async fn jobs_above_the_quota_are_refused_with_its_name_and_figures() {
    let world = world_with(r#"{"stored_jobs":5}"#).await;
    let app = &world.app;
    submit(app, "team-a", 3).await.unwrap();
    let refused = submit(app, "team-a", 3).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::QuotaExceeded);
    assert_eq!(refused.detail, "namespace team-a stores 3 of 5 jobs (quota stored_jobs); this request has 3 more");
    assert_eq!(usage(app, "team-a").await.stored_jobs, 3, "none of a request that is refused");
    submit(app, "team-a", 2).await.unwrap();
    let full = submit(app, "team-a", 1).await.unwrap_err();
    assert_eq!(full.detail, "namespace team-a stores 5 of 5 jobs (quota stored_jobs)");
    submit(app, "team-b", 10).await.unwrap();
    // What other servers accept counts, too: at the latest with the next count.
    let other = world.another_server();
    other.refresh_namespaces().await.unwrap();
    let full = submit(&other, "team-a", 1).await.unwrap_err();
    assert_eq!(full.detail, "namespace team-a stores 5 of 5 jobs (quota stored_jobs)");
}

#[tokio::test]
async fn a_quota_may_be_lower_than_what_is_there_and_be_removed() {
    let world = world_with("{}").await;
    let app = &world.app;
    submit(app, "team-a", 5).await.unwrap();
    assert_eq!(edit(app, "team-a", r#"{"stored_jobs":2}"#).await.unwrap().stored_jobs, Some(2));
    let full = submit(app, "team-a", 1).await.unwrap_err();
    assert_eq!(full.detail, "namespace team-a stores 2 of 2 jobs (quota stored_jobs)");
    assert_eq!(usage(app, "team-a").await.stored_jobs, 5, "nothing was removed");
    edit(app, "team-a", r#"{"stored_jobs":7}"#).await.unwrap();
    submit(app, "team-a", 2).await.unwrap();
    submit(app, "team-a", 1).await.unwrap_err();
    assert_eq!(edit(app, "team-a", r#"{"stored_jobs":null}"#).await.unwrap(), Quotas::default());
    submit(app, "team-a", 1).await.unwrap();
}

#[tokio::test]
async fn of_many_requests_at_once_as_many_are_accepted_as_there_is_room_for() {
    let world = world_with(r#"{"stored_jobs":20}"#).await;
    let app = &world.app;
    let all = futures_util::future::join_all((0..50).map(|_| submit(app, "team-a", 1))).await;
    let accepted = all.iter().filter(|one| one.is_ok()).count();
    assert!(accepted <= 20, "{accepted}");
    // A request that was refused while others were under way may be tried again.
    let begun = std::time::Instant::now();
    let mut stored = accepted;
    while stored < 20 {
        assert!(begun.elapsed() < Duration::from_secs(10), "{stored}");
        stored += usize::from(submit(app, "team-a", 1).await.is_ok());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    submit(app, "team-a", 1).await.unwrap_err();
    assert_eq!(usage(app, "team-a").await.stored_jobs, 20);
}

#[tokio::test]
async fn a_namespace_submits_as_many_jobs_a_second_as_it_may_on_all_servers_together() {
    let world = world_with(r#"{"submissions_per_second":10}"#).await;
    let other = world.another_server();
    other.refresh_namespaces().await.unwrap();
    let servers = [&world.app, &other];
    let mut accepted = 0;
    let refused = loop {
        match submit(servers[accepted % 2], "team-a", 1).await {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 20, "the clock stands still");
    };
    assert_eq!(accepted, 10);
    assert_eq!(refused.kind, ErrorKind::RateQuotaExceeded);
    assert_eq!(
        refused.detail,
        "namespace team-a submits 10 jobs a second, as many as it may (quota submissions_per_second)"
    );
    assert!(refused.retry_after.is_some_and(|wait| wait > Span::ZERO && wait <= Span::from_secs(1)));
    submit(&world.app, "team-b", 100).await.unwrap();
    // A request larger than the quota passes when nothing is owed, and is paid for afterwards.
    world.pass(60);
    let other = world.another_server();
    other.refresh_namespaces().await.unwrap();
    submit(&other, "team-a", 50).await.unwrap();
    let refused = submit(&other, "team-a", 1).await.unwrap_err();
    assert!(refused.retry_after.is_some_and(|wait| wait > Span::from_secs(3)), "{:?}", refused.retry_after);
}

fn schedule(name: &str) -> ScheduleRequest {
    let text = format!(r#"{{"name":"{name}","inline":{{"run":{{"probe":{{}}}}}},"every":"1h"}}"#);
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn schedules_above_the_quota_are_refused() {
    let world = world_with(r#"{"schedules":0}"#).await;
    let by = local_in::<EditSchedules>(&world.app, "team-a");
    let refused = world.app.create_schedule(&by, schedule("nightly"), None).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::QuotaExceeded);
    assert_eq!(refused.detail, "namespace team-a has 0 of 0 schedules (quota schedules)");
    let put = world.app.put_schedule(&by, "nightly", schedule("nightly"), Precondition::None, None).await;
    assert_eq!(put.unwrap_err().kind, ErrorKind::QuotaExceeded);
}

fn artifact(size: u64, content: &str) -> ArtifactRequest {
    ArtifactRequest { name: None, size, sha256: content.repeat(32), kind: ArtifactKind::File }
}

#[tokio::test]
async fn artifacts_above_the_quota_are_refused_and_known_ones_are_not() {
    let world = world_with(r#"{"artifact_bytes":2000}"#).await;
    let app = &world.app;
    let by = local_in::<EditArtifacts>(app, "team-a");
    let create = async |request| app.create_artifact(&by, request, "http://127.0.0.1:8020").await;
    create(artifact(1500, "ab")).await.unwrap();
    let refused = create(artifact(501, "cd")).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::QuotaExceeded);
    assert_eq!(
        refused.detail,
        "namespace team-a has 1,500 of 2,000 bytes of artifacts (quota artifact_bytes); this request has 501 more"
    );
    create(artifact(1500, "ab")).await.unwrap();
    create(artifact(500, "cd")).await.unwrap();
    assert_eq!(usage(app, "team-a").await.artifact_bytes, 2000);
    let of_b = local_in::<EditArtifacts>(app, "team-b");
    app.create_artifact(&of_b, artifact(5000, "cd"), "http://127.0.0.1:8020").await.unwrap();
}

/// As a worker's stream does.
async fn print(app: &App, job: JobId, offset: u64, said: &str) {
    let chunk = LogChunk { job, attempt: AttemptNo(1), offset, bytes: text(said), marks: text("") };
    app.append_logs(vec![chunk]).await.unwrap();
}

fn printed(world: &World, job: JobId) -> String {
    let piece = world.store.read_log_now(job, AttemptNo(1), 0, 1 << 20);
    String::from_utf8(piece.bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn a_log_is_cut_where_its_namespace_has_no_room_and_says_why() {
    let world = world_with(r#"{"log_bytes":100}"#).await;
    let app = &world.app;
    let [first, second] = submit(app, "team-a", 2).await.unwrap()[..] else { panic!("two were submitted") };
    let line = "0123456789012345678901234567890123456789\n";
    print(app, first, 0, line).await;
    print(app, second, 0, line).await;
    assert_eq!(printed(&world, first), line);
    // 18 bytes are left, and a letter of two bytes begins with the last.
    print(app, first, 41, "of this line 1234é there is a part").await;
    let note = "[the log was cut off here: namespace team-a has 100 of 100 bytes of logs (quota log_bytes)]\n";
    let cut = format!("{line}of this line 1234\n{note}");
    assert_eq!(printed(&world, first), cut);
    print(app, first, 76, "and nothing more").await;
    assert_eq!(printed(&world, first), cut);
    print(app, second, 41, "of another log").await;
    assert_eq!(printed(&world, second), format!("{line}{note}"), "each says so");
    let third = submit(app, "team-a", 1).await.unwrap()[0];
    print(app, third, 0, "of a new log").await;
    assert_eq!(printed(&world, third), note);
    // A worker that connects to another server says everything again.
    let other = world.another_server();
    print(&other, first, 0, &format!("{line}of this line 1234é there is a part and nothing more")).await;
    assert_eq!(printed(&world, first), cut);
    for name in ["team-b", "default"] {
        let free = submit(app, name, 1).await.unwrap()[0];
        print(app, free, 0, &line.repeat(9)).await;
        assert_eq!(printed(&world, free), line.repeat(9), "{name}");
    }
    let used = (41 + 17 + 1 + 41) + 3 * note.len() as u64;
    assert_eq!(usage(app, "team-a").await.log_bytes, Some(used));
    assert_eq!(usage(app, "default").await.log_bytes, None);
    // With more room, new logs are kept, and one that was cut stays so.
    edit(app, "team-a", r#"{"log_bytes":10000}"#).await.unwrap();
    let fourth = submit(app, "team-a", 1).await.unwrap()[0];
    print(app, fourth, 0, line).await;
    assert_eq!(printed(&world, fourth), line);
    print(app, first, 92, line).await;
    assert_eq!(printed(&world, first), cut);
}

#[tokio::test]
async fn bytes_of_logs_are_free_again_when_their_jobs_leave_history() {
    let world = world_with(r#"{"log_bytes":5000}"#).await;
    let app = &world.app;
    let jobs = submit(app, "team-a", 20).await.unwrap();
    print(app, jobs[0], 0, &"x".repeat(5000)).await;
    print(app, jobs[1], 0, "of this nothing is kept").await;
    assert!(printed(&world, jobs[1]).starts_with("[the log was cut off here"));
    let mut owner = Owner::new(&world.store, 1).await;
    for job in &jobs[..2] {
        let key = punctual_core::JobKey { due_at: job.due_at(), id: *job };
        owner.done(vec![ended(key, punctual_core::JobState::Deleted, at(5))]).await;
    }
    let namespace = world.app.namespace_of_log(jobs[2]).await.unwrap();
    assert_eq!(world.store.prune_jobs_of(namespace, at(10), 10).await.unwrap(), 2);
    // The count that is made when there is no room is not older than a moment.
    let begun = std::time::Instant::now();
    for job in &jobs[2..] {
        print(app, *job, 0, "here").await;
        if printed(&world, *job) == "here" {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "the bytes are not given back");
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    panic!("the bytes are not given back");
}

#[tokio::test]
async fn quotas_that_cannot_be_are_refused_by_their_names() {
    let world = world_with("{}").await;
    let app = &world.app;
    let longest = format!(r#"{{"retention":{RETENTION}}}"#);
    assert_eq!(edit(app, "team-a", &longest).await.unwrap().retention, Some(Span::from_secs(RETENTION)));
    for (text, pointer) in [
        (r#"{"submissions_per_second":0}"#, "/quotas/submissions_per_second"),
        (r#"{"submissions_per_second":1000001}"#, "/quotas/submissions_per_second"),
        (r#"{"stored_jobs":1000000000000001}"#, "/quotas/stored_jobs"),
        (r#"{"retention":"59s"}"#, "/quotas/retention"),
        (r#"{"retention":"1001s"}"#, "/quotas/retention"),
    ] {
        let error = edit(app, "team-a", text).await.unwrap_err();
        assert_eq!(error.errors.iter().map(|field| field.pointer.as_str()).collect::<Vec<_>>(), [pointer]);
    }
    let several = edit(app, "team-a", r#"{"submissions_per_second":0,"retention":"1s"}"#).await.unwrap_err();
    assert_eq!(several.errors.len(), 2, "{several}");
    let of_default = edit(app, "default", r#"{"retention":"10m"}"#).await.unwrap_err();
    assert!(of_default.detail.contains("namespace default"), "{of_default}");
    let of_default = edit(app, "default", r#"{"log_bytes":1000}"#).await.unwrap_err();
    assert!(of_default.detail.contains("namespace default"), "{of_default}");
    edit(app, "default", r#"{"stored_jobs":1}"#).await.unwrap();
    submit(app, "default", 1).await.unwrap();
    assert_eq!(submit(app, "default", 1).await.unwrap_err().kind, ErrorKind::QuotaExceeded);
}

#[tokio::test]
async fn the_history_of_a_namespace_goes_by_its_own_retention() {
    let world = world_with(r#"{"retention":"10m"}"#).await;
    let own = world.app.retention_of_namespaces(world.app.now());
    assert_eq!(own.len(), 1);
    assert_eq!(own[0].1, world.app.now() - Span::from_secs(600));
    // As long as that of the cluster: nothing needs to be done for it.
    edit(&world.app, "team-a", &format!(r#"{{"retention":{RETENTION}}}"#)).await.unwrap();
    assert_eq!(world.app.retention_of_namespaces(world.app.now()), []);
    assert_eq!(world.store.used(own[0].0, Counted::Jobs, 1).await.unwrap(), 0);
}
