//! Reads a history and says what should not have been.
//!
//! Most promises are those of `punctual-promises`, which the acceptance runs are judged by too. Here is what only the
//! simulator sees: batches, epochs, acknowledgements, notices, and the order of writes about schedules. Shares no logic with the
//! system: only the transition table is the core's, because the table is the promise.

mod budgets;
mod calendars;
#[cfg(test)]
mod history_builder;
mod job_facts;
mod lost_commits;
mod notices;
mod reasons;
mod records;
mod schedules;
#[cfg(test)]
mod tests;
mod translate;
mod translate_batches;
mod translate_runs;
mod translate_schedules;
mod whole;

use punctual_core::JobId;
use punctual_promises::batches::check_batches;
use punctual_promises::workflows::check_workflow_runs;
use punctual_promises::{Violation, check_schedules};

use crate::history::History;
pub use job_facts::{JobFact, JobFacts};
pub use lost_commits::begun_before_loss;

/// A promise about one job, judged from its facts alone.
type OfJob = fn(&JobFacts<'_>) -> Option<String>;
/// A promise about the whole run.
type OfRun = fn(&History) -> Vec<(Option<JobId>, String)>;

const OF_JOB: [(&str, OfJob); 3] = [
    ("details are true", records::details_are_true),
    ("acknowledged outcomes are on record", records::acknowledged_outcomes_are_on_record),
    ("the path is in the table", records::the_path_is_in_the_table),
];

/// Holds whatever happens to the database.
const OF_EVERY_RUN: [(&str, OfRun); 2] =
    [("nothing is broken", whole::nothing_is_broken), ("old epochs write nothing", whole::old_epochs_write_nothing)];

/// Holds if the database keeps what it committed.
const OF_RUN: [(&str, OfRun); 15] = [
    ("what is due starts, and what runs has a worker", whole::nothing_is_neglected),
    ("no worker gets more than it granted", whole::no_worker_gets_more_than_it_granted),
    ("nothing begins before its file is there", whole::nothing_begins_before_its_file_is_there),
    ("a job runs only where its namespace is served", whole::a_job_runs_only_where_its_namespace_is_served),
    ("no schedule runs too often", schedules::runs_are_counted),
    ("what is late is given up", schedules::what_is_late_is_given_up),
    ("what is paused, skipped or deleted does not fire", reasons::what_is_held_does_not_fire),
    ("what does not run has a reason", reasons::what_does_not_run_has_a_reason),
    ("budgets for missed times are kept", budgets::budgets_are_kept),
    ("an answer about a schedule is durable", schedules::answers_are_durable),
    ("calendars are obeyed", calendars::calendars_are_obeyed),
    ("every failure has one notice", notices::every_failure_has_one_notice),
    ("every missed time has one notice", notices::every_missed_time_has_one_notice),
    ("every recovery has a notice", notices::every_recovery_has_a_notice),
    ("a notice of lateness is true", notices::a_notice_of_lateness_is_true),
];

pub fn check(history: &History) -> Vec<Violation> {
    let lost_at = lost_commits::lost_at(history);
    let of_run = OF_EVERY_RUN.iter().chain(OF_RUN.iter().filter(|_| lost_at.is_none()));
    let mut violations = Vec::new();
    for (promise, judge) in of_run {
        let found = judge(history).into_iter();
        let violation =
            |(job, text): (Option<JobId>, String)| Violation { promise, subject: job.map(|job| job.to_string()), text };
        violations.extend(found.map(violation));
    }
    if lost_at.is_none() {
        violations.extend(check_schedules(&translate_schedules::schedule_histories(history)));
    }
    violations.extend(check_workflow_runs(&translate_runs::workflow_runs(history)));
    violations.extend(check_batches(&translate_batches::batch_histories(history)));
    let run = translate::run_history(history);
    violations.extend(punctual_promises::check(&run));
    let facts_by_job = job_facts::facts_by_job(history);
    for (job_facts, job) in facts_by_job.values().zip(&run.jobs) {
        if lost_at.is_some_and(|lost_at| !job.was_submitted_after(lost_at)) {
            continue;
        }
        for (promise, judge) in OF_JOB {
            let found = judge(job_facts);
            violations.extend(found.map(|text| Violation { promise, subject: Some(job.name.clone()), text }));
        }
    }
    violations
}
