//! Notifications: what people are told of, by whom, and when.
//!
//! Owners write notices together with what they are about. One server at a time, the one with the duty of reports,
//! takes them up in rounds: it matches them against the rules, keeps what waits to be sent in the rules' state, and hands
//! messages to jobs. A round ends with one transaction, so nothing is lost and nothing is sent twice, whoever dies.

mod check;
mod cursor;
mod deliver;
mod deliveries;
mod event;
mod health;
mod index;
mod late;
mod message;
mod messages;
mod noticed;
mod overdue;
mod planned;
mod reach;
mod render;
mod round;
mod rule;
mod rules;
mod sample;
mod scene;
mod tolerate;
mod waiting;
mod watcher;

use std::sync::Weak;
use std::time::Duration;

use punctual_core::schedule::ScheduleSpec;
use punctual_engine::REPORTS;

pub(crate) use deliver::delivered_rule;
pub(crate) use late::Quiet;
pub use round::{Reports, Round};
pub use rules::PutRule;

use crate::{App, Inner};

/// How often the store is asked. It is well within the time for which the first event of a message waits for
/// others, so nothing is told later for it.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Somebody changed a rule while a round was made of it.
const AFTER_CONFLICT: Duration = Duration::from_millis(20);
/// While the store is away.
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Of rounds that fail one after the other, the log tells of the first and then of each of these: some ten minutes.
const FAILURES_TOLD: u32 = 20;

/// Until the app is gone.
pub(crate) async fn keep(app: Weak<Inner>) {
    let mut reports = Reports::default();
    let mut pause = LOOK_EVERY;
    let mut backoff = BACKOFF_FIRST;
    let mut failures: u32 = 0;
    loop {
        tokio::time::sleep(pause).await;
        let Some(inner) = app.upgrade() else { return };
        let app = App(inner);
        if !app.0.engine.holds(REPORTS) {
            // Another server goes on; what we remember is old when it is our turn again.
            reports = Reports::default();
            pause = LOOK_EVERY;
            continue;
        }
        let round = reports.round(&app).await;
        pause = match &round {
            Ok(Round::Done { is_more: true }) => Duration::ZERO,
            Ok(Round::Done { is_more: false } | Round::Nothing) => reports.next_in(app.now()).min(LOOK_EVERY),
            Ok(Round::Conflict) => AFTER_CONFLICT,
            Err(error) => {
                if failures.is_multiple_of(FAILURES_TOLD) {
                    tracing::warn!(%error, "notifications are not made; trying again");
                }
                backoff
            }
        };
        (failures, backoff) = match round {
            Ok(_) => (0, BACKOFF_FIRST),
            Err(_) => (failures.saturating_add(1), (backoff * 2).min(BACKOFF_MAX)),
        };
    }
}

fn read_schedule_spec(text: &str) -> Option<ScheduleSpec> {
    serde_json::from_str(text).ok()
}
