//! Lets go of history that is older than its retention.

use std::sync::Arc;

use punctual_store::{Result, Store};

use crate::config::{Clock, EngineConfig};
use crate::duties::{Duties, RETENTION};
use crate::hub::Hub;

/// Jobs that leave history in one transaction. More would hold up the writer.
const PRUNE_BATCH: usize = 500;

pub(crate) struct RetentionDuty {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) clock: Clock,
    pub(crate) duties: Arc<Duties>,
    pub(crate) config: EngineConfig,
}

impl RetentionDuty {
    pub(crate) async fn tick(&self) -> Result<usize> {
        self.hub.tidy();
        let mut total = 0;
        // Another server may take the duty while a long backlog is pruned.
        while self.duties.holds(RETENTION) {
            let now = (self.clock)();
            let gone = self.store.prune(now - self.config.retention, now, PRUNE_BATCH).await?;
            total += gone;
            if gone < PRUNE_BATCH {
                break;
            }
        }
        Ok(total)
    }

    pub(crate) async fn run(self) {
        let mut ticks = tokio::time::interval(self.config.prune_every.to_std());
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            match self.tick().await {
                Ok(0) => {}
                Ok(jobs) => tracing::debug!(jobs, "old history was removed"),
                Err(error) => tracing::warn!(%error, "old history was not removed; trying again"),
            }
        }
    }
}
