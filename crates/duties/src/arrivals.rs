//! Checks files that were uploaded straight to the storage, so that tasks that wait for them become eligible without
//! anybody asking.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, StreamExt};
use punctual_app::{App, UPLOAD_WITHIN};
use punctual_core::ArtifactId;
use punctual_engine::ARTIFACTS;
use punctual_store::{ArtifactState, Store};

use crate::{Context, Duty, Next, TickError};

/// A task becomes eligible at most this long after its file has arrived.
const EVERY: Duration = Duration::from_secs(3);
/// Pending artifacts that one tick checks; the next tick goes on with the next.
const PAGE: usize = 200;
/// Files that are read at a time.
const CHECKS_AT_ONCE: usize = 4;

/// Finds out which pending artifacts have their file by now.
pub struct Arrivals {
    app: App,
    store: Arc<dyn Store>,
    /// The pending artifact that was checked last.
    after: Option<ArtifactId>,
}

impl Arrivals {
    pub fn new(context: &Context) -> Self {
        Self { app: context.app.clone(), store: Arc::clone(&context.store), after: None }
    }
}

#[async_trait]
impl Duty for Arrivals {
    fn name(&self) -> &'static str {
        "artifact-arrivals"
    }

    fn lease(&self) -> Option<&'static str> {
        Some(ARTIFACTS)
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        let now = self.app.now();
        let pending = self.store.pending_artifacts(self.after, PAGE).await?;
        self.after = pending.last().filter(|_| pending.len() == PAGE).map(|artifact| artifact.id);
        // An upload that began in time may end a while later.
        let may_arrive = pending.into_iter().filter(|artifact| match artifact.state {
            ArtifactState::Pending { until } => now < until + UPLOAD_WITHIN,
            ArtifactState::Ready { .. } | ArtifactState::Refused { .. } => false,
        });
        let app = &self.app;
        let checks = stream::iter(may_arrive.map(|artifact| app.check_arrival(artifact)));
        let results: Vec<_> = checks.buffer_unordered(CHECKS_AT_ONCE).collect().await;
        results.into_iter().collect::<Result<(), _>>()?;
        Ok(Next::After(EVERY))
    }
}
