//! How the running attempts that a namespace may have are divided among the servers.

use punctual_core::running_places::{RunningReport, RunningUse};
use punctual_core::shard::write::Epoch;
use punctual_core::{NamespaceId, ServerId, ShardId, Span};
use punctual_store::{Owned, Store};

use crate::fixture::*;

const NAMESPACE: NamespaceId = NamespaceId(1);
const QUOTA: u64 = 10;

fn report(owned: &[Owned], running: u64, places: u64, waiting: u64) -> RunningReport {
    let shards: Vec<(ShardId, Epoch)> = owned.iter().map(|owned| (owned.shard, owned.epoch)).collect();
    let namespaces = vec![RunningUse { namespace: NAMESPACE, quota: QUOTA, running, places, waiting }];
    RunningReport { version: 0, shards, namespaces }
}

async fn exchange(store: &dyn Store, by: ServerId, seq: u64, report: RunningReport) -> Option<u64> {
    let answer = store.exchange_places(by, seq, report, at(100)).await.unwrap()?;
    assert_eq!(answer.len(), 1);
    Some(answer[0].1)
}

async fn acquire(store: &dyn Store, by: ServerId, count: usize) -> Vec<Owned> {
    store.acquire(by, Span::from_secs(10), count).await.unwrap()
}

pub(super) async fn places_are_added_when_all_shards_are_covered_and_never_more_than_the_quota(store: &dyn Store) {
    let (one, other) = (server(1), server(2));
    let own = acquire(store, one, 2).await;
    assert_eq!(exchange(store, one, 1, report(&own, 0, 0, 20)).await, Some(0), "shards without an owner");
    let others = acquire(store, other, 100).await;
    assert_eq!(exchange(store, one, 2, report(&own, 0, 0, 20)).await, Some(0), "the other has said nothing yet");
    assert_eq!(exchange(store, other, 1, report(&others, 3, 0, 0)).await, Some(3), "what runs there is covered now");
    assert_eq!(exchange(store, one, 3, report(&own, 0, 0, 20)).await, Some(7));
    assert_eq!(exchange(store, one, 4, report(&own, 7, 7, 20)).await, Some(7));
    assert_eq!(store.running_attempts(NAMESPACE).await.unwrap(), 10);
    assert_eq!(store.running_attempts(NamespaceId(2)).await.unwrap(), 0);
    // Both want more than there is. The one gives some up, and they are free when it says so.
    assert_eq!(exchange(store, other, 2, report(&others, 3, 3, 20)).await, Some(3));
    assert_eq!(exchange(store, one, 5, report(&own, 7, 7, 20)).await, Some(5));
    assert_eq!(exchange(store, other, 3, report(&others, 3, 3, 20)).await, Some(3));
    assert_eq!(exchange(store, one, 6, report(&own, 5, 5, 20)).await, Some(5));
    assert_eq!(exchange(store, other, 4, report(&others, 3, 3, 20)).await, Some(5));
}

pub(super) async fn a_report_that_comes_after_a_later_one_changes_nothing(store: &dyn Store) {
    let own = acquire(store, server(1), 100).await;
    assert_eq!(exchange(store, server(1), 5, report(&own, 2, 0, 20)).await, Some(QUOTA));
    assert_eq!(exchange(store, server(1), 5, report(&own, 9, 0, 0)).await, None);
    assert_eq!(exchange(store, server(1), 4, report(&own, 9, 0, 0)).await, None);
    assert_eq!(store.running_attempts(NAMESPACE).await.unwrap(), 2);
}

pub(super) async fn the_places_of_a_server_that_is_gone_are_free_when_its_shards_are_covered(store: &dyn Store) {
    let (dead, alive) = (server(1), server(2));
    let gone = acquire(store, dead, 100).await;
    assert_eq!(exchange(store, dead, 1, report(&gone, 4, 0, 20)).await, Some(QUOTA));
    let shards: Vec<ShardId> = gone.iter().map(|owned| owned.shard).collect();
    let own = store.take_over(alive, shards, Span::from_secs(10)).await.unwrap();
    // Under the former epochs it says nothing of what runs now: the places of what it took over, and no more.
    assert_eq!(exchange(store, alive, 1, report(&gone, 4, 0, 20)).await, Some(4));
    assert_eq!(exchange(store, alive, 2, report(&own, 4, 0, 20)).await, Some(QUOTA));
    assert_eq!(store.running_attempts(NAMESPACE).await.unwrap(), 4, "of the living");
    // If it comes back, it begins anew.
    assert_eq!(exchange(store, dead, 2, report(&[], 0, QUOTA, 20)).await, Some(0));
}
