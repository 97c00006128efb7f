//! Paused queues, while shards change hands. No server looks by itself here: that is a duty.

use std::time::Duration;

use punctual_core::NamespaceId;
use punctual_core::queue::QueueState;
use punctual_core::schedule::By;
use punctual_engine::Engine;
use punctual_store::{QueueChange, QueueRow};

use crate::harness::{Harness, Worker, until};
use crate::store::START;

/// Stores the state of the queue of all jobs, and tells nobody.
fn set(harness: &Harness, revision: u32, state: QueueState) {
    let by = By { at: START, who: "local".to_owned() };
    let row = QueueRow {
        namespace: NamespaceId::DEFAULT,
        name: "default".to_owned(),
        revision,
        state,
        state_by: by.clone(),
        note: None,
        changed: by,
        spec: "{}".to_owned(),
    };
    assert_eq!(harness.store.model.put_queue_now(row).unwrap(), QueueChange::Done);
}

async fn until_so_many_wait(engine: &Engine, count: u64) {
    loop {
        let loads = engine.queue_loads().await.unwrap();
        if loads.iter().map(|load| load.waiting).sum::<u64>() == count {
            assert!(loads.iter().all(|load| load.running == 0), "{loads:?}");
            return;
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

#[tokio::test]
async fn whoever_takes_a_shard_over_knows_of_a_pause_that_was_stored_before() {
    let harness = Harness::new(4);
    let worker = Worker::new();
    let (a, b) = (harness.start().await, harness.start().await);
    worker.serve(&a);
    worker.serve(&b);
    until("2 each", || a.owned().len() == 2 && b.owned().len() == 2).await;
    set(&harness, 1, QueueState::Paused);
    assert!(a.stop().await);
    until("the other has all", || b.owned().len() == 4).await;
    let jobs: Vec<_> = (0..4).map(|shard| harness.submit(shard)).collect();
    until_so_many_wait(&b, 4).await;
    assert!(jobs.iter().all(|id| !worker.has_run(*id)));
    // So does a server that has just started.
    let c = harness.start().await;
    worker.serve(&c);
    assert!(b.stop().await);
    until("the third has all", || c.owned().len() == 4).await;
    until_so_many_wait(&c, 4).await;
    assert!(jobs.iter().all(|id| !worker.has_run(*id)));
    set(&harness, 2, QueueState::Active);
    c.refresh_queues().await.unwrap();
    until("they run", || jobs.iter().all(|id| worker.has_run(*id))).await;
}

#[tokio::test]
async fn a_pause_is_not_confirmed_while_a_start_is_on_its_way() {
    let harness = Harness::new(2);
    let worker = Worker::new();
    let a = harness.start().await;
    worker.serve(&a);
    let gate = harness.store.hold("apply");
    let id = harness.submit(0);
    until("its start is written, and the answer on its way", || !harness.has_no_starts()).await;
    set(&harness, 1, QueueState::Paused);
    a.refresh_queues().await.unwrap();
    assert!(!a.paused_starts_settled(Duration::from_millis(50)).await.unwrap());
    gate.send_replace(true);
    assert!(a.paused_starts_settled(Duration::from_secs(30)).await.unwrap());
    until("it was sent", || worker.has_run(id)).await;
    let later = harness.submit(1);
    until_so_many_wait(&a, 1).await;
    assert!(!worker.has_run(later));
}
