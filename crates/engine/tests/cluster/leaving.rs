//! Servers that go, in order or not.

use std::time::{Duration, Instant};

use punctual_core::ShardId;

use crate::harness::{Clocks, Harness, LEASE_TTL, Worker, until};

#[tokio::test]
async fn a_leaving_server_is_replaced_at_once_and_loses_nothing() {
    let harness = Harness::new(8);
    let worker = Worker::new();
    let (a, b) = (harness.start().await, harness.start().await);
    worker.serve(&a);
    worker.serve(&b);
    until("4 each", || a.owned().len() == 4 && b.owned().len() == 4).await;
    let mut jobs: Vec<_> = (0..400).map(|n| harness.submit(n % 8)).collect();
    until("it works", || worker.ran.lock().unwrap().len() > 20).await;
    let left = Instant::now();
    assert!(a.stop().await);
    assert!(harness.store.model.members_now().iter().all(|seen| seen.member.id != a.server()));
    until("the other has all", || b.owned().len() == 8).await;
    assert!(left.elapsed() < Duration::from_secs(1), "{:?}", left.elapsed());
    jobs.extend((0..8).map(|shard| harness.submit(shard)));
    until("everything has finished", || jobs.iter().all(|id| harness.attempts(*id).is_some())).await;
    for id in jobs {
        assert_eq!(harness.attempts(id), Some(vec![1]));
    }
}

#[tokio::test]
async fn the_shards_of_a_killed_server_are_taken_when_its_leases_are_over() {
    let harness = Harness::new(4);
    let b = harness.start().await;
    // Its own runtime, so that it can die with everything that it was doing.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let config = harness.config(&Clocks::default());
    let store = std::sync::Arc::new(harness.store.clone());
    let a = runtime.spawn(punctual_engine::Engine::start(store, config)).await.unwrap().unwrap();
    until("2 each", || a.owned().len() == 2 && b.owned().len() == 2).await;
    let killed = Instant::now();
    runtime.shutdown_background();
    until("the other has all", || b.owned().len() == 4).await;
    assert!(killed.elapsed() > Duration::from_secs(1), "its last renewal holds: {:?}", killed.elapsed());
    assert!(killed.elapsed() < LEASE_TTL.to_std() + Duration::from_secs(2), "{:?}", killed.elapsed());
    assert!(a.ready().is_err(), "what is left of it knows that it must not act");
    let mut cluster = b.cluster();
    cluster.wait_for(|cluster| cluster.owner_of(ShardId(0)) == Some(b.server())).await.unwrap();
}

#[tokio::test]
async fn a_stop_sends_what_it_has_started() {
    let harness = Harness::new(2);
    let worker = Worker::new();
    let a = harness.start().await;
    worker.serve(&a);
    let gate = harness.store.hold("apply");
    let id = harness.submit(0);
    until("its start is written, and the answer on its way", || {
        !harness.store.model.open_starts_now(ShardId(0)).running.is_empty()
    })
    .await;
    let stopping = tokio::spawn({
        let a = a.clone();
        async move { a.stop().await }
    });
    assert!(!worker.has_run(id));
    gate.send_replace(true);
    assert!(stopping.await.unwrap());
    until("it was sent", || worker.has_run(id)).await;
}
