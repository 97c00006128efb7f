//! Logs every attempt that starts and every attempt that ends, with its ids.
//!
//! Writing lines must not slow the work down: beyond [`LINES_PER_SECOND_MAX`] attempts are counted, in one line a second,
//! unless [`AttemptLog::All`] asks for all of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use punctual_core::attempt::Outcome;
use punctual_core::shard::event::Report;
use tokio::time::Instant;

use crate::held::Key;
use crate::tasks::RunnableTask;

/// As many lines as a person can follow. Writing them takes a few milliseconds.
const LINES_PER_SECOND_MAX: u32 = 100;

const SECOND: Duration = Duration::from_secs(1);

/// Longer reasons are cut in the log; the job's record has the whole text.
const REASON_CHARS_MAX: usize = 200;

/// Which attempts a worker logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AttemptLog {
    /// Log no attempts.
    Off,
    /// Up to 100 lines a second; the rest is counted in one line a second.
    #[default]
    Limited,
    /// Log all attempts, whatever it costs.
    All,
}

pub(crate) struct Journal {
    mode: AttemptLog,
    window: Mutex<LineWindow>,
    /// The window is full: attempts are only counted until it ends.
    is_full: AtomicBool,
    started: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    other: AtomicU64,
}

struct LineWindow {
    ends_at: Instant,
    lines: u32,
}

impl Journal {
    pub(crate) fn new(mode: AttemptLog) -> Arc<Self> {
        Arc::new(Self {
            mode,
            window: Mutex::new(LineWindow { ends_at: Instant::now(), lines: 0 }),
            is_full: AtomicBool::new(false),
            started: AtomicU64::new(0),
            succeeded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            other: AtomicU64::new(0),
        })
    }

    pub(crate) fn started(self: &Arc<Self>, key: Key, task: &RunnableTask, tracing_id: Option<&str>, now: Instant) {
        if !self.has_room(now) {
            self.started.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let (job, attempt) = key;
        // A one-off job has no name of its own.
        let name = Some(&*task.name).filter(|name| !name.is_empty());
        tracing::info!(%job, attempt = attempt.0, task = name, kind = task.run.kind(), tracing_id, "attempt started");
    }

    pub(crate) fn ended(self: &Arc<Self>, report: &Report, tracing_id: Option<&str>, began: Instant) {
        // Without a look at the clock: a drain ends here several hundred thousand times a second.
        if self.is_counting() {
            return self.count(report);
        }
        let now = Instant::now();
        if !self.has_room(now) {
            return self.count(report);
        }
        let Report { id: job, attempt, outcome, timed_out, .. } = report;
        let (outcome, reason) = match outcome {
            Outcome::Succeeded { .. } => ("succeeded", None),
            Outcome::Failed(failure) if *timed_out => ("timed_out", Some(cut(&failure.reason))),
            Outcome::Failed(failure) => ("failed", Some(cut(&failure.reason))),
            Outcome::Cancelled => ("cancelled", None),
            Outcome::NotStarted { reason } => ("not_started", Some(cut(reason))),
        };
        let took_ms = now.saturating_duration_since(began).as_micros() as f64 / 1000.0;
        tracing::info!(%job, attempt = attempt.0, outcome, took_ms, reason, tracing_id, "attempt ended");
    }

    fn count(&self, report: &Report) {
        let count = match report.outcome {
            Outcome::Succeeded { .. } => &self.succeeded,
            Outcome::Failed(_) => &self.failed,
            Outcome::Cancelled | Outcome::NotStarted { .. } => &self.other,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether attempts are only counted until the window ends.
    fn is_counting(&self) -> bool {
        self.mode == AttemptLog::Limited && self.is_full.load(Ordering::Relaxed)
    }

    /// Whether a line may be written now. While a window is full, one task writes the counts at its end.
    fn has_room(self: &Arc<Self>, now: Instant) -> bool {
        match self.mode {
            AttemptLog::Off => return false,
            AttemptLog::All => return true,
            AttemptLog::Limited if self.is_counting() => return false,
            AttemptLog::Limited => {}
        }
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if now >= window.ends_at {
            *window = LineWindow { ends_at: now + SECOND, lines: 0 };
        }
        if window.lines < LINES_PER_SECOND_MAX {
            window.lines += 1;
            return true;
        }
        if !self.is_full.swap(true, Ordering::Relaxed) {
            let (journal, ends_at) = (Arc::clone(self), window.ends_at);
            tokio::spawn(async move {
                tokio::time::sleep_until(ends_at).await;
                journal.write_counts();
            });
        }
        false
    }

    fn write_counts(&self) {
        self.is_full.store(false, Ordering::Relaxed);
        let [started, succeeded, failed, other] = self.take_counts();
        tracing::info!(
            started,
            succeeded,
            failed,
            other,
            "attempts beyond {LINES_PER_SECOND_MAX} log lines a second; `log_attempts = \"all\"` logs each of them"
        );
    }

    fn take_counts(&self) -> [u64; 4] {
        [&self.started, &self.succeeded, &self.failed, &self.other].map(|count| count.swap(0, Ordering::Relaxed))
    }
}

/// The first line of a text, as much of it as a log line takes.
fn cut(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(REASON_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use punctual_core::attempt::{AttemptNo, Failure};
    use punctual_core::{JobId, ShardId, Timestamp};

    use super::*;

    fn report(outcome: Outcome) -> Report {
        let id = JobId::new(Timestamp::EPOCH, ShardId(0), 7);
        Report { id, attempt: AttemptNo::FIRST, outcome, timed_out: false, details: None }
    }

    #[tokio::test]
    async fn attempts_beyond_the_limit_are_counted_and_the_next_second_has_room_again() {
        let journal = Journal::new(AttemptLog::Limited);
        let began = Instant::now();
        for _ in 0..LINES_PER_SECOND_MAX {
            assert!(journal.has_room(began));
        }
        assert!(!journal.has_room(began));
        journal.ended(&report(Outcome::Succeeded { output: None }), None, began);
        journal.ended(&report(Outcome::Succeeded { output: None }), None, began);
        journal.ended(&report(Outcome::Failed(Failure::new("no luck"))), None, began);
        let counted = || [&journal.succeeded, &journal.failed].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counted(), [2, 1]);

        journal.write_counts();
        assert_eq!(counted(), [0, 0], "they are in the log");
        assert!(journal.has_room(began + SECOND));
    }

    #[tokio::test]
    async fn all_attempts_are_logged_if_asked_for_and_none_if_not() {
        for (mode, expected) in [(AttemptLog::All, true), (AttemptLog::Off, false)] {
            let journal = Journal::new(mode);
            let has_room = (0..3 * LINES_PER_SECOND_MAX).map(|_| journal.has_room(Instant::now()));
            assert!(has_room.into_iter().all(|has_room| has_room == expected), "{mode:?}");
        }
    }

    #[test]
    fn a_reason_is_one_line_of_bounded_length() {
        assert_eq!(cut("first\nsecond"), "first");
        assert_eq!(cut(&"ä".repeat(500)).chars().count(), REASON_CHARS_MAX);
    }
}
