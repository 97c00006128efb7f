//! Up to where the planned times of a schedule have their verdicts, which a backfill must know before it runs one of them.

use std::time::Duration;

use punctual_core::Timestamp;
use tokio::time::Instant;

/// An owner that is catching up on missed times moves the watermark well within this.
const STILL_FOR: Duration = Duration::from_secs(30);

/// Follows the watermark of a shard.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecidedPast {
    watermark: Timestamp,
    moved_at: Instant,
}

impl DecidedPast {
    pub(super) fn new(now: Instant) -> Self {
        Self { watermark: Timestamp::EPOCH, moved_at: now }
    }

    /// Up to where every planned time has its verdict, or will never have one: when the watermark
    /// stands still, there is nothing to catch up on.
    pub(super) fn decided_until(&mut self, watermark: Timestamp, now: Instant) -> Timestamp {
        if watermark > self.watermark {
            *self = Self { watermark, moved_at: now };
        }
        if now < self.moved_at + STILL_FOR { watermark } else { Timestamp::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_is_decided_when_the_watermark_stands_still_however_long_that_takes() {
        let begun = Instant::now();
        let after = |secs| begun + Duration::from_secs(secs);
        let at = |secs: i64| Timestamp::from_micros(secs * 1_000_000).expect("a time");
        let mut past = DecidedPast::new(begun);
        assert_eq!(past.decided_until(Timestamp::EPOCH, begun), Timestamp::EPOCH);
        // It moves, a little every 20 seconds, for ten minutes.
        for step in 1..=30 {
            assert_eq!(past.decided_until(at(step), after(20 * step as u64)), at(step));
        }
        assert_eq!(past.decided_until(at(30), after(629)), at(30));
        assert_eq!(past.decided_until(at(30), after(630)), Timestamp::MAX);
        assert_eq!(past.decided_until(at(31), after(640)), at(31), "it goes on after all");
    }
}
