//! Notices and backfills with several servers on one database, and what they leave behind.

mod common;

use std::time::Duration;

use common::Database;
use futures_util::future::join_all;
use punctual_core::notice::NoticeKind;
use punctual_core::schedule::Verdict;
use punctual_core::shard::write::{JobWrite, SharedBatch, Write};
use punctual_core::{JobState, NamespaceId};
use punctual_store::{
    Applied, BACKFILLS_MAX, Backfills, Dispatch, Dispatched, FoundRow, Notices, RULES_MAX, Retention, RuleChange,
    Stepped, StoreError, Transitions,
};
use punctual_store_postgres::PostgresStore;
use punctual_store_tests::fixture::*;
use punctual_store_tests::report_fixture::*;
use punctual_store_tests::schedule_fixture::*;
use punctual_store_tests::unreadable::rows_about_notifications_are_passed_over;
use tokio_postgres::{Client, NoTls};

async fn raw(database: &Database) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Until so many wait for a lock, so that what was started has reached it.
async fn as_many_wait(client: &Client, wanted: i64) {
    for _ in 0..1000 {
        let waiting =
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
        if client.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) >= wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("nobody waits");
}

/// What waits is told by job `n`, with a line about it in the rule `ops`.
fn message(taken: &[i64], version: u64, n: u64) -> Dispatch {
    let job = new_job(n, 200, (n % 4) as u16);
    Dispatch {
        taken: taken.to_vec(),
        rules: vec![update("ops", version, &format!("by {n}"))],
        ailing: vec![ailing(n % 2, 10, 20), ailing(1 - n % 2, 10, 20)],
        well: vec![task_id(7)],
        deliveries: vec![delivery("ops", 200, job.id)],
        jobs: vec![job],
    }
}

fn count(database: &Database, table: &str) -> String {
    database.execute(&format!("SELECT count(*) FROM {table}"))
}

#[tokio::test]
async fn of_servers_that_dispatch_the_same_at_once_one_does() {
    const ROUNDS: u64 = 20;
    let database = Database::new();
    let stores = join_all((0..3).map(|_| database.store())).await;
    let mut owner = owner_of(&stores[0], &[]).await;
    with_rule(&stores[0], "ops").await;
    for round in 0..ROUNDS {
        owner.done((0..50).map(|n| tell(&notice(NoticeKind::Failed, n, (n % 4) as u16))).collect()).await;
        let taken = numbers(&stores[0]).await;
        assert_eq!(taken.len(), 50);
        let calls = stores.iter().zip(0..).map(|(store, n)| store.dispatch(message(&taken, round, 10 * round + n)));
        let answers: Vec<_> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(answers.iter().filter(|answer| **answer == Dispatched::Done).count(), 1, "{answers:?}");
        assert!(numbers(&stores[1]).await.is_empty());
    }
    for table in ["job", "delivery"] {
        assert_eq!(count(&database, table), ROUNDS.to_string(), "{table}");
    }
    assert_eq!(stores[2].rule(NamespaceId::DEFAULT, "ops").await.unwrap().unwrap().version, ROUNDS);
}

/// Two servers are in the middle of it when the third lets go of the rule that both need.
#[tokio::test]
async fn a_dispatch_that_meets_another_waits_for_it_and_gives_up() {
    let database = Database::new();
    let stores = [database.store().await, database.store().await];
    let mut owner = owner_of(&stores[0], &[]).await;
    with_rule(&stores[0], "ops").await;
    owner.done(vec![tell(&notice(NoticeKind::Failed, 1, 0)), tell(&notice(NoticeKind::Failed, 2, 1))]).await;
    let taken = numbers(&stores[0]).await;
    let blocker = raw(&database).await;
    blocker.batch_execute("BEGIN; SELECT FROM notification_rule FOR UPDATE").await.unwrap();
    // One notice each, so that the rule alone tells who is first.
    let calls: Vec<_> = stores
        .iter()
        .zip(0..)
        .map(|(store, n)| {
            let (store, dispatch) = (store.clone(), message(&taken[n as usize..=n as usize], 0, n));
            tokio::spawn(async move { store.dispatch(dispatch).await })
        })
        .collect();
    as_many_wait(&raw(&database).await, 2).await;
    blocker.batch_execute("COMMIT").await.unwrap();
    let answers: Vec<_> = join_all(calls).await.into_iter().map(|answer| answer.unwrap().unwrap()).collect();
    let done = answers.iter().position(|answer| *answer == Dispatched::Done).expect("one of them is first");
    assert_eq!(answers[1 - done], Dispatched::Conflict);
    assert_eq!(numbers(&stores[0]).await, [taken[1 - done]], "the notice of the other waits as before");
    assert_eq!(stores[0].rule(NamespaceId::DEFAULT, "ops").await.unwrap().unwrap().state, Some(format!("by {done}")));
    assert_eq!((count(&database, "job"), count(&database, "delivery")), ("1".to_owned(), "1".to_owned()));
    // The next call finds the connection as it should be.
    dispatched(&stores[1 - done], message(&[taken[1 - done]], 1, 9)).await;
}

#[tokio::test]
async fn a_dispatch_whose_connection_breaks_leaves_all_as_it_was() {
    let database = Database::new();
    let store = database.store().await;
    let mut owner = owner_of(&store, &[]).await;
    with_rule(&store, "ops").await;
    owner.done(vec![tell(&notice(NoticeKind::Failed, 1, 0))]).await;
    let taken = numbers(&store).await;
    // It has taken the notice and changed the rule when it comes to the ailing tasks.
    let blocker = raw(&database).await;
    blocker.batch_execute("BEGIN; LOCK TABLE ailing IN EXCLUSIVE MODE").await.unwrap();
    let call = tokio::spawn({
        let (store, dispatch) = (store.clone(), message(&taken, 0, 1));
        async move { store.dispatch(dispatch).await }
    });
    let watcher = raw(&database).await;
    as_many_wait(&watcher, 1).await;
    let terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                     WHERE wait_event_type = 'Lock' AND datname = current_database()";
    watcher.batch_execute(terminate).await.unwrap();
    let answer = call.await.unwrap();
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    blocker.batch_execute("COMMIT").await.unwrap();
    assert_eq!(numbers(&store).await, taken);
    assert_eq!(store.rule(NamespaceId::DEFAULT, "ops").await.unwrap(), Some(new_rule("ops")));
    dispatched(&store, message(&taken, 0, 1)).await;
    assert_eq!(count(&database, "job"), "1");
}

#[tokio::test]
async fn of_servers_that_step_a_backfill_at_once_one_does() {
    const ROUNDS: u64 = 20;
    let database = Database::new();
    let stores = join_all((0..3).map(|_| database.store())).await;
    with_task(&stores[0]).await;
    let row = with_backfill(&stores[0], 1).await;
    for round in 0..ROUNDS {
        // The same times in part, as servers that have read the same would choose them.
        let step = |n: i64| step_making(1, round, &[100 * round as i64, 100 * round as i64 + n]);
        let calls = stores.iter().zip(1..).map(|(store, n)| store.step_backfill(step(n)));
        let answers: Vec<_> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(answers.iter().filter(|answer| **answer == Stepped::Done).count(), 1, "{answers:?}");
    }
    for table in ["job", "backfill_run"] {
        assert_eq!(count(&database, table), (2 * ROUNDS).to_string(), "{table}");
    }
    assert_eq!(stores[1].backfill(row.id).await.unwrap().unwrap().version, ROUNDS);
}

#[tokio::test]
async fn a_step_that_meets_another_waits_for_it_and_gives_up() {
    let database = Database::new();
    let stores = [database.store().await, database.store().await];
    with_task(&stores[0]).await;
    let row = with_backfill(&stores[0], 1).await;
    let blocker = raw(&database).await;
    blocker.batch_execute("BEGIN; SELECT FROM backfill FOR UPDATE").await.unwrap();
    let calls: Vec<_> = stores
        .iter()
        .zip(0..)
        .map(|(store, n)| {
            let (store, step) = (store.clone(), step_making(1, 0, &[10 + n]));
            tokio::spawn(async move { store.step_backfill(step).await })
        })
        .collect();
    as_many_wait(&raw(&database).await, 2).await;
    blocker.batch_execute("COMMIT").await.unwrap();
    let answers: Vec<_> = join_all(calls).await.into_iter().map(|answer| answer.unwrap().unwrap()).collect();
    let done = answers.iter().position(|answer| *answer == Stepped::Done).expect("one of them is first");
    assert_eq!(answers[1 - done], Stepped::Conflict);
    assert_eq!(stores[0].open_runs(row.id, 10).await.unwrap(), [run_of(10 + done as i64, None)]);
    assert_eq!(count(&database, "job"), "1");
    assert_eq!(stores[1 - done].step_backfill(step_making(1, 1, &[20])).await.unwrap(), Stepped::Done);
}

/// Another server is in the middle of taking the last place.
#[tokio::test]
async fn the_last_place_is_given_once() {
    let database = Database::new();
    let store = database.store().await;
    database.execute(&format!(
        "INSERT INTO notification_rule SELECT 0, 0, 0, 1, 'rule ' || n, '', '', '{{}}' FROM generate_series(2, {RULES_MAX}) AS n"
    ));
    for n in 1..BACKFILLS_MAX as u64 {
        with_backfill(&store, n).await;
    }
    let other = raw(&database).await;
    let watcher = raw(&database).await;
    let take_rule = "BEGIN; SELECT FROM meta WHERE key = 'rules' FOR UPDATE;
                     INSERT INTO notification_rule VALUES (0, 0, 0, 1, 'theirs', '', '', '{}')";
    other.batch_execute(take_rule).await.unwrap();
    let putting = tokio::spawn({
        let store = store.clone();
        async move { store.put_rule(new_rule("ours"), None).await }
    });
    as_many_wait(&watcher, 1).await;
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(putting.await.unwrap().unwrap(), RuleChange::Full);
    let take_backfill = "BEGIN; SELECT FROM meta WHERE key = 'backfills' FOR UPDATE;
                         INSERT INTO backfill (id, schedule, version, created_at, total, made, passed_over, succeeded,
                                               failed, cancelled, state, schedule_name, spec, created_by)
                         VALUES (gen_random_uuid(), gen_random_uuid(), 0, 0, 0, 0, 0, 0, 0, 0, 1, '', '', '')";
    other.batch_execute(take_backfill).await.unwrap();
    let adding = tokio::spawn({
        let store = store.clone();
        async move { store.add_backfill(new_backfill(999)).await }
    });
    as_many_wait(&watcher, 1).await;
    other.batch_execute("COMMIT").await.unwrap();
    assert!(!adding.await.unwrap().unwrap());
    assert_eq!(count(&database, "notification_rule"), RULES_MAX.to_string());
    assert_eq!(count(&database, "backfill"), BACKFILLS_MAX.to_string());
}

/// Batches follow each other on one connection before the first is answered. One that says something about what turns
/// out to be void is looked at again, and those behind it come after it all the same.
#[tokio::test]
async fn what_is_void_is_not_told_and_holds_up_no_order() {
    let database = Database::new();
    let store = database.store().await;
    let jobs: Vec<_> = (0..20).map(|n| new_job(n, 10, 1)).collect();
    let absent = new_job(99, 10, 1);
    let mut owner = owner_of(&store, &jobs).await;
    let schedule = schedule_id(1, 1);
    owner.done(vec![decide(&unfired(schedule, 60, Verdict::Missed))]).await;
    let told = |n: i64| notice(NoticeKind::Failed, n, 1);
    let mut calls = Vec::new();
    for (job, n) in jobs.iter().zip(0..) {
        let failed = ended_with(job, JobState::Failed, &told(n));
        let again = match n % 4 {
            0 => decide(&noticed(unfired(schedule, 60, Verdict::Missed), &told(1000))),
            1 => release(&noticed(unfired(schedule, 60, Verdict::Missed), &told(1000))),
            2 => resolved_with(&absent, JobState::Failed, &told(1000)),
            _ => tell(&told(500 + n)),
        };
        calls.push(owner.batch(vec![again, failed]));
    }
    let answers = join_all(calls.into_iter().map(|batch| store.apply(SharedBatch::new(batch)))).await;
    for (answer, n) in answers.into_iter().zip(0..) {
        let Ok(Applied::Done { void, .. }) = answer else { panic!("{answer:?}") };
        let expected = match n % 4 {
            0 | 1 => (0, 1),
            2 => (1, 0),
            _ => (0, 0),
        };
        assert_eq!((void.jobs.len(), void.occurrences.len()), expected, "batch {n}");
    }
    let expected: Vec<_> =
        (0..20).flat_map(|n| (n % 4 == 3).then(|| told(500 + n)).into_iter().chain([told(n)])).collect();
    assert_eq!(waiting(&store).await, expected);
}

#[tokio::test]
async fn a_void_rerun_beside_a_notice_is_left_out() {
    let database = Database::new();
    let store = database.store().await;
    let (job, absent) = (new_job(1, 10, 0), new_job(99, 10, 0));
    let mut owner = owner_of(&store, std::slice::from_ref(&job)).await;
    let failed = notice(NoticeKind::Failed, 1, 0);
    let rerun = |id| {
        let counters = counters(2, 0, 0);
        Write::Job(JobWrite::Rerun(punctual_core::shard::write::Rerun { id, due_at: at(50), counters }))
    };
    owner.void(vec![rerun(absent.id), ended_with(&job, JobState::Failed, &failed)], absent.id).await;
    assert_eq!(waiting(&store).await, std::slice::from_ref(&failed));
    owner.done(vec![rerun(job.id), tell(&failed)]).await;
    assert!(matches!(store.find(job.id).await.unwrap(), FoundRow::Hot(_)));
    assert_eq!(waiting(&store).await.len(), 2);
}

#[tokio::test]
async fn rows_about_notifications_that_cannot_be_read_are_passed_over_and_stay() {
    let database = Database::new();
    let store = database.store().await;
    rows_about_notifications_are_passed_over(&store, &|sql| drop(database.execute(sql))).await;
}

/// Calls until nothing is left; how many said that there is more.
async fn prune_all(store: &PostgresStore) -> usize {
    for calls in 0..20 {
        if store.prune(at(1000), at(1000), 10).await.unwrap() < 10 {
            return calls;
        }
    }
    panic!("it does not come to an end");
}

#[tokio::test]
async fn what_there_is_much_of_goes_in_steps() {
    let database = Database::new();
    let store = database.store().await;
    for (n, progress) in [(1, ended_at(10)), (2, ended_at(20)), (3, RUNNING)] {
        assert!(store.add_backfill(punctual_store::BackfillRow { progress, ..new_backfill(n) }).await.unwrap());
    }
    database.execute(
        "INSERT INTO backfill_run (backfill, schedule, job, at)
         SELECT id, schedule, gen_random_uuid(), n FROM backfill, generate_series(1, 25000) AS n",
    );
    assert_eq!(store.prune(at(1000), at(1000), 10).await.unwrap(), 10, "there is more");
    assert_eq!(count(&database, "backfill_run"), "55000");
    assert!(store.backfill(backfill_id(1)).await.unwrap().is_some(), "some of its runs are there");
    assert_eq!(prune_all(&store).await, 1);
    assert_eq!((count(&database, "backfill"), count(&database, "backfill_run")), ("1".to_owned(), "25000".to_owned()));
    assert!(store.backfill(backfill_id(3)).await.unwrap().is_some());
    database.execute(&format!(
        "INSERT INTO delivery SELECT gen_random_uuid(), {} + n, 1, 'ops', '' FROM generate_series(1, 45000) AS n;
         INSERT INTO ailing SELECT gen_random_uuid(), 0, n, 1 FROM generate_series(1, 25000) AS n",
        at(0).as_micros()
    ));
    assert_eq!(prune_all(&store).await, 2);
    assert_eq!((count(&database, "delivery"), count(&database, "ailing")), ("0".to_owned(), "0".to_owned()));
}

/// A dispatch changes a task that retention is about to forget.
#[tokio::test]
async fn retention_passes_over_a_task_that_is_failing_again() {
    let database = Database::new();
    let store = database.store().await;
    dispatched(&store, Dispatch { ailing: vec![ailing(1, 10, 20), ailing(2, 10, 20)], ..Dispatch::default() }).await;
    let client = raw(&database).await;
    client
        .batch_execute(&format!(
            "BEGIN; UPDATE ailing SET last = {} WHERE task = (SELECT min(task::text)::uuid FROM ailing)",
            at(5000).as_micros()
        ))
        .await
        .unwrap();
    store.prune(at(1000), at(1000), 10).await.unwrap();
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(store.ailing(None, 10).await.unwrap(), [ailing(1, 10, 5000)]);
}
