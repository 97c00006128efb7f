use punctual_core::shard::write::Epoch;
use punctual_core::{ShardId, Span};
use punctual_store::{Owned, Store};

use crate::fixture::*;

const LONG: Span = Span::from_secs(3600);

fn owned(shard: u16, epoch: u64) -> Owned {
    Owned { shard: ShardId(shard), epoch: Epoch(epoch) }
}

pub(super) async fn a_server_acquires_free_shards_up_to_its_limit(store: &dyn Store) {
    assert_eq!(store.shard_count(), SHARDS);
    assert_eq!(store.acquire(server(1), LONG, 3).await.unwrap(), [owned(0, 1), owned(1, 1), owned(2, 1)]);
    assert_eq!(store.acquire(server(2), LONG, 3).await.unwrap(), [owned(3, 1)]);
    assert_eq!(store.acquire(server(3), LONG, 0).await.unwrap(), []);
}

pub(super) async fn a_running_lease_is_not_acquired(store: &dyn Store) {
    store.acquire(server(1), LONG, 4).await.unwrap();
    assert_eq!(store.acquire(server(2), LONG, 4).await.unwrap(), []);
    assert_eq!(store.acquire(server(1), LONG, 4).await.unwrap(), [], "not even by its owner");
}

pub(super) async fn a_lease_that_is_over_is_acquired_under_a_higher_epoch(store: &dyn Store) {
    // A lease of no length is over at once, whatever clock the store has.
    store.acquire(server(1), Span::ZERO, 2).await.unwrap();
    assert_eq!(store.acquire(server(2), LONG, 2).await.unwrap(), [owned(0, 2), owned(1, 2)]);
    assert_eq!(store.renew(server(1), LONG).await.unwrap(), []);
}

pub(super) async fn renewing_says_what_is_still_owned(store: &dyn Store) {
    assert_eq!(store.renew(server(1), LONG).await.unwrap(), []);
    store.acquire(server(1), Span::ZERO, 3).await.unwrap();
    store.take_over(server(2), vec![ShardId(1)], LONG).await.unwrap();
    assert_eq!(store.renew(server(1), LONG).await.unwrap(), [owned(0, 1), owned(2, 1)]);
    // Renewed although they were over: nobody had taken them.
    assert_eq!(store.acquire(server(3), LONG, 4).await.unwrap(), [owned(3, 1)]);
}

pub(super) async fn a_released_shard_is_free_at_once(store: &dyn Store) {
    store.acquire(server(1), LONG, 2).await.unwrap();
    store.take_over(server(2), vec![ShardId(2)], LONG).await.unwrap();
    store.release(server(1)).await.unwrap();
    assert_eq!(store.renew(server(1), LONG).await.unwrap(), []);
    assert_eq!(store.acquire(server(3), LONG, 4).await.unwrap(), [owned(0, 2), owned(1, 2), owned(3, 1)]);
}

pub(super) async fn a_takeover_raises_the_epoch_of_a_running_lease(store: &dyn Store) {
    store.acquire(server(1), LONG, 4).await.unwrap();
    let shards = vec![ShardId(3), ShardId(0), ShardId(3)];
    assert_eq!(store.take_over(server(2), shards.clone(), LONG).await.unwrap(), [owned(0, 2), owned(3, 2)]);
    assert_eq!(store.take_over(server(2), shards, LONG).await.unwrap(), [owned(0, 3), owned(3, 3)]);
    assert_eq!(store.renew(server(1), LONG).await.unwrap(), [owned(1, 1), owned(2, 1)]);
    assert_eq!(store.renew(server(2), LONG).await.unwrap(), [owned(0, 3), owned(3, 3)]);
}

pub(super) async fn a_takeover_of_a_shard_that_is_not_there_changes_nothing(store: &dyn Store) {
    store.acquire(server(1), LONG, 4).await.unwrap();
    assert_inconsistent(store.take_over(server(2), vec![ShardId(0), ShardId(SHARDS)], LONG).await);
    assert_eq!(store.renew(server(1), LONG).await.unwrap().len(), 4);
}

pub(super) async fn a_server_gives_up_only_what_it_owns(store: &dyn Store) {
    store.acquire(server(1), LONG, 2).await.unwrap();
    store.acquire(server(2), LONG, 1).await.unwrap();
    store.give_up(server(1), vec![ShardId(1), ShardId(2), ShardId(SHARDS)]).await.unwrap();
    assert_eq!(store.renew(server(1), LONG).await.unwrap(), [owned(0, 1)]);
    assert_eq!(store.renew(server(2), LONG).await.unwrap(), [owned(2, 1)]);
    assert_eq!(store.acquire(server(3), LONG, 4).await.unwrap(), [owned(1, 2), owned(3, 1)]);
}

pub(super) async fn leases_show_all_shards_and_their_owners(store: &dyn Store) {
    store.acquire(server(1), LONG, 2).await.unwrap();
    store.give_up(server(1), vec![ShardId(0)]).await.unwrap();
    let now = store.now().await.unwrap();
    let leases = store.leases().await.unwrap();
    let shown: Vec<_> = leases.iter().map(|lease| (lease.shard.0, lease.epoch.0, lease.owner)).collect();
    let mut expected = vec![(0, 1, None), (1, 1, Some(server(1)))];
    expected.extend((2..SHARDS).map(|shard| (shard, 0, None)));
    assert_eq!(shown, expected);
    assert!(leases[1].until > now && leases[0].until <= now);
}
