//! From pieces in the store to one object, whatever happens on the way.

use bytes::Bytes;
use futures_util::stream;
use punctual_api::ErrorKind;
use punctual_blobs::Key;
use punctual_core::JobKey;
use punctual_core::shard::write::{JobWrite, Rerun, Write};
use punctual_duties::{Duty, LogArchive, TickError};
use punctual_store_tests::fixture::{at, counters, succeed};

use super::{ENDED, day, tried_twice};
use crate::world::{World, by};

#[tokio::test]
async fn a_log_moves_into_one_object_and_reads_the_same() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    let long: Vec<u8> = (0..700_000_u32).map(|n| b'a' + (n % 26) as u8).collect();
    for (n, piece) in long.chunks(64 << 10).enumerate() {
        world.print(&job, 2, (n * (64 << 10)) as u64, piece).await;
    }
    world.print(&job, 1, 0, b"first").await;
    world.pass(ENDED + 2);
    world.archive().await;
    assert_eq!(world.objects(), Vec::<String>::new(), "its last pieces may still come");
    world.pass(1);
    world.archive().await;
    assert_eq!((world.pieces(), world.objects().len()), (0, 2));
    assert_eq!((world.log(&job, 1).await, world.log(&job, 2).await), (b"first".to_vec(), long.clone()));
    let path = world.path(&job, 2).await.unwrap();
    assert!(path.starts_with(&format!("logs/{}/", day(ENDED))) && path.contains(&job.id.to_string()), "{path}");
    assert_eq!(std::fs::read(world.folder.path().join(&path)).unwrap(), long);
    let from = world.app.log(&by(&world.app), job.id, None, 300_000).await.unwrap();
    assert_eq!(from.bytes[..], long[300_000..300_000 + from.bytes.len()]);
    let beyond = world.app.log(&by(&world.app), job.id, None, 700_001).await.unwrap();
    assert!(beyond.bytes.is_empty() && beyond.is_complete && beyond.next_offset == 700_001);
    // There is nothing left to do.
    let before = world.objects();
    world.archive().await;
    assert_eq!(world.objects(), before);
}

#[tokio::test]
async fn an_attempt_that_ended_is_archived_although_its_job_goes_on() {
    let world = World::new().await;
    let (job, mut owner) = tried_twice(&world.store).await;
    let again = Rerun { id: job.id, due_at: at(40), counters: counters(3, 0, 0) };
    owner.done(vec![Write::Job(JobWrite::Rerun(again))]).await;
    world.print(&job, 1, 0, b"first").await;
    world.print(&job, 3, 0, b"it runs").await;
    world.pass(ENDED + 3);
    world.archive().await;
    assert_eq!(world.pieces(), 1, "what runs stays");
    assert!(world.path(&job, 1).await.is_some());
    assert_eq!(world.path(&job, 2).await, None, "it printed nothing");
    assert_eq!(world.log(&job, 1).await, b"first");
    owner.done(vec![succeed(JobKey { due_at: at(40), id: job.id }, 3)]).await;
    world.archive().await;
    assert_eq!(world.log(&job, 3).await, b"it runs");
    assert_eq!((world.pieces(), world.objects().len()), (0, 2));
}

#[tokio::test]
async fn pieces_that_come_late_make_no_second_log() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    world.print(&job, 2, 0, b"one ").await;
    world.pass(ENDED + 3);
    world.archive().await;
    let first = world.objects();
    // A worker that was cut off says everything again.
    world.print(&job, 2, 0, b"one ").await;
    assert_eq!(world.log(&job, 2).await, b"one ");
    world.archive().await;
    assert_eq!((world.objects(), world.pieces()), (first.clone(), 0));
    // And something that nobody had heard.
    world.print(&job, 2, 0, b"one ").await;
    world.print(&job, 2, 4, b"two").await;
    assert_eq!(world.log(&job, 2).await, b"one two", "before it is moved");
    world.archive().await;
    assert_eq!(world.log(&job, 2).await, b"one two");
    assert_eq!((world.objects().len(), world.pieces()), (1, 0));
    assert_ne!(world.objects(), first, "an object never changes");
    // Other words at the same place change nothing.
    world.print(&job, 2, 0, b"ONE TWO").await;
    world.archive().await;
    assert_eq!(world.log(&job, 2).await, b"one two");
}

#[tokio::test]
async fn a_place_that_no_piece_covers_is_filled_when_it_comes() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    world.print(&job, 2, 0, b"one ").await;
    world.print(&job, 2, 8, b"three").await;
    world.pass(ENDED + 3);
    world.archive().await;
    assert_eq!(world.log(&job, 2).await, b"one \0\0\0\0three");
    world.print(&job, 2, 4, b"two ").await;
    world.archive().await;
    assert_eq!(world.log(&job, 2).await, b"one two three");
}

#[tokio::test]
async fn a_crash_after_any_step_is_made_good_by_the_next_tick() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    world.print(&job, 1, 0, b"first").await;
    world.print(&job, 2, 0, b"second").await;
    world.pass(ENDED + 3);
    // The objects are written, and the power goes before they are recorded.
    let before = world.store.snapshot();
    world.archive().await;
    let objects = world.objects();
    world.store.restore(before);
    assert_eq!(world.log(&job, 2).await, b"second");
    world.archive().await;
    assert_eq!((world.objects(), world.pieces()), (objects, 0), "the same objects again");
    // Recorded under another name, and the power goes before the old object is deleted.
    world.print(&job, 2, 6, b" and more").await;
    let old = world.path(&job, 2).await.unwrap();
    let before = world.store.snapshot();
    world.archive().await;
    let key = Key::new(old.clone()).unwrap();
    world.blobs.put(&key, 100, stream::iter([Ok(Bytes::from_static(b"second"))])).await.unwrap();
    assert_eq!(world.log(&job, 2).await, b"second and more");
    // The power goes before that is recorded, too.
    world.store.restore(before);
    world.archive().await;
    assert_eq!(world.log(&job, 2).await, b"second and more");
    assert!(!world.objects().contains(&old), "{:?}", world.objects());
    assert_eq!(world.objects().len(), 2);
}

#[tokio::test]
async fn while_the_storage_is_away_logs_stay_readable_where_they_are() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    world.print(&job, 1, 0, b"first").await;
    world.print(&job, 2, 0, b"second").await;
    world.pass(ENDED + 3);
    // Where the folder for logs should be is something else.
    std::fs::write(world.folder.path().join("logs"), "").unwrap();
    for _ in 0..2 {
        let error = LogArchive::new(&world.context()).tick().await.unwrap_err();
        assert!(matches!(error, TickError::Failed(_)), "{error:?}");
        assert_eq!(world.pieces(), 2);
        assert_eq!(world.log(&job, 2).await, b"second");
        assert_eq!(world.path(&job, 2).await, None);
    }
    std::fs::remove_file(world.folder.path().join("logs")).unwrap();
    world.archive().await;
    assert_eq!((world.pieces(), world.objects().len()), (0, 2));
    assert_eq!((world.log(&job, 1).await, world.log(&job, 2).await), (b"first".to_vec(), b"second".to_vec()));
}

#[tokio::test]
async fn an_object_that_somebody_deleted_is_missed_by_name() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    world.print(&job, 2, 0, b"second").await;
    world.pass(ENDED + 3);
    world.archive().await;
    let path = world.path(&job, 2).await.unwrap();
    std::fs::remove_file(world.folder.path().join(&path)).unwrap();
    let error = world.app.log(&by(&world.app), job.id, None, 0).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    assert!(error.detail.contains(&path), "{error}");
    assert!(world.app.log_range(&by(&world.app), job.id, 2, 0..3).await.unwrap_err().detail.contains(&path));
}
