//! All chance of a run comes from here, and all of it from the seed.

use punctual_core::Span;
use punctual_core::random::SplitMix64;

#[derive(Debug, Clone)]
pub(crate) struct Rng(SplitMix64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.bits()
    }

    /// From 0 up to and without `limit`, which must not be 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// From `low` to `high`, both included.
    pub(crate) fn range(&mut self, low: i64, high: i64) -> i64 {
        self.0.between(low, high)
    }

    pub(crate) fn millis(&mut self, low: i64, high: i64) -> Span {
        Span::from_micros(self.range(low * 1000, high * 1000))
    }

    pub(crate) fn percent(&mut self, percent: u32) -> bool {
        self.per_mille(percent * 10)
    }

    pub(crate) fn per_mille(&mut self, per_mille: u32) -> bool {
        self.next() % 1000 < u64::from(per_mille)
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        self.0.pick(from)
    }

    pub(crate) fn pick_or_none<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        (!from.is_empty()).then(|| self.pick(from))
    }
}
