//! Bugs that can be planted in what follows from an event in a batch, to show that the simulator finds them; see
//! [`Bug`](crate::shard::Bug), which are those of the owner. Planted for a thread, as those of runs are.
//!
//! The module exists only with the feature `planted-bugs`.

use std::cell::Cell;

/// A mistake that the simulator must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchBug {
    /// A failure does not end a batch that is all or nothing.
    FailureIgnored,
    /// What succeeded is not undone.
    CompensationForgotten,
    /// What did not succeed is undone, too.
    FailedIsCompensated,
}

impl BatchBug {
    pub const ALL: [Self; 3] = [Self::FailureIgnored, Self::CompensationForgotten, Self::FailedIsCompensated];
}

thread_local! {
    static PLANTED: Cell<Option<BatchBug>> = const { Cell::new(None) };
}

/// Plants a bug in all steps of batches on this thread, or takes it out again.
pub fn plant(bug: Option<BatchBug>) {
    PLANTED.set(bug);
}

pub(super) fn is_planted(bug: BatchBug) -> bool {
    PLANTED.get() == Some(bug)
}
