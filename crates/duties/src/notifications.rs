//! Turns notices into messages: one round after the other, on the server that holds the lease.

use std::time::Duration;

use async_trait::async_trait;
use punctual_app::{App, Reports, Round};
use punctual_engine::REPORTS;

use crate::{Context, Duty, Next, TickError};

/// Well within the time for which the first event of a message waits for others, so no message is later for it.
const EVERY: Duration = Duration::from_millis(300);
/// The pause after somebody changed a rule during a round.
const AFTER_CONFLICT: Duration = Duration::from_millis(20);

/// Sends notifications.
pub struct Notifications {
    app: App,
    reports: Reports,
}

impl Notifications {
    pub fn new(context: &Context) -> Self {
        Self { app: context.app.clone(), reports: Reports::default() }
    }
}

#[async_trait]
impl Duty for Notifications {
    fn name(&self) -> &'static str {
        "notifications"
    }

    fn lease(&self) -> Option<&'static str> {
        Some(REPORTS)
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        Ok(match self.reports.round(&self.app).await? {
            Round::Done { is_more: true } => Next::AtOnce,
            Round::Done { is_more: false } | Round::Nothing => {
                Next::After(self.reports.next_in(self.app.now()).min(EVERY))
            }
            Round::Conflict => Next::After(AFTER_CONFLICT),
        })
    }

    fn lease_lost(&mut self) {
        self.reports = Reports::default();
    }
}
