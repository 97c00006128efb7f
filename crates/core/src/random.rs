//! Random numbers that repeat: the same seed gives the same numbers on every machine. They spread retries and loads and
//! drive the simulator; the seed comes in from outside. They are not secret.

/// SplitMix64: 64 bits of state, and every number once in each period of 2^64.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// From one state to the next. A counter that grows by this and is shared by threads gives each of them the state of a
    /// generator of its own.
    pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::STEP);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// From 0 up to and without 1.
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// From 0 up to and without `limit`; 0 if the limit is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.bits() % limit.max(1)
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below(high.abs_diff(low) + 1) as i64
    }

    /// True once in `times`, on average.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sequence of the published algorithm; seeds of failed simulations mean the same for ever.
    #[test]
    fn a_seed_gives_the_published_sequence() {
        let mut random = SplitMix64::new(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| random.bits()).collect();
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        let mut random = SplitMix64::new(1);
        for _ in 0..1000 {
            assert!(random.below(7) < 7 && (0.0..1.0).contains(&random.fraction()));
            assert!((-3..=3).contains(&random.between(-3, 3)));
            assert!([1, 2, 3].contains(random.pick(&[1, 2, 3])));
        }
        assert_eq!((random.below(0), random.percent(0), random.percent(100)), (0, false, true));
    }
}
