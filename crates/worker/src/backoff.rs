//! The waits between attempts to reach a server.

use std::time::Duration;

/// The first wait is short, so that a server that only restarted is found quickly.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);

/// Exponential backoff with jitter: a random half of each wait is cut off, so that the workers of a server that
/// restarted do not reconnect at the same moment.
pub(crate) struct Backoff {
    next: Duration,
    random: u64,
}

impl Backoff {
    pub(crate) fn new(seed: u64) -> Self {
        Self { next: FIRST, random: seed }
    }

    pub(crate) fn reset(&mut self) {
        self.next = FIRST;
    }

    pub(crate) fn wait(&mut self) -> Duration {
        // A linear congruential step: chance enough for jitter; its high bits are the good ones.
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let chance = (self.random >> 40) as f64 / (1_u64 << 24) as f64;
        let full = self.next;
        self.next = (full * 2).min(LONGEST);
        full.mul_f64(1.0 - chance / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_start_short_again_after_a_success() {
        let mut backoff = Backoff::new(7);
        for full_ms in [100, 200, 400, 800, 1600, 2000, 2000] {
            let wait = backoff.wait().as_millis();
            assert!((full_ms / 2..=full_ms).contains(&wait), "{wait} of {full_ms}");
        }
        backoff.reset();
        assert!(backoff.wait() <= FIRST);
    }
}
