//! Learns of workers that joined or were revoked at another server, and cuts those off that may not work any more.

use std::time::Duration;

use async_trait::async_trait;
use punctual_app::App;

use crate::{Context, Duty, Next, TickError};

/// A revocation counts on every server after this, and one look costs one row.
const EVERY: Duration = Duration::from_secs(1);

pub struct Enrolments {
    app: App,
}

impl Enrolments {
    pub fn new(context: &Context) -> Self {
        Self { app: context.app.clone() }
    }
}

#[async_trait]
impl Duty for Enrolments {
    fn name(&self) -> &'static str {
        "enrolments"
    }

    /// Each server judges the workers that connect to it.
    fn lease(&self) -> Option<&'static str> {
        None
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        self.app.refresh_enrolments().await?;
        Ok(Next::After(EVERY))
    }
}
