//! Removes history that is older than its retention: that of the cluster, and of jobs that of their namespace.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_app::App;
use punctual_core::Span;
use punctual_engine::{Clock, Engine, RETENTION};
use punctual_store::Store;

use crate::{Context, Duty, Next, TickError};

/// Jobs that leave history in one transaction. More would hold up the writer.
const PRUNE_BATCH: usize = 500;

pub struct Retention {
    app: App,
    store: Arc<dyn Store>,
    engine: Engine,
    clock: Clock,
    retention: Span,
    every: Duration,
}

impl Retention {
    pub fn new(context: &Context) -> Self {
        Self {
            app: context.app.clone(),
            store: Arc::clone(&context.store),
            clock: context.engine.clock(),
            engine: context.engine.clone(),
            retention: context.settings.retention,
            every: context.prune_every.to_std(),
        }
    }
}

#[async_trait]
impl Duty for Retention {
    fn name(&self) -> &'static str {
        "retention"
    }

    fn lease(&self) -> Option<&'static str> {
        Some(RETENTION)
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        let mut total = 0;
        // Another server may take the duty over while a long backlog is removed.
        while self.engine.holds(RETENTION) {
            let now = (self.clock)();
            let removed = self.store.prune(now - self.retention, now, PRUNE_BATCH).await?;
            total += removed;
            if removed < PRUNE_BATCH {
                break;
            }
        }
        for (namespace, before) in self.app.retention_of_namespaces((self.clock)()) {
            while self.engine.holds(RETENTION) {
                let removed = self.store.prune_jobs_of(namespace, before, PRUNE_BATCH).await?;
                total += removed;
                if removed < PRUNE_BATCH {
                    break;
                }
            }
        }
        if total > 0 {
            tracing::debug!(jobs = total, "removed old history");
        }
        Ok(Next::After(self.every))
    }
}
