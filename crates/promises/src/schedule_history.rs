//! The form of history that promises about schedules are judged by.

use punctual_core::Timestamp;
use punctual_core::schedule::{SourceKind, Verdict};

/// Everything that is known of one schedule.
#[derive(Debug, Default)]
pub struct ScheduleHistory {
    pub name: String,
    /// The times of all its definitions, each in the order of its times.
    pub planned: Vec<PlannedTime>,
    pub lines: Vec<LedgerLine>,
    pub jobs: Vec<ScheduledJob>,
    /// In the order in which they began.
    pub runs: Vec<ScheduledRun>,
}

/// A time that a definition plans.
#[derive(Debug, Clone, Copy)]
pub struct PlannedTime {
    /// Which of the schedule's definitions it is of.
    pub definition: usize,
    pub at: Timestamp,
    /// `at` and its jitter.
    pub start: Timestamp,
    pub line: NeedOfLine,
    /// How many planned times fall on this instant. `None` if the source does not count them.
    pub count: Option<u32>,
}

/// Whether a planned time must have a line in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeedOfLine {
    Required,
    /// It is so near to a change of the definition, or to the end of the run, that nobody can say.
    Allowed,
    /// Another definition counted by then.
    Forbidden,
}

/// A line of the ledger.
#[derive(Debug, Clone)]
pub struct LedgerLine {
    pub at: Timestamp,
    /// `at` and its jitter, as the ledger has it.
    pub start: Timestamp,
    pub verdict: Verdict,
    pub job: Option<String>,
    /// What a job of this line is: planned, run after it was missed, or asked for by hand.
    pub kind: SourceKind,
    /// It stands for `count` times from `at` on.
    pub is_stretch: bool,
    pub count: u32,
    /// It may wait at the end of the run, because a run before it has not ended or the schedule is paused.
    pub may_wait: bool,
}

/// A job that a schedule made.
#[derive(Debug, Clone)]
pub struct ScheduledJob {
    pub id: String,
    /// The planned time that it stands for.
    pub at: Timestamp,
    pub kind: SourceKind,
    /// When it was due first.
    pub due_at: Timestamp,
    /// It is there at the end of the run.
    pub exists: bool,
}

/// From when to when a run of a schedule stands in the way of others. The simulator counts from the commit that makes the job
/// to the one that settles it; an acceptance run counts what its witness saw.
#[derive(Debug, Clone)]
pub struct ScheduledRun {
    pub job: String,
    pub from: Timestamp,
    /// `None` if it had not ended at the end of the run.
    pub to: Option<Timestamp>,
    /// It may begin while others run: the schedule allows it, or whoever asked for it.
    pub may_join: bool,
    /// Its worker was given up, and may run it on unseen.
    pub is_lost: bool,
}
