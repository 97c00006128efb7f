//! Planned times get their verdicts, and those that fire their jobs.

use punctual_core::JobKey;
use punctual_core::shard::write::{Decision, FiredJob};
use punctual_store::TASK_USE_STEP;

use super::columns::Statement;
use super::named::{Named, Step, Unfit};
use crate::codec::{self, Uuid, shard_number};
use crate::pipeline::{Param, column};
use crate::sql;
use crate::trouble::Trouble;

/// One statement for decisions about different times. An error if one cannot be made at all.
pub(super) fn statement(step: Step, unfit: Unfit, decisions: &[(usize, &Decision)]) -> Result<Statement, Trouble> {
    let stray = decisions.iter().find_map(|(_, decision)| {
        let job = decision.job.as_ref()?;
        (job.id.shard() != decision.occurrence.schedule.shard()).then_some((job.id, decision.occurrence.schedule))
    });
    if let Some((job, schedule)) = stray {
        return Err(Trouble::inconsistent(format!("{job} is not of the shard of {schedule}")));
    }
    let mut params = columns(unfit, decisions);
    let text = match step {
        Step::Decide => sql!("decide"),
        Step::Release => {
            params.extend(bounds(decisions));
            sql!("release")
        }
    };
    let keys = decisions.iter().map(|(place, decision)| {
        let occurrence = &decision.occurrence;
        (*place, (occurrence.schedule, occurrence.at))
    });
    Ok(Statement { text, params, named: Named::Occurrences(step, keys.collect()) })
}

fn columns(unfit: Unfit, decisions: &[(usize, &Decision)]) -> Vec<Param> {
    let each = || decisions.iter().map(|(_, decision)| &decision.occurrence);
    let jobs = || decisions.iter().map(|(_, decision)| decision.job.as_ref());
    let of_job = |job: &FiredJob| JobKey::original(job.id).due_at.as_micros();
    vec![
        column(each().map(|row| shard_number(row.schedule.shard()))),
        column(each().map(|row| Uuid::from(row.schedule))),
        column(each().map(|row| row.at.as_micros())),
        column(each().map(|row| (row.slot != row.at).then(|| row.slot.as_micros()))),
        column(each().map(|row| row.decided_at.as_micros())),
        column(each().map(|row| row.verdict as i16)),
        column(each().map(|row| row.marks.0 as i16)),
        column(each().map(|row| row.count as i32)),
        column(each().map(|row| row.job.map(Uuid::from))),
        column(each().map(|row| row.reason.as_deref().map(codec::text))),
        column(jobs().map(|job| job.map(|job| Uuid::from(job.id)))),
        column(jobs().map(|job| job.map(of_job))),
        column(jobs().map(|job| job.map(|job| Uuid::from(job.task)))),
        column(jobs().map(|job| job.map(|job| i16::from(job.priority.get())))),
        column(jobs().map(|job| job.map(|job| job.source.to_bytes().to_vec()))),
        column(jobs().map(|job| job.is_some_and(|job| job.has_input))),
        column(jobs().map(|job| job.is_some_and(|job| job.is_counted))),
        Box::new(TASK_USE_STEP.as_micros()),
        Box::new(unfit == Unfit::Refuse),
        column(each().map(|row| row.requested_by.as_deref().map(codec::text))),
    ]
}

/// So that only the partitions between the first and the last time are looked into.
fn bounds(decisions: &[(usize, &Decision)]) -> [Param; 2] {
    let times = || decisions.iter().map(|(_, decision)| decision.occurrence.at.as_micros());
    [Box::new(times().min()), Box::new(times().max())]
}
