//! What time it is by the store's clock, which alone says what is due.
//!
//! Between two looks at it, time is counted by a monotonic source, so that a step of this
//! machine's own clock changes nothing. The estimate is never ahead of the store: an answer
//! is older when it arrives than when it was given, and of what was counted since, a little
//! is left out for the drift between the two clocks.

use std::fmt;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use punctual_core::{Span, Timestamp};
use punctual_store::{Result, Store};

use crate::config::Clock;

/// How long something has run; it never goes back. The real one enters where the binary
/// builds the engine.
pub type Monotonic = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Two clocks drift apart by no more than this. Time daemons correct a clock by up to 500
/// parts in a million.
const DRIFT_PPM_MAX: i64 = 500;

/// What the store's clock said, and when the answer arrived.
#[derive(Debug, Clone, Copy)]
struct Sample {
    store: Timestamp,
    arrived: Duration,
}

impl Sample {
    /// No later than what the store's clock says now.
    fn at(self, now: Duration) -> Timestamp {
        let passed = micros(now.saturating_sub(self.arrived));
        let drift = passed.saturating_mul(DRIFT_PPM_MAX) / 1_000_000 + 1;
        self.store + Span::from_micros(passed - drift.min(passed))
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[derive(Clone)]
pub struct StoreClock {
    monotonic: Monotonic,
    best: Arc<RwLock<Sample>>,
}

/// One look at the store's clock: it was this time at some moment of the round trip.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) store: Timestamp,
    asked: Duration,
    arrived: Duration,
}

impl Reading {
    pub(crate) async fn take(store: &dyn Store, monotonic: &Monotonic) -> Result<Self> {
        let asked = monotonic();
        let store = store.now().await?;
        Ok(Self { store, asked, arrived: monotonic() })
    }

    fn round_trip(self) -> Span {
        Span::from_micros(micros(self.arrived.saturating_sub(self.asked)))
    }

    /// How far this machine's clock is off, as far as the round trip lets us know.
    pub(crate) fn skew(self, server: Timestamp, limit: Span) -> Skew {
        let store = server.clamp(self.store, self.store + self.round_trip());
        Skew { server, store, limit }
    }
}

impl StoreClock {
    pub(crate) fn new(monotonic: Monotonic, first: Reading) -> Self {
        let best = Sample { store: first.store, arrived: first.arrived };
        Self { monotonic, best: Arc::new(RwLock::new(best)) }
    }

    pub fn now(&self) -> Timestamp {
        let best = *self.best.read().expect("no panic while the lock is held");
        best.at((self.monotonic)())
    }

    pub fn clock(&self) -> Clock {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }

    /// Takes the reading if it is better than what is known: the later the time that it
    /// makes sure of, the closer it is. An estimate that cannot be true any more, because
    /// the store's clock was set back, gives way in any case.
    pub(crate) fn learn(&self, reading: Reading) {
        let mut best = self.best.write().expect("no panic while the lock is held");
        let known = best.at(reading.arrived);
        let is_possible = known <= reading.store + reading.round_trip();
        if known <= reading.store || !is_possible {
            *best = Sample { store: reading.store, arrived: reading.arrived };
        }
    }
}

/// Notices that the clock that decides was set back. Planned times that were decided before do not run again, so
/// schedules stand still until the clock shows later times, and somebody has to be told why.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    last: Option<Sample>,
}

/// Steps below this are those of a time daemon.
const STEP_MIN: Span = Span::from_secs(1);

impl ClockWatch {
    /// How far the clock has gone back since the last look, if that is worth a word. It was `store` at some moment
    /// between `asked` and `arrived`.
    pub(crate) fn look(&mut self, store: Timestamp, asked: Duration, arrived: Duration) -> Option<Span> {
        let last = self.last.replace(Sample { store, arrived })?;
        let back = last.at(asked).since(store);
        (back > STEP_MIN).then_some(back)
    }

    pub(crate) fn look_at(&mut self, reading: Reading) -> Option<Span> {
        self.look(reading.store, reading.asked, reading.arrived)
    }
}

/// What this machine's clock and the store's said at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skew {
    pub server: Timestamp,
    pub store: Timestamp,
    /// More than this is too much.
    pub limit: Span,
}

impl Skew {
    pub fn by(&self) -> Span {
        self.server.since(self.store).max(self.store.since(self.server))
    }

    pub fn is_too_large(&self) -> bool {
        self.by() > self.limit
    }
}

impl fmt::Display for Skew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "this server's clock says {} and the store's says {}: they are {} apart, and {} is the limit; let NTP set \
             the clocks of both machines",
            self.server,
            self.store,
            self.by(),
            self.limit
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const START: Timestamp = Timestamp::saturating_from_micros(1_800_000_000_000_000);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn reading(store_ms: i64, asked: u64, arrived: u64) -> Reading {
        Reading { store: START + Span::from_millis(store_ms), asked: ms(asked), arrived: ms(arrived) }
    }

    fn clock(first: Reading) -> (StoreClock, Arc<AtomicU64>) {
        let micros = Arc::new(AtomicU64::new(u64::try_from(first.arrived.as_micros()).unwrap()));
        let source = Arc::clone(&micros);
        let monotonic: Monotonic = Arc::new(move || Duration::from_micros(source.load(Ordering::Relaxed)));
        (StoreClock::new(monotonic, first), micros)
    }

    fn at(clock: &(StoreClock, Arc<AtomicU64>), ms: u64) -> f64 {
        clock.1.store(ms * 1000, Ordering::Relaxed);
        (clock.0.now().as_micros() - START.as_micros()) as f64 / 1000.0
    }

    #[test]
    fn a_slow_answer_does_not_replace_a_quick_one() {
        let clock = clock(reading(1, 0, 2));
        clock.0.learn(reading(1_000, 1_000, 1_400));
        let now = at(&clock, 1_400);
        assert!((1_398.0..=1_399.0).contains(&now), "{now}");
    }

    #[test]
    fn an_old_answer_is_trusted_less_until_a_new_one_is_better() {
        let clock = clock(reading(1, 0, 1));
        let old = at(&clock, 10_001);
        assert!((9_995.0..=9_996.1).contains(&old), "five in ten thousand are left out: {old}");
        clock.0.learn(reading(10_001, 10_000, 10_003));
        assert_eq!(at(&clock, 10_003), 10_001.0);
    }

    #[test]
    fn a_store_whose_clock_was_set_back_is_believed() {
        let clock = clock(reading(60_000, 0, 1));
        clock.0.learn(reading(1_000, 1_000, 1_002));
        assert_eq!(at(&clock, 1_002), 1_000.0);
    }

    #[test]
    fn a_clock_that_goes_back_is_told_once() {
        let mut watch = ClockWatch::default();
        assert_eq!(watch.look_at(reading(4_000_000, 0, 2)), None);
        assert_eq!(watch.look_at(reading(4_010_000, 10_000, 10_002)), None);
        assert_eq!(watch.look_at(reading(4_019_200, 20_000, 20_002)), None, "a step below a second");
        assert_eq!(watch.look_at(reading(4_029_200, 29_000, 31_000)), None, "an answer that took its time");
        let back = watch.look_at(reading(440_000, 40_000, 40_002)).expect("an hour");
        assert!((3_597..=3_600).contains(&(back.as_micros() / 1_000_000)), "{back}");
        assert_eq!(watch.look_at(reading(450_000, 50_000, 50_002)), None, "it goes on from there");
        assert_eq!(watch.look_at(reading(9_000_000, 60_000, 60_002)), None, "forward is no matter");
    }

    /// Random round trips, and clocks that drift: the estimate may lag by what it cannot know,
    /// and never leads.
    #[test]
    fn the_estimate_is_never_ahead_of_the_store() {
        let mut seed = 7u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for drift_ppm in [-499i64, -20, 0, 20, 499] {
            let store_at = |micros: u64| {
                let micros = micros as i64;
                START + Span::from_micros(micros + micros * drift_ppm / 1_000_000)
            };
            let first = Reading { store: store_at(500), asked: ms(0), arrived: ms(1) };
            let (clock, now) = clock(first);
            let mut time = 1_000u64;
            for _ in 0..2_000 {
                time += random(3_000_000);
                now.store(time, Ordering::Relaxed);
                assert!(clock.now() <= store_at(time), "{} > {}", clock.now(), store_at(time));
                let asked = time;
                let looked = asked + random(20_000);
                time = looked + random(20_000);
                let (asked, arrived) = (Duration::from_micros(asked), Duration::from_micros(time));
                clock.learn(Reading { store: store_at(looked), asked, arrived });
                now.store(time, Ordering::Relaxed);
                assert!(clock.now() <= store_at(time));
                assert!(store_at(time).since(clock.now()) <= Span::from_millis(41), "it follows");
            }
        }
    }

    #[test]
    fn a_clock_within_the_round_trip_is_not_called_wrong() {
        let limit = Span::from_secs(5);
        let reading = reading(1_000, 1_000, 1_300);
        assert_eq!(reading.skew(START + Span::from_millis(1_200), limit).by(), Span::ZERO);
        let ahead = reading.skew(START + Span::from_millis(7_300), limit);
        assert_eq!(ahead.by(), Span::from_secs(6));
        assert!(ahead.is_too_large());
        let behind = reading.skew(START - Span::from_secs(9), limit);
        assert!(behind.is_too_large());
        assert!(behind.to_string().contains("10s apart"), "{behind}");
    }
}
