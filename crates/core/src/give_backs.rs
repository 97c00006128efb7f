//! Starts of a job that were taken back: its worker gave it back before anything ran, or never received it.
//!
//! They consume no retry, and are counted all the same, so that a job that cannot be started ends. They do not move the
//! moment since which the job should have run.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Timestamp};

/// Since the job was submitted, or made eligible again by an operator.
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

/// A job that waits because its last start was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenBack {
    /// When it was due, before its start was taken back for the first time. Lateness and `queue_timeout` count from here.
    pub since: Timestamp,
    /// Where it stands among the jobs that may be late. This is `since`, unless the job was being started at the
    /// moment at which a notification rule looked for late jobs: then it is looked at again.
    pub late_from: Timestamp,
    pub reason: String,
}

/// Why a start was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenBack {
    GivenBack,
    NeverReceived,
}

/// An attempt that was taken back, and what counts as late.
#[derive(Debug, Clone, Copy)]
pub struct Unstarted<'a> {
    pub due_at: Timestamp,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    /// The limits of all who want to know what is late.
    pub late_after: &'a [Span],
    /// That of the job's schedule.
    pub late_after_own: Option<Span>,
}

/// Who looks for jobs that wait too long has looked within this.
const LOOKED_WITHIN: Span = Span::from_secs(5);

impl GiveBacks {
    /// The waits grow to 5 minutes, so that this is some 7 hours without a connection that lasts for one message.
    pub const NEVER_RECEIVED_MAX: u16 = 100;
    /// Longer reasons are kept with the attempt; this one is for people who look at what waits.
    const REASON_MAX: usize = 512;

    /// With one more.
    #[must_use]
    pub fn after(before: Option<&Self>, what: TakenBack, attempt: &Unstarted<'_>, reason: &str) -> Self {
        let mut all = before.cloned().unwrap_or_default();
        let count = match what {
            TakenBack::GivenBack => &mut all.count,
            TakenBack::NeverReceived => &mut all.never_received,
        };
        *count = count.saturating_add(1);
        let since = all.last.as_ref().map_or(attempt.due_at, |last| last.since);
        let late_from = all.last.as_ref().map_or(since, |last| last.late_from);
        let late_from = if attempt.hid_from_looks(late_from) { attempt.ended_at } else { late_from };
        let reason = reason[..reason.floor_char_boundary(Self::REASON_MAX)].to_owned();
        all.last = Some(GivenBack { since, late_from, reason });
        all
    }

    /// An attempt has run: what comes next waits for its own time. The budgets stay as they are.
    #[must_use]
    pub fn after_run(&self) -> Self {
        Self { last: None, ..self.clone() }
    }
}

impl Unstarted<'_> {
    /// Whether the attempt was under way when somebody looked for jobs that have waited since `late_from`.
    fn hid_from_looks(&self, late_from: Timestamp) -> bool {
        let mut limits = self.late_after.iter().copied().chain(self.late_after_own);
        limits.any(|limit| {
            let look = late_from + limit;
            self.started_at <= look + LOOKED_WITHIN && look <= self.ended_at
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u16) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::EPOCH + Span::from_secs(secs)
    }

    fn attempt(due: i64, started: i64, ended: i64, late_after: &[Span]) -> Unstarted<'_> {
        Unstarted { due_at: at(due), started_at: at(started), ended_at: at(ended), late_after, late_after_own: None }
    }

    #[test]
    fn it_stays_late_since_it_was_first_due_until_an_attempt_runs() {
        let first = GiveBacks::after(None, TakenBack::GivenBack, &attempt(100, 100, 101, &[]), "no disk");
        let second = GiveBacks::after(Some(&first), TakenBack::NeverReceived, &attempt(102, 102, 103, &[]), "no word");
        assert_eq!((second.count, second.never_received), (1, 1));
        let last = second.last.clone().unwrap();
        assert_eq!((last.since, last.late_from, last.reason.as_str()), (at(100), at(100), "no word"));
        let ran = second.after_run();
        assert_eq!((ran.count, ran.last.clone()), (1, None));
        let third = GiveBacks::after(Some(&ran), TakenBack::GivenBack, &attempt(500, 500, 501, &[]), "no disk");
        assert_eq!((third.count, third.last.unwrap().since), (2, at(500)));
    }

    #[test]
    fn one_that_was_being_started_when_somebody_looked_is_looked_at_again() {
        let limits = [Span::from_secs(20)];
        let quick = GiveBacks::after(None, TakenBack::GivenBack, &attempt(100, 100, 101, &limits), "no disk");
        assert_eq!(quick.last.as_ref().unwrap().late_from, at(100));
        let slow = GiveBacks::after(Some(&quick), TakenBack::GivenBack, &attempt(115, 115, 121, &limits), "no disk");
        let last = slow.last.clone().unwrap();
        assert_eq!((last.since, last.late_from), (at(100), at(121)));
        let later = GiveBacks::after(Some(&slow), TakenBack::GivenBack, &attempt(150, 150, 151, &limits), "no disk");
        assert_eq!(later.last.unwrap().late_from, at(121), "it waited when somebody looked at 141");
    }

    #[test]
    fn it_survives_the_store() {
        let one = GiveBacks::after(None, TakenBack::GivenBack, &attempt(100, 100, 101, &[]), "no disk");
        for give_backs in [GiveBacks { count: 3, ..GiveBacks::default() }, one] {
            let text = serde_json::to_string(&give_backs).unwrap();
            assert_eq!(serde_json::from_str::<GiveBacks>(&text).unwrap(), give_backs);
        }
    }
}
