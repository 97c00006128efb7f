//! Missed times that run after all: no more than the schedule allows, and none that is too old.

use std::collections::BTreeMap;

use punctual_core::schedule::{CatchUpMode, Marks, OccurrenceRow, Verdict};
use punctual_core::shard::write::{Epoch, Write};
use punctual_core::{ScheduleId, Timestamp};

use super::schedules::{Found, Tale, is_void, of_row, tales};
use crate::history::{Fact, History};

/// When a planned time was first decided about, and by which tenure of its shard.
type FirstVerdicts = BTreeMap<(ScheduleId, Timestamp), (Timestamp, Epoch)>;

pub(super) fn budgets_are_kept(history: &History) -> Found {
    let verdicts = first_verdicts(history);
    let mut found = Vec::new();
    for (id, tale) in tales(history) {
        let mut replays: Vec<(&OccurrenceRow, Timestamp, Epoch)> = tale
            .rows
            .values()
            .filter(|row| row.marks.has(Marks::REPLAYED) && row.verdict == Verdict::Fired)
            .filter_map(|row| verdicts.get(&(id, row.at)).map(|(decided_at, tenure)| (row, *decided_at, *tenure)))
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

fn first_verdicts(history: &History) -> FirstVerdicts {
    let mut verdicts = FirstVerdicts::new();
    for (_, fact) in history.iter() {
        let Fact::Took { batch, void } = fact else { continue };
        for write in batch.writes.iter().filter(|write| !is_void(write, void)) {
            // One that was queued is decided about twice.
            let Write::Decide(decision) = write else { continue };
            let row = &decision.occurrence;
            let fence = batch.fences.iter().find(|(shard, _)| *shard == row.schedule.shard());
            if let Some((_, tenure)) = fence {
                verdicts.insert((row.schedule, row.at), (row.decided_at, *tenure));
            }
        }
    }
    verdicts
}
