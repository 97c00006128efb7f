//! Up to where planned times are decided. Mostly that is now. After the clock was set back, times that are to come by the
//! clock have their verdicts already and do not run again.

use std::collections::{BTreeSet, HashMap};

use futures_util::future::join_all;
use punctual_core::schedule::Marks;
use punctual_core::{ScheduleId, ShardId, Timestamp};
use punctual_store::{OccurrenceFilter, Order};

use crate::{App, Result};

/// The latest verdicts that are looked at: runs outside the plan are passed over.
const VERDICTS_MAX: usize = 20;
/// Ledgers that are read at a time.
const LEDGERS_AT_ONCE: usize = 16;

/// The latest slots with a verdict, of schedules that may have one in the future.
#[derive(Debug, Default)]
pub(super) struct Decided(HashMap<ScheduleId, Timestamp>);

impl Decided {
    /// Every slot of the schedule up to this time is decided or past.
    pub(super) fn until(&self, schedule: ScheduleId, now: Timestamp) -> Timestamp {
        self.0.get(&schedule).map_or(now, |decided| now.max(*decided))
    }
}

impl App {
    /// The ledgers are read only where the watermark of the shard is ahead of the clock.
    pub(super) async fn decided(&self, schedules: impl Iterator<Item = ScheduleId>) -> Result<Decided> {
        let now = self.now();
        let watermarks = self.0.store.watermarks().await?.into_iter();
        let ahead: BTreeSet<ShardId> = watermarks.filter(|(_, at)| *at > now).map(|(shard, _)| shard).collect();
        if ahead.is_empty() {
            return Ok(Decided::default());
        }
        let ids: Vec<ScheduleId> = schedules.filter(|id| ahead.contains(&id.shard())).collect();
        let mut decided = Decided::default();
        for part in ids.chunks(LEDGERS_AT_ONCE) {
            let read = join_all(part.iter().map(|id| self.last_verdict(*id, None))).await;
            for (id, last) in part.iter().zip(read) {
                decided.0.extend(last?.map(|last| (*id, last)));
            }
        }
        Ok(decided)
    }

    /// The latest slot that has a verdict, of planned times before `before`. The owner decides in order of slots, and a
    /// watermark lags.
    pub(crate) async fn last_verdict(
        &self,
        schedule: ScheduleId,
        before: Option<Timestamp>,
    ) -> Result<Option<Timestamp>> {
        let filter = OccurrenceFilter { before, ..OccurrenceFilter::default() };
        let (rows, _) = self.0.store.occurrences(schedule, filter, None, Order::Descending, VERDICTS_MAX).await?;
        Ok(rows.into_iter().filter(|row| !row.marks.has(Marks::MANUAL)).map(|row| row.slot).max())
    }
}
