//! What is special about a store that is a file.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use punctual_core::attempt::{Details, Ending};
use punctual_core::shard::write::{JobWrite, Requeue, Settle, StaleOutcome, Write};
use punctual_core::{AttemptNo, JobState, NamespaceId, ShardId};
use punctual_store::{
    Filter, JobReads, JobRecord, Leases, NewJob, Order, Store, StoreError, Submission, Submit, Tasks, Transitions,
};
use punctual_store_sqlite::{Durability, Options, SqliteStore};
use punctual_store_tests::fixture::*;
use tempfile::TempDir;

fn options() -> Options {
    Options { wal_kept_bytes: 0, ..Options::new(Arc::new(|| at(0))) }
}

fn open(folder: &TempDir) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(&folder.path().join("jobs.db"), options())
}

fn refusal(result: Result<SqliteStore, StoreError>) -> StoreError {
    match result {
        Ok(_) => panic!("the store was opened"),
        Err(error) => error,
    }
}

fn raw(folder: &TempDir) -> rusqlite::Connection {
    rusqlite::Connection::open(folder.path().join("jobs.db")).unwrap()
}

/// One job that waits, one that runs and one that failed.
async fn fill(store: &dyn Store) -> Vec<NewJob> {
    let jobs: Vec<_> =
        (0..3).map(|n| NewJob { input: Some(vec![7; 5000].into()), ..new_job(n, 10 + n as i64, 1) }).collect();
    let mut owner = owner_of(store, &jobs).await;
    owner.done(vec![start(original(&jobs[1]), 1), start(original(&jobs[2]), 1)]).await;
    owner
        .done(vec![Write::Job(JobWrite::Settle(settled(original(&jobs[2]), 1, JobState::Failed, Ending::Failed)))])
        .await;
    jobs
}

async fn everything(store: &dyn Store, jobs: &[NewJob]) -> String {
    let mut text = format!("{:?}", store.open_starts(ShardId(1)).await.unwrap());
    for job in jobs {
        text += &format!("{:?}", store.job(job.id).await.unwrap());
    }
    text + &format!("{:?}", store.task_by_name(NamespaceId::DEFAULT, "report").await.unwrap())
}

#[tokio::test]
async fn a_store_that_was_closed_opens_with_all_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).unwrap();
    let jobs = fill(&store).await;
    let before = everything(&store, &jobs).await;
    store.close().await.unwrap();
    drop(store);
    let store = open(&folder).unwrap();
    assert_eq!(everything(&store, &jobs).await, before);
    assert_eq!(store.renew(server(1), punctual_core::Span::ZERO).await.unwrap().len(), 4, "leases are kept too");
}

#[tokio::test]
async fn a_store_that_was_dropped_opens_with_all_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).unwrap();
    let jobs = fill(&store).await;
    let before = everything(&store, &jobs).await;
    drop(store);
    assert_eq!(everything(&open(&folder).unwrap(), &jobs).await, before);
}

#[tokio::test]
async fn a_closed_store_answers_that_it_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).unwrap();
    store.close().await.unwrap();
    store.close().await.unwrap();
    let answer = store.submit(Submission { jobs: vec![], idempotency: None, batch: None }).await;
    assert!(matches!(answer, Err(StoreError::Closed)), "{answer:?}");
}

#[tokio::test]
async fn everything_queued_before_closing_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).unwrap();
    with_task(&store).await;
    let calls: Vec<_> = (0..100)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { submit(&store, vec![new_job(n, 10, 0)]).await })
        })
        .collect();
    tokio::task::yield_now().await;
    store.close().await.unwrap();
    let mut stored = 0;
    for call in calls {
        match call.await.unwrap() {
            Ok(_) => stored += 1,
            Err(error) => assert!(matches!(error, StoreError::Closed), "{error}"),
        }
    }
    drop(store);
    let page = hot_page(&open(&folder).unwrap(), Filter::default(), first_page(Order::Ascending, 1000)).await;
    assert_eq!(page.rows.len(), stored);
}

#[tokio::test]
async fn the_number_of_shards_stays_as_it_was_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let with = |shard_count| SqliteStore::open(&path, Options { shard_count, ..options() });
    assert_eq!(with(3).unwrap().shard_count(), 3);
    assert_eq!(with(64).unwrap().shard_count(), 3);
    for wrong in [0, ShardId::COUNT_MAX + 1] {
        assert!(matches!(with(wrong), Err(StoreError::Inconsistent(_))));
    }
}

#[test]
fn a_file_that_is_open_is_refused_to_a_second_handle_until_it_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).unwrap();
    let clone = store.clone();
    drop(store);
    let error = refusal(open(&folder));
    assert!(matches!(error, StoreError::InUse(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("jobs.db open"), "{text}");
    drop(clone);
    open(&folder).unwrap();
}

const CHILD_FILE: &str = "PUNCTUAL_TEST_OPEN";

/// What the next test runs in a process of its own.
#[test]
fn child_that_opens_the_file_it_is_told() {
    let Some(path) = std::env::var_os(CHILD_FILE) else { return };
    match SqliteStore::open(Path::new(&path), options()) {
        Ok(_) => println!("child: opened"),
        Err(error) => println!("child: {error}"),
    }
}

#[test]
fn a_file_that_is_open_is_refused_to_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let child = || {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_opens_the_file_it_is_told", "--nocapture"])
            .env(CHILD_FILE, &path)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let store = open(&folder).unwrap();
    let said = child();
    assert!(said.contains("child: another process has"), "{said}");
    drop(store);
    let said = child();
    assert!(said.contains("child: opened"), "{said}");
}

#[test]
fn a_changed_migration_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(&folder).unwrap());
    raw(&folder).execute("UPDATE migration SET checksum = x'00'", []).unwrap();
    let error = refusal(open(&folder));
    assert!(matches!(&error, StoreError::Schema(text) if text.contains("migration 1 (first)")), "{error:?}");
}

#[test]
fn a_schema_of_a_newer_program_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(&folder).unwrap());
    raw(&folder).execute("INSERT INTO migration VALUES (99, 'later', x'00', 0)", []).unwrap();
    let error = refusal(open(&folder));
    assert!(matches!(&error, StoreError::Schema(text) if text.contains("use the newer program")), "{error:?}");
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    raw(&folder).execute("CREATE TABLE theirs (x)", []).unwrap();
    let error = refusal(open(&folder));
    assert!(matches!(&error, StoreError::Schema(text) if text.contains("another program")), "{error:?}");
    let tables: i64 = raw(&folder).query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 1);
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("jobs.db"), "dear diary, ".repeat(100)).unwrap();
    let error = refusal(open(&folder));
    assert!(matches!(&error, StoreError::Schema(text) if text.contains("not an SQLite database")), "{error:?}");
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = refusal(SqliteStore::open(&folder.path().join("no/jobs.db"), options()));
    assert!(matches!(&error, StoreError::Unavailable(text) if text.contains("no/jobs.db")), "{error:?}");
}

#[tokio::test]
async fn the_log_keeps_its_length_over_checkpoints_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let log_len = || std::fs::metadata(folder.path().join("jobs.db-wal")).unwrap().len();
    let kept = 2 << 20;
    let options = || Options { wal_kept_bytes: kept, checkpoint_pages: 100, ..options() };
    let store = SqliteStore::open(&path, options()).unwrap();
    assert_eq!(log_len(), kept);
    with_task(&store).await;
    // Far more than the log holds: without restarts it would grow.
    for round in 0..60 {
        let jobs = (0..20).map(|n| NewJob { input: Some(vec![1; 5000].into()), ..new_job(n, round, 0) });
        submit(&store, jobs.collect()).await.unwrap();
    }
    assert_eq!(log_len(), kept);
    store.close().await.unwrap();
    drop(store);
    assert_eq!(log_len(), kept);
    let store = SqliteStore::open(&path, options()).unwrap();
    assert_eq!(store.load(load_all(0)).await.unwrap().rows.len(), 1000);
    assert_eq!(log_len(), kept);
}

#[test]
fn the_description_says_how_it_writes() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(open(&folder).unwrap().description(), "sqlite, synchronous=FULL");
    let path = folder.path().join("other.db");
    let normal = SqliteStore::open(&path, Options { durability: Durability::Normal, ..options() }).unwrap();
    assert_eq!(normal.description(), "sqlite, synchronous=NORMAL");
}

#[tokio::test]
async fn a_long_scan_ends_with_a_short_page_that_says_where_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).unwrap();
    with_task(&store).await;
    store.create_task(named_task(2, "rare")).await.unwrap();
    let rare = NewJob { task: task_id(2), ..new_job(1, 20_000, 3) };
    for round in 0..3 {
        let jobs = (0..9000).map(|n| new_job(n, round, (n % 4) as u16)).collect();
        submit(&store, jobs).await.unwrap();
    }
    submit(&store, vec![rare.clone()]).await.unwrap();
    let filter = Filter { task: Some(task_id(2)), ..Filter::default() };
    let mut position = first_page(Order::Ascending, 10);
    let mut pages = 0;
    let found = loop {
        let page = hot_page(&store, filter.clone(), position).await;
        pages += 1;
        if let Some(job) = page.rows.first() {
            break job.key.id;
        }
        position.after = Some(page.next.expect("there is more"));
    };
    assert_eq!((found, pages), (rare.id, 3));
}

#[tokio::test]
async fn a_task_that_cannot_be_read_is_left_out_and_the_others_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).unwrap();
    with_task(&store).await;
    store.create_task(named_task(2, "newer")).await.unwrap();
    let newer = r#"UPDATE task SET spec = '{"run":{"teleport":{}}}' WHERE name = 'newer'"#;
    assert_eq!(raw(&folder).execute(newer, []).unwrap(), 1);
    for _ in 0..2 {
        let tasks = store.tasks_by_id(vec![task_id(2), task_id(1)]).await.unwrap();
        assert_eq!(tasks, [named_task(1, "report")]);
    }
    // By name it comes before the other, and takes nothing from the page.
    assert_eq!(store.list_tasks(NamespaceId::DEFAULT, None, 1).await.unwrap(), [named_task(1, "report")]);
}

#[tokio::test]
async fn a_job_that_cannot_be_read_is_left_out_of_lists_and_the_others_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).unwrap();
    let jobs: Vec<NewJob> = (1..=5).map(|n| new_job(n, 10 * n as i64, (n % 2) as u16)).collect();
    let _owner = owner_of(&store, &jobs).await;
    let spoil = |column: &str, secs: i64| {
        let due_at = at(secs).as_micros();
        let sql = format!("UPDATE job SET {column} WHERE due_at = {due_at}");
        assert_eq!(raw(&folder).execute(&sql, []).unwrap(), 1);
    };
    spoil("priority = 9999", 20);
    spoil("id = zeroblob(16)", 30);
    for order in [Order::Ascending, Order::Descending] {
        for limit in [1, 2, 100] {
            let mut listed = listed_hot(&store, order, limit).await;
            listed.sort_unstable();
            assert_eq!(listed, [jobs[0].id, jobs[3].id, jobs[4].id], "{order:?} by {limit}");
        }
    }
}

#[tokio::test]
async fn details_that_cannot_be_read_are_left_out_and_the_job_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).unwrap();
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(&store, std::slice::from_ref(&job)).await;
    let known = |n| with_details(ran(n, Ending::Failed), details());
    owner
        .done(vec![Write::Job(JobWrite::Requeue(Requeue {
            attempt: Some(known(1)),
            ..retried(original(&job), 1, at(10))
        }))])
        .await;
    let last = settled(original(&job), 2, JobState::Failed, Ending::Failed);
    owner.done(vec![Write::Job(JobWrite::Settle(Settle { attempt: Some(known(2)), ..last }))]).await;
    let shown = async || match store.job(job.id).await.unwrap() {
        Some(JobRecord::Finished { attempts, .. }) => attempts,
        other => panic!("{other:?}"),
    };
    assert_eq!(shown().await, [known(1), known(2)]);
    for unreadable in [r#"'{"class":"magic"}'"#, "'{'", "'null'", "''", "CAST(x'ff' AS TEXT)"] {
        for table in ["history", "attempt"] {
            assert_eq!(raw(&folder).execute(&format!("UPDATE {table} SET details = {unreadable}"), []).unwrap(), 1);
        }
        assert_eq!(shown().await, [ran(1, Ending::Failed), ran(2, Ending::Failed)], "{unreadable}");
    }
    // What a newer program adds is passed over.
    raw(&folder).execute(r#"UPDATE history SET details = '{"signal":9,"later":[1]}'"#, []).unwrap();
    let read = Details { signal: Some(9), ..Details::default() };
    assert_eq!(shown().await, [ran(1, Ending::Failed), with_details(ran(2, Ending::Failed), read)]);
}

#[tokio::test]
async fn a_late_outcome_that_is_repeated_is_kept_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder).unwrap();
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(&store, std::slice::from_ref(&job)).await;
    let stale = |n, secs| {
        let outcome = format!("at {secs}");
        Write::Job(JobWrite::Stale(StaleOutcome {
            id: job.id,
            attempt: AttemptNo(1),
            worker: worker(n),
            at: at(secs),
            outcome,
        }))
    };
    owner.done(vec![stale(1, 300), stale(1, 301)]).await;
    owner.done(vec![stale(1, 302), stale(2, 303)]).await;
    let kept: String =
        raw(&folder).query_row("SELECT group_concat(outcome) FROM stale_outcome", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, "at 300,at 303");
}
