//! Keeps what a server knows of keys and sessions current, writes down when they were used, and removes what ended long ago.

use std::time::Duration;

use async_trait::async_trait;
use punctual_app::App;
use punctual_engine::RETENTION;

use crate::{Context, Duty, Next, TickError};

/// A revocation counts on every server after this and the time of an answer, well within the 5 s that are promised.
const EVERY: Duration = Duration::from_secs(1);
/// Times of last use are written in groups.
const USES_EVERY: u32 = 5;

/// Reads changes of keys, people and sessions.
pub struct IdentityRefresh {
    app: App,
    ticks: u32,
}

impl IdentityRefresh {
    pub fn new(context: &Context) -> Self {
        Self { app: context.app.clone(), ticks: 0 }
    }
}

#[async_trait]
impl Duty for IdentityRefresh {
    fn name(&self) -> &'static str {
        "identity-refresh"
    }

    /// Each server has its own picture.
    fn lease(&self) -> Option<&'static str> {
        None
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        if let Err(error) = self.app.refresh_namespaces().await {
            tracing::debug!(%error, "namespaces cannot be read");
        }
        // No back-off: while the database is away, a revocation that it knows of counts a second after it is back.
        if let Err(error) = self.app.refresh_identities().await {
            tracing::debug!(%error, "keys and sessions cannot be read");
            return Ok(Next::After(EVERY));
        }
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(USES_EVERY)
            && let Err(error) = self.app.record_uses().await
        {
            tracing::debug!(%error, "the use of keys and sessions cannot be recorded");
        }
        Ok(Next::After(EVERY))
    }
}

const PRUNE_EVERY: Duration = Duration::from_secs(600);

/// Removes keys and sessions that ended, and people who were deleted, some days ago.
pub struct IdentityRetention {
    app: App,
}

impl IdentityRetention {
    pub fn new(context: &Context) -> Self {
        Self { app: context.app.clone() }
    }
}

#[async_trait]
impl Duty for IdentityRetention {
    fn name(&self) -> &'static str {
        "identity-retention"
    }

    fn lease(&self) -> Option<&'static str> {
        Some(RETENTION)
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        let removed = self.app.prune_identities().await?;
        if removed > 0 {
            tracing::info!(removed, "keys and sessions that ended long ago were removed");
        }
        Ok(Next::After(PRUNE_EVERY))
    }
}
