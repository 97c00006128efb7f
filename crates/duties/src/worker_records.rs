//! Writes down which workers were seen, when they connect and part and now and then while they are connected.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_app::App;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::{Context, Duty, Next, TickError};

const EVERY: Duration = Duration::from_secs(5);
/// Well within the time for which retention keeps a row after the worker was last seen.
const RENEW_EVERY: Duration = Duration::from_secs(600);

/// Keeps the records of workers current.
pub struct WorkerRecords {
    app: App,
    changed: Arc<Notify>,
    renewed_at: Instant,
}

impl WorkerRecords {
    pub fn new(context: &Context) -> Self {
        Self { app: context.app.clone(), changed: context.app.workers_changed(), renewed_at: Instant::now() }
    }
}

#[async_trait]
impl Duty for WorkerRecords {
    fn name(&self) -> &'static str {
        "worker-records"
    }

    /// Each server records the workers that are connected to it.
    fn lease(&self) -> Option<&'static str> {
        None
    }

    async fn wake(&mut self) {
        self.changed.notified().await;
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        if self.renewed_at.elapsed() >= RENEW_EVERY {
            self.renewed_at = Instant::now();
            self.app.renew_workers();
        }
        self.app.record_workers().await?;
        Ok(Next::After(EVERY))
    }
}
