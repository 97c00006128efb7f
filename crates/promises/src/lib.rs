//! The promises of docs/delivery.md, docs/schedules.md, docs/workflows.md and docs/batches.md, each stated once, and the one form of history that they
//! are judged by.
//!
//! The simulator (`sim`) and the acceptance runs (`verify`) translate what they recorded into a [`RunHistory`], into one
//! [`ScheduleHistory`] for each schedule, and into one [`workflows::WorkflowRun`] for each run of a workflow. What a
//! source cannot see is an `Option` there, and a promise that needs it says what it then cannot judge.
//!
//! Knows what is promised and nothing of how it is kept: of the core it uses plain types such as ids, times and policies, and
//! no code that decides. Pure: a recorded run can be judged again.
//!
//! Holds no promise about what only one of the two sees. Those about batches, epochs, files and notices, and about the order in
//! which a schedule's times were decided, are in `sim/src/check`; those about the final ledger alone are in
//! `verify/src/schedules/check`.

pub mod batches;
mod begins;
mod deletes_and_cancels;
mod endings;
mod history;
mod lateness;
mod lost_commits;
mod pauses;
mod retries;
mod schedule_history;
mod schedules;
#[cfg(test)]
mod tests;
mod whole;
pub mod workflows;

pub use history::{
    Acknowledgement, AtEnd, Command, Consequence, Counter, EndKind, Execution, Failures, Faults, JobHistory, JobRules,
    Limits, Listing, Moment, NotStarted, Order, QueuePause, RecordedEnd, RecordedStart, Reply, Report, Reports,
    Request, Reread, RunHistory, StartRecord, Submission, Worker,
};
pub use schedule_history::{LedgerLine, NeedOfLine, PlannedTime, ScheduleHistory, ScheduledJob, ScheduledRun};
pub use schedules::check_schedules;

/// A promise that was not kept.
#[derive(Debug, Clone)]
pub struct Violation {
    /// The name of the promise.
    pub promise: &'static str,
    /// The job or schedule that it is about. `None` if it is about the run.
    pub subject: Option<String>,
    pub text: String,
}

/// A promise about one job. Says what was not kept.
type OfJob = fn(&JobHistory, &RunHistory) -> Option<String>;
/// A promise about the whole run. The first part names the job.
type OfRun = fn(&RunHistory) -> Vec<(Option<String>, String)>;

const OF_JOB: [(&str, OfJob); 23] = [
    ("no acknowledged job is lost", endings::no_acknowledged_job_is_lost),
    ("an attempt begins at most once", begins::an_attempt_begins_at_most_once),
    ("nothing begins before its start is durable", begins::nothing_begins_before_its_start_is_durable),
    ("nothing begins early", begins::nothing_begins_early),
    ("strict modes begin once", begins::strict_modes_begin_once),
    ("what is taken back never began", begins::what_is_taken_back_never_began),
    ("attempts do not overlap", begins::attempts_do_not_overlap),
    ("attempt numbers grow", begins::attempt_numbers_grow),
    ("nothing starts while its queue is paused", pauses::nothing_starts_while_its_queue_is_paused),
    ("deleted means never", deletes_and_cancels::deleted_means_never),
    ("cancelled means no more", deletes_and_cancels::cancelled_means_no_more),
    ("a cancel request is kept", deletes_and_cancels::a_cancel_request_is_kept),
    ("retries are counted", retries::retries_are_counted),
    ("losses are counted", retries::losses_are_counted),
    ("give-backs are counted", retries::give_backs_are_counted),
    ("waits are kept", retries::waits_are_kept),
    ("what is excepted is final", retries::what_is_excepted_is_final),
    ("an attempt ends once", endings::an_attempt_ends_once),
    ("endings are true", endings::endings_are_true),
    ("no worker is given up without cause", endings::no_worker_is_given_up_without_cause),
    ("what has ended stays as it is", endings::what_has_ended_stays_as_it_is),
    ("what is due begins in time", lateness::what_is_due_begins_in_time),
    ("retries begin in time", lateness::retries_begin_in_time),
];

const OF_RUN: [(&str, OfRun); 2] = [
    ("one request makes one set of jobs", whole::one_request_makes_one_set_of_jobs),
    ("jobs are conserved", whole::jobs_are_conserved),
];

/// Judges a run by all promises. If the database lost commits, only what is promised in spite of that is judged.
pub fn check(run: &RunHistory) -> Vec<Violation> {
    let mut violations = Vec::new();
    if run.commits_lost_at.is_none() {
        for (promise, judge) in OF_RUN {
            let found = judge(run);
            violations.extend(found.into_iter().map(|(subject, text)| Violation { promise, subject, text }));
        }
    }
    for job in &run.jobs {
        let found = match run.commits_lost_at {
            Some(lost_at) if !job.was_submitted_after(lost_at) => lost_commits::judge(job, run),
            Some(_) | None => judge_by(&OF_JOB, job, run),
        };
        let subject = Some(job.name.clone());
        violations.extend(found.into_iter().map(|(promise, text)| Violation {
            promise,
            subject: subject.clone(),
            text,
        }));
    }
    violations
}

fn judge_by(promises: &[(&'static str, OfJob)], job: &JobHistory, run: &RunHistory) -> Vec<(&'static str, String)> {
    promises.iter().filter_map(|(promise, judge)| Some((*promise, judge(job, run)?))).collect()
}
