//! Bugs that can be planted in what follows from an event in a run, to show that the simulator finds them; see
//! [`Bug`](crate::shard::Bug), which are those of the owner.
//!
//! A step of a run has no configuration, and stores call it: so a bug is planted for the thread that a simulation runs on. The
//! module exists only with the feature `planted-bugs`.

use std::cell::Cell;

/// A mistake that the simulator must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunBug {
    /// The run ends although a job of a node is under way.
    EndsBeforeItsNodes,
    /// A list ends although the last of its jobs is under way, and its result is missing.
    JoinForgetsElement,
    /// A resume begins again what has succeeded, too.
    ResumeRerunsSuccess,
    /// A node is started once more than its retries allow.
    NodeRetriedTooOften,
    /// A node that must not start if one before it was skipped starts then.
    SkippedTakenForSucceeded,
}

impl RunBug {
    pub const ALL: [Self; 5] = [
        Self::EndsBeforeItsNodes,
        Self::JoinForgetsElement,
        Self::ResumeRerunsSuccess,
        Self::NodeRetriedTooOften,
        Self::SkippedTakenForSucceeded,
    ];
}

thread_local! {
    static PLANTED: Cell<Option<RunBug>> = const { Cell::new(None) };
}

/// Plants a bug in all steps of runs on this thread, or takes it out again.
pub fn plant(bug: Option<RunBug>) {
    PLANTED.set(bug);
}

pub(super) fn is_planted(bug: RunBug) -> bool {
    PLANTED.get() == Some(bug)
}
