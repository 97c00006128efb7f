//! What the core makes of random workflows, against the reference evaluator of the promises. More of them:
//! `cargo xtask verify graphs --seeds 100000`.

use punctual_sim::graphs::{Played, play};

const SEEDS: u64 = 2_000;
const PARTS: u64 = 2;

fn check(part: u64) {
    let (mut all, mut largest) = (Played::default(), 0);
    for seed in (part..SEEDS).step_by(PARTS as usize) {
        let played = play(seed).unwrap_or_else(|difference| panic!("{difference}"));
        largest = played.nodes.max(largest);
        all = all + played;
    }
    // A generator that draws nothing worth comparing would find no difference either.
    assert!(largest > 150 && all.jobs > 8_000 && all.resumes > 500 && all.refusals > 500, "{all:?}");
}

#[test]
fn random_workflows_run_as_the_reference_says_in_part_0() {
    check(0);
}

#[test]
fn random_workflows_run_as_the_reference_says_in_part_1() {
    check(1);
}
