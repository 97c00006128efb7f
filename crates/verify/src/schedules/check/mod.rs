//! Judges the record of a run's schedules by the promises of `punctual-promises`, and by those that follow from the final
//! ledger alone.
//!
//! Knows the promises of docs/schedules.md, and when a definition fires; nothing of how servers go about it. Pure: a
//! kept run can be judged again.

mod budget;
mod jobs;
mod orders;
mod overlap;
mod planned;
#[cfg(test)]
mod record_builder;
mod translate;
mod verdicts;

use std::collections::BTreeMap;

use super::record::{Record, ScheduleRecord, ScheduledJob};
use punctual_promises::check_schedules;

use crate::check::Violation;
use crate::witness::{Seen, WitnessLine};

/// A definition counts from a moment that the owner chose; what is planned within this of that moment as we know it may
/// belong to either definition.
const EDGE_US: i64 = 300_000;

/// How much later than the end of a run the owner may learn of it, while the database is out of reach.
const SLOW_US: i64 = 10_000_000;

/// A run of a job, as its witness saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Execution<'a> {
    pub(super) job: &'a ScheduledJob,
    pub(super) attempt: u32,
    pub(super) begin_us: i64,
    /// When it began by the clock that jobs are due by.
    pub(super) began_real_us: i64,
    pub(super) end_us: Option<i64>,
}

/// A schedule with all that belongs to it.
pub(super) struct ScheduleFacts<'a> {
    pub(super) schedule: &'a ScheduleRecord,
    pub(super) jobs: Vec<&'a ScheduledJob>,
    /// In the order in which they began.
    pub(super) executions: Vec<Execution<'a>>,
    pub(super) record: &'a Record,
}

impl ScheduleFacts<'_> {
    pub(super) fn job(&self, id: &str) -> Option<&ScheduledJob> {
        self.jobs.iter().find(|job| job.id == id).copied()
    }

    /// How late a time may be that is not missed.
    pub(super) fn grace_us(&self) -> i64 {
        self.schedule.policy.grace_us(self.record.missed_after_us)
    }

    /// From when on each definition counts, the first one first.
    pub(super) fn definitions_since(&self) -> Vec<i64> {
        let edits = self.schedule.changes.iter().filter(|change| change.kind == "edited").map(|change| change.at_us);
        std::iter::once(self.schedule.created_us).chain(edits).collect()
    }
}

type OfSchedule = fn(&ScheduleFacts<'_>) -> Vec<String>;

const OF_SCHEDULE: [(&str, OfSchedule); 11] = [
    ("every revision is known", planned::every_revision_is_known),
    ("what is on record stays", planned::what_is_on_record_stays),
    ("every job has ended", jobs::every_job_has_ended),
    ("nothing begins early or too often", jobs::nothing_begins_early_or_too_often),
    ("what is skipped met a run", overlap::what_is_skipped_met_a_run),
    ("replays keep to their number", budget::replays_keep_to_their_number),
    ("replays keep to their window", budget::replays_keep_to_their_window),
    ("replays keep to their pace", budget::replays_keep_to_their_pace),
    ("lateness is recorded as it was", verdicts::lateness_is_recorded_as_it_was),
    ("nothing is missed without cause", verdicts::nothing_is_missed_without_cause),
    ("orders are kept", orders::orders_are_kept),
];

pub(crate) fn check(record: &Record) -> Vec<Violation> {
    let facts_by_schedule = facts_by_schedule(record);
    let histories: Vec<_> = facts_by_schedule.iter().map(translate::schedule_history).collect();
    let mut violations = check_schedules(&histories);
    let mut blame = |promise, schedule: &str, text| {
        violations.push(Violation { promise, subject: Some(schedule.to_owned()), text });
    };
    for facts in &facts_by_schedule {
        for (promise, judge) in OF_SCHEDULE {
            for text in judge(facts) {
                blame(promise, &facts.schedule.name, text);
            }
        }
    }
    for (schedule, text) in jobs::every_job_has_a_schedule(record) {
        blame("every job has a schedule", &schedule, text);
    }
    for (schedule, text) in orders::confirmations_are_kept(&facts_by_schedule, &record.confirmations) {
        blame("confirmations are kept", &schedule, text);
    }
    violations
}

pub(super) fn facts_by_schedule(record: &Record) -> Vec<ScheduleFacts<'_>> {
    let mut jobs: BTreeMap<&str, Vec<&ScheduledJob>> = BTreeMap::new();
    for job in &record.jobs {
        jobs.entry(&job.schedule).or_default().push(job);
    }
    let mut seen: BTreeMap<&str, Vec<&WitnessLine>> = BTreeMap::new();
    for line in &record.witness {
        seen.entry(&line.job).or_default().push(line);
    }
    let mut facts_by_schedule = Vec::new();
    for schedule in &record.schedules {
        let jobs = jobs.remove(schedule.id.as_str()).unwrap_or_default();
        let mut executions: Vec<_> =
            jobs.iter().flat_map(|job| executions(job, seen.get(job.id.as_str()).map_or(&[], Vec::as_slice))).collect();
        executions.sort_by_key(|execution| execution.begin_us);
        facts_by_schedule.push(ScheduleFacts { schedule, jobs, executions, record });
    }
    facts_by_schedule
}

fn executions<'a>(job: &'a ScheduledJob, seen: &[&WitnessLine]) -> Vec<Execution<'a>> {
    let mut executions: Vec<Execution<'a>> = Vec::new();
    for WitnessLine { attempt, at, seen, .. } in seen {
        match seen {
            Seen::Begin => executions.push(Execution {
                job,
                attempt: *attempt,
                begin_us: at.boot_us,
                began_real_us: at.real_us,
                end_us: None,
            }),
            Seen::End(_) => {
                let begun = executions.iter_mut().rev().find(|execution| execution.attempt == *attempt);
                if let Some(execution) = begun {
                    execution.end_us = Some(at.boot_us);
                }
            }
        }
    }
    executions
}

/// For people: the time of day in UTC.
pub(super) fn shown(us: i64) -> String {
    punctual_core::Timestamp::saturating_from_micros(us).to_string()
}
