//! Advances runs of workflows when time alone brings something about. Each server does so for the runs of its own shards.

use std::time::Duration;

use async_trait::async_trait;
use punctual_app::App;

use crate::{Context, Duty, Next, TickError};

const EVERY: Duration = Duration::from_secs(1);

/// Ends gates and runs whose time is over, and cancels the jobs of runs that end.
pub struct Workflows {
    app: App,
}

impl Workflows {
    pub fn new(context: &Context) -> Self {
        Self { app: context.app.clone() }
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
        self.app.advance_runs().await?;
        Ok(Next::After(EVERY))
    }
}
