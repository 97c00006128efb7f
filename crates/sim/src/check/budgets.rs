//! Missed times that run after all: no more than the schedule allows, none that is too old, and at its pace.

use std::collections::BTreeMap;

use punctual_core::schedule::{CatchUpMode, Marks, OccurrenceRow, Verdict};
use punctual_core::shard::write::{Epoch, ScheduleWrite, Write};
use punctual_core::{JobId, ScheduleId, Span, Timestamp};

use super::schedules::{Found, ScheduleFacts, is_of, is_void, of_row, schedule_facts};
use crate::history::{Fact, History};

/// A missed time that an owner chose to run.
struct Choice {
    at: Timestamp,
    slot: Timestamp,
    decided_at: Timestamp,
    epoch: Epoch,
    /// A former owner had decided about it.
    is_void: bool,
}

/// What the store took.
#[derive(Default)]
struct Decisions {
    choices: BTreeMap<ScheduleId, Vec<Choice>>,
    /// Which epoch made a job.
    made_by: BTreeMap<JobId, Epoch>,
}

pub(super) fn budgets_are_kept(history: &History) -> Found {
    let mut decisions = decisions(history);
    let mut found = Vec::new();
    for (id, facts) in schedule_facts(history) {
        let mut choices = decisions.choices.remove(&id).unwrap_or_default();
        choices.sort_by_key(|choice| (choice.epoch, choice.decided_at, choice.slot));
        for (choice, row) in choices.iter().filter_map(|choice| Some((choice, ran(&facts, choice)?))) {
            let Some(period) = facts.periods.iter().find(|period| of_row(row, period)) else { continue };
            let rule = period.plan.spec.catch_up;
            if rule.mode == CatchUpMode::None {
                found.push((row.job, format!("{id} makes up for nothing, and did for {}", row.at)));
            }
            if rule.window().is_some_and(|window| choice.decided_at.since(row.slot) > window) {
                found.push((row.job, format!("{id} made up for {}, which is too old", row.at)));
            }
        }
        too_many(id, &facts, &choices, &mut found);
        let jobs = choices.iter().filter_map(|choice| ran(&facts, choice)?.job);
        let jobs = jobs.filter_map(|job| Some((*decisions.made_by.get(&job)?, job))).collect();
        too_fast(id, &facts, jobs, &mut found);
    }
    found
}

/// What became of it, if it ran.
fn ran<'a>(facts: &'a ScheduleFacts, choice: &Choice) -> Option<&'a OccurrenceRow> {
    let row = facts.rows.get(&choice.at)?;
    (row.verdict == Verdict::Fired && !choice.is_void).then_some(row)
}

/// What was missed by the moment of the first replay shares a budget, however many turns it takes.
fn too_many(id: ScheduleId, facts: &ScheduleFacts, choices: &[Choice], found: &mut Found) {
    for period in &facts.periods {
        let rule = period.plan.spec.catch_up;
        let max = if rule.mode == CatchUpMode::Last { 1 } else { rule.max as usize };
        let mut begun: Option<(Timestamp, Epoch)> = None;
        let mut count = 0;
        for choice in choices.iter().filter(|choice| is_of(period, choice.slot)) {
            if begun.is_none_or(|(at, of)| of != choice.epoch || choice.slot > at) {
                (begun, count) = (Some((choice.decided_at, choice.epoch)), 0);
            }
            let Some(row) = ran(facts, choice) else { continue };
            count += 1;
            if count == max + 1 {
                found.push((row.job, format!("{id} made up for {} as well, after {max} others", row.at)));
            }
        }
    }
}

/// However often something was missed, one owner runs it at the schedule's pace. After an edit, what waits by the former
/// definition and what is chosen by the new one each have their own.
fn too_fast(id: ScheduleId, facts: &ScheduleFacts, mut jobs: Vec<(Epoch, JobId)>, found: &mut Found) {
    let [period] = &facts.periods[..] else { return };
    let pause = Span::from_micros(60_000_000 / i64::from(period.plan.spec.catch_up.per_minute));
    jobs.sort_unstable_by_key(|(epoch, job)| (*epoch, job.due_at()));
    for pair in jobs.windows(2) {
        let [(of, first), (also_of, second)] = pair else { continue };
        if of == also_of && second.due_at().since(first.due_at()) < pause {
            found.push((Some(*second), format!("{id} made up for it sooner than {pause} after {first}")));
        }
    }
}

fn decisions(history: &History) -> Decisions {
    let mut decisions = Decisions::default();
    for (_, fact) in history.iter() {
        let Fact::Committed { batch, void } = fact else { continue };
        for write in &batch.writes {
            let Write::Schedule(ScheduleWrite::Decide(decision) | ScheduleWrite::Release(decision)) = write else {
                continue;
            };
            let row = &decision.occurrence;
            let fence = batch.fences.iter().find(|(shard, _)| *shard == row.schedule.shard());
            let Some(&(_, epoch)) = fence else { continue };
            let is_void = is_void(write, void);
            if !is_void {
                decisions.made_by.extend(row.job.map(|job| (job, epoch)));
            }
            // One that was queued is decided about twice, and chosen once.
            if matches!(write, Write::Schedule(ScheduleWrite::Decide(_))) && row.marks.has(Marks::REPLAYED) {
                let OccurrenceRow { at, slot, decided_at, .. } = *row;
                let choices = decisions.choices.entry(row.schedule).or_default();
                choices.push(Choice { at, slot, decided_at, epoch, is_void });
            }
        }
    }
    decisions
}
