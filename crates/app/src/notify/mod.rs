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
mod event_context;
mod health;
mod index;
mod late;
mod message;
mod messages;
mod noticed;
mod outages;
mod overdue;
mod planned;
mod render;
mod requesters;
mod round;
mod rule;
mod rules;
mod sample;
mod scan_progress;
mod waiting;
mod watcher;

use punctual_core::schedule::ScheduleSpec;

pub(crate) use deliver::delivered_rule;
pub(crate) use late::Quiet;
pub use round::{Reports, Round};
pub use rules::PutRule;

fn read_schedule_spec(text: &str) -> Option<ScheduleSpec> {
    serde_json::from_str(text).ok()
}
