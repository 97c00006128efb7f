//! Goes on with batches where no transaction of an owner does. Each server does so for its own shards.

use std::time::Duration;

use async_trait::async_trait;
use punctual_app::BatchKeeper;

use crate::{Context, Duty, Next, TickError};

const EVERY: Duration = Duration::from_millis(500);

/// Cancels the jobs of batches that stop, stores compensations, and ends batches that cannot start.
pub struct Batches {
    keeper: BatchKeeper,
}

impl Batches {
    pub fn new(context: &Context) -> Self {
        Self { keeper: BatchKeeper::new(context.app.clone()) }
    }
}

#[async_trait]
impl Duty for Batches {
    fn name(&self) -> &'static str {
        "batches"
    }

    fn lease(&self) -> Option<&'static str> {
        None
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        self.keeper.tick().await?;
        Ok(Next::After(EVERY))
    }

    async fn wake(&mut self) {
        self.keeper.wake().await;
    }
}
