//! Removes artifacts that no task has needed for the retention, with their files.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_app::App;
use punctual_core::Span;
use punctual_engine::RETENTION;
use punctual_store::Store;

use crate::{Context, Duty, Next, TickError};

const EVERY: Duration = Duration::from_secs(60);
/// Artifacts that go in one transaction.
const PRUNE_BATCH: usize = 100;

/// Lets go of artifacts that are not needed any more.
pub struct ArtifactRetention {
    app: App,
    store: Arc<dyn Store>,
    retention: Span,
}

impl ArtifactRetention {
    pub fn new(context: &Context) -> Self {
        Self { app: context.app.clone(), store: Arc::clone(&context.store), retention: context.settings.retention }
    }
}

#[async_trait]
impl Duty for ArtifactRetention {
    fn name(&self) -> &'static str {
        "artifact-retention"
    }

    fn lease(&self) -> Option<&'static str> {
        Some(RETENTION)
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        let now = self.app.now();
        let removed = self.store.prune_artifacts(now - self.retention, now, PRUNE_BATCH).await?;
        for id in &removed {
            self.app.remove_files(*id).await;
        }
        if !removed.is_empty() {
            tracing::info!(artifacts = removed.len(), "removed artifacts that no task needs");
        }
        Ok(if removed.len() < PRUNE_BATCH { Next::After(EVERY) } else { Next::AtOnce })
    }
}
