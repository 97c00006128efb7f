//! The life of a job: every state, every event, and the one table between them.
//!
//! Due is not a state: it is `due_at <= now`. What is not in this table does not
//! happen; stores apply transitions and never decide them.

use std::fmt;

/// The durable state of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum JobState {
    /// Waits for its time, for a worker, or for its next try.
    Scheduled,
    /// An attempt's start is durable and its end is not.
    Running,
    Succeeded,
    /// Permanently: no retry is left or none is allowed.
    Failed,
    /// Ended on request after it had been started, or while it waited for a retry.
    Cancelled,
    /// It is unknown whether the job ran, and its delivery mode forbids another start.
    Lost,
    /// Its workers died too often while they ran it; only an operator can start it again.
    Quarantined,
    /// Removed before it ever started; it never will.
    Deleted,
}

/// What can happen to a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum JobEvent {
    /// The owner records a start.
    Start,
    /// The worker reports success.
    Succeed,
    /// The attempt ended, and policy grants another.
    Retry,
    /// The attempt ended, or its queue time did, and policy grants no other.
    Fail,
    /// The start is taken back: proven that nothing ran.
    TakeBack,
    /// The attempt is in doubt, and the delivery mode forbids another start.
    Lose,
    /// Too many workers died on it.
    Quarantine,
    /// A running attempt ended because it was asked to.
    EndCancelled,
    /// A request to remove a job that never started.
    Delete,
    /// A request to end a job.
    Cancel,
    /// A request to start a waiting job now.
    RunNow,
    /// An operator makes a finished job eligible again.
    Rerun,
}

/// What the table says about an event in a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    To(JobState),
    /// A worker is asked to end its attempt; the state changes when it has.
    Ask,
    /// Too late to matter: answered, kept for the record, changes nothing.
    Stale,
    /// The request is answered with a conflict.
    Refused,
}

impl JobState {
    pub const ALL: [Self; 8] = [
        Self::Scheduled,
        Self::Running,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::Lost,
        Self::Quarantined,
        Self::Deleted,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
            Self::Quarantined => "quarantined",
            Self::Deleted => "deleted",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Finished jobs are in history, waiting and running ones in the hot table.
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Scheduled | Self::Running)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl JobEvent {
    pub const ALL: [Self; 12] = [
        Self::Start,
        Self::Succeed,
        Self::Retry,
        Self::Fail,
        Self::TakeBack,
        Self::Lose,
        Self::Quarantine,
        Self::EndCancelled,
        Self::Delete,
        Self::Cancel,
        Self::RunNow,
        Self::Rerun,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Succeed => "succeed",
            Self::Retry => "retry",
            Self::Fail => "fail",
            Self::TakeBack => "take back",
            Self::Lose => "lose",
            Self::Quarantine => "quarantine",
            Self::EndCancelled => "end cancelled",
            Self::Delete => "delete",
            Self::Cancel => "cancel",
            Self::RunNow => "run now",
            Self::Rerun => "rerun",
        }
    }
}

/// The transition table.
pub const fn next(state: JobState, event: JobEvent) -> Next {
    use JobEvent as E;
    use JobState as S;
    match (state, event) {
        (S::Scheduled, E::Start) => Next::To(S::Running),
        (S::Scheduled, E::Fail) => Next::To(S::Failed),
        (S::Scheduled, E::Delete) => Next::To(S::Deleted),
        (S::Scheduled, E::Cancel) => Next::To(S::Cancelled),
        (S::Scheduled, E::RunNow) => Next::To(S::Scheduled),
        (S::Scheduled, E::Rerun) => Next::Refused,
        (S::Scheduled, E::Succeed | E::Retry | E::TakeBack | E::Lose | E::Quarantine | E::EndCancelled) => Next::Stale,

        (S::Running, E::Succeed) => Next::To(S::Succeeded),
        (S::Running, E::Retry | E::TakeBack) => Next::To(S::Scheduled),
        (S::Running, E::Fail) => Next::To(S::Failed),
        (S::Running, E::Lose) => Next::To(S::Lost),
        (S::Running, E::Quarantine) => Next::To(S::Quarantined),
        (S::Running, E::EndCancelled) => Next::To(S::Cancelled),
        (S::Running, E::Cancel) => Next::Ask,
        (S::Running, E::Start | E::Delete | E::RunNow | E::Rerun) => Next::Refused,

        // A late result of the very attempt that was lost settles the doubt.
        (S::Lost, E::Succeed) => Next::To(S::Succeeded),
        (S::Lost, E::Fail) => Next::To(S::Failed),
        (S::Lost, E::EndCancelled) => Next::To(S::Cancelled),
        (S::Lost, E::Rerun) => Next::To(S::Scheduled),
        (S::Lost, E::Retry | E::TakeBack | E::Lose | E::Quarantine) => Next::Stale,
        (S::Lost, E::Start | E::Delete | E::Cancel | E::RunNow) => Next::Refused,

        (S::Succeeded | S::Failed | S::Cancelled | S::Quarantined, E::Rerun) => Next::To(S::Scheduled),
        (
            S::Succeeded | S::Failed | S::Cancelled | S::Quarantined | S::Deleted,
            E::Succeed | E::Retry | E::Fail | E::TakeBack | E::Lose | E::Quarantine | E::EndCancelled,
        ) => Next::Stale,
        (
            S::Succeeded | S::Failed | S::Cancelled | S::Quarantined | S::Deleted,
            E::Start | E::Delete | E::Cancel | E::RunNow,
        )
        | (S::Deleted, E::Rerun) => Next::Refused,
    }
}

/// The table as Markdown, one row for each state.
pub fn table() -> String {
    let mut text = String::from("| state |");
    for event in JobEvent::ALL {
        text += &format!(" {} |", event.as_str());
    }
    text += "\n|---|";
    text += &"---|".repeat(JobEvent::ALL.len());
    for state in JobState::ALL {
        text += &format!("\n| **{state}** |");
        for event in JobEvent::ALL {
            let cell = match next(state, event) {
                Next::To(to) => to.as_str(),
                Next::Ask => "(asks the worker)",
                Next::Stale => "stale",
                Next::Refused => "–",
            };
            text += &format!(" {cell} |");
        }
    }
    text.push('\n');
    text
}

/// The table as a Mermaid state diagram.
pub fn diagram() -> String {
    let mut text = String::from("stateDiagram-v2\n    [*] --> scheduled: submit\n");
    for state in JobState::ALL {
        for event in JobEvent::ALL {
            if let Next::To(to) = next(state, event) {
                text += &format!("    {state} --> {to}: {}\n", event.as_str());
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_table_is_the_one_in_the_docs() {
        let page = format!(
            "# The life of a job\n\nDrawn from `next()` in `crates/core/src/lifecycle.rs`; a test keeps the two alike. \
             Waiting and running jobs are in the hot table, all others in history.\n\n\
             ```mermaid\n{}```\n\n\
             A dash means that the request is refused with a conflict; *stale* means that the report is answered, \
             kept for the record, and changes nothing. Whether an attempt that failed leads to *retry* or to *fail* is \
             decided by its task's [policy](delivery.md#retries) and by the class of the failure.\n\n{}",
            diagram(),
            table()
        );
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lifecycle.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(page, written, "run the tests with UPDATE_DOCS=1 to redraw docs/lifecycle.md");
    }

    #[test]
    fn the_transition_table_has_not_changed_by_accident() {
        insta::assert_snapshot!(table());
    }

    #[test]
    fn a_deleted_job_never_starts_again() {
        for event in JobEvent::ALL {
            assert!(!matches!(next(JobState::Deleted, event), Next::To(_)), "{event:?}");
        }
    }

    #[test]
    fn only_a_scheduled_job_starts() {
        for state in JobState::ALL {
            let starts = next(state, JobEvent::Start) == Next::To(JobState::Running);
            assert_eq!(starts, state == JobState::Scheduled);
        }
    }
}
