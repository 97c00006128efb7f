//! Notices changes of queues that were made at another server, whether or not that one could say so.

use std::time::Duration;

use async_trait::async_trait;
use punctual_engine::Engine;

use crate::{Context, Duty, Next, TickError};

/// A pause counts on every server after this and the time of an answer, well within the second that is promised.
const EVERY: Duration = Duration::from_millis(500);

/// Reads what people have decided about queues.
pub struct QueueStates {
    engine: Engine,
}

impl QueueStates {
    pub fn new(context: &Context) -> Self {
        Self { engine: context.engine.clone() }
    }
}

#[async_trait]
impl Duty for QueueStates {
    fn name(&self) -> &'static str {
        "queue-states"
    }

    /// Each server has its own picture.
    fn lease(&self) -> Option<&'static str> {
        None
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        // No back-off: a pause has to count as soon as the database can be read again.
        if let Err(error) = self.engine.refresh_queues().await {
            tracing::debug!(%error, "queues cannot be read");
        }
        Ok(Next::After(EVERY))
    }
}
