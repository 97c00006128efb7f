//! What becomes of objects that nobody needs any more.

use bytes::Bytes;
use futures_util::stream;
use punctual_blobs::Key;
use punctual_store::Retention;
use punctual_store_tests::fixture::{at, new_job};

use super::{ENDED, day, tried_twice};
use crate::world::{RETENTION, World};

#[tokio::test]
async fn the_objects_of_jobs_go_with_them() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    world.print(&job, 1, 0, b"first").await;
    world.print(&job, 2, 0, b"second").await;
    world.pass(ENDED + 3);
    world.archive().await;
    world.store.prune(at(ENDED + 1), at(ENDED + 1), 10).await.unwrap();
    assert_eq!(world.objects().len(), 2, "rows go first");
    // The power goes after the first was deleted.
    std::fs::remove_file(world.folder.path().join(&world.objects()[0])).unwrap();
    world.archive().await;
    assert_eq!(world.objects(), Vec::<String>::new());
    assert_eq!(world.store.dropped_logs_now(10), Vec::<String>::new());
    // What comes after that is nobody's. It goes when no job could be so old.
    world.print(&job, 2, 0, b"late").await;
    world.archive().await;
    assert_eq!(world.pieces(), 1);
    world.pass(RETENTION);
    world.archive().await;
    assert_eq!(world.pieces(), 0);
}

#[tokio::test]
async fn objects_that_nothing_names_are_swept_when_their_day_is_over() {
    let world = World::new().await;
    let (job, _owner) = tried_twice(&world.store).await;
    world.print(&job, 2, 0, b"second").await;
    world.pass(ENDED + 3);
    world.archive().await;
    let named = world.path(&job, 2).await.unwrap();
    let put = async |name: String| {
        let key = Key::new(name).unwrap();
        world.blobs.put(&key, 100, stream::iter([Ok(Bytes::from_static(b"x"))])).await.unwrap();
    };
    let stray = format!("logs/{}/{}/2-0123456789ab.log", day(ENDED), job.id);
    let unknown = format!("logs/{}/{}/1-0123456789ab.log", day(ENDED), new_job(9, 10, 0).id);
    let foreign = format!("logs/{}/notes.txt", day(ENDED));
    let young = format!("logs/{}/{}/1-0123456789ab.log", day(ENDED + 86_400), new_job(9, 10, 0).id);
    for name in [&stray, &unknown, &foreign, &young] {
        put(name.clone()).await;
    }
    assert_eq!(world.sweep().await, 0, "nothing is old enough");
    world.pass(86_400 + RETENTION);
    // Pieces say that somebody is about to archive it.
    world.print(&job, 2, 6, b" time").await;
    assert_eq!(world.sweep().await, 1);
    assert!(!world.objects().contains(&unknown) && world.objects().contains(&stray));
    world.archive().await;
    let renamed = world.path(&job, 2).await.unwrap();
    assert_ne!(renamed, named);
    assert_eq!(world.sweep().await, 1);
    let mut left = vec![renamed, foreign, young];
    left.sort();
    assert_eq!(world.objects(), left);
    assert_eq!(world.log(&job, 2).await, b"second time");
}
