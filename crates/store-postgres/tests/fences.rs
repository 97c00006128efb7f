//! One owner: a batch and a takeover never pass each other.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::Database;
use futures_util::future::join_all;
use punctual_core::attempt::Ending;
use punctual_core::schedule::By;
use punctual_core::shard::write::{CancelMark, JobWrite, Requeue, Settle, SharedBatch, Void, Write};
use punctual_core::workflow::{NodeStatus, RunState, RunStatus};
use punctual_core::{Counters, JobKey, JobState, NamespaceId, RunId, ShardId, Span};
use punctual_store::{
    Applied, FoundRow, Leases, NewJob, RunRow, Store, StoreError, Transitions, WorkflowRow, Workflows,
};
use punctual_store_postgres::{Options, PostgresStore};
use punctual_store_tests::fixture::*;
use tokio_postgres::{Client, NoTls};

const LONG: Span = Span::from_secs(3600);

async fn raw(database: &Database) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Until so many wait for a lock, so that what was started has reached it.
async fn waiting_for_locks(client: &Client, count: i64) {
    for _ in 0..1000 {
        let waiting =
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
        let row = client.query_one(waiting, &[]).await.unwrap();
        if row.get::<_, i64>(0) >= count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("too few wait");
}

#[tokio::test]
async fn a_batch_in_flight_holds_off_a_takeover_and_a_stale_one_is_refused() {
    let database = Database::new();
    let store = database.store().await;
    let jobs: Vec<_> = (0..2).map(|n| new_job(n, 10, 1)).collect();
    let mut owner = owner_of(&store, &jobs).await;
    // A row that the batch needs is locked, so the batch stops between its fence and its commit.
    let blocker = raw(&database).await;
    blocker.batch_execute("BEGIN; SELECT FROM job FOR UPDATE").await.unwrap();
    let watcher = raw(&database).await;
    let batch = SharedBatch::new(owner.batch(vec![succeed(original(&jobs[0]), 1)]));
    let applying = tokio::spawn({
        let store = store.clone();
        async move { store.apply(batch).await }
    });
    waiting_for_locks(&watcher, 1).await;
    // A renewal does not wait for it, and acquiring leaves the shard alone.
    assert_eq!(store.renew(server(1), Span::ZERO).await.unwrap().len(), 4);
    let other = PostgresStore::connect(database.options()).await.unwrap();
    let taken: Vec<_> = other.acquire(server(2), LONG, 4).await.unwrap().iter().map(|owned| owned.shard.0).collect();
    assert_eq!(taken, [0, 2, 3]);
    let taking = tokio::spawn(async move { other.take_over(server(2), vec![ShardId(1)], LONG).await });
    waiting_for_locks(&watcher, 2).await;
    assert!(!taking.is_finished(), "the batch holds it off");
    blocker.batch_execute("COMMIT").await.unwrap();
    assert_eq!(applying.await.unwrap().unwrap(), Applied::done(Void::default()));
    assert_eq!(taking.await.unwrap().unwrap()[0].epoch.0, 2);
    assert!(matches!(store.find(jobs[0].id).await.unwrap(), FoundRow::Finished { .. }));
    let stale = owner.apply(vec![succeed(original(&jobs[1]), 1)]).await.unwrap();
    assert_eq!(stale, Applied::Fenced(vec![ShardId(1)]));
    assert!(matches!(store.find(jobs[1].id).await.unwrap(), FoundRow::Hot(_)));
}

#[tokio::test]
async fn a_batch_that_meets_a_takeover_waits_for_it_and_is_fenced() {
    let database = Database::new();
    let store = database.store().await;
    let job = new_job(1, 10, 1);
    let mut owner = owner_of(&store, std::slice::from_ref(&job)).await;
    let taker = raw(&database).await;
    let take = "BEGIN; SELECT FROM shard WHERE id = 1 FOR UPDATE; UPDATE shard SET epoch = epoch + 1 WHERE id = 1";
    taker.batch_execute(take).await.unwrap();
    let watcher = raw(&database).await;
    let batch = SharedBatch::new(owner.batch(vec![succeed(original(&job), 1)]));
    let applying = tokio::spawn({
        let store = store.clone();
        async move { store.apply(batch).await }
    });
    waiting_for_locks(&watcher, 1).await;
    taker.batch_execute("COMMIT").await.unwrap();
    assert_eq!(applying.await.unwrap().unwrap(), Applied::Fenced(vec![ShardId(1)]));
}

#[tokio::test]
async fn servers_that_acquire_at_once_share_the_shards() {
    let database = Database::new();
    let options = Options { shard_count: 64, ..database.options() };
    let stores = join_all((0..4).map(|_| PostgresStore::connect(options.clone()))).await;
    let taken = join_all(stores.into_iter().zip(0..).map(|(store, n)| async move {
        let store = store.unwrap();
        let mut owned = Vec::new();
        // One who finds rows locked takes what is left.
        for _ in 0..20 {
            owned.extend(store.acquire(server(n), LONG, 16).await.unwrap());
        }
        owned
    }))
    .await
    .concat();
    let mut shards: Vec<u16> = taken.iter().map(|owned| owned.shard.0).collect();
    shards.sort_unstable();
    assert_eq!(shards, (0..64).collect::<Vec<_>>());
    assert!(taken.iter().all(|owned| owned.epoch.0 == 1));
}

fn deletion(job: &NewJob) -> Write {
    ended(original(job), JobState::Deleted, at(1))
}

/// Batches of one lane are under way together. One that does not fit is looked at again, and those behind it
/// must still come after it.
#[tokio::test]
async fn batches_are_applied_in_the_order_of_the_calls_even_when_one_does_not_fit() {
    let database = Database::new();
    let store = database.store().await;
    let jobs: Vec<_> = (0..40).map(|n| new_job(n, 10, 1)).collect();
    let absent = new_job(99, 10, 1);
    let mut owner = owner_of(&store, &jobs).await;
    let mut calls = Vec::new();
    for job in &jobs {
        // The move does not fit as a whole, because one of its jobs is not there; the end that follows only fits
        // where the move has brought the job to.
        let moved = punctual_core::JobKey { due_at: at(20), id: job.id };
        let mut requeue = retried(original(job), 1, at(20));
        requeue.counters = counters(2, 1, 0);
        calls.push(owner.batch(vec![deletion(&absent), Write::Job(JobWrite::Requeue(requeue))]));
        calls.push(owner.batch(vec![succeed(moved, 2)]));
    }
    let answers = join_all(calls.into_iter().map(|batch| store.apply(SharedBatch::new(batch)))).await;
    for (place, answer) in answers.into_iter().enumerate() {
        let void = if place % 2 == 0 { vec![absent.id] } else { vec![] };
        assert_eq!(answer.unwrap(), Applied::done(void.into()), "batch {place}");
    }
}

/// What follows would fit if it were applied first, and must not be.
#[tokio::test]
async fn a_batch_does_not_overtake_one_that_is_looked_at_again() {
    let database = Database::new();
    let store = database.store().await;
    let jobs: Vec<_> = (0..20).map(|n| new_job(n, 10, 1)).collect();
    let absent = new_job(99, 10, 1);
    let mut owner = owner_of(&store, &jobs).await;
    let mut calls = Vec::new();
    for job in &jobs {
        let moved = Write::Job(JobWrite::Requeue(Requeue {
            key: original(job),
            due_at: at(20),
            counters: Counters::NEW,
            give_backs: None,
            attempt: None,
            cancel: CancelMark::None,
        }));
        calls.push(owner.batch(vec![deletion(&absent), moved]));
        calls.push(owner.batch(vec![Write::Job(JobWrite::RequestCancel { key: original(job) })]));
    }
    let answers = join_all(calls.into_iter().map(|batch| store.apply(SharedBatch::new(batch)))).await;
    for pair in answers.chunks(2) {
        assert!(matches!(&pair[0], Ok(Applied::Done { void, .. }) if void.jobs == [absent.id]), "{pair:?}");
        assert!(matches!(&pair[1], Err(StoreError::Inconsistent(_))), "{pair:?}");
    }
}

#[tokio::test]
async fn batches_for_one_lane_and_for_all_keep_their_order() {
    let database = Database::new();
    let store = PostgresStore::connect(Options { lanes: 3, ..database.options() }).await.unwrap();
    let jobs: Vec<_> = (0..60).map(|n| new_job(n, 10, (n % 4) as u16)).collect();
    let mut owner = owner_of(&store, &jobs).await;
    let mut calls = Vec::new();
    for four in jobs.chunks(4) {
        // Each alone in its lane, then all together, then each alone again.
        calls.extend(
            four.iter().map(|job| owner.batch(vec![Write::Job(JobWrite::Requeue(retried(original(job), 1, at(20))))])),
        );
        let moved = |job: &NewJob| punctual_core::JobKey { due_at: at(20), id: job.id };
        let again = four.iter().map(|job| Write::Job(JobWrite::Requeue(retried(moved(job), 2, at(30)))));
        calls.push(owner.batch(again.collect()));
        let last = |job: &NewJob| punctual_core::JobKey { due_at: at(30), id: job.id };
        calls.extend(four.iter().map(|job| owner.batch(vec![succeed(last(job), 3)])));
    }
    for answer in join_all(calls.into_iter().map(|batch| store.apply(SharedBatch::new(batch)))).await {
        assert_eq!(answer.unwrap(), Applied::done(Void::default()));
    }
}

#[tokio::test]
async fn a_store_that_is_closed_has_answered_what_was_queued() {
    let database = Database::new();
    let store = database.store().await;
    with_task(&store).await;
    let submits: Vec<_> = (0..100)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { submit(&store, vec![new_job(n, 10, 0)]).await })
        })
        .collect();
    tokio::task::yield_now().await;
    store.close().await.unwrap();
    store.close().await.unwrap();
    let mut stored = 0;
    for call in submits {
        match call.await.unwrap() {
            Ok(_) => stored += 1,
            Err(error) => assert!(matches!(error, StoreError::Closed), "{error}"),
        }
    }
    assert_eq!(database.execute("SELECT count(*) FROM job"), stored.to_string());
    let store: Arc<dyn Store> = Arc::new(store);
    assert!(matches!(store.now().await, Err(StoreError::Closed)));
    assert!(matches!(store.load(load_all(0)).await, Err(StoreError::Closed)));
    assert!(matches!(submit(&*store, vec![]).await, Err(StoreError::Closed)));
    let empty = punctual_core::shard::write::Batch {
        seq: punctual_core::shard::write::BatchSeq(1),
        server: server(1),
        fences: vec![],
        at: at(0),
        writes: vec![],
    };
    assert!(matches!(store.apply(SharedBatch::new(empty)).await, Err(StoreError::Closed)));
}

/// The step of a batch locks the first run and waits for the second, while somebody who holds the second waits for the first.
#[tokio::test]
async fn a_batch_that_ends_in_a_deadlock_is_applied_again_and_loses_nothing() {
    let database = Database::new();
    // Who waits looks for a deadlock once, after this time. By then there has to be one, on a busy machine, too.
    database.execute(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = ''4s''', current_database()); END $$",
    );
    let store = database.store().await;
    let mut owner = owner_of(&store, &[]).await;
    let made = By { at: at(0), who: "ann".to_owned() };
    let spec = r#"{"nodes":[{"name":"a","task":"t"},{"name":"b","task":"t","needs":["a"]}]}"#.to_owned();
    let namespace = NamespaceId::DEFAULT;
    let version = WorkflowRow { namespace, name: "flow".to_owned(), version: 0, spec, made: made.clone() };
    store.put_workflow(version).await.unwrap();
    let mut ends = Vec::new();
    for n in 1..=2 {
        let row = RunRow {
            id: RunId::new(at(0), ShardId(2), n),
            namespace,
            workflow: "flow".to_owned(),
            version: 1,
            made: made.clone(),
            input: None,
            tasks: vec![Some((task_id(1), priority(0))); 2],
            state: RunState::new(2, at(1_000)),
            status: RunStatus::Running,
        };
        let job = store.start_run(row).await.unwrap().jobs.remove(0);
        let key = JobKey::original(job.id);
        owner.done(vec![start(key, 1)]).await;
        let settle = settled(key, 1, JobState::Succeeded, Ending::Succeeded);
        ends.push(Write::Job(JobWrite::Settle(Settle { node: job.node.map(Box::new), ..settle })));
    }
    let mut ids: Vec<String> = Vec::new();
    let (other, watcher) = (raw(&database).await, raw(&database).await);
    for row in watcher.query("SELECT id::text FROM workflow_run ORDER BY id", &[]).await.unwrap() {
        ids.push(row.get(0));
    }
    // Whoever finds the deadlock is ended, which is not to be the other one.
    other.batch_execute("SET deadlock_timeout = '1h'; BEGIN").await.unwrap();
    other.batch_execute(&format!("SELECT FROM workflow_run WHERE id = '{}' FOR UPDATE", ids[1])).await.unwrap();
    let batch = SharedBatch::new(owner.batch(ends));
    let applying = tokio::spawn({
        let store = store.clone();
        async move { store.apply(batch).await }
    });
    waiting_for_locks(&watcher, 1).await;
    let lock_first = format!("SELECT FROM workflow_run WHERE id = '{}' FOR UPDATE", ids[0]);
    tokio::time::timeout(Duration::from_secs(30), other.batch_execute(&lock_first)).await.unwrap().unwrap();
    // The batch has lost, and waits once more.
    waiting_for_locks(&watcher, 1).await;
    assert!(!applying.is_finished());
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    other.batch_execute("COMMIT").await.unwrap();
    let Applied::Done { void, steps } = applying.await.unwrap().unwrap() else { panic!("it is fenced") };
    assert_eq!((void, steps.released.len()), (Void::default(), 2), "each run goes on, once");
    for n in 1..=2 {
        let run = store.run(RunId::new(at(0), ShardId(2), n)).await.unwrap().unwrap();
        let states: Vec<NodeStatus> = run.state.nodes.iter().map(|node| node.status).collect();
        assert_eq!((states, run.status), (vec![NodeStatus::Succeeded, NodeStatus::Active], RunStatus::Running));
    }
    // Sessions report their figures when they end or have nothing to do.
    let mut seen: i64 = 0;
    for _ in 0..600 {
        seen = watcher.query_one(deadlocks, &[]).await.unwrap().get(0);
        if seen > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(seen > 0, "there was a deadlock");
}
