//! Reads a history and says what should not have been.
//!
//! Shares no logic with the system: it knows the promises, not how they are kept.
//! Only the transition table is the core's, because the table is the promise.

mod begins;
mod budgets;
mod calendars;
mod endings;
mod losses;
mod notices;
mod orders;
mod reasons;
mod retries;
mod schedules;
mod story;
#[cfg(test)]
mod test_history;
mod whole;

use punctual_core::JobId;

use crate::history::History;
pub use losses::begun_before_loss;
pub use story::{Line, Story};

#[derive(Debug, Clone)]
pub struct Violation {
    pub invariant: &'static str,
    pub job: Option<JobId>,
    pub text: String,
}

/// A promise about one job, judged from its story alone.
type OfJob = fn(&Story<'_>) -> Option<String>;
/// A promise about the whole run.
type OfRun = fn(&History) -> Vec<(Option<JobId>, String)>;

const OF_JOB: [(&str, OfJob); 21] = [
    ("no acknowledged job is lost", whole::no_acknowledged_job_is_lost),
    ("an attempt begins at most once", begins::an_attempt_begins_at_most_once),
    ("nothing begins before its start is durable", begins::nothing_begins_before_its_start_is_durable),
    ("nothing begins early", begins::nothing_begins_early),
    ("strict modes begin once", begins::strict_modes_begin_once),
    ("what is taken back never began", begins::what_is_taken_back_never_began),
    ("attempt numbers grow", begins::attempt_numbers_grow),
    ("deleted means never", orders::deleted_means_never),
    ("cancelled means no more", orders::cancelled_means_no_more),
    ("a wish to cancel is kept", orders::a_wish_to_cancel_is_kept),
    ("retries are counted", retries::retries_are_counted),
    ("losses are counted", retries::losses_are_counted),
    ("give-backs are counted", retries::give_backs_are_counted),
    ("waits are kept", retries::waits_are_kept),
    ("what is excepted is final", retries::what_is_excepted_is_final),
    ("an attempt ends once", endings::an_attempt_ends_once),
    ("endings are true", endings::endings_are_true),
    ("details are true", endings::details_are_true),
    ("acknowledged outcomes are on record", endings::acknowledged_outcomes_are_on_record),
    ("the path is in the table", endings::the_path_is_in_the_table),
    ("what is due starts, and what runs has a worker", whole::nothing_is_neglected),
];

const OF_RUN: [(&str, OfRun); 19] = [
    ("nothing is broken", whole::nothing_is_broken),
    ("old epochs write nothing", whole::old_epochs_write_nothing),
    ("no worker gets more than it granted", whole::no_worker_gets_more_than_it_granted),
    ("one request makes one set of jobs", whole::one_request_makes_one_set_of_jobs),
    ("jobs are conserved", whole::jobs_are_conserved),
    ("nothing begins before its file is there", whole::nothing_begins_before_its_file_is_there),
    ("every planned time has its verdict", schedules::every_planned_time_has_its_verdict),
    ("a verdict has its job, and a job its verdict", schedules::a_verdict_has_its_job),
    ("runs of a schedule do not meet", schedules::runs_do_not_meet),
    ("what is late is given up", schedules::what_is_late_is_given_up),
    ("what is paused, skipped or deleted does not fire", reasons::what_is_held_does_not_fire),
    ("what does not run has a reason", reasons::what_does_not_run_has_a_reason),
    ("budgets for missed times are kept", budgets::budgets_are_kept),
    ("an answer about a schedule is durable", schedules::answers_are_durable),
    ("calendars are obeyed", calendars::calendars_are_obeyed),
    ("every failure is told once", notices::every_failure_is_told_once),
    ("every missed time is told once", notices::every_missed_time_is_told_once),
    ("recoveries are told", notices::recoveries_are_told),
    ("what is told late was late", notices::what_is_told_late_was_late),
];

pub fn check(history: &History) -> Vec<Violation> {
    if let Some(loss) = losses::find(history) {
        return losses::check(history, &loss);
    }
    let mut violations = Vec::new();
    for (invariant, judge) in OF_RUN {
        let found = judge(history);
        violations.extend(found.into_iter().map(|(job, text)| Violation { invariant, job, text }));
    }
    for story in story::stories(history).values() {
        for (invariant, judge) in OF_JOB {
            if let Some(text) = judge(story) {
                violations.push(Violation { invariant, job: Some(story.id), text });
            }
        }
    }
    violations
}
