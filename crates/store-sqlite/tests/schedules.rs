//! What is special about schedules in a file: rows that cannot be read, and bounds on one call.

use std::sync::Arc;

use punctual_core::attempt::Ending;
use punctual_core::schedule::Verdict;
use punctual_core::shard::write::{JobWrite, Write};
use punctual_core::{JobState, ShardId};
use punctual_store::{
    JobReads, JobRecord, OccurrenceFilter, Order, Retention, ScheduleFilter, Schedules, StoreError, Transitions,
};
use punctual_store_sqlite::{Options, SqliteStore};
use punctual_store_tests::fixture::*;
use punctual_store_tests::schedule_fixture::*;
use rusqlite::{Connection, params};
use tempfile::TempDir;

fn open(folder: &TempDir) -> SqliteStore {
    let options = Options { wal_kept_bytes: 0, ..Options::new(Arc::new(|| at(0))) };
    SqliteStore::open(&folder.path().join("jobs.db"), options).unwrap()
}

fn raw(folder: &TempDir) -> Connection {
    Connection::open(folder.path().join("jobs.db")).unwrap()
}

#[tokio::test]
async fn a_job_whose_schedule_cannot_be_read_is_a_job_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let mut owner = owner_of(&store, &[]).await;
    let schedule = new_schedule(1, "backup", 1);
    let decision = tracked(fired(schedule.id, 60, 1));
    owner.done(vec![add(&schedule), decide(&decision)]).await;
    // As a newer program might write it, and as nobody does.
    for unreadable in ["x'89'", "x'ff00'", "zeroblob(25)", "x''"] {
        raw(&folder).execute(&format!("UPDATE job SET source = {unreadable}"), []).unwrap();
        let row = store.load(load_all(1)).await.unwrap().rows.remove(0);
        assert_eq!((row.key, row.source), (key_of(&decision), None), "{unreadable}");
        assert_eq!(store.shard_schedules(ShardId(1)).await.unwrap().tracked, [], "{unreadable}");
    }
    owner
        .done(vec![Write::Job(JobWrite::Settle(settled(key_of(&decision), 1, JobState::Failed, Ending::Failed)))])
        .await;
    let job = store.job(job_of(&decision)).await.unwrap().unwrap();
    assert!(matches!(&job, JobRecord::Finished { job, .. } if job.source.is_none()), "{job:?}");
}

#[tokio::test]
async fn a_verdict_or_a_calendar_that_cannot_be_read_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let mut owner = owner_of(&store, &[]).await;
    let schedule = new_schedule(1, "backup", 1);
    owner.done(vec![add(&schedule), decide(&unfired(schedule.id, 60, Verdict::Missed))]).await;
    raw(&folder).execute("UPDATE occurrence SET verdict = 99", []).unwrap();
    let read = store.occurrences(schedule.id, OccurrenceFilter::default(), None, Order::Ascending, 10).await;
    assert!(matches!(&read, Err(StoreError::Inconsistent(text)) if text.contains("not a verdict")), "{read:?}");
    raw(&folder).execute("INSERT INTO calendar VALUES (1, 0, 'days', '[\"2026-02-30\"]', 0, 'ada')", []).unwrap();
    let read = store.calendars(None).await;
    assert!(matches!(&read, Err(StoreError::Inconsistent(_))), "{read:?}");
}

/// More than one call looks at.
const MANY: u64 = 10_500;

fn fill(folder: &TempDir, sql: &str) {
    let mut conn = raw(folder);
    let tx = conn.transaction().unwrap();
    let mut statement = tx.prepare(sql).unwrap();
    for n in 0..MANY {
        let id = schedule_id(1000 + n, 1);
        statement.execute(params![id.to_bytes(), format!("{n:06}"), at(n as i64).as_micros()]).unwrap();
    }
    drop(statement);
    tx.commit().unwrap();
}

#[tokio::test]
async fn a_list_that_finds_little_ends_its_page_early_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let mut owner = owner_of(&store, &[]).await;
    let (paused, last) = (new_schedule(1, "000000 first", 1), new_schedule(2, "z", 1));
    owner.done(vec![add(&paused), add(&last)]).await;
    raw(&folder).execute("UPDATE schedule SET spec = 'x'", []).unwrap();
    // All of them are paused but two.
    fill(
        &folder,
        "INSERT INTO schedule SELECT shard, ?1, ?2, task, spec, NULL, NULL, 1, 0, ?3, 'bob', NULL, NULL, 0, 0, 0, '', 0, '', NULL, NULL, 0
         FROM schedule WHERE name = 'z'",
    );
    let active = ScheduleFilter { is_paused: Some(false), ..ScheduleFilter::default() };
    let (first, next) = store.list_schedules(active.clone(), None, 10).await.unwrap();
    assert_eq!(first.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["000000 first"]);
    let next = next.expect("it has not seen all of them");
    assert!(next.as_str() > "009000" && next.as_str() < "010500", "{next}");
    let (rest, next) = store.list_schedules(active, Some(next), 10).await.unwrap();
    assert_eq!((rest.len(), rest[0].id, next), (1, last.id, None));
    // Of a task with so many, too.
    let of_task = ScheduleFilter { is_paused: Some(false), task: Some(task_id(1)), ..ScheduleFilter::default() };
    let (first, next) = store.list_schedules(of_task.clone(), None, 10).await.unwrap();
    assert_eq!(first.len(), 1);
    let (rest, next) = store.list_schedules(of_task, next, 10).await.unwrap();
    assert_eq!((rest.len(), rest[0].id, next), (1, last.id, None));
    let names = store.schedules_of_task(task_id(1), 3).await.unwrap();
    assert_eq!(names, ["000000", "000000 first", "000001"]);
    let paused = ScheduleFilter { is_paused: Some(true), ..ScheduleFilter::default() };
    let (rows, next) = store.list_schedules(paused, Some("010498".to_owned()), 10).await.unwrap();
    assert_eq!((rows.len(), next), (1, None));
}

#[tokio::test]
async fn a_ledger_that_shows_little_ends_its_page_early_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let mut owner = owner_of(&store, &[]).await;
    let schedule = new_schedule(1, "backup", 1);
    let missed = unfired(schedule.id, 1_000_000, Verdict::Missed);
    owner.done(vec![add(&schedule), decide(&missed)]).await;
    fill(
        &folder,
        "INSERT INTO occurrence (schedule, at, shard, slot, verdict, decided_at, marks, count, job, reason) SELECT id, ?3, shard, ?3, 3, ?3, 0, 1, NULL, ?2 FROM schedule WHERE ?1 IS NOT NULL",
    );
    let filter = OccurrenceFilter { verdicts: vec![Verdict::Missed], ..OccurrenceFilter::default() };
    let read = async |after| store.occurrences(schedule.id, filter.clone(), after, Order::Ascending, 10).await.unwrap();
    let (rows, next) = read(None).await;
    assert_eq!((rows, next), (vec![], Some(at(9_999))));
    let (rows, next) = read(next).await;
    assert_eq!((rows, next), (vec![missed.occurrence], None));
}

#[tokio::test]
async fn a_ledger_is_pruned_in_steps_and_the_caller_is_told_to_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let mut owner = owner_of(&store, &[]).await;
    let schedules = [new_schedule(1, "one", 1), new_schedule(2, "two", 1)];
    let queued = unfired(schedules[0].id, 900_000, Verdict::Queued);
    owner.done(vec![add(&schedules[0]), add(&schedules[1]), decide(&queued)]).await;
    // Two for each: more than go in one call.
    fill(
        &folder,
        "INSERT INTO occurrence (schedule, at, shard, slot, verdict, decided_at, marks, count, job, reason) SELECT id, ?3, shard, ?3, 3, ?3, 0, 1, NULL, ?2 FROM schedule WHERE ?1 IS NOT NULL",
    );
    let left = || raw(&folder).query_row("SELECT count(*) FROM occurrence", [], |row| row.get::<_, u32>(0)).unwrap();
    let mut answers = Vec::new();
    for _ in 0..3 {
        answers.push((store.prune(at(1_000_000), at(0), 500).await.unwrap(), left()));
    }
    assert_eq!(answers, [(500, 2 * MANY as u32 + 1 - 20_000), (0, 1), (0, 1)], "what is queued stays");
}
