//! Queues: names by which workers choose which jobs they serve, and whether the jobs of a queue start.

use std::fmt;

use crate::namespace::NamespaceId;
use crate::time::Timestamp;

/// What people have decided about a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum QueueState {
    /// Jobs are accepted and start.
    #[default]
    Active,
    /// Jobs are accepted and do not start. What runs goes on.
    Paused,
    /// Nobody can submit jobs any more. Those that wait start.
    Draining,
}

impl QueueState {
    pub const ALL: [Self; 3] = [Self::Active, Self::Paused, Self::Draining];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Draining => "draining",
        }
    }

    /// As it is stored.
    pub const fn code(self) -> i16 {
        match self {
            Self::Active => 0,
            Self::Paused => 1,
            Self::Draining => 2,
        }
    }

    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }
}

impl fmt::Display for QueueState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The jobs of one queue in the memory of one owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueLoad {
    pub namespace: NamespaceId,
    pub queue: String,
    /// Jobs that are due and have not started.
    pub waiting: u64,
    /// Whether more of them are in the store than in memory.
    pub has_more: bool,
    /// Attempts that are being started, run, or have ended and are not yet on record as ended.
    pub running: u64,
    /// Since when the job has been due that has waited the longest.
    pub waiting_since: Option<Timestamp>,
}

impl QueueLoad {
    pub fn new(namespace: NamespaceId, queue: String) -> Self {
        Self { namespace, queue, waiting: 0, has_more: false, running: 0, waiting_since: None }
    }

    /// Adds what another owner has of the same queue.
    pub fn add(&mut self, other: &Self) {
        self.waiting += other.waiting;
        self.has_more |= other.has_more;
        self.running += other.running;
        self.waiting_since = [self.waiting_since, other.waiting_since].into_iter().flatten().min();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_reads_back_as_it_is_stored() {
        for state in QueueState::ALL {
            assert_eq!(QueueState::from_code(state.code()), Some(state));
        }
        assert_eq!(QueueState::from_code(3), None);
    }
}
