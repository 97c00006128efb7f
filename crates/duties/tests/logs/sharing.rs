//! Servers that do not see the same storage.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream;
use punctual_blobs::Key;
use punctual_core::Span;
use punctual_duties::{Duty, StorageMarker, StorageSweep};
use punctual_store::{Member, MemberStatus, Members};
use punctual_store_tests::fixture::{at, server};

use super::{ENDED, tried_twice};
use crate::world::World;

/// A world with another server, which it does not forget.
async fn with_peer() -> World {
    let world = World::with_engine(|config| config.renew_every = Span::from_secs(86_400)).await;
    let peer = Member {
        id: server(2),
        address: "http://127.0.0.1:2".to_owned(),
        version: "1".to_owned(),
        roles: Vec::new(),
        started_at: at(0),
        status: MemberStatus::default(),
        zone_data: String::new(),
    };
    world.store.beat(peer).await.unwrap();
    world.engine.look_around();
    let deadline = Instant::now() + Duration::from_secs(20);
    while world.app.other_servers().is_empty() {
        assert!(Instant::now() < deadline, "the peer is not seen");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    world
}

fn marker(number: u64) -> Key {
    Key::new(format!("servers/{}", server(number))).unwrap()
}

#[tokio::test]
async fn logs_are_archived_only_where_all_servers_see_the_storage() {
    let world = with_peer().await;
    let (job, _owner) = tried_twice(&world.store).await;
    world.print(&job, 2, 0, b"second").await;
    world.pass(ENDED + 3);
    world.archive().await;
    assert_eq!((world.pieces(), world.objects().len()), (1, 0), "the other server could not read it");
    world.blobs.put(&marker(2), 10, stream::iter([Ok(Bytes::from_static(b"x"))])).await.unwrap();
    world.archive().await;
    assert_eq!((world.pieces(), world.objects().len()), (0, 1));
}

#[tokio::test]
async fn a_server_with_peers_leaves_its_marker_and_those_of_servers_that_are_gone_are_swept() {
    let alone = World::new().await;
    StorageMarker::new(&alone.context()).tick().await.unwrap();
    assert_eq!(alone.blobs.head(&marker(1)).await.unwrap(), None);

    let world = with_peer().await;
    StorageMarker::new(&world.context()).tick().await.unwrap();
    for number in [2, 3] {
        world.blobs.put(&marker(number), 10, stream::iter([Ok(Bytes::from_static(b"x"))])).await.unwrap();
    }
    StorageSweep::new(&world.context()).tick().await.unwrap();
    let mut there = Vec::new();
    for number in 1..=3 {
        there.push(world.blobs.head(&marker(number)).await.unwrap().is_some());
    }
    assert_eq!(there, [true, true, false]);
}
