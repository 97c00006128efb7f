//! The schedules of a simulation in the form that promises are judged by. A run of a schedule counts from the commit that makes
//! its job to the one that settles it.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::schedule::{Marks, OccurrenceRow, Overlap, ScheduleCommand, ScheduleSpec, SourceKind, Verdict};
use punctual_core::shard::write::{JobWrite, ScheduleWrite, Write};
use punctual_core::{JobId, ScheduleId, Span, Timestamp};
use punctual_promises::{LedgerLine, NeedOfLine, PlannedTime, ScheduleHistory, ScheduledJob, ScheduledRun};
use punctual_store::JobRecord;

use super::schedules::{Period, ScheduleFacts, schedule_facts, taken};
use crate::history::{Fact, History};

/// A server needs so long to see a planned time after the faults are over: a takeover, and some.
const SLACK: Span = Span::from_secs(25);

pub(super) fn schedule_histories(history: &History) -> Vec<ScheduleHistory> {
    // When everything due must have been seen by somebody.
    let seen_by = history.iter().last().map_or(Timestamp::EPOCH, |(at, _)| at) - SLACK;
    let (busy, mut jobs, mut runs) = (busy(history), jobs(history), runs(history));
    let translate = |(id, facts): (ScheduleId, ScheduleFacts)| {
        let may_wait = facts.is_paused || busy.contains(&id);
        let used_up_at = facts.used_up_at();
        let periods = facts.periods.iter().enumerate();
        ScheduleHistory {
            name: id.to_string(),
            planned: periods.flat_map(|(number, period)| planned(number, period, seen_by, used_up_at)).collect(),
            lines: facts.rows.values().map(|row| line(row, may_wait)).collect(),
            jobs: jobs.remove(&id).unwrap_or_default(),
            runs: runs.remove(&id).unwrap_or_default(),
        }
    };
    schedule_facts(history).into_iter().map(translate).collect()
}

fn planned(
    definition: usize,
    period: &Period,
    seen_by: Timestamp,
    used_up_at: Option<Timestamp>,
) -> impl Iterator<Item = PlannedTime> {
    let from = period.since - period.plan.jitter();
    let times = period.plan.times_after(from, period.seed).take_while(|planned| planned.at <= period.until);
    // One that comes before the next definition, and whose slot comes after it, belongs to both.
    times.filter(|planned| planned.slot > period.since).map(move |planned| {
        let is_excused = used_up_at.is_some_and(|last| planned.slot > last);
        let line = if planned.slot <= seen_by && !is_excused { NeedOfLine::Required } else { NeedOfLine::Allowed };
        PlannedTime { definition, at: planned.at, start: planned.slot, line, count: None }
    })
}

fn line(row: &OccurrenceRow, may_wait: bool) -> LedgerLine {
    let kind = match (row.marks.has(Marks::MANUAL), row.marks.has(Marks::REPLAYED)) {
        (true, _) => SourceKind::Manual,
        (false, true) => SourceKind::Replayed,
        (false, false) => SourceKind::Planned,
    };
    LedgerLine {
        at: row.at,
        start: row.slot,
        verdict: row.verdict,
        job: row.job.map(|job| job.to_string()),
        kind,
        is_stretch: row.marks.has(Marks::STRETCH),
        count: row.count,
        may_wait,
    }
}

/// The jobs that each schedule made.
fn jobs(history: &History) -> BTreeMap<ScheduleId, Vec<ScheduledJob>> {
    let existing = history.iter().filter_map(|(_, fact)| match fact {
        Fact::Final { id, record: Some(_) } => Some(*id),
        _ => None,
    });
    let existing: BTreeSet<JobId> = existing.collect();
    let mut jobs: BTreeMap<ScheduleId, Vec<ScheduledJob>> = BTreeMap::new();
    for (_, write) in taken(history) {
        let Write::Schedule(ScheduleWrite::Decide(decision) | ScheduleWrite::Release(decision)) = write else {
            continue;
        };
        if let Some(job) = &decision.job {
            jobs.entry(decision.occurrence.schedule).or_default().push(ScheduledJob {
                id: job.id.to_string(),
                at: job.source.at,
                kind: job.source.kind,
                due_at: job.id.due_at(),
                exists: existing.contains(&job.id),
            });
        }
    }
    jobs
}

/// The runs of each schedule. What somebody had run again is no run by plan, and whoever asks for a run may say that it may meet
/// others.
fn runs(history: &History) -> BTreeMap<ScheduleId, Vec<ScheduledRun>> {
    let may_meet =
        |command: &ScheduleCommand| matches!(command, ScheduleCommand::RunNow { overlap: Some(Overlap::Allow) });
    let asked = history.iter().filter_map(|(_, fact)| match fact {
        Fact::AskSchedule { id, command, .. } if may_meet(command) => Some(*id),
        _ => None,
    });
    let manual_may_meet: BTreeSet<ScheduleId> = asked.collect();
    let mut overlaps: BTreeMap<ScheduleId, Overlap> = BTreeMap::new();
    let mut runs: BTreeMap<ScheduleId, Vec<ScheduledRun>> = BTreeMap::new();
    let mut of_job: BTreeMap<JobId, ScheduleId> = BTreeMap::new();
    for (at, write) in taken(history) {
        match write {
            Write::Schedule(ScheduleWrite::Add(row)) => _ = overlaps.insert(row.id, overlap_of(&row.edit.spec)),
            Write::Schedule(ScheduleWrite::Edit { id, edit, .. }) => {
                let former = overlaps.insert(*id, overlap_of(&edit.spec));
                // Nobody looked at what ran while runs were allowed to meet, so it is in nobody's way.
                if former == Some(Overlap::Allow) {
                    end_runs(runs.entry(*id).or_default(), at, |_| true);
                }
            }
            Write::Schedule(ScheduleWrite::Decide(decision) | ScheduleWrite::Release(decision)) => {
                let Some(job) = &decision.job else { continue };
                let schedule = decision.occurrence.schedule;
                let is_manual = job.source.kind == SourceKind::Manual;
                let may_join = overlaps.get(&schedule) == Some(&Overlap::Allow)
                    || (is_manual && manual_may_meet.contains(&schedule));
                let run = ScheduledRun { job: job.id.to_string(), from: at, to: None, may_join, is_lost: false };
                runs.entry(schedule).or_default().push(run);
                of_job.insert(job.id, schedule);
            }
            Write::Job(JobWrite::Settle(settle)) => {
                if let Some(runs) = of_job.get(&settle.key.id).and_then(|schedule| runs.get_mut(schedule)) {
                    let job = settle.key.id.to_string();
                    end_runs(runs, at, |run| run.job == job);
                }
            }
            _ => {}
        }
    }
    runs
}

fn end_runs(runs: &mut [ScheduledRun], at: Timestamp, is_it: impl Fn(&ScheduledRun) -> bool) {
    for run in runs.iter_mut().filter(|run| run.to.is_none() && is_it(run)) {
        run.to = Some(at);
    }
}

fn overlap_of(spec: &str) -> Overlap {
    let spec: ScheduleSpec = serde_json::from_str(spec).expect("the clients make good specs");
    spec.overlap
}

/// Schedules of which a job has not ended.
fn busy(history: &History) -> BTreeSet<ScheduleId> {
    let hot = |fact: &Fact| match fact {
        Fact::Final { record: Some(JobRecord::Hot { job, .. }), .. } => job.source.map(|source| source.schedule),
        _ => None,
    };
    history.iter().filter_map(|(_, fact)| hot(fact)).collect()
}

impl ScheduleFacts {
    /// The slot of the run with which it may have run as often as it is allowed to.
    fn used_up_at(&self) -> Option<Timestamp> {
        let least = self.max_runs.iter().flatten().min()?;
        let fired = self.rows.values().filter(|row| row.verdict == Verdict::Fired && !row.marks.has(Marks::MANUAL));
        let mut fired: Vec<(Timestamp, Timestamp)> = fired.map(|row| (row.decided_at, row.slot)).collect();
        fired.sort_unstable();
        fired.get(*least as usize - 1).map(|(_, slot)| *slot)
    }
}
