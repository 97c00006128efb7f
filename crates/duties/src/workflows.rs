//! Starts runs of workflows for the jobs that they are run for, and advances runs when time alone brings something about. Each
//! server does so for its own shards.

use std::time::Duration;

use async_trait::async_trait;
use punctual_app::Conductor;

use crate::{Context, Duty, Next, TickError};

const EVERY: Duration = Duration::from_secs(1);
/// While jobs wait for the ends of their runs.
const EVERY_WHEN_BUSY: Duration = Duration::from_millis(200);

/// Starts the runs of jobs and ends those jobs with them, ends gates and runs whose time is over, and cancels the jobs of
/// runs that end.
pub struct Workflows {
    conductor: Conductor,
}

impl Workflows {
    pub fn new(context: &Context) -> Self {
        Self { conductor: Conductor::new(context.app.clone()) }
    }
}

#[async_trait]
impl Duty for Workflows {
    fn name(&self) -> &'static str {
        "workflows"
    }

    fn lease(&self) -> Option<&'static str> {
        None
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        self.conductor.tick().await?;
        Ok(Next::After(if self.conductor.is_busy() { EVERY_WHEN_BUSY } else { EVERY }))
    }

    async fn wake(&mut self) {
        self.conductor.wake().await;
    }
}
