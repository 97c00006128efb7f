//! Starts of a job that were taken back: its worker gave it back before anything ran, or never received it.
//!
//! They consume no retry, and are counted all the same, so that a job that cannot be started ends. They do not move the
//! moment since which the job should have run.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// The give-backs of a job since it was submitted or an operator made it eligible again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GiveBacks {
    /// How often a worker or an agent gave it back. Bounded by the task's `start_retry`.
    pub count: u16,
    /// How often its worker never received it. Bounded by [`GiveBacks::NEVER_RECEIVED_MAX`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub never_received: u16,
    /// Set while it waits after such a start; `None` when an attempt has run since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<GivenBack>,
}

/// A job that waits, or is being started again, because its last start was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenBack {
    /// When it was due, before its start was taken back for the first time. Lateness and `queue_timeout` count from here.
    pub since: Timestamp,
    pub reason: String,
}

/// Why a start was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenBack {
    GivenBack,
    NeverReceived,
}

impl GiveBacks {
    /// The waits grow to 5 minutes, so that this is some 7 hours without a connection that lasts for one message.
    pub const NEVER_RECEIVED_MAX: u16 = 100;
    /// Longer reasons are kept with the attempt; this one is for lists of waiting jobs.
    const REASON_MAX: usize = 512;

    /// Adds a give-back of an attempt that was due at `due_at`.
    #[must_use]
    pub fn after(before: Option<&Self>, what: TakenBack, due_at: Timestamp, reason: &str) -> Self {
        let mut all = before.cloned().unwrap_or_default();
        let count = match what {
            TakenBack::GivenBack => &mut all.count,
            TakenBack::NeverReceived => &mut all.never_received,
        };
        *count = count.saturating_add(1);
        let since = all.last.as_ref().map_or(due_at, |last| last.since);
        let reason = reason[..reason.floor_char_boundary(Self::REASON_MAX)].to_owned();
        all.last = Some(GivenBack { since, reason });
        all
    }

    /// An attempt has run: what comes next waits for its own time. The budgets stay as they are.
    #[must_use]
    pub fn after_run(&self) -> Self {
        Self { last: None, ..self.clone() }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u16) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    fn at(secs: i64) -> Timestamp {
        Timestamp::EPOCH + Span::from_secs(secs)
    }

    #[test]
    fn it_stays_late_since_it_was_first_due_until_an_attempt_runs() {
        let first = GiveBacks::after(None, TakenBack::GivenBack, at(100), "no disk");
        let second = GiveBacks::after(Some(&first), TakenBack::NeverReceived, at(102), "no word");
        assert_eq!((second.count, second.never_received), (1, 1));
        let last = second.last.clone().unwrap();
        assert_eq!((last.since, last.reason.as_str()), (at(100), "no word"));
        let ran = second.after_run();
        assert_eq!((ran.count, ran.last.clone()), (1, None));
        let third = GiveBacks::after(Some(&ran), TakenBack::GivenBack, at(500), "no disk");
        assert_eq!((third.count, third.last.unwrap().since), (2, at(500)));
    }

    #[test]
    fn it_survives_the_store() {
        let one = GiveBacks::after(None, TakenBack::GivenBack, at(100), "no disk");
        for give_backs in [GiveBacks { count: 3, ..GiveBacks::default() }, one] {
            let text = serde_json::to_string(&give_backs).unwrap();
            assert_eq!(serde_json::from_str::<GiveBacks>(&text).unwrap(), give_backs);
        }
    }
}
