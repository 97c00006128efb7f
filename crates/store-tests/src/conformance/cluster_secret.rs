use futures_util::future::join_all;
use punctual_core::{ServerId, Span, Timestamp};
use punctual_store::{
    AuthorityRow, CLUSTER_SECRET, ClusterSecretState, Confirmation, NEXT_CLUSTER_SECRET, ResealedAuthority, RootKeyId,
    SealedKey, SecretStage, Store,
};

use crate::fixture::*;

const OVERLAP: Span = Span::from_secs(60);

fn key(label: &str, root: u8, sealed: u8) -> SealedKey {
    SealedKey { label: label.to_owned(), root_key: RootKeyId([root; 8]), sealed: vec![sealed; 72] }
}

fn a_server(number: u64) -> ServerId {
    ServerId::new(Timestamp::EPOCH, number)
}

async fn announce(store: &dyn Store, known: u64, root: u8, now: i64) -> bool {
    let next = key(NEXT_CLUSTER_SECRET, root, 2);
    store.announce_cluster_secret(known, next, "c1", OVERLAP, at(now)).await.unwrap()
}

async fn sign(store: &dyn Store, known: u64) -> bool {
    store.sign_with_next_secret(known, at(20)).await.unwrap()
}

async fn retire(store: &dyn Store, known: u64, root: u8, authorities: &[ResealedAuthority]) -> bool {
    let secret = key(CLUSTER_SECRET, root, 3);
    store.retire_cluster_secret(known, secret, authorities.to_vec(), at(30)).await.unwrap()
}

/// A cluster whose secret was never rotated.
async fn begin(store: &dyn Store) {
    store.keep_sealed_key(key(CLUSTER_SECRET, 1, 1)).await.unwrap();
}

pub(super) async fn a_secret_is_announced_signs_and_takes_the_place_of_the_former(store: &dyn Store) {
    begin(store).await;
    assert_eq!(store.cluster_secret().await.unwrap(), ClusterSecretState::default());
    assert!(announce(store, 0, 1, 10).await);
    let announced = ClusterSecretState {
        revision: 1,
        stage: SecretStage::Announced,
        stage_since: Some(at(10)),
        made_at: None,
        next_made_at: Some(at(10)),
        overlap: Some(OVERLAP),
        cluster: Some("c1".to_owned()),
        confirmed: Vec::new(),
    };
    assert_eq!(store.cluster_secret().await.unwrap(), announced);
    let both = [key(CLUSTER_SECRET, 1, 1), key(NEXT_CLUSTER_SECRET, 1, 2)];
    assert_eq!(store.sealed_keys().await.unwrap(), both);

    assert!(sign(store, 1).await);
    let signing =
        ClusterSecretState { revision: 2, stage: SecretStage::Signing, stage_since: Some(at(20)), ..announced };
    assert_eq!(store.cluster_secret().await.unwrap(), signing);
    assert_eq!(store.sealed_keys().await.unwrap(), both);

    assert!(retire(store, 2, 1, &[]).await);
    let settled = ClusterSecretState {
        revision: 3,
        stage: SecretStage::Settled,
        stage_since: Some(at(30)),
        made_at: Some(at(10)),
        next_made_at: None,
        overlap: None,
        ..signing
    };
    assert_eq!(store.cluster_secret().await.unwrap(), settled);
    assert_eq!(store.sealed_keys().await.unwrap(), [key(CLUSTER_SECRET, 1, 3)]);

    let next = key(NEXT_CLUSTER_SECRET, 1, 4);
    assert!(store.announce_cluster_secret(3, next, "another", OVERLAP, at(40)).await.unwrap());
    let state = store.cluster_secret().await.unwrap();
    assert_eq!((state.cluster.as_deref(), state.made_at), (Some("c1"), Some(at(10))), "a cluster keeps its name");
}

pub(super) async fn each_stage_of_a_secret_begins_once(store: &dyn Store) {
    assert!(!announce(store, 0, 1, 10).await, "there is none to follow");
    begin(store).await;
    let unchanged = async |what: &str| {
        let before = (store.cluster_secret().await.unwrap(), store.sealed_keys().await.unwrap());
        for known in 0..5 {
            let revision = before.0.revision;
            let stage = before.0.stage;
            if stage != SecretStage::Settled || known != revision {
                assert!(!announce(store, known, 1, 11).await, "{what} {known}");
            }
            if stage != SecretStage::Announced || known != revision {
                assert!(!sign(store, known).await, "{what} {known}");
            }
            if stage != SecretStage::Signing || known != revision {
                assert!(!retire(store, known, 1, &[]).await, "{what} {known}");
            }
        }
        assert_eq!((store.cluster_secret().await.unwrap(), store.sealed_keys().await.unwrap()), before, "{what}");
    };
    unchanged("settled").await;
    assert!(announce(store, 0, 1, 10).await);
    unchanged("announced").await;
    assert!(sign(store, 1).await);
    unchanged("signing").await;
    assert!(retire(store, 2, 1, &[]).await);
    unchanged("settled again").await;
}

pub(super) async fn of_rotations_that_begin_at_once_one_is_done(store: &dyn Store) {
    begin(store).await;
    let done = join_all((0..8).map(|_| announce(store, 0, 1, 10))).await;
    assert_eq!(done.iter().filter(|done| **done).count(), 1, "{done:?}");
    let done = join_all((0..8).map(|_| sign(store, 1))).await;
    assert_eq!(done.iter().filter(|done| **done).count(), 1, "{done:?}");
    let done = join_all((0..8).map(|_| retire(store, 2, 1, &[]))).await;
    assert_eq!(done.iter().filter(|done| **done).count(), 1, "{done:?}");
    assert_eq!(store.cluster_secret().await.unwrap().revision, 3);
}

pub(super) async fn a_stage_is_confirmed_by_each_server_once(store: &dyn Store) {
    begin(store).await;
    let confirm = async |server, revision, now| {
        store.confirm_cluster_secret(a_server(server), revision, at(now)).await.unwrap();
        store.cluster_secret().await.unwrap().confirmed
    };
    let by = |server, now| Confirmation { server: a_server(server), at: at(now) };
    announce(store, 0, 1, 10).await;
    assert_eq!(confirm(2, 1, 11).await, [by(2, 11)]);
    assert_eq!(confirm(1, 1, 12).await, [by(1, 12), by(2, 11)]);
    assert_eq!(confirm(2, 1, 13).await, [by(1, 12), by(2, 11)], "the first time stays");
    for revision in [0, 2, 9] {
        assert_eq!(confirm(3, revision, 14).await.len(), 2, "that is not the revision");
    }
    sign(store, 1).await;
    assert_eq!(confirm(1, 1, 21).await, [], "it was about the stage before");
    assert_eq!(confirm(1, 2, 22).await, [by(1, 22)]);
    retire(store, 2, 1, &[]).await;
    assert_eq!(store.cluster_secret().await.unwrap().confirmed, []);
}

pub(super) async fn a_secret_follows_the_root_key(store: &dyn Store) {
    begin(store).await;
    assert!(!announce(store, 0, 2, 10).await, "all keys are sealed with one root key");
    assert!(announce(store, 0, 1, 10).await);
    // Both are sealed anew.
    let alone = vec![key(CLUSTER_SECRET, 2, 1)];
    assert!(!store.rewrap_keys(RootKeyId([1; 8]), alone).await.unwrap(), "the next one would stay behind");
    let both = vec![key(CLUSTER_SECRET, 2, 1), key(NEXT_CLUSTER_SECRET, 2, 2)];
    assert!(store.rewrap_keys(RootKeyId([1; 8]), both).await.unwrap());
    assert!(sign(store, 1).await);
    assert!(!retire(store, 2, 1, &[]).await, "it was sealed with the former root key");
    assert!(retire(store, 2, 2, &[]).await);
}

pub(super) async fn the_former_secret_stays_while_an_authority_is_sealed_with_it(store: &dyn Store) {
    let authority = |generation: u32, sealed: u8| AuthorityRow {
        generation,
        certificate: vec![1; 10],
        sealed_key: vec![sealed; 10],
        created_at: at(1),
        retired_at: None,
    };
    let resealed = |generation: u32, former: u8| ResealedAuthority {
        generation,
        former: vec![former; 10],
        sealed_key: vec![9; 10],
    };
    begin(store).await;
    store.add_authority(authority(1, 1), at(50)).await.unwrap();
    store.add_authority(authority(2, 2), at(50)).await.unwrap();
    announce(store, 0, 1, 10).await;
    sign(store, 1).await;
    let before = (store.authorities().await.unwrap(), store.sealed_keys().await.unwrap());
    for wrong in [
        vec![],
        vec![resealed(1, 1)],
        vec![resealed(1, 1), resealed(2, 3)],
        vec![resealed(1, 1), resealed(2, 2), resealed(3, 3)],
    ] {
        assert!(!retire(store, 2, 1, &wrong).await, "{wrong:?}");
        assert_eq!((store.authorities().await.unwrap(), store.sealed_keys().await.unwrap()), before);
    }
    assert!(retire(store, 2, 1, &[resealed(1, 1), resealed(2, 2)]).await);
    let keys: Vec<Vec<u8>> = store.authorities().await.unwrap().into_iter().map(|row| row.sealed_key).collect();
    assert_eq!(keys, [vec![9; 10], vec![9; 10]]);
}
