//! The record of a schedule in the form that promises are judged by. A run of a schedule counts from when its witness saw it begin
//! until it saw it end.

use punctual_core::Timestamp;
use punctual_core::schedule::{Overlap, SourceKind, Verdict};
use punctual_promises::{LedgerLine, NeedOfLine, PlannedTime, ScheduleHistory, ScheduledRun};

use super::{EDGE_US, Execution, ScheduleFacts};
use crate::schedules::record::{Row, ScheduledJob};

pub(super) fn schedule_history(facts: &ScheduleFacts<'_>) -> ScheduleHistory {
    let may_join = facts.schedule.policy.overlap == Overlap::Allow;
    ScheduleHistory {
        name: facts.schedule.name.clone(),
        planned: planned(facts),
        lines: facts.schedule.rows.iter().map(line).collect(),
        jobs: facts.jobs.iter().map(|job| scheduled_job(job)).collect(),
        runs: facts.executions.iter().map(|execution| run(execution, may_join)).collect(),
    }
}

fn time(us: i64) -> Timestamp {
    Timestamp::saturating_from_micros(us)
}

/// The times that the definitions plan, each while it counts.
fn planned(facts: &ScheduleFacts<'_>) -> Vec<PlannedTime> {
    let since = facts.definitions_since();
    let mut planned = Vec::new();
    for (number, definition) in facts.schedule.definitions.iter().enumerate() {
        let Some(from_us) = since.get(number).copied() else { break };
        let to_us = since.get(number + 1).copied().unwrap_or(i64::MAX);
        let first_us = from_us - definition.jitter_us - EDGE_US;
        let last_us = to_us.min(definition.end_us).saturating_add(EDGE_US);
        for planned_time in definition.times(&facts.schedule.name, first_us, last_us) {
            let (at_us, start_us) = (planned_time.at_us, planned_time.start_us);
            // A definition that is replaced has dealt with all times that had come, jitter or not.
            let line = if start_us > from_us + EDGE_US && at_us < to_us.saturating_sub(EDGE_US) {
                NeedOfLine::Required
            } else if start_us > from_us - EDGE_US && at_us <= to_us.saturating_add(EDGE_US) {
                NeedOfLine::Allowed
            } else {
                NeedOfLine::Forbidden
            };
            let (at, start) = (time(at_us), time(start_us));
            planned.push(PlannedTime { definition: number, at, start, line, count: Some(1) });
        }
    }
    planned
}

fn line(row: &Row) -> LedgerLine {
    let kind = match (row.has("manual"), row.has("replayed")) {
        (true, _) => SourceKind::Manual,
        (false, true) => SourceKind::Replayed,
        (false, false) => SourceKind::Planned,
    };
    let verdict = Verdict::ALL.into_iter().find(|verdict| verdict.as_str() == row.verdict);
    LedgerLine {
        at: time(row.at_us),
        start: time(row.start_us),
        verdict: verdict.expect("a line has a verdict that the core knows"),
        job: row.job.clone(),
        kind,
        is_stretch: row.has("stretch"),
        count: row.count,
        // A run waits until nothing is queued any more.
        may_wait: false,
    }
}

fn scheduled_job(job: &ScheduledJob) -> punctual_promises::ScheduledJob {
    let kinds = [SourceKind::Planned, SourceKind::Replayed, SourceKind::Manual, SourceKind::Backfill];
    let kind = kinds.into_iter().find(|kind| kind.as_str() == job.kind);
    punctual_promises::ScheduledJob {
        id: job.id.clone(),
        at: time(job.at_us),
        kind: kind.expect("a job of a schedule has a kind that the core knows"),
        due_at: time(job.due_us),
        exists: true,
    }
}

/// Nobody asks for a run beside others here, so runs by hand keep to the policy, too.
fn run(execution: &Execution<'_>, may_join: bool) -> ScheduledRun {
    ScheduledRun {
        job: execution.job.id.clone(),
        from: time(execution.begin_us),
        to: execution.end_us.map(time),
        may_join,
        is_lost: execution.job.was_lost,
    }
}
