//! What became of a schedule's planned times.

use std::collections::HashSet;

use jiff::tz::TimeZone;
use punctual_api::occurrence::MARKS;
use punctual_api::{OccurrenceList, OccurrenceQuery, OccurrenceView};
use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::{Marks, OccurrenceRow, ScheduleRow, Verdict};
use punctual_core::{JobId, JobKey, ScheduleId, Span, Timestamp};
use punctual_store::{OccurrenceFilter, Order};

use crate::backfills::RanTimes;
use crate::notify::Quiet;
use crate::principal::By;
use crate::principal::permission::ViewSchedules;
use crate::schedules::view::read_spec;
use crate::schedules::{explain, left_out, not_found, zone};
use crate::{App, Checked, Faults, Result, cursor, parameters};

/// Jobs that workers gave back, over all schedules. Of those beyond it, the record says that they fired and not that they
/// wait.
const GIVEN_BACK_EXAMINED_MAX: usize = 1000;

impl App {
    /// Also of a schedule that is gone, by its id.
    pub async fn occurrences(
        &self,
        by: &By<ViewSchedules>,
        name: &str,
        query: OccurrenceQuery,
    ) -> Result<OccurrenceList> {
        read(&query, &TimeZone::UTC)?;
        let (id, schedule) = self.ledger_of(by.namespace(), name).await?;
        let spec = schedule.as_ref().and_then(|row| read_spec(&row.edit.spec));
        let late_after = spec.as_ref().and_then(|spec| spec.late_after);
        let zone_name = spec.map_or_else(|| "UTC".to_owned(), |spec| spec.when.zone);
        let zone = zone::find(&zone_name);
        let (filter, LedgerPage { after, order, limit }) = read(&query, &zone)?;
        // They are no part of the ledger, and of its pages; the first one has them all.
        let is_range = filter.from.is_some() || filter.before.is_some();
        let mut beside = RanTimes::default();
        if is_range && filter.verdicts.is_empty() && after.is_none() {
            beside = self.backfilled_beside(id, filter.from, filter.before, &zone).await?;
        }
        if order == Order::Descending {
            beside.times.reverse();
        }
        let (mut rows, next) = self.0.store.occurrences(id, filter, after, order, limit).await?;
        let now = self.now();
        let waiting = self.waiting_runs(by.namespace(), &rows, now).await?;
        // The ledger is told of a late start when there is one.
        let late_after = late_after.unwrap_or(self.0.settings.missed_after);
        let waits =
            |row: &OccurrenceRow| row.verdict == Verdict::Queued || row.job.is_some_and(|job| waiting.contains(&job));
        for row in rows.iter_mut().filter(|row| waits(row)) {
            row.marks = row.marks.with_if(Marks::LATE, now.since(row.slot) > late_after);
        }
        let mut backfilled = self.backfilled(id, rows.iter().map(|row| row.at).collect()).await?;
        let mut left_out = self.left_out(schedule.as_ref(), &rows).await?;
        let occurrences = rows.iter().map(|row| {
            let left_out = left_out.remove(&row.at).unwrap_or_default();
            let shown = view(row, &zone, waits(row).then_some(now));
            OccurrenceView {
                explanation: shown.explanation + &left_out::explain(&left_out, shown.merged, &shown.local),
                left_out,
                backfilled: backfilled.remove(&row.at).unwrap_or_default(),
                ..shown
            }
        });
        let occurrences = occurrences.collect();
        Ok(OccurrenceList {
            zone: zone_name,
            occurrences,
            backfilled_only: beside.times,
            backfilled_only_is_partial: beside.is_partial,
            next_cursor: next.map(cursor::write_time),
        })
    }

    /// The jobs of these times that should have started and have not.
    async fn waiting_runs(
        &self,
        namespace: NamespaceId,
        rows: &[OccurrenceRow],
        now: Timestamp,
    ) -> Result<HashSet<JobId>> {
        let fired = rows.iter().filter(|row| row.verdict == Verdict::Fired && row.started_at.is_none());
        let jobs: HashSet<JobId> =
            fired.filter(|row| now.since(row.slot) > explain::ON_TIME).filter_map(|row| row.job).collect();
        if jobs.is_empty() {
            return Ok(jobs);
        }
        // A job that has not started is due when it was due first, unless workers gave it back.
        let keys = jobs.iter().map(|id| JobKey { due_at: id.due_at(), id: *id }).collect();
        let mut hot = self.0.store.hot_jobs(keys).await?;
        let given_back =
            self.0.store.given_back(Some(namespace), None, now, GIVEN_BACK_EXAMINED_MAX).await?.rows.into_iter();
        hot.extend(given_back.filter(|job| jobs.contains(&job.key.id)));
        let waiting = self.waiting_of(hot, Quiet::Shown).await?;
        Ok(waiting.into_iter().map(|job| job.key.id).collect())
    }

    /// Whose ledger is meant, and the schedule, if it is still there.
    async fn ledger_of(&self, namespace: NamespaceId, name: &str) -> Result<(ScheduleId, Option<ScheduleRow>)> {
        let id = self.find_schedule(namespace, name).await?;
        let row = self.0.store.schedule(id).await?;
        // One that is gone left at least the record of that.
        if row.is_none() && self.0.store.schedule_changes(id, 1).await?.is_empty() {
            return Err(not_found(name));
        }
        Ok((id, row))
    }
}

fn view(row: &OccurrenceRow, zone: &TimeZone, waits: Option<Timestamp>) -> OccurrenceView {
    let late_by = waits.or(row.started_at).unwrap_or(row.decided_at).since(row.slot);
    OccurrenceView {
        at: row.at,
        local: zone::local(row.at, zone),
        start_at: row.slot,
        verdict: row.verdict.as_str().to_owned(),
        explanation: explain::occurrence(row, waits),
        decided_at: row.decided_at,
        late_by: Some(late_by)
            .filter(|late_by| matches!(row.verdict, Verdict::Fired | Verdict::Queued) && *late_by > Span::ZERO),
        job: row.job,
        requested_by: row.requested_by.clone(),
        marks: marks(row),
        merged: row.count.saturating_sub(1),
        left_out: Vec::new(),
        backfilled: Vec::new(),
    }
}

fn marks(row: &OccurrenceRow) -> Vec<String> {
    // The ledger marks those that wait for their turn, too; some of them never run.
    let is_shown = |mark: Marks| mark != Marks::REPLAYED || !explain::is_replay_without_run(row);
    let shown = MARKS.iter().filter(|(mark, _)| row.marks.has(*mark) && is_shown(*mark));
    shown.map(|(_, name)| (*name).to_owned()).collect()
}

/// Where a page begins, which way it goes, and how long it is.
struct LedgerPage {
    after: Option<Timestamp>,
    order: Order,
    limit: usize,
}

/// Dates among the times are those of the schedule's zone.
fn read(query: &OccurrenceQuery, zone: &TimeZone) -> Result<(OccurrenceFilter, LedgerPage)> {
    let mut faults = Faults::default();
    let verdicts = parameters::words("verdict", query.verdict.as_deref(), &Verdict::ALL, Verdict::as_str);
    let verdicts = faults.value(verdicts).unwrap_or_default();
    let mut time = |field, text: &Option<String>| {
        let time = text.as_deref().map(|text| zone::parse_time(field, text, zone)).transpose();
        faults.value(time).flatten()
    };
    let (from, before) = (time("from", &query.from), time("before", &query.before));
    let order = faults.value(parameters::order(query.order.as_deref())).unwrap_or_default();
    let page = parameters::page(query.limit.as_deref(), query.cursor.as_deref(), cursor::read_time);
    let (limit, after) = faults.value(page).unwrap_or_default();
    faults.finish()?;
    Ok((OccurrenceFilter { from, before, verdicts }, LedgerPage { after, order, limit }))
}

impl Checked for OccurrenceQuery {
    fn check(&self) -> Result<()> {
        read(self, &TimeZone::UTC).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::ShardId;

    use super::*;

    #[test]
    fn only_what_ran_after_it_was_missed_is_shown_as_replayed() {
        let at = Timestamp::from_micros(1_700_000_000_000_000).unwrap();
        let row = |verdict: Verdict| OccurrenceRow {
            schedule: ScheduleId::new(at, ShardId(1), 7),
            at,
            slot: at,
            verdict,
            decided_at: at,
            marks: Marks::REPLAYED.with(Marks::MOVED),
            count: 1,
            job: None,
            started_at: None,
            reason: None,
            requested_by: None,
        };
        assert_eq!(marks(&row(Verdict::Fired)), ["moved", "replayed"]);
        for verdict in Verdict::ALL.into_iter().filter(|verdict| *verdict != Verdict::Fired) {
            assert_eq!(marks(&row(verdict)), ["moved"], "{verdict:?}");
        }
    }

    #[test]
    fn a_cursor_reads_back_and_anything_else_is_refused() {
        let at = Timestamp::from_micros(1_700_000_000_123_456).unwrap();
        assert_eq!(cursor::read_time(&cursor::write_time(at)).unwrap(), at);
        for bad in ["", "abc", &"g".repeat(16), &"é".repeat(8), &"f".repeat(16), "+000000000000000"] {
            assert!(cursor::read_time(bad).is_err(), "{bad}");
        }
    }
}
