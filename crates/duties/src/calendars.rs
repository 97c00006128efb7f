//! Plans schedules again when one of their calendars has changed, on this server or another.

use std::time::Duration;

use async_trait::async_trait;
use punctual_engine::Engine;

use crate::{Context, Duty, Next, TickError};

/// A changed calendar counts on every server after this.
const EVERY: Duration = Duration::from_secs(3);

pub struct Calendars {
    engine: Engine,
}

impl Calendars {
    pub fn new(context: &Context) -> Self {
        Self { engine: context.engine.clone() }
    }
}

#[async_trait]
impl Duty for Calendars {
    fn name(&self) -> &'static str {
        "calendars"
    }

    /// Each server plans the schedules of its own shards.
    fn lease(&self) -> Option<&'static str> {
        None
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        self.engine.replan().await?;
        Ok(Next::After(EVERY))
    }
}
