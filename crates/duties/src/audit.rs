//! Removes old lines of the audit log, and writes lines for refusals that were only counted.

use std::time::Duration;

use async_trait::async_trait;
use punctual_app::App;
use punctual_core::Span;
use punctual_engine::RETENTION;

use crate::{Context, Duty, Next, TickError};

const EVERY: Duration = Duration::from_secs(600);

/// Keeps the audit log for `audit_retention`.
pub struct AuditRetention {
    app: App,
    retention: Span,
}

impl AuditRetention {
    pub fn new(context: &Context) -> Self {
        Self { app: context.app.clone(), retention: context.settings.audit_retention }
    }
}

#[async_trait]
impl Duty for AuditRetention {
    fn name(&self) -> &'static str {
        "audit-retention"
    }

    fn lease(&self) -> Option<&'static str> {
        Some(RETENTION)
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        let trimmed = self.app.trim_audit(self.app.now() - self.retention).await?;
        Ok(if trimmed > 0 { Next::AtOnce } else { Next::After(EVERY) })
    }
}

const COUNT_EVERY: Duration = Duration::from_secs(20);

/// Writes lines for the refusals of this server that were only counted.
pub struct CountedRefusals {
    app: App,
}

impl CountedRefusals {
    pub fn new(context: &Context) -> Self {
        Self { app: context.app.clone() }
    }
}

#[async_trait]
impl Duty for CountedRefusals {
    fn name(&self) -> &'static str {
        "counted-refusals"
    }

    /// Each server counts its own.
    fn lease(&self) -> Option<&'static str> {
        None
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        self.app.record_counted_refusals().await?;
        Ok(Next::After(COUNT_EVERY))
    }
}
