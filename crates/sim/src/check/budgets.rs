//! Missed times that run after all: no more than the schedule allows, none that is too old, and at its pace.

use std::collections::BTreeMap;

use punctual_core::schedule::{CatchUpMode, Marks, OccurrenceRow, Verdict};
use punctual_core::shard::write::{Epoch, Write};
use punctual_core::{JobId, ScheduleId, Span, Timestamp};

use super::schedules::{Found, Tale, is_void, of_row, tales};
use crate::history::{Fact, History};

/// What the store took.
#[derive(Default)]
struct Told {
    /// When a planned time was first decided about, and by which tenure of its shard.
    first_verdicts: BTreeMap<(ScheduleId, Timestamp), (Timestamp, Epoch)>,
    /// Which tenure made a job.
    made_by: BTreeMap<JobId, Epoch>,
}

pub(super) fn budgets_are_kept(history: &History) -> Found {
    let told = told(history);
    let mut found = Vec::new();
    for (id, tale) in tales(history) {
        let mut replays: Vec<(&OccurrenceRow, Timestamp, Epoch)> = tale
            .rows
            .values()
            .filter(|row| row.marks.has(Marks::REPLAYED) && row.verdict == Verdict::Fired)
            .filter_map(|row| {
                told.first_verdicts.get(&(id, row.at)).map(|(decided_at, tenure)| (row, *decided_at, *tenure))
            })
            .collect();
        replays.sort_by_key(|(row, decided_at, tenure)| (*tenure, *decided_at, row.slot));
        for (row, decided_at, _) in &replays {
            let Some(period) = tale.periods.iter().find(|period| of_row(row, period)) else { continue };
            let rule = period.plan.spec.catch_up;
            if rule.mode == CatchUpMode::None {
                found.push((row.job, format!("{id} makes up for nothing, and did for {}", row.at)));
            }
            if decided_at.since(row.slot) > rule.window {
                found.push((row.job, format!("{id} made up for {}, which is too old", row.at)));
            }
        }
        too_many(id, &tale, &replays, &mut found);
        let jobs = replays.iter().filter_map(|(row, ..)| row.job);
        let jobs = jobs.filter_map(|job| Some((*told.made_by.get(&job)?, job))).collect();
        too_fast(id, &tale, jobs, &mut found);
    }
    found
}

/// What was missed by the moment of the first replay shares a budget, however many turns it takes.
fn too_many(id: ScheduleId, tale: &Tale, replays: &[(&OccurrenceRow, Timestamp, Epoch)], found: &mut Found) {
    for period in &tale.periods {
        let rule = period.plan.spec.catch_up;
        let max = if rule.mode == CatchUpMode::Last { 1 } else { rule.max as usize };
        let mut begun: Option<(Timestamp, Epoch)> = None;
        let mut count = 0;
        for (row, decided_at, tenure) in replays.iter().filter(|(row, ..)| of_row(row, period)) {
            if begun.is_none_or(|(at, of)| of != *tenure || row.slot > at) {
                (begun, count) = (Some((*decided_at, *tenure)), 0);
            }
            count += 1;
            if count == max + 1 {
                found.push((row.job, format!("{id} made up for {} as well, after {max} others", row.at)));
            }
        }
    }
}

/// However often something was missed, one owner runs it at the schedule's pace. What waits keeps that of the definition
/// which is there when it is its turn.
fn too_fast(id: ScheduleId, tale: &Tale, mut jobs: Vec<(Epoch, JobId)>, found: &mut Found) {
    let pauses = tale.periods.iter().map(|period| 60_000_000 / i64::from(period.plan.spec.catch_up.per_minute));
    let pause = Span::from_micros(pauses.min().unwrap_or_default());
    jobs.sort_unstable_by_key(|(tenure, job)| (*tenure, job.due_at()));
    for pair in jobs.windows(2) {
        let [(of, first), (also_of, second)] = pair else { continue };
        if of == also_of && second.due_at().since(first.due_at()) < pause {
            found.push((Some(*second), format!("{id} made up for it sooner than {pause} after {first}")));
        }
    }
}

fn told(history: &History) -> Told {
    let mut told = Told::default();
    for (_, fact) in history.iter() {
        let Fact::Took { batch, void } = fact else { continue };
        for write in batch.writes.iter().filter(|write| !is_void(write, void)) {
            let (Write::Decide(decision) | Write::Release(decision)) = write else { continue };
            let row = &decision.occurrence;
            let fence = batch.fences.iter().find(|(shard, _)| *shard == row.schedule.shard());
            let Some((_, tenure)) = fence else { continue };
            // One that was queued is decided about twice.
            told.first_verdicts.entry((row.schedule, row.at)).or_insert((row.decided_at, *tenure));
            told.made_by.extend(row.job.map(|job| (job, *tenure)));
        }
    }
    told
}
