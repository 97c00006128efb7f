//! What happens when the database goes away, hangs, comes back or is another one than before.

mod common;

use std::future::Future;
use std::time::{Duration, Instant};

use common::Database;
use futures_util::future::join_all;
use punctual_core::shard::write::{SharedBatch, Void};
use punctual_core::{ShardId, Span};
use punctual_local_postgres::{Postgres, Settings};
use punctual_store::{
    Applied, Filter, FoundRow, JobReads, Leases, Order, Owned, Result, Store, StoreError, StoreFault, Submitted,
    Transitions,
};
use punctual_store_postgres::{Options, PostgresStore};
use punctual_store_tests::fixture::*;

const LONG: Span = Span::from_secs(3600);

/// As in production: PostgreSQL's clock, and epochs by generation.
async fn connect(url: &str) -> PostgresStore {
    PostgresStore::connect(Options { shard_count: SHARDS, ..Options::new(url) }).await.unwrap()
}

fn is_unavailable<T: std::fmt::Debug>(result: Result<T>) {
    assert!(matches!(result, Err(StoreError::Unavailable(_))), "{result:?}");
}

async fn answers_within<T>(limit: Duration, call: impl Future<Output = T>) -> T {
    let begun = Instant::now();
    let answer = tokio::time::timeout(limit * 3, call).await.expect("it does not hang");
    assert!(begun.elapsed() < limit, "it took {:?}", begun.elapsed());
    answer
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

fn have_risen(before: &[Owned], after: &[Owned]) -> bool {
    after.len() == before.len()
        && before.iter().zip(after).all(|(before, after)| after.epoch.0 >> 20 > before.epoch.0 >> 20)
}

/// Every way to the store works again, and the owner of before is fenced until it takes its shards anew.
async fn works_as_another_instance(store: &PostgresStore, mut stale: Owner<'_>, n: u64) {
    let before = stale.owned.clone();
    let renewed = until_it_works(|| store.renew(stale.server, LONG)).await;
    assert!(have_risen(&before, &renewed), "{before:?} {renewed:?}");
    let waiting = new_job(n, 10, 1);
    let submitted = until_it_works(|| submit(store, vec![waiting.clone()])).await;
    assert_eq!(submitted, Submitted::Done);
    // Refused by the new epoch, or because its connection was just found broken.
    let refused = stale.apply(vec![start(original(&waiting), 1)]).await;
    let is_refused = matches!(refused, Ok(Applied::Fenced(_)) | Err(StoreError::Unavailable(_)));
    assert!(is_refused, "{refused:?}");
    let mut owner = Owner::new(store, 7).await;
    owner.done(vec![start(original(&waiting), 1)]).await;
    owner.done(vec![succeed(original(&waiting), 1)]).await;
    assert!(matches!(store.find(waiting.id).await.unwrap(), FoundRow::Finished { .. }));
    until_it_works(|| store.list_jobs(Filter::default(), first_page(Order::Ascending, 10))).await;
    until_it_works(|| store.now()).await;
}

#[tokio::test]
async fn a_killed_database_is_unavailable_and_then_another_instance() {
    let mut server = Settings::test().start().unwrap();
    let url = server.create_database("jobs").unwrap();
    let store = connect(&url).await;
    let job = new_job(1, 10, 1);
    let mut owner = owner_of(&store, std::slice::from_ref(&job)).await;
    owner.done(vec![start(original(&job), 1)]).await;
    store.find(job.id).await.unwrap();
    server.kill().unwrap();
    let limit = Duration::from_secs(4);
    for _ in 0..2 {
        is_unavailable(answers_within(limit, store.renew(owner.server, LONG)).await);
        is_unavailable(answers_within(limit, store.now()).await);
        is_unavailable(answers_within(limit, submit(&store, vec![new_job(2, 10, 0)])).await);
        is_unavailable(answers_within(limit, owner.apply(vec![succeed(original(&job), 1)])).await);
        is_unavailable(answers_within(limit, store.find(job.id)).await);
        is_unavailable(answers_within(limit, store.prune_nothing()).await);
    }
    server.start_again().unwrap();
    // What was refused while the database was away stays refused under the old epoch.
    let renewed = until_it_works(|| store.renew(owner.server, LONG)).await;
    assert!(have_risen(&owner.owned, &renewed), "{renewed:?}");
    is_unavailable(owner.apply(vec![succeed(original(&job), 1)]).await);
    let mut again = Owner::new(&store, 1).await;
    let open = until_it_works(|| store.open_starts(ShardId(1))).await;
    assert_eq!(open.running.len(), 1, "what was acknowledged is there");
    again.done(vec![succeed(original(&job), 1)]).await;
    server.restart().unwrap();
    works_as_another_instance(&store, again, 5).await;
}

#[tokio::test]
async fn a_probe_names_why_a_database_cannot_write() {
    let mut server = Settings::test().start().unwrap();
    let url = server.create_database("jobs").unwrap();
    let store = connect(&url).await;
    store.probe().await.unwrap();
    server.execute("ALTER SYSTEM SET default_transaction_read_only = on").unwrap();
    server.execute("SELECT pg_reload_conf()").unwrap();
    let begun = Instant::now();
    loop {
        match store.probe().await {
            Err(StoreError::Faulty { fault: StoreFault::ReadOnly, .. }) => break,
            other => assert!(begun.elapsed() < Duration::from_secs(30), "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.kill().unwrap();
    is_unavailable(answers_within(Duration::from_secs(4), store.probe()).await);
}

#[tokio::test]
async fn a_database_that_hangs_is_noticed() {
    let server = Settings::test().start().unwrap();
    let url = server.create_database("jobs").unwrap();
    let store = connect(&url).await;
    let job = new_job(1, 10, 1);
    let owner = owner_of(&store, std::slice::from_ref(&job)).await;
    store.list_jobs(Filter::default(), first_page(Order::Ascending, 10)).await.unwrap();
    server.pause();
    let begun = Instant::now();
    let (renewed, listed) = tokio::join!(
        store.renew(owner.server, LONG),
        store.list_jobs(Filter::default(), first_page(Order::Ascending, 10)),
    );
    is_unavailable(renewed);
    is_unavailable(listed);
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    // The connection was thrown away, and no other can be made.
    is_unavailable(answers_within(Duration::from_secs(4), store.renew(owner.server, LONG)).await);
    server.resume();
    // It is the same instance: nothing was lost, and epochs stay.
    assert_eq!(until_it_works(|| store.renew(owner.server, LONG)).await, owner.owned);
}

/// Batches that are sent while others are under way must not add up to a patience of hours.
#[tokio::test]
async fn a_database_that_hangs_after_many_batches_is_noticed_as_soon() {
    let server = Settings::test().start().unwrap();
    let url = server.create_database("jobs").unwrap();
    let store = connect(&url).await;
    let jobs: Vec<_> = (1..=50).map(|n| new_job(n, 10, 1)).collect();
    let mut owner = owner_of(&store, &jobs).await;
    let mut start = |job| SharedBatch::new(owner.batch(vec![start(original(job), 1)]));
    let (last, others) = jobs.split_last().unwrap();
    let batches: Vec<_> = others.iter().map(&mut start).collect();
    for applied in join_all(batches.into_iter().map(|batch| store.apply(batch))).await {
        assert_eq!(applied.unwrap(), Applied::done(Void::default()));
    }
    let last = start(last);
    server.pause();
    is_unavailable(answers_within(Duration::from_secs(15), store.apply(last)).await);
    server.resume();
}

fn both(primary: &Postgres, standby: &Postgres) -> String {
    let (user, _) = primary.url().split_once('@').unwrap();
    format!("{user}@127.0.0.1:{},127.0.0.1:{}/jobs", primary.port(), standby.port())
}

#[tokio::test]
async fn a_promoted_standby_is_found_and_all_epochs_rise() {
    let mut primary = Settings::test().start().unwrap();
    primary.create_database("jobs").unwrap();
    let standby = Settings::test().standby_of(&primary).unwrap();
    let store = connect(&both(&primary, &standby)).await;
    let job = new_job(1, 10, 1);
    let owner = owner_of(&store, std::slice::from_ref(&job)).await;
    // Not synchronous: wait until the standby has it all.
    let position = primary.execute("SELECT pg_current_wal_lsn()").unwrap();
    let caught_up = || standby.execute(&format!("SELECT pg_last_wal_replay_lsn() >= '{position}'")).unwrap() == "t";
    while !caught_up() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    primary.kill().unwrap();
    is_unavailable(answers_within(Duration::from_secs(7), store.renew(owner.server, LONG)).await);
    standby.promote().unwrap();
    works_as_another_instance(&store, owner, 5).await;
    assert!(matches!(store.find(job.id).await.unwrap(), FoundRow::Hot(_)));
}

/// Nobody knows what became of a batch whose connection broke, so nothing may follow it under the same epoch.
#[tokio::test]
async fn when_a_connection_breaks_nothing_follows_under_the_same_epochs() {
    let database = Database::new();
    let store = database.store().await;
    let jobs: Vec<_> = (0..4).map(|n| new_job(n, 10, 1)).collect();
    let mut owner = owner_of(&store, &jobs).await;
    owner.done(vec![start(original(&jobs[0]), 1)]).await;
    let (blocker, connection) = tokio_postgres::connect(&database.url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    blocker.batch_execute("BEGIN; SELECT FROM job FOR UPDATE").await.unwrap();
    let calls: Vec<_> = jobs[..3]
        .iter()
        .map(|job| {
            let batch = SharedBatch::new(owner.batch(vec![succeed(original(job), 1)]));
            let store = store.clone();
            tokio::spawn(async move { store.apply(batch).await })
        })
        .collect();
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE application_name = 'punctual lane' AND wait_event_type = 'Lock' AND datname = current_database()";
    while blocker.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE application_name = 'punctual lane' AND datname = current_database()";
    blocker.batch_execute(terminate).await.unwrap();
    for call in calls {
        is_unavailable(call.await.unwrap());
    }
    blocker.batch_execute("ROLLBACK").await.unwrap();
    is_unavailable(owner.apply(vec![succeed(original(&jobs[3]), 1)]).await);
    assert_eq!(database.execute("SELECT count(*) FROM job"), "4");
    // Other shards are not in doubt.
    owner.done(vec![]).await;
    let mut again = Owner::new(&store, 1).await;
    again.done(vec![succeed(original(&jobs[3]), 1)]).await;
    assert_eq!(database.execute("SELECT count(*) FROM job"), "3");
}

trait PruneNothing {
    fn prune_nothing(&self) -> impl Future<Output = Result<usize>>;
}

impl PruneNothing for PostgresStore {
    async fn prune_nothing(&self) -> Result<usize> {
        use punctual_store::Retention;
        self.prune(at(-1_000_000), at(-1_000_000), 1).await
    }
}
