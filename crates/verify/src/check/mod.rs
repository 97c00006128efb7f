//! Reads a history and says what should not have been.
//!
//! Knows the promises of docs/delivery.md and nothing of how they are kept. Pure: a kept
//! run can be judged again, by `verify check <folder>`.

mod begins;
mod coverage;
mod endings;
mod lateness;
mod orders;
mod retries;
mod story;
#[cfg(test)]
mod tale;
mod whole;

pub use coverage::{Hits, hits};
pub use lateness::{
    Delay, Lateness, again_after_loss_ms, late_by_answer, late_by_call, late_by_due, latest, latest_ms, recovered_ms,
};
use story::Story;

use crate::history::History;

#[derive(Debug, Clone)]
pub struct Violation {
    pub invariant: &'static str,
    pub job: String,
    pub text: String,
}

/// A promise about one job, judged from its story alone.
type OfJob = fn(&Story<'_>) -> Option<String>;
/// A promise about the whole run; the first part names the job.
type OfRun = fn(&History) -> Vec<(String, String)>;

const OF_JOB: [(&str, OfJob); 16] = [
    ("no acknowledged job is lost", endings::no_acknowledged_job_is_lost),
    ("endings are true", endings::endings_are_true),
    ("one outcome", endings::one_outcome),
    ("nobody is given up without cause", endings::nobody_is_given_up_without_cause),
    ("an attempt begins at most once", begins::an_attempt_begins_at_most_once),
    ("nothing begins without a record", begins::nothing_begins_without_a_record),
    ("what is taken back never began", begins::what_is_taken_back_never_began),
    ("strict modes begin once", begins::strict_modes_begin_once),
    ("attempts do not overlap", begins::attempts_do_not_overlap),
    ("nothing begins early", begins::nothing_begins_early),
    ("what is due begins in time", lateness::what_is_due_begins_in_time),
    ("retries begin in time", lateness::retries_begin_in_time),
    ("deleted means never", orders::deleted_means_never),
    ("cancelled means no more", orders::cancelled_means_no_more),
    ("retries are counted", retries::retries_are_counted),
    ("waits are kept", retries::waits_are_kept),
];

const OF_RUN: [(&str, OfRun); 3] = [
    ("one key makes one job", whole::one_key_makes_one_job),
    ("jobs are conserved", whole::jobs_are_conserved),
    ("what has ended stays as it is", whole::what_has_ended_stays),
];

/// What holds for a job that was submitted before the database went back in time.
const OF_OLD_JOB: [(&str, OfJob); 2] = [
    ("what is still on record is not taken back", begins::what_is_still_on_record_is_not_taken_back),
    ("strict modes do not go on", begins::strict_modes_do_not_go_on),
];

const OF_RUN_WITH_LOSSES: [(&str, OfRun); 1] = [("what has ended stays as it is", whole::what_has_ended_stays)];

pub fn check(history: &History) -> Vec<Violation> {
    let stories = story::stories(history);
    let went_back = stories.first().and_then(|story| story.world.went_back);
    let of_run = if went_back.is_none() { &OF_RUN[..] } else { &OF_RUN_WITH_LOSSES };
    let mut violations = Vec::new();
    for &(invariant, judge) in of_run {
        let found = judge(history);
        violations.extend(found.into_iter().map(|(job, text)| Violation { invariant, job, text }));
    }
    for story in stories {
        let is_new = went_back.is_none_or(|at| story.is_from_after(at));
        let of_job = if is_new { &OF_JOB[..] } else { &OF_OLD_JOB };
        for &(invariant, judge) in of_job {
            if let Some(text) = judge(&story) {
                violations.push(Violation { invariant, job: story.name().to_owned(), text });
            }
        }
    }
    violations
}
