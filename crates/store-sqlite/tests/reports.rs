//! What is special about notices and backfills in a file: rows that cannot be read, and bounds on one call.

use std::sync::Arc;

use punctual_core::notice::NoticeKind;
use punctual_store::{Backfills, Notices, Retention, Stepped, StoreError};
use punctual_store_sqlite::{Options, SqliteStore};
use punctual_store_tests::fixture::*;
use punctual_store_tests::report_fixture::*;
use punctual_store_tests::unreadable::{self, rows_about_notifications_are_passed_over};
use rusqlite::{Connection, params};
use tempfile::TempDir;

fn open(folder: &TempDir) -> SqliteStore {
    let options = Options { wal_kept_bytes: 0, ..Options::new(Arc::new(|| at(0))) };
    SqliteStore::open(&folder.path().join("jobs.db"), options).unwrap()
}

fn raw(folder: &TempDir) -> Connection {
    Connection::open(folder.path().join("jobs.db")).unwrap()
}

fn count(folder: &TempDir, table: &str) -> u64 {
    raw(folder).query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0)).unwrap() as u64
}

/// More than go in one call.
const MANY: u64 = 20_500;

/// Runs it for each number, which becomes an id, and a time.
fn fill(folder: &TempDir, sql: &str) {
    let mut conn = raw(folder);
    let tx = conn.transaction().unwrap();
    let mut statement = tx.prepare(sql).unwrap();
    for n in 0..MANY {
        statement.execute(params![job_id(n, 0, 1).to_bytes(), at(n as i64).as_micros()]).unwrap();
    }
    drop(statement);
    tx.commit().unwrap();
}

#[tokio::test]
async fn a_notice_of_a_kind_to_come_waits_and_a_backfill_that_cannot_be_read_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let known = notice(NoticeKind::Late, 2, 0);
    owner_of(&store, &[]).await.done(vec![tell(&notice(NoticeKind::Late, 1, 0)), tell(&known)]).await;
    with_backfill(&store, 1).await;
    raw(&folder).execute_batch("UPDATE notice SET kind = 99 WHERE seq = 1; UPDATE backfill SET state = 99").unwrap();
    let read = store.waiting_notices(10).await.unwrap();
    assert_eq!(read.into_iter().map(|waiting| waiting.notice).collect::<Vec<_>>(), [known]);
    let read = store.backfill(backfill_id(1)).await;
    assert!(matches!(&read, Err(StoreError::Inconsistent(text)) if text.contains("not a state")), "{read:?}");
}

#[tokio::test]
async fn rows_about_notifications_that_cannot_be_read_are_passed_over_and_stay() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    rows_about_notifications_are_passed_over(&store, &|sql| raw(&folder).execute_batch(sql).unwrap()).await;
}

#[tokio::test]
async fn a_job_is_shown_although_its_attempt_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let sql = |sql: &str| raw(&folder).execute_batch(sql).unwrap();
    unreadable::a_job_is_shown_although_its_attempt_cannot_be_read(&store, &sql).await;
}

#[tokio::test]
async fn deliveries_and_ailing_tasks_are_pruned_in_steps() {
    for (table, sql) in [
        ("delivery", "INSERT INTO delivery VALUES (?2, ?1, 'ops', 1, '', 0)"),
        ("ailing", "INSERT INTO ailing VALUES (?1, 0, ?2, 1, 0)"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = open(&folder);
        fill(&folder, sql);
        let mut answers = Vec::new();
        for _ in 0..3 {
            answers.push((store.prune(at(1_000_000), at(0), 500).await.unwrap(), count(&folder, table)));
        }
        assert_eq!(answers, [(500, MANY - 20_000), (0, 0), (0, 0)], "{table}");
    }
}

#[tokio::test]
async fn a_long_backfill_is_pruned_in_steps_and_goes_with_its_last_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let (old, running) = (with_backfill(&store, 1).await, with_backfill(&store, 2).await);
    fill(&folder, "INSERT INTO backfill_run SELECT id, ?2, schedule, ?1, 1 FROM backfill");
    let end = punctual_store::BackfillStep { progress: ended_at(9), ..step(1, 0) };
    assert_eq!(store.step_backfill(end).await.unwrap(), Stepped::Done);
    let mut answers = Vec::new();
    for _ in 0..3 {
        let answer = store.prune(at(1_000_000), at(0), 500).await.unwrap();
        answers.push((answer, count(&folder, "backfill"), count(&folder, "backfill_run")));
    }
    assert_eq!(answers, [(500, 2, 2 * MANY - 20_000), (0, 1, MANY), (0, 1, MANY)], "what runs stays");
    assert_eq!(store.backfill(old.id).await.unwrap(), None);
    assert_eq!(store.backfill_runs(running.id, None, 1).await.unwrap().len(), 1);
}
