//! Chooses the server to which the next request is sent.

use std::time::Duration;

use tokio::time::Instant;

/// How long a server that did not answer is skipped, because waiting for it again would cost the time of an answer.
const REST: Duration = Duration::from_secs(5);

/// How often in a row a server may say that the job's shard moves. Every server says so during a move, but one that
/// keeps saying it may be the only one that cannot reach the new owner.
const MOVES_MAX: u32 = 5;

pub(super) struct ServerTurn {
    current: usize,
    /// How often in a row the current server said that the shard moves.
    moves: u32,
    /// For each server, until when it is skipped.
    rests_until: Vec<Option<Instant>>,
}

/// Why another server is to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PassReason {
    /// The server could not help.
    Refused,
    /// The server said that the job's shard is changing owners.
    Moving,
    /// The server did not answer in time.
    Silent,
}

impl ServerTurn {
    /// Starts with the first of `servers` servers; there must be at least one.
    pub(super) fn new(servers: usize) -> Self {
        Self { current: 0, moves: 0, rests_until: vec![None; servers] }
    }

    pub(super) fn current(&self) -> usize {
        self.current
    }

    /// Keeps the current server, because it answered.
    pub(super) fn stay(&mut self) {
        self.moves = 0;
    }

    /// Moves on to the next server that is not skipped; if all are, to the next one.
    pub(super) fn pass(&mut self, why: PassReason, now: Instant) {
        match why {
            PassReason::Refused => {}
            PassReason::Moving if self.moves + 1 < MOVES_MAX => {
                self.moves += 1;
                return;
            }
            PassReason::Moving => {}
            PassReason::Silent => self.rests_until[self.current] = Some(now + REST),
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
        let mut turn = ServerTurn::new(3);
        let mut pass = |why, now| {
            turn.pass(why, now);
            turn.current()
        };
        assert_eq!(pass(PassReason::Silent, now), 1);
        assert_eq!([pass(PassReason::Refused, now), pass(PassReason::Refused, now)], [2, 1], "the first rests");
        assert_eq!([pass(PassReason::Refused, now + REST), pass(PassReason::Refused, now + REST)], [2, 0]);
        assert_eq!(
            [pass(PassReason::Silent, now), pass(PassReason::Silent, now), pass(PassReason::Silent, now)],
            [1, 2, 0],
            "all rest"
        );

        let mut alone = ServerTurn::new(1);
        alone.pass(PassReason::Silent, now);
        assert_eq!(alone.current(), 0);
    }

    #[test]
    fn a_job_that_moves_is_waited_for_where_we_are_and_not_for_ever() {
        let now = Instant::now();
        let mut turn = ServerTurn::new(2);
        let mut places = Vec::new();
        for _ in 0..2 {
            for _ in 1..MOVES_MAX {
                turn.pass(PassReason::Moving, now);
            }
            places.push(turn.current());
            turn.stay();
        }
        for _ in 0..MOVES_MAX {
            turn.pass(PassReason::Moving, now);
        }
        places.push(turn.current());
        assert_eq!(places, [0, 0, 1]);
    }
}
