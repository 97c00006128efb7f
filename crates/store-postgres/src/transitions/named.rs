//! What the answer to a statement should name, and what of it is missing and so was left out.

use std::collections::HashSet;
use std::hash::Hash;

use punctual_core::shard::write::Void;
use punctual_core::{JobId, ScheduleId, Timestamp};
use tokio_postgres::Row;

use crate::codec::{self, Read, Uuid};

/// With places in the batch.
#[derive(Default)]
pub(super) enum Named {
    #[default]
    Nothing,
    /// The answer is a list of those that were there, or nothing if all were.
    Jobs(Vec<(usize, JobId)>),
    /// The answer is a list of those that were stored, or nothing if all were.
    Schedules(Vec<(usize, ScheduleId)>),
    /// The answer is a list of the places, from 1, of those that were decided, or nothing if all were.
    Occurrences(Step, Vec<(usize, (ScheduleId, Timestamp))>),
}

/// What a statement does about a write that is void and that it could leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    LeaveOut,
    /// It fails, so that the batch is looked at step by step.
    Refuse,
}

/// Those of an earlier step are reported first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Decide,
    Release,
}

#[derive(Default)]
pub(super) struct Missing {
    jobs: Vec<(usize, JobId)>,
    schedules: Vec<(usize, ScheduleId)>,
    occurrences: Vec<(Step, usize, (ScheduleId, Timestamp))>,
}

impl Missing {
    /// Takes note of what an answer should name and does not.
    pub(super) fn look_for(&mut self, named: Named, answer: &[Row]) -> Read<()> {
        match named {
            Named::Nothing => {}
            Named::Jobs(named) => {
                let Some(found) = list::<Uuid>(answer)? else { return Ok(()) };
                self.jobs.extend(named.into_iter().filter(|(_, job)| !found.contains(&Uuid::from(*job))));
            }
            Named::Schedules(named) => {
                let Some(stored) = list::<Uuid>(answer)? else { return Ok(()) };
                self.schedules.extend(named.into_iter().filter(|(_, id)| !stored.contains(&Uuid::from(*id))));
            }
            Named::Occurrences(step, named) => {
                let Some(decided) = list::<i64>(answer)? else { return Ok(()) };
                let left_out = named.into_iter().zip(1..).filter(|(_, number)| !decided.contains(number));
                self.occurrences.extend(left_out.map(|((place, key), _)| (step, place, key)));
            }
        }
        Ok(())
    }

    pub(super) fn add_jobs(&mut self, jobs: Vec<(usize, JobId)>) {
        self.jobs.extend(jobs);
    }

    /// The places of writes about jobs that were left out.
    pub(super) fn places_of_jobs(&self) -> HashSet<usize> {
        self.jobs.iter().map(|(place, _)| *place).collect()
    }

    pub(super) fn into_void(mut self) -> Void {
        self.jobs.sort_unstable();
        self.schedules.sort_unstable();
        self.occurrences.sort_unstable();
        Void {
            jobs: self.jobs.into_iter().map(|(_, job)| job).collect(),
            schedules: self.schedules.into_iter().map(|(_, schedule)| schedule).collect(),
            occurrences: self.occurrences.into_iter().map(|(_, _, key)| key).collect(),
        }
    }
}

fn list<T>(answer: &[Row]) -> Read<Option<HashSet<T>>>
where
    T: Eq + Hash + for<'r> tokio_postgres::types::FromSql<'r>,
{
    let Some(row) = answer.first() else { return Ok(None) };
    let found = codec::value::<Option<Vec<T>>>(row, 0)?;
    Ok(found.map(|found| found.into_iter().collect()))
}
