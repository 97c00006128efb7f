//! Servers that cannot renew, stand still, or have the wrong time; and a store that fails.

use std::sync::atomic::Ordering;

use punctual_core::shard::event::Command;
use punctual_core::shard::{Answer, Ask};
use punctual_core::{ServerId, ShardId};
use punctual_engine::{EngineError, StartError};

use crate::harness::{Clocks, Harness, LEASE_TTL, Worker, until};
use crate::store::START;

#[tokio::test]
async fn a_server_that_cannot_renew_stops_acting_and_goes_on_when_it_can() {
    let harness = Harness::new(4);
    let worker = Worker::new();
    let a = harness.start().await;
    worker.serve(&a);
    let before = harness.submit(0);
    until("it has worked", || harness.attempts(before).is_some() && harness.has_no_starts()).await;
    let moves = harness.moves();
    harness.store.go_away();
    until("it knows that it must not act", || a.ready() == Err(EngineError::NoLease)).await;
    let delete = Ask::Job { id: before, command: Command::Delete };
    assert!(matches!(a.ask(vec![delete]).await.unwrap()[..], [Answer::NotOwner]));
    let during = harness.submit(1);
    harness.store.come_back();
    until("it acts again", || a.ready().is_ok()).await;
    until("what was due runs", || harness.attempts(during) == Some(vec![1])).await;
    assert_eq!(harness.moves(), moves, "nobody else was there, so that nothing changed hands");
}

#[tokio::test]
async fn a_server_that_wakes_after_its_lease_sends_nothing() {
    let harness = Harness::new(1);
    let worker = Worker::new();
    let clocks = Clocks::default();
    let a = harness.try_start(harness.config(&clocks)).await.unwrap();
    worker.serve(&a);
    let applied = harness.store.hold("apply");
    let renewed = harness.store.hold("renew");
    let id = harness.submit(0);
    until("its start is written", || !harness.store.model.open_starts_now(ShardId(0)).running.is_empty()).await;
    // It stands still for longer than its lease, and somebody else takes the shard.
    clocks.paused_ms.store(10_000, Ordering::Relaxed);
    let other = ServerId::new(START, 99);
    harness.store.model.take_over_now(other, vec![ShardId(0)], LEASE_TTL).unwrap();
    applied.send_replace(true);
    until("it has heard of its commit", || a.ready() == Err(EngineError::NoLease)).await;
    renewed.send_replace(true);
    until("it has renewed, and lost the shard", || a.ready().is_ok() && a.owned().is_empty()).await;
    assert_eq!(a.all_running().await.unwrap(), []);
    assert!(!worker.has_run(id), "the next owner decides what becomes of it");
}

#[tokio::test]
async fn a_batch_that_ended_in_doubt_is_looked_up_under_a_new_epoch() {
    let harness = Harness::new(2);
    let worker = Worker::new();
    let a = harness.start().await;
    worker.serve(&a);
    let before = harness.submit(0);
    until("it has worked", || harness.attempts(before).is_some() && harness.has_no_starts()).await;
    let moves = harness.moves();
    let id = harness.submit(1);
    harness.store.go_away();
    // Found by a hint while the store is away: its start ends in doubt.
    a.submitted(harness.loaded(id));
    until("the shard is in doubt", || !a.owned().contains(&ShardId(1))).await;
    harness.store.come_back();
    until("it runs", || harness.attempts(id).is_some()).await;
    assert_eq!(harness.moves(), moves + 1, "only the shard in doubt was taken anew");
    assert_eq!(worker.ran.lock().unwrap().iter().filter(|(ran, _)| *ran == id).count(), 1);
}

#[tokio::test]
async fn shards_whose_epochs_were_raised_from_outside_are_taken_anew() {
    let harness = Harness::new(4);
    let worker = Worker::new();
    let a = harness.start().await;
    worker.serve(&a);
    let all: Vec<ShardId> = (0..4).map(ShardId).collect();
    harness.store.model.take_over_now(a.server(), all, LEASE_TTL).unwrap();
    let jobs: Vec<_> = (0..4).map(|shard| harness.submit(shard)).collect();
    until("everything has finished", || jobs.iter().all(|id| harness.attempts(*id).is_some())).await;
    until("it owns all", || a.owned().len() == 4).await;
    assert_eq!(harness.shares(&[&a]), [4]);
}

#[tokio::test]
async fn a_server_with_the_wrong_time_does_not_start() {
    let harness = Harness::new(2);
    let clocks = Clocks::default();
    clocks.skew_ms.store(-7_000, Ordering::Relaxed);
    let Err(error) = harness.try_start(harness.config(&clocks)).await else { panic!("it must not start") };
    assert!(matches!(error, StartError::ClockSkew(skew) if skew.is_too_large()));
    let text = error.to_string();
    assert!(text.contains("this server's clock says 2027-") && text.contains("NTP"), "{text}");
    assert!(harness.store.model.members_now().is_empty());
}

#[tokio::test]
async fn a_server_whose_clock_goes_wrong_gives_its_shards_up_until_it_is_right() {
    let harness = Harness::new(6);
    let clocks = Clocks::default();
    let a = harness.try_start(harness.config(&clocks)).await.unwrap();
    let b = harness.start().await;
    until("3 each", || a.owned().len() == 3 && b.owned().len() == 3).await;
    clocks.skew_ms.store(60_000, Ordering::Relaxed);
    until("the other has all", || b.owned().len() == 6).await;
    assert!(matches!(a.ready(), Err(EngineError::ClockSkew(_))));
    assert!(a.skew().is_some_and(|skew| skew.is_too_large()));
    let now = harness.store.time();
    assert!(a.clock()() <= now, "its own clock decides nothing");
    clocks.skew_ms.store(0, Ordering::Relaxed);
    until("3 each again", || a.owned().len() == 3 && b.owned().len() == 3).await;
    a.ready().unwrap();
}
