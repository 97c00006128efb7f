//! Each planted mistake breaks its invariant, and the checker shows how.

use std::time::Duration;

use punctual_model::check::refute;
use punctual_model::forms::{COMMANDS, HANDOVER, LEASES, RETRIES, RETRIES_BROKEN, STREAMS};
use punctual_model::{Bounds, Cluster, Mutation};

const WITHIN: Duration = Duration::from_secs(600);

fn is_found(mutation: Mutation, bounds: Bounds) {
    let report = refute(Cluster::with(bounds, mutation), mutation.breaks(), WITHIN);
    let way = report.counterexample(mutation.breaks());
    assert!(way.is_some(), "no counterexample in {} states of {}", report.states, bounds.name);
}

/// Each line is one test; together they are all mutations, or it does not pass.
macro_rules! found {
    ($($test:ident: $mutation:ident in $bounds:ident;)*) => {
        $(
            #[test]
            fn $test() {
                is_found(Mutation::$mutation, $bounds);
            }
        )*

        #[test]
        fn every_mutation_has_its_test() {
            assert_eq!([$(Mutation::$mutation),*], Mutation::ALL);
        }
    };
}

found! {
    a_store_without_a_fence: NoFence in HANDOVER;
    an_assignment_before_its_start_is_durable: ExecuteBeforeDurable in HANDOVER;
    a_worker_that_ignores_epochs: WorkerIgnoresEpochs in HANDOVER;
    an_answer_to_an_old_greeting_that_is_believed: OldGreetingAnswered in HANDOVER;
    a_late_hello_that_is_believed: LateHelloBelieved in STREAMS;
    a_newest_hello_that_is_forgotten: HelloForgottenOnBreak in STREAMS;
    a_closed_stream_that_is_read: ClosedStreamRead in STREAMS;
    a_hello_that_forgets_what_has_ended: HelloForgetsFinished in HANDOVER;
    a_hello_that_nobody_compares: HeldIgnored in HANDOVER;
    a_worker_under_the_name_of_a_dead_one: WorkerNameReused in STREAMS;
    an_assignment_that_is_repeated: AssignmentRepeated in HANDOVER;
    a_takeover_that_forgets_what_runs: TakeoverForgetsRunning in HANDOVER;
    an_acknowledgement_before_the_outcome_is_durable: AckBeforeDurable in HANDOVER;
    a_stale_outcome_acknowledged_without_the_fence: StaleAckUnfenced in RETRIES_BROKEN;
    an_outcome_of_another_attempt_that_counts: OutcomeOfAnyAttempt in RETRIES;
    an_attempt_number_that_is_used_again: AttemptReused in STREAMS;
    a_lost_attempt_that_is_started_again: LostRetried in STREAMS;
    a_start_of_a_job_that_has_ended: RowUnchecked in COMMANDS;
    a_delete_of_a_running_job: DeleteIgnoresRunning in COMMANDS;
    a_delete_of_a_job_that_has_started_before: DeleteIgnoresEarlierStart in COMMANDS;
    an_answer_before_the_delete_is_durable: AnswerBeforeDurable in COMMANDS;
    a_clock_that_leads: ClockLeads in LEASES;
}
