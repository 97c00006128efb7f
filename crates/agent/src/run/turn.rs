//! Which of the servers is asked next.

use std::time::Duration;

use tokio::time::Instant;

/// Asking a server that does not answer costs the time of an answer. So it is not asked again at once.
const REST: Duration = Duration::from_secs(5);

/// A job that changes hands does so for every server. But one that says so for long may be the only one that cannot
/// reach the new owner.
const MOVES_MAX: u32 = 5;

pub(super) struct Turn {
    current: usize,
    /// How often the current one said that the job changes hands, one after the other.
    moves: u32,
    /// Each server's.
    rests_until: Vec<Option<Instant>>,
}

/// Why another server is to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// This one could not help.
    Refused,
    /// This one said that the job changes hands.
    Moving,
    /// This one did not answer in time.
    Silent,
}

impl Turn {
    /// Of so many servers, at least one.
    pub(super) fn new(servers: usize) -> Self {
        Self { current: 0, moves: 0, rests_until: vec![None; servers] }
    }

    pub(super) fn current(&self) -> usize {
        self.current
    }

    /// The current one is good.
    pub(super) fn stay(&mut self) {
        self.moves = 0;
    }

    /// To the next that does not rest. If all do, the next one has to do.
    pub(super) fn pass(&mut self, why: Pass, now: Instant) {
        match why {
            Pass::Refused => {}
            Pass::Moving if self.moves + 1 < MOVES_MAX => {
                self.moves += 1;
                return;
            }
            Pass::Moving => {}
            Pass::Silent => self.rests_until[self.current] = Some(now + REST),
        }
        self.moves = 0;
        let len = self.rests_until.len();
        let next = |steps: usize| (self.current + steps) % len;
        let is_awake = |place: &usize| self.rests_until[*place].is_none_or(|until| now >= until);
        self.current = (1..len).map(next).find(is_awake).unwrap_or_else(|| next(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_server_is_left_alone_for_a_while_if_there_are_others() {
        let now = Instant::now();
        let mut turn = Turn::new(3);
        let mut pass = |why, now| {
            turn.pass(why, now);
            turn.current()
        };
        assert_eq!(pass(Pass::Silent, now), 1);
        assert_eq!([pass(Pass::Refused, now), pass(Pass::Refused, now)], [2, 1], "the first rests");
        assert_eq!([pass(Pass::Refused, now + REST), pass(Pass::Refused, now + REST)], [2, 0]);
        assert_eq!([pass(Pass::Silent, now), pass(Pass::Silent, now), pass(Pass::Silent, now)], [1, 2, 0], "all rest");

        let mut alone = Turn::new(1);
        alone.pass(Pass::Silent, now);
        assert_eq!(alone.current(), 0);
    }

    #[test]
    fn a_job_that_moves_is_waited_for_where_we_are_and_not_for_ever() {
        let now = Instant::now();
        let mut turn = Turn::new(2);
        let mut places = Vec::new();
        for _ in 0..2 {
            for _ in 1..MOVES_MAX {
                turn.pass(Pass::Moving, now);
            }
            places.push(turn.current());
            turn.stay();
        }
        for _ in 0..MOVES_MAX {
            turn.pass(Pass::Moving, now);
        }
        places.push(turn.current());
        assert_eq!(places, [0, 0, 1]);
    }
}
