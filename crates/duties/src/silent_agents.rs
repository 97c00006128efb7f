//! Ends attempts whose agent has not been heard of for too long. Each server watches the attempts of its own shards.

use std::time::Duration;

use async_trait::async_trait;
use punctual_app::App;
use punctual_engine::Engine;
use tokio::time::Instant;

use crate::{Context, Duty, Next, TickError};

const EVERY: Duration = Duration::from_secs(1);
/// A pause of this server that is longer than this is not held against the agents.
const PAUSE_MIN: Duration = Duration::from_secs(3);

/// Gives up agents that are silent.
pub struct SilentAgents {
    app: App,
    engine: Engine,
    ticked_at: Instant,
}

impl SilentAgents {
    pub fn new(context: &Context) -> Self {
        Self { app: context.app.clone(), engine: context.engine.clone(), ticked_at: Instant::now() }
    }
}

#[async_trait]
impl Duty for SilentAgents {
    fn name(&self) -> &'static str {
        "silent-agents"
    }

    fn lease(&self) -> Option<&'static str> {
        None
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        let now = Instant::now();
        let pause = now.duration_since(self.ticked_at);
        // A server that was suspended, or whose leases had expired, could not hear its agents.
        let deaf_for = if pause > PAUSE_MIN || !self.engine.is_current() { pause } else { Duration::ZERO };
        self.app.give_up_silent_agents(now, deaf_for).await?;
        self.ticked_at = now;
        Ok(Next::After(EVERY))
    }
}
