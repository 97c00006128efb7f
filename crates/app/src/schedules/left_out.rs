//! Planned times that have no row in the ledger, because they fell on the instant of another.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_api::LeftOutTime;
use punctual_core::schedule::{Marks, OccurrenceRow, Plan, ScheduleRow, seed_of};
use punctual_core::{ScheduleId, Timestamp};

use crate::schedules::view::read_spec;
use crate::{App, Result};

/// Of one instant; `merged` counts them all.
const TIMES_MAX: usize = 24;

/// As many are told in a sentence.
const TIMES_TOLD: usize = 4;

const MERGED: &str = "merged";

/// Instants of one page: clocks change twice a year.
const INSTANTS_MAX: usize = 10;

/// Changes that are looked at to find the definition of a time long ago.
const CHANGES_MAX: usize = 200;

/// Says in words which times were left out, after the sentence about the row at `local`.
pub(super) fn explain(left_out: &[LeftOutTime], merged: u32, local: &str) -> String {
    let shown = |time: &'_ LeftOutTime| match (time.local.split_once('T'), local.split_once('T')) {
        (Some((date, clock)), Some((same, _))) if date == same => clock.to_owned(),
        _ => time.local.replace('T', " "),
    };
    let told = |verdict: &str, words: &str| {
        let all: Vec<String> = left_out.iter().filter(|time| time.verdict == verdict).map(shown).collect();
        let shown = all.iter().take(TIMES_TOLD).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = (all.len().max(if verdict == MERGED { merged as usize } else { 0 })).saturating_sub(TIMES_TOLD);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        if all.is_empty() { String::new() } else { format!("; {shown}{more} {words}") }
    };
    let merged = told(MERGED, "fell on the same instant and merged into it");
    merged + &told("skipped_gap", "did not run: the clocks left it out") + &told("skipped_calendar", "did not run")
}

impl App {
    pub(super) async fn left_out(
        &self,
        schedule: Option<&ScheduleRow>,
        rows: &[OccurrenceRow],
    ) -> Result<BTreeMap<Timestamp, Vec<LeftOutTime>>> {
        let Some(schedule) = schedule else { return Ok(BTreeMap::new()) };
        let shares = |row: &&OccurrenceRow| !row.marks.has(Marks::STRETCH) && !row.marks.has(Marks::MANUAL);
        let plan = self.plan_of(&schedule.edit.spec, schedule).await?;
        // One with a row that a gap left no other trace in is found by the clocks.
        let ends_gap = |row: &OccurrenceRow| plan.as_ref().is_some_and(|plan| plan.ends_gap(row.at));
        let rows = rows.iter().filter(shares).filter(|row| row.count > 1 || ends_gap(row));
        let mut rows: Vec<&OccurrenceRow> = rows.collect();
        // What the clocks did is rare, and people wonder about it.
        rows.sort_by_key(|row| !ends_gap(row));
        let mut found = BTreeMap::new();
        for row in rows.into_iter().take(INSTANTS_MAX) {
            let former = match schedule.state.since < row.slot {
                true => None,
                false => self.spec_at(schedule.id, row.slot).await?,
            };
            let plan = match &former {
                Some(spec) => self.plan_of(spec, schedule).await?,
                None => plan.clone(),
            };
            let Some(plan) = plan else { continue };
            let left_out = plan.left_out_at(row.at, seed_of(&schedule.name), TIMES_MAX);
            let times = left_out.into_iter().map(|left_out| LeftOutTime {
                local: left_out.local.to_string(),
                verdict: left_out.unfired.map_or(MERGED, |unfired| unfired.verdict().as_str()).to_owned(),
            });
            found.insert(row.at, times.collect());
        }
        Ok(found)
    }

    /// `None` if it means nothing any more.
    async fn plan_of(&self, spec: &str, schedule: &ScheduleRow) -> Result<Option<Arc<Plan>>> {
        let Some(read) = read_spec(spec) else { return Ok(None) };
        let calendars = self.calendars_named(schedule.namespace, read.calendars.names()).await?;
        Ok(Plan::read(spec, &calendars, seed_of(&schedule.name)).ok().map(Arc::new))
    }

    /// The spec that counted then, if it was replaced since.
    async fn spec_at(&self, id: ScheduleId, at: Timestamp) -> Result<Option<Arc<str>>> {
        let mut changes = self.0.store.schedule_changes(id, CHANGES_MAX).await?;
        changes.sort_by_key(|change| change.by.at);
        let replaced = changes.into_iter().filter(|change| change.by.at >= at).find_map(|change| change.former_spec);
        Ok(replaced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_is_told_by_what_became_of_it() {
        let time = |clock: &str, verdict: &str| LeftOutTime {
            local: format!("2027-03-28T{clock}"),
            verdict: verdict.to_owned(),
        };
        let merged = [time("02:00:00", MERGED), time("02:30:00", MERGED)];
        let explain = |times: &[LeftOutTime], merged: u32| explain(times, merged, "2027-03-28T03:00:00+02:00");
        assert_eq!(explain(&merged, 2), "; 02:00:00, 02:30:00 fell on the same instant and merged into it");
        let skipped = [time("02:30:00", "skipped_gap")];
        assert_eq!(explain(&skipped, 0), "; 02:30:00 did not run: the clocks left it out");
        let many: Vec<_> = (0..6).map(|minute| time(&format!("02:0{minute}:00"), MERGED)).collect();
        let told = explain(&many, 60);
        assert!(told.starts_with("; 02:00:00, 02:01:00, 02:02:00, 02:03:00 and 56 more fell on"), "{told}");
        assert_eq!(explain(&[], 0), "");
        let moved = [LeftOutTime { local: "2027-03-27T03:00:00".to_owned(), verdict: MERGED.to_owned() }];
        assert_eq!(explain(&moved, 1), "; 2027-03-27 03:00:00 fell on the same instant and merged into it");
    }
}
