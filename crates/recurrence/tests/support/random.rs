//! Repeatable randomness: the same seed gives the same comparisons on every machine.

use punctual_core::random::SplitMix64;

pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u32, high: u32) -> u32 {
        self.0.between(low.into(), high.into()) as u32
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: u32) -> bool {
        self.between(1, times) == 1
    }

    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        self.0.pick(choices)
    }
}
