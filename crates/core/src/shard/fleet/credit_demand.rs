//! Tells workers how many ready jobs wait here for want of credit, so that they can move
//! credit here from servers that do not need it.
//!
//! Rounds over all workers, a few at a time: with thousands of them a round is spread over
//! several ticks, and a server without a backlog does nothing at all.

use std::collections::BTreeSet;
use std::ops::Bound;

use crate::id::WorkerId;
use crate::shard::event::{Demand, StreamId};
use crate::shard::fleet::{Fleet, PoolId};
use crate::shard::window::Window;
use crate::time::{Span, Timestamp};

/// The shortest interval between two messages to a worker.
const ROUND_EVERY: Span = Span::from_millis(100);
/// The interval after a round in which no worker could have run anything that waits.
const ROUND_EVERY_IN_VAIN: Span = Span::from_secs(1);

/// The number of workers that one tick looks at. More would delay due jobs.
const STEP_LEN: usize = 256;
/// The interval between two steps of a round.
const STEP_EVERY: Span = Span::from_millis(2);

#[derive(Default)]
pub(super) struct DemandRound {
    /// The worker that was looked at last, in the middle of a round.
    place: Option<WorkerId>,
    began: Timestamp,
    next_at: Timestamp,
    /// The number of workers whose last demand was not zero.
    told: usize,
    found: usize,
}

impl Fleet {
    /// When [`Fleet::demands`] has something to do.
    pub(in crate::shard) fn next_demands(&self, window: &Window) -> Option<Timestamp> {
        let is_needed = self.demands.told > 0 || self.demands.place.is_some() || window.has_ready();
        is_needed.then_some(self.demands.next_at)
    }

    /// The demands to send to workers now. What waits in `paused` pools needs no slots. Must be called after all free slots
    /// were assigned.
    pub(in crate::shard) fn demands(
        &mut self,
        window: &Window,
        paused: &BTreeSet<PoolId>,
        now: Timestamp,
    ) -> Vec<(WorkerId, StreamId, Demand)> {
        // A clock that went back must not silence it.
        let is_due = |at: Timestamp| now >= at || at > now + ROUND_EVERY_IN_VAIN;
        if !self.next_demands(window).is_some_and(is_due) {
            return Vec::new();
        }
        let round = &mut self.demands;
        if round.place.is_none() {
            round.began = now;
            (round.told, round.found) = (0, 0);
        }
        let holding = window.gangs.holding();
        let mut news = Vec::new();
        let mut last = None;
        let mut looked_at = 0;
        let after = round.place.map_or(Bound::Unbounded, Bound::Excluded);
        for (&id, worker) in self.workers.range_mut((after, Bound::Unbounded)).take(STEP_LEN) {
            looked_at += 1;
            last = Some(id);
            let Some(stream) = worker.stream else { continue };
            let demand = match worker.free() {
                0 if paused.is_empty() => window.ready_in(&worker.pools),
                0 => window.ready_in(&without(&worker.pools, paused)),
                _ => 0,
            };
            // A gang needs more slots although it has some, and takes none before it has all.
            let of_gang = holding.as_ref().map_or(0, |(_, needs)| {
                needs.iter().filter(|(pool, _)| worker.pools.contains(pool)).map(|(_, count)| count).sum()
            });
            let gang = holding.as_ref().filter(|_| of_gang > 0).map(|(key, _)| *key);
            let jobs = u32::try_from(demand.max(of_gang)).unwrap_or(u32::MAX);
            round.found += usize::from(jobs > 0);
            if is_news(worker.demand_told.jobs, jobs) || worker.demand_told.gang != gang {
                worker.demand_told = Demand { jobs, gang };
                news.push((id, stream, worker.demand_told));
            }
            round.told += usize::from(worker.demand_told.jobs > 0);
        }
        if looked_at == STEP_LEN {
            round.place = last;
            round.next_at = now + STEP_EVERY;
            return news;
        }
        round.place = None;
        let every = if round.found > 0 { ROUND_EVERY } else { ROUND_EVERY_IN_VAIN };
        round.next_at = round.began.max(now - every) + every;
        news
    }
}

fn without(pools: &[PoolId], paused: &BTreeSet<PoolId>) -> Vec<PoolId> {
    pools.iter().copied().filter(|pool| !paused.contains(pool)).collect()
}

/// Whether the demand changed enough to tell the worker: from zero, to zero, or by a factor of two.
fn is_news(told: u32, now: u32) -> bool {
    (told == 0) != (now == 0) || now / 2 >= told.max(1) || told / 2 >= now.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demand_is_news_when_it_comes_goes_doubles_or_halves() {
        for (told, now, expected) in [
            (0, 0, false),
            (0, 1, true),
            (1, 0, true),
            (1, 1, false),
            (1, 2, true),
            (4, 7, false),
            (4, 8, true),
            (8, 5, false),
            (8, 4, true),
            (u32::MAX, u32::MAX, false),
        ] {
            assert_eq!(is_news(told, now), expected, "{told} to {now}");
        }
    }
}
