//! Judges a recorded run by the promises of `punctual-promises`, and measures what has no fixed limit.
//!
//! Knows the promises of docs/delivery.md and nothing of how they are kept. Pure: a kept run can be judged again, by
//! `verify check <folder>`.

mod coverage;
#[cfg(test)]
mod history_builder;
mod lateness;
#[cfg(test)]
mod tests;
mod translate;

pub use coverage::{Hits, hits};
pub use lateness::{
    Delay, Lateness, again_after_loss_ms, late_by_answer, late_by_call, late_by_due, latest, latest_ms, recovered_ms,
};
pub use punctual_promises::Violation;

use crate::history::History;

pub fn check(history: &History) -> Vec<Violation> {
    punctual_promises::check(&translate::run_history(history))
}
