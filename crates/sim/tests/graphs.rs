//! What the core makes of random workflows, against the reference evaluator of the promises. More of them:
//! `cargo xtask verify graphs --seeds 100000`.

use punctual_sim::graphs::{Faults, Played, play};

const SEEDS: u64 = 2_000;
const PARTS: u64 = 2;

fn check(part: u64, faults: Faults) {
    let (mut all, mut largest) = (Played::default(), 0);
    for seed in (part..SEEDS).step_by(PARTS as usize) {
        let played = play(seed, faults).unwrap_or_else(|difference| panic!("{difference}"));
        largest = played.nodes.max(largest);
        all = all + played;
    }
    // A generator that draws nothing worth comparing would find no difference either.
    assert!(faults == Faults::None || all.undone > 1_500 && all.takeovers > 800, "{all:?}");
    assert!(largest > 150 && all.jobs > 8_000 && all.resumes > 500 && all.refusals > 500, "{all:?}");
}

#[test]
fn random_workflows_run_as_the_reference_says_in_part_0() {
    check(0, Faults::None);
}

#[test]
fn random_workflows_run_as_the_reference_says_in_part_1() {
    check(1, Faults::None);
}

#[test]
fn random_workflows_run_as_the_reference_says_under_faults_in_part_0() {
    check(0, Faults::Some);
}

#[test]
fn random_workflows_run_as_the_reference_says_under_faults_in_part_1() {
    check(1, Faults::Some);
}

#[test]
fn a_step_on_what_is_not_there_any_more_is_found() {
    assert!((0..20).any(|seed| play(seed, Faults::Unchecked).is_err()), "the faults have no effect");
}
