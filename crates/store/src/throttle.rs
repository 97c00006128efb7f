//! Keeps an outage from filling the log: the same kind of line appears once in each period, with the number of those left out.
//! Decides only; whoever asks writes the line.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Limits one kind of log line. Meant to be a `static` beside the line.
#[derive(Debug)]
pub struct Throttle {
    period: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    written_at: Option<Instant>,
    left_out: u64,
}

impl Throttle {
    pub const fn new(period: Duration) -> Self {
        Self { period, state: Mutex::new(State { written_at: None, left_out: 0 }) }
    }

    /// `Some` if the line is to be written now, with the number of lines that were left out since the last one.
    pub fn pass(&self) -> Option<u64> {
        self.pass_at(Instant::now())
    }

    fn pass_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.written_at.is_some_and(|at| now < at + self.period) {
            state.left_out += 1;
            return None;
        }
        state.written_at = Some(now);
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_is_written_in_each_period_and_the_others_are_counted() {
        let (throttle, start) = (Throttle::new(Duration::from_secs(10)), Instant::now());
        let pass = |secs| throttle.pass_at(start + Duration::from_secs(secs));
        assert_eq!(pass(0), Some(0));
        assert_eq!([pass(1), pass(5), pass(9)], [None, None, None]);
        assert_eq!(pass(10), Some(3));
        assert_eq!(pass(11), None);
        assert_eq!(pass(60), Some(1));
    }
}
