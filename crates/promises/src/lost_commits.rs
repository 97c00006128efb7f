//! What holds for a job although the database has lost its last commits since it was submitted: a start from before that is
//! still on record may have run, and is never taken for one that did not. Deletes are
//! not judged: the answer to one may be among the commits that are lost, and the job then runs.

use crate::begins::{strict_modes_begin_once_in, what_is_taken_back_never_began_in};
use crate::endings::what_has_ended_stays_as_it_is;
use crate::{Execution, JobHistory, RunHistory};

/// Judges a job that was submitted before the loss. An attempt whose start was lost may begin again under its number, and is
/// not judged.
pub(crate) fn judge(job: &JobHistory, run: &RunHistory) -> Vec<(&'static str, String)> {
    let survivors = || job.starts.iter().filter(|start| start.survived_loss).map(|start| start.attempt);
    let survived = |execution: &&Execution| survivors().any(|attempt| attempt == execution.attempt);
    let begun_again = survivors().min().and_then(|first| {
        let since = job.executions.iter().filter(|execution| execution.attempt >= first);
        strict_modes_begin_once_in(job, since)
    });
    let found = [
        ("strict modes begin once", begun_again),
        (
            "what is taken back never began",
            what_is_taken_back_never_began_in(job, job.executions.iter().filter(survived)),
        ),
        ("what has ended stays as it is", what_has_ended_stays_as_it_is(job, run)),
    ];
    found.into_iter().filter_map(|(promise, text)| Some((promise, text?))).collect()
}
