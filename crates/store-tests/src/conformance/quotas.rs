//! What quotas of namespaces are compared with.

use punctual_core::attempt::ArchivedLog;
use punctual_core::schedule::{ScheduleEdit, ScheduleRow};
use punctual_core::shard::write::{JobWrite, Rerun, Write};
use punctual_core::task::Task;
use punctual_core::{AttemptNo, JobKey, JobState, NamespaceId, Span};
use punctual_store::{
    Archived, Archiving, Counted, CreatedArtifact, FoundRow, LogChunk, NamespaceChange, NewArtifact, NewJob,
    RATE_BURST, Spent, Store, Submitted, TaskChange,
};

use crate::fixture::*;
use crate::schedule_fixture::{add, by, drop_it, edit, new_schedule};

const BOTH: [NamespaceId; 2] = [NamespaceId::DEFAULT, NamespaceId(1)];
const TENANT: NamespaceId = BOTH[1];

/// Number 1 is the task of the default namespace, 2 that of the tenant.
async fn with_tasks(store: &dyn Store) {
    for (namespace, n) in BOTH.into_iter().zip(1..) {
        let task = Task { namespace, ..named_task(n, "report") };
        assert_eq!(store.create_task(task).await.unwrap(), TaskChange::Done);
    }
}

fn job_in(namespace: NamespaceId, n: u64, due_secs: i64) -> NewJob {
    let task = task_id(1 + u64::from(namespace.0));
    NewJob { namespace, task, ..new_job(n, due_secs, (n % 4) as u16) }
}

async fn used(store: &dyn Store, namespace: NamespaceId, what: Counted) -> u64 {
    store.used(namespace, what, 100).await.unwrap()
}

pub(super) async fn jobs_that_wait_or_run_are_counted_in_their_namespace_up_to_a_limit(store: &dyn Store) {
    with_tasks(store).await;
    let jobs: Vec<NewJob> = (0..9).map(|n| job_in(BOTH[usize::from(n < 6)], n, 10)).collect();
    assert_eq!(submit(store, jobs.clone()).await.unwrap(), Submitted::Done);
    let mut owner = Owner::new(store, 1).await;
    owner.done(vec![start(original(&jobs[0]), 1), start(original(&jobs[1]), 1)]).await;
    owner.done(vec![succeed(original(&jobs[1]), 1)]).await;
    assert_eq!(used(store, TENANT, Counted::Jobs).await, 5, "one runs, and one is history");
    assert_eq!(used(store, NamespaceId::DEFAULT, Counted::Jobs).await, 3);
    assert_eq!(used(store, NamespaceId(7), Counted::Jobs).await, 0);
    for namespace in BOTH {
        assert_eq!(store.used(namespace, Counted::Jobs, 2).await.unwrap(), 2, "counting ends there");
        assert_eq!(store.used(namespace, Counted::Jobs, 0).await.unwrap(), 0);
    }
}

pub(super) async fn schedules_are_counted_in_their_namespace(store: &dyn Store) {
    with_tasks(store).await;
    let mut owner = Owner::new(store, 1).await;
    let row = |n, namespace| ScheduleRow {
        namespace,
        edit: ScheduleEdit { task: task_id(1 + u64::from(namespace.0)), ..edit(1) },
        ..new_schedule(n, &format!("schedule-{n}"), 1)
    };
    let rows = [row(1, TENANT), row(2, TENANT), row(3, NamespaceId::DEFAULT)];
    owner.done(rows.iter().map(add).collect()).await;
    assert_eq!(used(store, TENANT, Counted::Schedules).await, 2);
    owner.done(vec![drop_it(rows[0].id, 20)]).await;
    assert_eq!(used(store, TENANT, Counted::Schedules).await, 1);
    assert_eq!(used(store, NamespaceId::DEFAULT, Counted::Schedules).await, 1);
}

pub(super) async fn artifacts_have_no_more_bytes_than_they_may(store: &dyn Store) {
    let new = |n: u64, size, bytes_max| NewArtifact { namespace: TENANT, size, bytes_max, ..new_artifact(n) };
    let create = async |new| store.create_artifact(new).await.unwrap();
    assert_eq!(create(new(1, 101, Some(100))).await, CreatedArtifact::Full { bytes: 0 });
    assert_eq!(used(store, TENANT, Counted::ArtifactBytes).await, 0, "nothing was stored");
    assert!(matches!(create(new(1, 60, Some(100))).await, CreatedArtifact::New(_)));
    assert_eq!(create(new(2, 41, Some(100))).await, CreatedArtifact::Full { bytes: 60 });
    assert!(matches!(create(new(2, 40, Some(100))).await, CreatedArtifact::New(_)), "it is exactly as much");
    assert_eq!(used(store, TENANT, Counted::ArtifactBytes).await, 100);
    // What is there already takes no room, whatever the limit is by now.
    let known = create(NewArtifact { id: artifact_id(9), ..new(1, 60, Some(10)) }).await;
    assert!(matches!(&known, CreatedArtifact::Known(artifact) if artifact.id == artifact_id(1)), "{known:?}");
    assert!(matches!(create(new(3, 1, None)).await, CreatedArtifact::New(_)), "nothing limits it");
    // Neither what was refused nor what is of others counts.
    store.refuse_artifact(artifact_id(1), at(5), "it is a script".to_owned()).await.unwrap();
    assert_eq!(used(store, TENANT, Counted::ArtifactBytes).await, 41);
    assert_eq!(used(store, NamespaceId::DEFAULT, Counted::ArtifactBytes).await, 0);
    assert_eq!(create(new(4, 60, Some(100))).await, CreatedArtifact::Full { bytes: 41 });
    assert!(matches!(create(new(4, 59, Some(100))).await, CreatedArtifact::New(_)));
}

pub(super) async fn bytes_of_logs_are_counted_in_their_namespace_archived_or_not(store: &dyn Store) {
    with_tasks(store).await;
    // Two of the tenant, whose first attempts fail, and one of the default namespace.
    let jobs: Vec<NewJob> = (0..3).map(|n| job_in(BOTH[usize::from(n < 2)], n, 10)).collect();
    assert_eq!(submit(store, jobs.clone()).await.unwrap(), Submitted::Done);
    let mut owner = Owner::new(store, 1).await;
    owner.done(jobs.iter().map(|job| start(original(job), 1)).collect()).await;
    let print = async |job: &NewJob, attempt, content: &str| {
        let (offset, bytes, marks) = (0, text(content), text(""));
        let chunk = LogChunk { job: job.id, attempt: AttemptNo(attempt), offset, bytes, marks };
        store.append_logs(vec![chunk]).await.unwrap();
    };
    for job in &jobs {
        print(job, 1, "first").await;
    }
    assert_eq!(used(store, TENANT, Counted::LogBytes).await, 10, "of attempts that run");
    assert_eq!(used(store, NamespaceId::DEFAULT, Counted::LogBytes).await, 0, "it is in no index");
    let again = |job: &NewJob| Write::Job(JobWrite::Requeue(retried(original(job), 1, at(20))));
    owner.done(jobs.iter().map(again).collect()).await;
    let moved = |job: &NewJob| JobKey { due_at: at(20), id: job.id };
    owner.done(jobs.iter().map(|job| succeed(moved(job), 2)).collect()).await;
    for job in &jobs {
        print(job, 2, "second!").await;
    }
    assert_eq!(used(store, TENANT, Counted::LogBytes).await, 24, "of attempts that ended");
    let archive = async |job: &NewJob, attempt: u32, bytes| {
        let log = ArchivedLog { path: format!("logs/{}/{attempt}", job.id), bytes };
        let (namespace, attempt) = (job.namespace, AttemptNo(attempt));
        let archiving = Archiving { job: job.id, namespace, attempt, log, replaces: None, pieces: 1 };
        assert_eq!(store.archive_logs(vec![archiving]).await.unwrap(), [Archived::Done]);
    };
    for job in &jobs[1..] {
        archive(job, 1, 5).await;
        archive(job, 2, 7).await;
    }
    assert_eq!(used(store, TENANT, Counted::LogBytes).await, 24, "in the archive they count as before");
    // What is run again keeps its attempts.
    let rerun = Rerun { id: jobs[1].id, due_at: at(400), counters: counters(3, 0, 0) };
    owner.done(vec![Write::Job(JobWrite::Rerun(rerun))]).await;
    assert_eq!(used(store, TENANT, Counted::LogBytes).await, 24);
    owner.done(vec![succeed(JobKey { due_at: at(400), id: jobs[1].id }, 3)]).await;
    assert_eq!(used(store, NamespaceId(7), Counted::LogBytes).await, 0);
    assert_eq!(store.prune_jobs_of(TENANT, at(1000), 1).await.unwrap(), 1);
    assert_eq!(used(store, TENANT, Counted::LogBytes).await, 12, "retention gives them back");
    assert_eq!(store.prune_jobs_of(TENANT, at(1000), 5).await.unwrap(), 1);
    assert_eq!(used(store, TENANT, Counted::LogBytes).await, 0);
    let objects = |attempt: u32| format!("logs/{}/{attempt}", jobs[1].id);
    assert_eq!(store.dropped_logs(10).await.unwrap(), [objects(1), objects(2)], "their objects go with them");
}

pub(super) async fn of_artifacts_declared_at_once_no_more_are_stored_than_there_is_room_for(store: &dyn Store) {
    let name = "team-a".parse().expect("the name of a namespace");
    let created = store.create_namespace(name, "{}".to_owned(), by("ada", 10)).await.unwrap();
    assert!(matches!(&created, NamespaceChange::Done(row) if row.id == TENANT), "{created:?}");
    let new = |n: u64| NewArtifact { namespace: TENANT, size: 10, bytes_max: Some(35), ..new_artifact(n) };
    let created =
        futures_util::future::join_all((1..=12).map(|n| async move { store.create_artifact(new(n)).await })).await;
    let stored = created.into_iter().filter(|one| matches!(one.as_ref().unwrap(), CreatedArtifact::New(_))).count();
    assert_eq!((stored, used(store, TENANT, Counted::ArtifactBytes).await), (3, 30));
}

pub(super) async fn a_namespace_spends_no_more_than_its_rate(store: &dyn Store) {
    let now = at(100);
    let tenth = Span::from_micros(RATE_BURST.as_micros() / 10);
    let spend = async |namespace, cost, now| store.spend(namespace, cost, now).await.unwrap();
    for _ in 0..10 {
        assert_eq!(spend(TENANT, tenth, now).await, Spent::Done, "a burst");
    }
    let Spent::Wait(wait) = spend(TENANT, tenth, now).await else { panic!("it is a whole burst ahead") };
    assert!(wait > Span::ZERO && wait <= Span::from_micros(1), "{wait}");
    assert_eq!(spend(NamespaceId::DEFAULT, tenth, now).await, Spent::Done, "each has a rate of its own");
    assert_eq!(spend(TENANT, tenth, now + tenth).await, Spent::Done, "a tenth of a burst is free again");
    assert!(matches!(spend(TENANT, tenth, now + tenth).await, Spent::Wait(_)));
    // A large request passes, and the next waits for all of it.
    let later = now + Span::from_secs(60);
    assert_eq!(spend(TENANT, Span::from_secs(20), later).await, Spent::Done);
    let Spent::Wait(wait) = spend(TENANT, tenth, later).await else { panic!("it is far ahead") };
    assert_eq!(wait, Span::from_micros(19_000_001));
    assert!(matches!(spend(TENANT, tenth, later + Span::from_secs(19)).await, Spent::Wait(_)));
    assert_eq!(spend(TENANT, tenth, later + wait).await, Spent::Done, "as it was told");
    // The time of a server may be behind.
    assert!(matches!(spend(TENANT, tenth, now).await, Spent::Wait(_)));
}

pub(super) async fn of_submissions_at_once_no_more_are_paid_for_than_the_rate_allows(store: &dyn Store) {
    let tenth = Span::from_micros(RATE_BURST.as_micros() / 10);
    let spends = (0..30).map(|_| async move { store.spend(TENANT, tenth, at(100)).await.unwrap() });
    let spent = futures_util::future::join_all(spends).await;
    assert_eq!(spent.into_iter().filter(|one| *one == Spent::Done).count(), 10);
}

pub(super) async fn the_history_of_one_namespace_goes_and_that_of_others_stays(store: &dyn Store) {
    with_tasks(store).await;
    let of = |n: u64| BOTH[(n % 2) as usize];
    let jobs: Vec<NewJob> = (0..12).map(|n| job_in(of(n), n, if n < 8 { 10 } else { 90_000 })).collect();
    assert_eq!(submit(store, jobs.clone()).await.unwrap(), Submitted::Done);
    let mut owner = Owner::new(store, 1).await;
    // The last four of each end before they are due; two of these and two others, later than what is removed.
    let end = |(place, job): (usize, &NewJob)| {
        let finished_at = if place % 4 < 2 { at(100) } else { at(500) };
        ended(original(job), JobState::Deleted, finished_at)
    };
    owner.done(jobs[..11].iter().enumerate().map(end).collect()).await;
    assert_eq!(store.prune_jobs_of(NamespaceId(7), at(400), 10).await.unwrap(), 0);
    assert_eq!(store.prune_jobs_of(TENANT, at(100), 10).await.unwrap(), 0, "they finished at that very moment");
    assert_eq!(store.prune_jobs_of(TENANT, at(400), 2).await.unwrap(), 2);
    assert_eq!(store.prune_jobs_of(TENANT, at(400), 2).await.unwrap(), 1, "1, 5 and 9");
    for (place, job) in jobs.iter().enumerate() {
        let is_there = store.find(job.id).await.unwrap() != FoundRow::Absent;
        assert_eq!(is_there, ![1, 5, 9].contains(&place), "{place}");
    }
}
