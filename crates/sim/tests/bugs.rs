//! Bugs that are switched on one at a time. Each must be found, by the promise that
//! it breaks: a simulator that finds nothing has shown nothing.

use punctual_core::batch::BatchBug;
use punctual_core::shard::Bug;
use punctual_core::workflow::RunBug;
use punctual_sim::{Options, Planted, run};

const SEEDS_MAX: u64 = 1000;

fn check(bug: Planted) {
    let options = Options::finding(bug);
    for seed in 0..SEEDS_MAX {
        let report = run(seed, options);
        if let Some(violation) = report.violations.first() {
            println!("{}: found by seed {seed}: {}: {}", bug.name(), violation.promise, violation.text);
            return;
        }
    }
    panic!("{} was not found in {SEEDS_MAX} seeds", bug.name());
}

macro_rules! planted {
    ($($name:ident $bug:expr;)*) => {
        $(#[test]
        fn $name() {
            check($bug);
        })*

        #[test]
        fn every_planted_bug_has_its_test() {
            let tested = [$($bug),*];
            for bug in Planted::all() {
                assert!(tested.contains(&bug), "{}", bug.name());
            }
        }
    };
}
planted!(
    executing_before_the_start_is_durable_is_found Planted::Core(Bug::ExecuteBeforeDurable);
    deleting_a_running_job_is_found Planted::Core(Bug::DeleteIgnoresRunning);
    answering_before_the_command_is_durable_is_found Planted::Core(Bug::AnswerBeforeDurable);
    one_retry_too_many_is_found Planted::Core(Bug::OneRetryTooMany);
    retrying_what_is_excepted_is_found Planted::Core(Bug::ExceptedIsRetried);
    giving_back_without_end_is_found Planted::Core(Bug::GiveBacksUnlimited);
    accepting_a_stale_outcome_is_found Planted::Core(Bug::StaleOutcomeAccepted);
    reusing_an_attempt_number_is_found Planted::Core(Bug::AttemptReused);
    starting_early_is_found Planted::Core(Bug::EarlyStart);
    retrying_what_is_lost_is_found Planted::Core(Bug::LostIsRetried);
    taking_old_rows_for_new_jobs_is_found Planted::Core(Bug::GhostRows);
    forgetting_what_a_full_window_left_out_is_found Planted::Core(Bug::FullWindowForgets);
    ignoring_what_a_worker_holds_is_found Planted::Core(Bug::HeldIsIgnored);
    forgetting_what_runs_at_takeover_is_found Planted::Core(Bug::TakeoverForgetsRunning);
    believing_a_hello_that_was_overtaken_is_found Planted::Core(Bug::LateHelloBelieved);
    taking_an_answer_for_that_of_another_lane_is_found Planted::Core(Bug::AnswersMixedUp);
    starting_without_the_file_is_found Planted::Core(Bug::FileNotAwaited);
    starting_where_the_namespace_is_not_served_is_found Planted::Core(Bug::NamespaceIgnored);
    a_watermark_that_runs_ahead_is_found Planted::Core(Bug::WatermarkRunsAhead);
    planning_from_now_on_after_a_takeover_is_found Planted::Core(Bug::WatermarkIgnored);
    runs_of_a_schedule_that_meet_are_found Planted::Core(Bug::OverlapIgnored);
    missed_times_that_do_not_share_a_budget_are_found Planted::Core(Bug::ReckoningForgotten);
    a_failure_that_nobody_is_told_of_is_found Planted::Core(Bug::FailureNotTold);
    believing_a_denied_start_from_before_the_database_lost_commits_is_found Planted::Core(Bug::OldStartBelieved);
    running_what_a_schedule_has_given_up_is_found Planted::Core(Bug::MissedAfterIgnored);
    runs_that_somebody_asks_for_and_that_meet_are_found Planted::Core(Bug::ManualRunsMeet);
    an_edit_that_forgets_a_skip_is_found Planted::Core(Bug::EditDropsSkip);
    not_asking_other_servers_for_workers_is_found Planted::Core(Bug::WorkersNotRequested);
    starting_what_is_paused_is_found Planted::Core(Bug::PauseIgnored);
    forgetting_a_pause_at_takeover_is_found Planted::Core(Bug::PauseForgotten);
    not_starting_the_run_of_a_job_again_is_found Planted::Core(Bug::RunNotStartedAgain);
    starting_a_gang_without_all_members_is_found Planted::Core(Bug::GangStartsIncomplete);
    starting_a_gang_in_two_transactions_is_found Planted::Core(Bug::GangIsSplit);
    a_store_without_a_fence_is_found Planted::NoFence;
    acknowledging_a_submission_before_it_is_stored_is_found Planted::SubmitAckedFirst;
    assigning_again_on_reconnect_is_found Planted::AssignedAgain;
    a_worker_that_ignores_epochs_is_found Planted::WorkerIgnoresEpochs;
    a_hello_without_finished_attempts_is_found Planted::HelloForgetsFinished;
    a_clock_that_is_ahead_is_found Planted::ClockAhead;
    a_submission_in_two_transactions_is_found Planted::TornSubmission;
    a_replaced_server_that_dismisses_agents_is_found Planted::AgentDismissedByZombie;
    a_takeover_that_forgets_wishes_to_cancel_is_found Planted::TakeoverForgetsCancel;
    ending_a_run_before_its_nodes_is_found Planted::Run(RunBug::EndsBeforeItsNodes);
    a_join_that_forgets_an_element_is_found Planted::Run(RunBug::JoinForgetsElement);
    a_resume_that_reruns_a_success_is_found Planted::Run(RunBug::ResumeRerunsSuccess);
    one_retry_of_a_node_too_many_is_found Planted::Run(RunBug::NodeRetriedTooOften);
    a_trigger_rule_that_takes_skipped_for_succeeded_is_found Planted::Run(RunBug::SkippedTakenForSucceeded);
    ignoring_the_failure_of_a_member_is_found Planted::Batch(BatchBug::FailureIgnored);
    forgetting_to_undo_what_succeeded_is_found Planted::Batch(BatchBug::CompensationForgotten);
    undoing_what_did_not_succeed_is_found Planted::Batch(BatchBug::FailedIsCompensated);
    releasing_a_child_before_the_end_of_its_parent_is_durable_is_found Planted::RunStepUnfenced;
    releasing_a_child_again_after_a_takeover_is_found Planted::TakeoverReleasesAgain;
    a_gate_that_passes_at_a_takeover_is_found Planted::GatePassesAtTakeover;
);
