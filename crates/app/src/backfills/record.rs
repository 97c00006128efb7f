//! What is on record of a schedule's times: in the ledger, and in other backfills.
//!
//! Times may lie far apart and what is on record between them dense, or the other way round. So reads seek from
//! wanted time to wanted time, and tell of as many as a bounded number of them does.

use std::collections::HashMap;

use punctual_api::limits;
use punctual_core::schedule::Verdict;
use punctual_core::{BackfillId, JobId, JobState, ScheduleId, Timestamp};
use punctual_store::{Backfilled, OccurrenceFilter, Order};

use super::ends::End;
use super::spec::INSTANT;
use crate::{App, Result};

/// Reads of one look at the ledger, and of one at backfills.
const READS_MAX: usize = 32;
/// Runs of which no good end is known that are looked up one by one, in one look.
const FINDS_MAX: usize = 128;
/// Of one time: the latest ones.
const FINDS_OF_A_TIME_MAX: usize = 32;

/// What is known about the first of some times.
pub(crate) struct TimeRecords<T> {
    pub(crate) by_time: HashMap<Timestamp, T>,
    /// About how many of them: all, unless that is too much for one look; one at least.
    pub(crate) covered: usize,
}

/// What other backfills have done about a time. Failures do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Elsewhere {
    Ran,
    /// It waits or runs.
    Open(BackfillId),
}

impl App {
    /// The verdicts on times, which are in order.
    pub(crate) async fn verdicts_of(&self, schedule: ScheduleId, times: &[Timestamp]) -> Result<TimeRecords<Verdict>> {
        let (mut by_time, mut covered) = (HashMap::new(), 0);
        for _ in 0..READS_MAX {
            let (Some(from), Some(last)) = (times.get(covered), times.last()) else { break };
            let filter =
                OccurrenceFilter { from: Some(*from), before: Some(*last + INSTANT), ..OccurrenceFilter::default() };
            let limit = (times.len() - covered).min(limits::PAGE_LEN_MAX);
            let (rows, next) = self.0.store.occurrences(schedule, filter, None, Order::Ascending, limit).await?;
            by_time.extend(rows.into_iter().map(|row| (row.at, row.verdict)));
            covered += match next {
                Some(until) => times[covered..].partition_point(|at| *at <= until),
                None => times.len() - covered,
            };
        }
        Ok(TimeRecords { by_time, covered })
    }

    /// What backfills other than `backfill` have done about times, which are in order.
    pub(super) async fn elsewhere_of(
        &self,
        schedule: ScheduleId,
        backfill: Option<BackfillId>,
        times: &[Timestamp],
    ) -> Result<TimeRecords<Elsewhere>> {
        let runs = self.runs_elsewhere(schedule, backfill, times).await?;
        let (mut by_time, mut others, mut covered) = (HashMap::new(), Vec::new(), 0);
        for at in &times[..runs.covered] {
            let Some(runs) = runs.by_time.get(at) else {
                covered += 1;
                continue;
            };
            if runs.iter().any(|run| run.state == Some(JobState::Succeeded)) {
                by_time.insert(*at, Elsewhere::Ran);
            } else {
                let latest = runs.iter().rev().take(FINDS_OF_A_TIME_MAX);
                if !others.is_empty() && others.len() + latest.len() > FINDS_MAX {
                    break;
                }
                others.extend(latest);
            }
            covered += 1;
        }
        // Somebody may have had them tried again, or they ended when nobody counted them any longer.
        let jobs: Vec<JobId> = others.iter().map(|run| run.job).collect();
        let ends = self.ends_of(&jobs).await?;
        for run in others {
            match ends.get(&run.job) {
                Some(End::Ended(JobState::Succeeded)) => _ = by_time.insert(run.at, Elsewhere::Ran),
                Some(End::Open) => _ = by_time.entry(run.at).or_insert(Elsewhere::Open(run.backfill)),
                Some(End::Ended(_) | End::Gone) | None => {}
            }
        }
        Ok(TimeRecords { by_time, covered })
    }

    async fn runs_elsewhere(
        &self,
        schedule: ScheduleId,
        backfill: Option<BackfillId>,
        times: &[Timestamp],
    ) -> Result<TimeRecords<Vec<Backfilled>>> {
        let mut by_time: HashMap<Timestamp, Vec<Backfilled>> = HashMap::new();
        let mut covered = 0;
        for _ in 0..READS_MAX {
            let (Some(from), Some(last)) = (times.get(covered), times.last()) else { break };
            let page = self.0.store.backfilled(schedule, *from, *last, limits::PAGE_LEN_MAX).await?;
            // The page may have cut off what belongs to its last time. That of one time alone is enough.
            let cut = page.last().map(|run| run.at).filter(|_| page.len() == limits::PAGE_LEN_MAX);
            for run in page {
                let is_whole = cut != Some(run.at) || run.at == *from;
                if is_whole && Some(run.backfill) != backfill && times.binary_search(&run.at).is_ok() {
                    by_time.entry(run.at).or_default().push(run);
                }
            }
            covered += match cut {
                Some(at) => times[covered..].partition_point(|time| *time < at).max(1),
                None => times.len() - covered,
            };
        }
        Ok(TimeRecords { by_time, covered })
    }
}
