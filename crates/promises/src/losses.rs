//! What holds for a job although the database has lost its last commits since it was submitted: a start from before that is
//! still on record may have run, and is never taken for one that did not.

use punctual_core::Timestamp;

use crate::begins::{strict_modes_begin_once_in, what_is_taken_back_never_began_in};
use crate::endings::what_has_ended_stays_as_it_is;
use crate::{Execution, JobHistory, RunHistory};

/// Judges a job that was submitted before the loss.
pub(crate) fn judge(job: &JobHistory, run: &RunHistory, lost_at: Timestamp) -> Vec<(&'static str, String)> {
    let survived = |execution: &&Execution| {
        job.starts.iter().any(|start| start.survived_loss && start.attempt == execution.attempt)
    };
    let Some(first) = job.starts.iter().filter(|start| start.survived_loss).map(|start| start.attempt).min() else {
        let changed = what_has_ended_stays_as_it_is(job, run);
        return changed.map(|text| ("what has ended stays as it is", text)).into_iter().collect();
    };
    // An attempt whose start was lost may begin again under its number.
    let followed = |execution: &&Execution| execution.begin.wall >= lost_at && execution.attempt > first;
    let executions = || job.executions.iter();
    let found = [
        (
            "strict modes begin once",
            strict_modes_begin_once_in(
                job,
                executions().filter(|execution| survived(execution) || followed(execution)),
            ),
        ),
        ("what is taken back never began", what_is_taken_back_never_began_in(job, executions().filter(survived))),
        ("what has ended stays as it is", what_has_ended_stays_as_it_is(job, run)),
    ];
    found.into_iter().filter_map(|(promise, text)| Some((promise, text?))).collect()
}
