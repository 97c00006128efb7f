//! The backfills that ran a schedule's planned times, beside their verdicts.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use punctual_api::{BackfilledBy, BackfilledTime, limits};
use punctual_core::{ScheduleId, Timestamp};
use punctual_store::Backfilled;

use super::spec::INSTANT;
use crate::schedules::zone;
use crate::{App, Result};

/// Of one planned time.
const RUNS_OF_A_TIME_MAX: usize = 10;

/// Times that backfills ran and that have no row in the ledger, in order.
#[derive(Default)]
pub(crate) struct RanTimes {
    pub(crate) times: Vec<BackfilledTime>,
    /// There may be later ones.
    pub(crate) is_partial: bool,
}

impl App {
    /// Of a range, whose end is not included.
    pub(crate) async fn backfilled_beside(
        &self,
        schedule: ScheduleId,
        from: Option<Timestamp>,
        before: Option<Timestamp>,
        zone: &TimeZone,
    ) -> Result<RanTimes> {
        let from = from.unwrap_or(Timestamp::EPOCH);
        let until = before.unwrap_or(Timestamp::MAX) - INSTANT;
        let runs = self.0.store.backfilled(schedule, from, until, limits::PAGE_LEN_MAX).await?;
        let mut times: Vec<Timestamp> = runs.iter().map(|run| run.at).collect();
        times.dedup();
        let verdicts = self.verdicts_of(schedule, &times).await?;
        let is_partial = runs.len() == limits::PAGE_LEN_MAX || verdicts.covered < times.len();
        times.truncate(verdicts.covered);
        times.retain(|at| !verdicts.by_time.contains_key(at));
        let ran = self.backfilled(schedule, times).await?;
        let ran =
            ran.into_iter().map(|(at, backfilled)| BackfilledTime { at, local: zone::local(at, zone), backfilled });
        Ok(RanTimes { times: ran.collect(), is_partial })
    }

    /// Of these times, each at most once in the list.
    pub(crate) async fn backfilled(
        &self,
        schedule: ScheduleId,
        mut times: Vec<Timestamp>,
    ) -> Result<BTreeMap<Timestamp, Vec<BackfilledBy>>> {
        times.sort_unstable();
        let mut runs: BTreeMap<Timestamp, Vec<Backfilled>> = BTreeMap::new();
        let mut from = times.first().copied();
        while let (Some(first), Some(until)) = (from, times.last()) {
            let page = self.0.store.backfilled(schedule, first, *until, limits::PAGE_LEN_MAX).await?;
            // Times between those that are listed may have been run as well, and there may be many.
            let is_full = page.len() == limits::PAGE_LEN_MAX;
            let last = page.last().map(|last| last.at).filter(|_| is_full);
            for run in page {
                // What a page may have cut off is read again; that of one time alone is enough.
                if times.binary_search(&run.at).is_ok() && (last != Some(run.at) || run.at == first) {
                    runs.entry(run.at).or_default().push(run);
                }
            }
            from = last.and_then(|last| times.iter().copied().find(|at| *at > first && *at >= last));
        }
        let latest = |runs: Vec<Backfilled>| runs.into_iter().rev().take(RUNS_OF_A_TIME_MAX);
        let runs: Vec<Backfilled> = runs.into_values().flat_map(latest).collect();
        let mut ran: BTreeMap<Timestamp, Vec<BackfilledBy>> = BTreeMap::new();
        for part in runs.chunks(limits::PAGE_LEN_MAX) {
            let jobs: Vec<_> = part.iter().map(|run| (run.job, run.state)).collect();
            for (run, state) in part.iter().zip(self.states_of(&jobs).await?) {
                let by = BackfilledBy { backfill: run.backfill, job: run.job, state: state.as_str().to_owned() };
                ran.entry(run.at).or_default().push(by);
            }
        }
        Ok(ran)
    }
}
