//! What was understood of a crontab, and what that leaves open about earlier imports of it.

use punctual_core::schedule::recurrence::crontab::Severity;

use super::line::{Line, Problem};

/// Whether a schedule that no line makes is really gone from the crontab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Each line has a name, also if it cannot be imported.
    Whole,
    /// A line has no time or no zone, and so no name, or names a user that was taken for its command, or a `MAILTO`
    /// has no rule. What an earlier import made of it still runs.
    Part,
}

#[derive(Debug)]
pub(super) struct Reading {
    /// Those that have a time and a command.
    pub(super) lines: Vec<Line>,
    /// All that is to be said, in the order of the file.
    pub(super) problems: Vec<Problem>,
    pub(super) extent: Extent,
}

impl Reading {
    /// Problems that keep something from being imported.
    pub(super) fn broken(&self) -> usize {
        self.problems.iter().filter(|problem| problem.severity == Severity::Error).count()
    }

    /// Whether a rule that names this schedule goes on naming it, if no line makes it this time: its line may be
    /// there and left out, and the schedule still runs.
    pub(super) fn keeps(&self, schedule: &str) -> bool {
        match self.extent {
            Extent::Whole => self.lines.iter().any(|line| line.becomes.is_err() && line.name == schedule),
            Extent::Part => true,
        }
    }
}
