//! The duties of a test's world. They tick when the test says so.

use std::sync::Arc;

use punctual_core::Span;
use punctual_duties::Context;

use crate::world::World;

impl World {
    pub(crate) fn context(&self) -> Context {
        Context {
            app: self.app.clone(),
            store: Arc::new(self.store.clone()),
            engine: self.engine.clone(),
            blobs: self.blobs.clone(),
            settings: self.settings.clone(),
            prune_every: Span::from_secs(60),
        }
    }
}
