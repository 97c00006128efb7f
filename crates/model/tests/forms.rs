//! Within the small bounds, the invariants hold in every state, and everything that must be
//! able to happen does. The full bounds take minutes: `cargo run --release -p punctual-model -- --full`.

use std::time::Duration;

use punctual_model::check::check;
use punctual_model::forms::{COMMANDS, HANDOVER, LEASES, PAIR, RETRIES, STREAMS};
use punctual_model::{Bounds, Cluster};

/// Each takes seconds; a machine that does other work besides is given time.
const WITHIN: Duration = Duration::from_secs(600);

fn holds(bounds: Bounds) {
    let report = check(Cluster::new(bounds), WITHIN);
    assert!(report.is_good(), "{report:#?}");
}

#[test]
fn a_shard_changes_hands_while_a_server_dies_and_a_stream_breaks() {
    holds(HANDOVER);
}

#[test]
fn streams_break_and_a_worker_dies() {
    holds(STREAMS);
}

#[test]
fn a_failing_job_is_tried_again_by_two_owners() {
    holds(RETRIES);
}

#[test]
fn jobs_are_deleted_and_cancelled_while_the_shard_changes_hands() {
    holds(COMMANDS);
}

#[test]
fn leases_lapse_before_a_job_is_due() {
    holds(LEASES);
}

#[test]
fn two_jobs_run_on_two_workers() {
    holds(PAIR);
}
