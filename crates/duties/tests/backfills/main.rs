//! Backfills from the request to their last job, driven by their duty.

mod aborted;
#[path = "../../../app/tests/world/peers.rs"]
mod peers;
mod runs;
#[path = "../../../app/tests/schedules/worker.rs"]
mod worker;
#[path = "../../../app/tests/schedules/world.rs"]
#[expect(dead_code, reason = "tests of schedules use more of it")]
mod world;

use std::ops::Deref;
use std::sync::Arc;

use punctual_core::Span;
use punctual_duties::{Backfills, Context, Runner};

use crate::world::World;

/// A world whose backfills are driven.
struct Driven {
    world: World,
    _runner: Runner,
}

impl Driven {
    async fn new() -> Self {
        let world = World::new().await;
        let context = Context {
            app: world.owner.clone(),
            store: Arc::clone(&world.store),
            engine: world.engine.clone(),
            blobs: world.blobs.clone(),
            settings: world.settings.clone(),
            prune_every: Span::from_secs(60),
        };
        let runner = Runner::start(&world.engine, vec![Box::new(Backfills::new(&context))]);
        Self { world, _runner: runner }
    }
}

impl Deref for Driven {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}
