//! Learns which secrets of the cluster count, and moves a rotation on.

use std::time::Duration;

use async_trait::async_trait;
use punctual_app::App;
use punctual_engine::RETENTION;

use crate::{Context, Duty, Next, TickError};

/// A stage lasts about two of these: all servers read it, and one of them sees that all have.
const EVERY: Duration = Duration::from_secs(1);

/// Reads the stage of the cluster's secret.
pub struct ClusterSecretRefresh {
    app: App,
}

impl ClusterSecretRefresh {
    pub fn new(context: &Context) -> Self {
        Self { app: context.app.clone() }
    }
}

#[async_trait]
impl Duty for ClusterSecretRefresh {
    fn name(&self) -> &'static str {
        "cluster-secret-refresh"
    }

    /// Each server acts by it.
    fn lease(&self) -> Option<&'static str> {
        None
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        // No back-off: when the database is back, others may sign with the next secret a moment later.
        if let Err(error) = self.app.refresh_cluster_secret().await {
            if error.kind.is_outage() {
                tracing::debug!(%error, "the stage of the cluster's secret cannot be read");
            } else if let Some(left_out) = NOT_READ.pass() {
                tracing::error!(%error, left_out, "the cluster's secret cannot be read; the known one stays in use");
            }
        }
        Ok(Next::After(EVERY))
    }
}

static NOT_READ: punctual_app::Throttle = punctual_app::Throttle::new(Duration::from_secs(60));

/// Begins the next stage of a rotation when all servers have confirmed the one before.
pub struct ClusterSecretRotation {
    app: App,
}

impl ClusterSecretRotation {
    pub fn new(context: &Context) -> Self {
        Self { app: context.app.clone() }
    }
}

#[async_trait]
impl Duty for ClusterSecretRotation {
    fn name(&self) -> &'static str {
        "cluster-secret-rotation"
    }

    fn lease(&self) -> Option<&'static str> {
        Some(RETENTION)
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        self.app.advance_cluster_secret().await?;
        Ok(Next::After(EVERY))
    }
}
