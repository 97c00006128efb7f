//! The numbers that stand for states and endings in the rows of every store. They never change: a change needs a migration
//! of every database there is.

use punctual_core::JobState;
use punctual_core::attempt::Ending;

/// `None` for a job in the hot table: which of the two states it is in is not in its row.
pub const fn state_code(state: JobState) -> Option<i16> {
    match state {
        // `state <> 1` is in the schemas: success is what almost every row says.
        JobState::Succeeded => Some(1),
        JobState::Failed => Some(2),
        JobState::Cancelled => Some(3),
        JobState::Lost => Some(4),
        JobState::Quarantined => Some(5),
        JobState::Deleted => Some(6),
        JobState::Scheduled | JobState::Running => None,
    }
}

pub fn state_of_code(code: i16) -> Option<JobState> {
    JobState::ALL.into_iter().find(|&state| state_code(state) == Some(code))
}

pub const fn ending_code(ending: Ending) -> i16 {
    match ending {
        Ending::Succeeded => 1,
        Ending::Failed => 2,
        Ending::TimedOut => 3,
        Ending::WorkerLost => 4,
        Ending::Cancelled => 5,
        Ending::NotStarted => 6,
    }
}

pub fn ending_of_code(code: i16) -> Option<Ending> {
    Ending::ALL.into_iter().find(|&ending| ending_code(ending) == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_never_change() {
        let states = JobState::ALL.map(|state| (state.as_str(), state_code(state)));
        assert_eq!(
            states,
            [
                ("scheduled", None),
                ("running", None),
                ("succeeded", Some(1)),
                ("failed", Some(2)),
                ("cancelled", Some(3)),
                ("lost", Some(4)),
                ("quarantined", Some(5)),
                ("deleted", Some(6)),
            ]
        );
        let endings = Ending::ALL.map(|ending| (ending.as_str(), ending_code(ending)));
        assert_eq!(
            endings,
            [
                ("succeeded", 1),
                ("failed", 2),
                ("timed_out", 3),
                ("worker_lost", 4),
                ("cancelled", 5),
                ("not_started", 6)
            ]
        );
    }

    #[test]
    fn codes_read_back() {
        for state in JobState::ALL {
            assert_eq!(
                state_code(state).and_then(state_of_code),
                Some(state).filter(|state| state_code(*state).is_some())
            );
        }
        for ending in Ending::ALL {
            assert_eq!(ending_of_code(ending_code(ending)), Some(ending));
        }
        assert_eq!(
            (state_of_code(0), state_of_code(7), ending_of_code(0), ending_of_code(7)),
            (None, None, None, None)
        );
    }
}
