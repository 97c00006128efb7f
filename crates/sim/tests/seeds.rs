//! The default seeds, in parts so that every core has something to do. More of them:
//! `cargo xtask verify sim --seeds 20000`.

use punctual_sim::{Coverage, Database, Options, run};

const SEEDS: u64 = 480;
const PARTS: u64 = 6;

fn check(part: u64) -> Coverage {
    let mut coverage = Coverage::default();
    for seed in (part..SEEDS).step_by(PARTS as usize) {
        let report = run(seed, Options::default());
        assert!(report.is_good(), "{}", report.explain(Options::default()));
        coverage.add(&report.coverage);
    }
    coverage
}

macro_rules! parts {
    ($($name:ident $part:literal)*) => {$(
        #[test]
        fn $name() {
            check($part);
        }
    )*};
}
parts!(
    seeds_of_part_0_break_no_promise 0
    seeds_of_part_1_break_no_promise 1
    seeds_of_part_2_break_no_promise 2
    seeds_of_part_3_break_no_promise 3
    seeds_of_part_4_break_no_promise 4
    seeds_of_part_5_break_no_promise 5
);

/// In seed 1380 a manual run replaces a time that a pause held back while nothing ran, so it is queued for a moment.
#[test]
fn a_manual_run_may_replace_what_a_pause_holds_back() {
    let report = run(1380, Options::default());
    assert!(report.is_good(), "{}", report.explain(Options::default()));
}

/// Every window is hit by some of them.
#[test]
fn the_default_seeds_hit_every_window() {
    let mut coverage = Coverage::default();
    for part in 0..PARTS {
        coverage.add(&check(part));
    }
    assert!(coverage.missed().is_empty(), "never hit: {:?}\n{}", coverage.missed(), coverage.table());
}

/// What is submitted after the database went back in time has every promise, and no start from before it is taken for
/// one that never arrived.
#[test]
fn a_database_that_goes_back_in_time_breaks_no_later_promise() {
    let options = Options { database: Database::GoesBack, ..Options::default() };
    let mut judged = 0;
    for seed in 0..SEEDS {
        let report = run(seed, options);
        assert!(report.is_good(), "{}", report.explain(options));
        judged += report.judged_after_loss();
    }
    assert!(judged > 100, "only {judged} starts outlived the loss of their ends and had begun");
}

#[test]
fn a_seed_repeats_itself_exactly() {
    for seed in [1, 2, 3, 5, 8, 13, 21, 34] {
        let (first, second) = (run(seed, Options::default()), run(seed, Options::default()));
        assert_eq!(first.history.hash(), second.history.hash(), "seed {seed}");
        assert_eq!(first.steps, second.steps, "seed {seed}");
    }
    assert_ne!(run(1, Options::default()).history.hash(), run(2, Options::default()).history.hash());
}
