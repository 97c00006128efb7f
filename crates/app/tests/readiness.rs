//! Why a server is not ready, when there are several reasons.

#[expect(dead_code, reason = "tests of notifications use more of it")]
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use punctual_core::Span;
use punctual_engine::{SCHEDULER, Takeover};

use world::World;

/// A server that renews its leases once, and for which an hour has passed since.
async fn without_leases() -> World {
    let seconds = Arc::new(AtomicU64::new(0));
    let elapsed = Arc::clone(&seconds);
    let world = World::with_engine(move |config| {
        config.member.roles = vec![SCHEDULER.to_owned()];
        config.takeover = Takeover::WhenExpired;
        config.monotonic = Arc::new(move || Duration::from_secs(elapsed.load(Ordering::Relaxed)));
        config.renew_every = Span::from_secs(86_400);
        config.look_every = Span::from_secs(86_400);
    })
    .await;
    seconds.store(3600, Ordering::Relaxed);
    world
}

#[tokio::test]
async fn tables_that_were_dropped_are_named_although_the_leases_have_expired() {
    let error = without_leases().await.app.ready().await.unwrap_err();
    assert_eq!(error.detail, "the server has lost touch with the store");
    let world = without_leases().await;
    world.store.drop_tables();
    assert_eq!(world.app.ready().await.unwrap_err().detail, "the schema of the database is missing");
}
