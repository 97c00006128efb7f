//! A database that goes back in time: a standby that lagged is promoted, or a dump is restored. What was committed last is
//! gone; what is stored afterwards is as good as ever.

mod common;

use std::future::Future;
use std::time::{Duration, Instant};

use common::Database;
use punctual_core::attempt::{AttemptRecord, Ending};
use punctual_core::shard::write::{Epoch, JobWrite, Settle, Write};
use punctual_core::task::Task;
use punctual_core::{JobState, NamespaceId, ShardId, Span, WorkerId};
use punctual_local_postgres::{Postgres, Settings, Stop};
use punctual_store::{
    Interned, JobReads, JobRecord, Leases, NewJob, Result, Store, StoreError, Submitted, Tasks, Transitions,
};
use punctual_store_postgres::{Options, PostgresStore};
use punctual_store_tests::fixture::*;
use punctual_store_tests::unreadable;

const LONG: Span = Span::from_secs(3600);

async fn connect(url: &str) -> PostgresStore {
    PostgresStore::connect(Options { shard_count: SHARDS, ..Options::new(url) }).await.unwrap()
}

async fn until_it_works<T, F: Future<Output = Result<T>>>(call: impl Fn() -> F) -> T {
    let begun = Instant::now();
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) if begun.elapsed() > Duration::from_secs(30) => panic!("still: {error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

fn ran_by(by: WorkerId) -> AttemptRecord {
    AttemptRecord { worker: by, ..ran(1, Ending::Succeeded) }
}

fn settled_by(job: &NewJob, by: WorkerId) -> Write {
    let settle = settled(original(job), 1, JobState::Succeeded, Ending::Succeeded);
    Write::Job(JobWrite::Settle(Settle { attempt: Some(ran_by(by)), ..settle }))
}

async fn attempts(store: &dyn Store, job: &NewJob) -> Vec<AttemptRecord> {
    match store.job(job.id).await.unwrap().expect("the job is there") {
        JobRecord::Hot { attempts, .. } | JobRecord::Finished { attempts, .. } => attempts,
    }
}

async fn until_caught_up(primary: &Postgres, standby: &Postgres) {
    let position = primary.execute("SELECT pg_current_wal_lsn()").unwrap();
    let begun = Instant::now();
    while standby.execute(&format!("SELECT pg_last_wal_replay_lsn() >= '{position}'")).unwrap() != "t" {
        assert!(begun.elapsed() < Duration::from_secs(30), "the standby lags");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What is committed from now on never arrives at the standby.
async fn cut_off(primary: &Postgres, standby: &Postgres) {
    until_caught_up(primary, standby).await;
    standby.execute("ALTER SYSTEM SET primary_conninfo = ''").unwrap();
    standby.execute("SELECT pg_reload_conf()").unwrap();
    let begun = Instant::now();
    while standby.execute("SELECT count(*) FROM pg_stat_wal_receiver").unwrap() != "0" {
        assert!(begun.elapsed() < Duration::from_secs(30), "the standby still receives");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn intern(store: &dyn Store, n: u64) -> Result<Interned> {
    let task = Task { name: None, ..named_task(n, "unnamed") };
    store.intern_tasks(vec![(task, [n as u8; 32])]).await
}

#[tokio::test]
async fn jobs_stored_after_a_failover_that_lost_commits_run_and_can_be_read() {
    let mut primary = Settings::test().start().unwrap();
    primary.create_database("jobs").unwrap();
    let standby = Settings::test().standby_of(&primary).unwrap();
    let (user, _) = primary.url().split_once('@').unwrap();
    let both = format!("{user}@127.0.0.1:{},127.0.0.1:{}/jobs", primary.port(), standby.port());
    let store = connect(&both).await;
    let other = connect(&both).await;
    let first = new_job(1, 10, 1);
    let ended = new_job(2, 10, 1);
    let mut owner = owner_of(&store, &[first.clone(), ended.clone()]).await;
    owner.done(vec![start(original(&first), 1), start(original(&ended), 1)]).await;
    let before = owner.epoch(1);
    cut_off(&primary, &standby).await;

    // All of this is lost: numbers of nodes, the number of a task, the end of an attempt.
    owner.done(vec![settled_by(&ended, worker(2))]).await;
    assert_eq!(attempts(&store, &ended).await, [ran_by(worker(2))]);
    for (n, store) in [(7, &store), (8, &other)] {
        assert_eq!(intern(store, n).await.unwrap(), Interned::Done(vec![task_id(n)]));
        let job = NewJob { task: task_id(n), ..new_job(20 + n, 10, 1) };
        assert_eq!(submit(store, vec![job]).await.unwrap(), Submitted::Done);
    }
    let generation = (store.generation(), other.generation());
    primary.kill().unwrap();
    standby.promote().unwrap();

    until_it_works(|| store.renew(owner.server, LONG)).await;
    until_it_works(|| other.now()).await;
    assert!(store.generation() > generation.0 && other.generation() > generation.1, "both servers know");
    let mut owner = Owner::new(&store, 1).await;
    let open = until_it_works(|| store.open_starts(ShardId(1))).await;
    assert_eq!(open.running.len(), 2, "one of them has ended, which is lost");
    assert!(open.whole_since > before && open.whole_since <= owner.epoch(1), "{open:?}");

    // The task of before is gone. Its number is not used for a job, and not given to another task.
    for (n, store) in [(7, &store), (8, &other)] {
        let job = NewJob { task: task_id(n), ..new_job(30 + n, 10, 1) };
        let refused = submit(store, vec![job]).await;
        assert!(matches!(refused, Err(StoreError::Inconsistent(_))), "{refused:?}");
    }
    for (n, store) in [(17, &store), (18, &other)] {
        until_it_works(|| intern(store, n)).await;
        let job = NewJob { task: task_id(n), ..new_job(40 + n, 10, 1) };
        assert_eq!(submit(store, vec![job.clone()]).await.unwrap(), Submitted::Done);
        owner.done(vec![start(original(&job), 1)]).await;
        owner.done(vec![settled_by(&job, worker(2))]).await;
        for store in [store, &other] {
            let Some(JobRecord::Finished { job: shown, attempts, .. }) = store.job(job.id).await.unwrap() else {
                panic!("it has ended")
            };
            assert_eq!((shown.task, &attempts[..]), (task_id(n), &[ran_by(worker(2))][..]));
        }
    }
    let bad = standby
        .execute_in("jobs", "SELECT count(*) FROM history WHERE worker NOT IN (SELECT number FROM node)")
        .unwrap();
    assert_eq!(bad, "0");
}

#[tokio::test]
async fn a_restart_that_lost_nothing_leaves_the_records_of_starts_whole() {
    let mut server = Settings::durable().start().unwrap();
    let url = server.create_database("jobs").unwrap();
    let store = connect(&url).await;
    let job = new_job(1, 10, 1);
    let mut owner = owner_of(&store, std::slice::from_ref(&job)).await;
    owner.done(vec![start(original(&job), 1)]).await;
    for _ in 0..2 {
        store.renew(owner.server, LONG).await.unwrap();
        let generation = store.generation();
        server.stop(Stop::Immediate).unwrap();
        server.start_again().unwrap();
        until_it_works(|| store.renew(owner.server, LONG)).await;
        assert!(store.generation() > generation);
        let open = until_it_works(|| store.open_starts(ShardId(1))).await;
        assert_eq!((open.running.len(), open.whole_since), (1, Epoch(0)));
        owner = Owner::new(&store, 1).await;
    }
    // An operator who has restored an older copy of the data in place says so.
    server.execute_in("jobs", "UPDATE meta SET value = '' WHERE key = 'fingerprint'").unwrap();
    server.restart().unwrap();
    until_it_works(|| store.renew(owner.server, LONG)).await;
    let open = until_it_works(|| store.open_starts(ShardId(1))).await;
    assert!(open.whole_since > owner.epoch(1), "{open:?}");
}

/// Another table with the same name and rows, as after `DROP` and a restore.
const RESTORE: &str = "BEGIN;
    CREATE TABLE restored (LIKE shard INCLUDING ALL);
    INSERT INTO restored SELECT * FROM shard;
    DROP TABLE shard;
    ALTER TABLE restored RENAME TO shard;
    DELETE FROM node; DELETE FROM task WHERE name IS NULL;
    COMMIT";

#[tokio::test]
async fn a_dump_that_is_restored_under_open_connections_begins_a_generation() {
    let database = Database::new();
    let (store, other) = (connect(&database.url).await, connect(&database.url).await);
    let jobs = [new_job(1, 10, 1), new_job(2, 10, 1), new_job(3, 10, 1)];
    let mut owner = owner_of(&store, &jobs).await;
    owner.done(vec![start(original(&jobs[0]), 1), settled_by(&jobs[1], worker(2))]).await;
    intern(&store, 7).await.unwrap();
    let lost = |n| NewJob { task: task_id(7), ..new_job(n, 10, 1) };
    assert_eq!(submit(&store, vec![lost(20)]).await.unwrap(), Submitted::Done);
    let (before, generation) = (owner.epoch(1), store.generation());
    database.execute(RESTORE);
    let renewed = until_it_works(|| store.renew(owner.server, LONG)).await;
    assert!(renewed.iter().all(|owned| owned.epoch > before), "{renewed:?}");
    until_it_works(|| other.leases()).await;
    assert!(store.generation() > generation && other.generation() == store.generation());
    assert!(store.open_starts(ShardId(1)).await.unwrap().whole_since > before);
    let refused = submit(&store, vec![lost(21)]).await;
    assert!(matches!(refused, Err(StoreError::Inconsistent(_))), "{refused:?}");
    let mut owner = Owner::new(&store, 1).await;
    owner.done(vec![settled_by(&jobs[2], worker(2))]).await;
    assert_eq!(attempts(&store, &jobs[2]).await, [ran_by(worker(2))]);
    assert_eq!(attempts(&store, &jobs[1]).await[0].worker, WorkerId::UNKNOWN, "its number was lost, the rest is shown");
}

#[tokio::test]
async fn a_job_is_shown_although_its_attempt_cannot_be_read() {
    let database = Database::new();
    let store = database.store().await;
    unreadable::a_job_is_shown_although_its_attempt_cannot_be_read(&store, &|sql| drop(database.execute(sql))).await;
}

#[tokio::test]
async fn a_schema_that_was_dropped_is_named() {
    let database = Database::new();
    let store = connect(&database.url).await;
    let job = new_job(1, 10, 1);
    let owner = owner_of(&store, std::slice::from_ref(&job)).await;
    store.job(job.id).await.unwrap();
    database.empty();
    let names_it = |error: StoreError| {
        let text = error.to_string();
        assert!(matches!(error, StoreError::Schema(_)) && text.contains("schema of the database is missing"), "{text}");
    };
    for _ in 0..2 {
        names_it(submit(&store, vec![new_job(2, 10, 1)]).await.unwrap_err());
        names_it(store.renew(owner.server, LONG).await.unwrap_err());
        names_it(store.job(job.id).await.unwrap_err());
        names_it(store.list_tasks(NamespaceId::DEFAULT, None, 1).await.unwrap_err());
    }
}

#[tokio::test]
async fn a_store_without_one_of_its_tables_is_not_ready() {
    for table in ["start_batch", "history", "log", "attempt"] {
        let database = Database::new();
        let store = connect(&database.url).await;
        store.probe().await.unwrap();
        database.execute(&format!("DROP TABLE {table} CASCADE"));
        let error = store.probe().await.unwrap_err();
        assert!(matches!(&error, StoreError::Schema(text) if text.contains(table)), "{error}");
    }
}
