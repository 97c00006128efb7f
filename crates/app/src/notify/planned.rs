//! Planned times that are past and that nobody has decided about: their shard has no owner, or the owner is stuck.
//!
//! All schedules are walked, some at a time. A shard whose watermark is near needs no walk: all of its times have
//! their verdicts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures_util::future::join_all;
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::recurrence::Calendar;
use punctual_core::schedule::{Plan, ScheduleSpec, seed_of};
use punctual_core::{ScheduleId, ShardId, Timestamp};
use punctual_store::LoadedRow;

use super::outages::{read_each, skip_unreadable};
use super::read_schedule_spec;
use crate::schedules::zone;
use crate::{App, AppError, Result};

/// Planned times of one schedule that are looked at: those that do not fire are passed over.
const TIMES_MAX: usize = 1000;
/// Ledgers that are read at a time.
const LEDGERS_AT_ONCE: usize = 16;

/// A planned time without a verdict.
#[derive(Debug, Clone)]
pub(super) struct OverduePlan {
    pub(super) row: LoadedRow,
    pub(super) at: Timestamp,
    pub(super) slot: Timestamp,
    /// The planned time on the clocks of the schedule's zone.
    pub(super) local: String,
}

/// Where a walk over all schedules is.
#[derive(Clone, Default)]
pub(super) struct Walk {
    shards: VecDeque<ShardId>,
    after: Option<ScheduleId>,
    watermarks: BTreeMap<ShardId, Timestamp>,
}

/// A part of a walk.
pub(super) struct Walked {
    pub(super) overdue: Vec<OverduePlan>,
    /// All that were looked at.
    pub(super) seen: Vec<ScheduleId>,
}

impl Walk {
    pub(super) fn is_over(&self) -> bool {
        self.shards.is_empty()
    }

    /// Whether all slots of a schedule up to this one have their verdicts.
    pub(super) fn is_decided(&self, schedule: ScheduleId, slot: Timestamp) -> bool {
        self.watermarks.get(&schedule.shard()).is_some_and(|watermark| *watermark >= slot)
    }

    /// Goes on with the next shard.
    pub(super) fn leave_shard(&mut self) {
        self.shards.pop_front();
        self.after = None;
    }
}

impl App {
    /// Begins with shards that nobody owns; what was due later than `until` is left alone.
    pub(super) async fn begin_walk(&self, until: Timestamp) -> Result<Walk> {
        let watermarks: BTreeMap<ShardId, Timestamp> = self.0.store.watermarks().await?.into_iter().collect();
        let all = (0..self.0.store.shard_count()).map(ShardId);
        let behind = all.filter(|shard| watermarks.get(shard).is_none_or(|watermark| *watermark < until));
        let free = self.shards_without_owner();
        let (first, then): (Vec<ShardId>, Vec<ShardId>) = behind.partition(|shard| free.contains(shard));
        Ok(Walk { shards: first.into_iter().chain(then).collect(), after: None, watermarks })
    }

    /// Shards that no server owned when the cluster was looked at last.
    pub(super) fn shards_without_owner(&self) -> Vec<ShardId> {
        let owned = self.0.engine.owned();
        let all = (0..self.0.store.shard_count()).map(ShardId);
        all.filter(|shard| !owned.contains(shard) && self.0.engine.owner_of(*shard).is_none()).collect()
    }

    /// Goes on with at most `limit` schedules, and looks at those of a namespace, or at all. Once `enough` overdue ones are
    /// found, the ledger is not asked for more.
    pub(super) async fn walk(
        &self,
        namespace: Option<NamespaceId>,
        walk: &mut Walk,
        until: Timestamp,
        limit: usize,
        enough: usize,
    ) -> Result<Walked> {
        let mut rows: Vec<LoadedRow> = Vec::new();
        while rows.len() < limit {
            let Some(shard) = walk.shards.front().copied() else { break };
            let wanted = limit - rows.len();
            let page = self.0.store.load_schedules(shard, walk.after, wanted).await?;
            if page.len() < wanted {
                walk.leave_shard();
            } else {
                walk.after = page.last().map(|row| row.id);
            }
            rows.extend(page);
        }
        rows.retain(|row| namespace.is_none_or(|namespace| namespace == row.namespace));
        let seen = rows.iter().map(|row| row.id).collect();
        let specs: Vec<Option<ScheduleSpec>> = rows.iter().map(|row| read_schedule_spec(&row.spec)).collect();
        let mut names: BTreeMap<NamespaceId, BTreeSet<String>> = BTreeMap::new();
        for (row, spec) in rows.iter().zip(&specs).filter_map(|(row, spec)| Some((row, spec.as_ref()?))) {
            names.entry(row.namespace).or_default().extend(spec.calendars.names().cloned());
        }
        let mut calendars: BTreeMap<NamespaceId, BTreeMap<String, Arc<Calendar>>> = BTreeMap::new();
        for (namespace, names) in names {
            calendars.insert(namespace, self.calendars_named(namespace, names.iter()).await?);
        }
        let watermarks = walk.watermarks.clone();
        let plan = move || {
            let planned = rows.into_iter().zip(specs).filter_map(|(row, spec)| {
                let watermark = watermarks.get(&row.id.shard()).copied().unwrap_or(Timestamp::EPOCH);
                let times = firing_times(&row, spec?, calendars.get(&row.namespace)?, watermark, until)?;
                Some((row, times))
            });
            planned.collect::<Vec<_>>()
        };
        // Plans with long calendars take a while to make.
        let planned = tokio::task::spawn_blocking(plan).await;
        let planned = planned.map_err(|_| AppError::new(punctual_api::ErrorKind::Internal, "the plans broke down"))?;
        let tasks = self.readable_tasks(planned.iter().map(|(row, _)| row.task).collect()).await?;
        let is_loud = |row: &LoadedRow| !tasks.get(&row.task).is_some_and(|task| task.spec.quiet);
        let mut planned = planned.into_iter().filter(|(row, _)| is_loud(row)).peekable();
        let mut overdue = Vec::new();
        while planned.peek().is_some() && overdue.len() < enough {
            let part = planned.by_ref().take(LEDGERS_AT_ONCE);
            let looked = join_all(part.map(|(row, times)| self.first_undecided(row, times, until))).await;
            for found in looked {
                // Of a schedule whose ledger cannot be read nobody knows.
                overdue.extend(skip_unreadable(found)?);
            }
        }
        Ok(Walked { overdue, seen })
    }

    async fn first_undecided(
        &self,
        row: LoadedRow,
        times: FiringTimes,
        until: Timestamp,
    ) -> Result<Option<OverduePlan>> {
        let decided = self.last_verdict(row.id, Some(until)).await?;
        let first = times.times.into_iter().find(|(_, slot)| decided.is_none_or(|decided| *slot > decided));
        let plan = |(at, slot)| OverduePlan { at, slot, local: zone::local(at, &zone::find(&times.zone)), row };
        Ok(first.map(plan))
    }

    /// Of these, the schedules that are gone.
    pub(super) async fn gone_schedules(&self, ids: BTreeSet<ScheduleId>) -> Result<Vec<ScheduleId>> {
        let rows = read_each(ids.clone(), |id| self.0.store.schedule(id)).await?.into_iter();
        let there: BTreeSet<ScheduleId> = rows.map(|(id, _)| id).collect();
        Ok(ids.difference(&there).copied().collect())
    }
}

struct FiringTimes {
    /// Planned times with their slots.
    times: Vec<(Timestamp, Timestamp)>,
    zone: String,
}

/// The times up to `until` that nobody is known to have decided about and at which something should have run.
fn firing_times(
    row: &LoadedRow,
    spec: ScheduleSpec,
    calendars: &BTreeMap<String, Arc<Calendar>>,
    watermark: Timestamp,
    until: Timestamp,
) -> Option<FiringTimes> {
    let from = watermark.max(row.state.since);
    let is_used_up = spec.max_runs.is_some_and(|max| row.state.runs >= max);
    if from >= until || is_used_up || row.state.pause.is_some() {
        return None;
    }
    let seed = seed_of(&row.name);
    let plan = Plan::new(spec, calendars, seed).ok()?;
    let skipped = row.state.skip_until.unwrap_or(Timestamp::EPOCH);
    let planned = plan.times_after(from - plan.jitter(), seed).take(TIMES_MAX).take_while(|planned| planned.at < until);
    let fires = planned.filter(|planned| planned.unfired.is_none() && planned.at > skipped);
    let late = fires.filter(|planned| planned.slot > from && planned.slot < until);
    let times: Vec<_> = late.map(|planned| (planned.at, planned.slot)).collect();
    (!times.is_empty()).then(|| FiringTimes { times, zone: plan.spec.when.zone.clone() })
}
