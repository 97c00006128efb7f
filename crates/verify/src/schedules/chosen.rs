//! Which schedules a run has: every policy with every other, at beats from two to ten seconds.

use punctual_core::random::SplitMix64;
use punctual_core::schedule::{CatchUpMode, Overlap};

use super::MISSED_AFTER;
use super::definition::{Beat, Definition, Policy};

const SECOND: i64 = 1_000_000;

const OVERLAPS: [Overlap; 5] =
    [Overlap::Allow, Overlap::Skip, Overlap::QueueOne, Overlap::QueueAll, Overlap::CancelPrevious];
const MODES: [CatchUpMode; 3] = [CatchUpMode::None, CatchUpMode::Last, CatchUpMode::All];
/// Cron expressions, each with the average seconds between two of its times.
const CRONS: [(&str, u64); 6] = [
    ("*/5 * * * * *", 5),
    ("1-59/7 * * * * *", 7),
    ("0,3,11,17,29,31,43,58 * * * * *", 7),
    ("*/2 * * * * *", 2),
    ("5/10 */1 * * * *", 10),
    ("2-58/4 * * * * *", 4),
];
const ZONES: [&str; 5] = ["UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York", "Australia/Lord_Howe"];

/// Of schedule `number`: each combination comes up as often as any other.
pub(super) fn policy(number: usize, chance: &mut SplitMix64) -> Policy {
    let overlap = OVERLAPS[number % OVERLAPS.len()];
    let mode = MODES[number / OVERLAPS.len() % MODES.len()];
    Policy {
        overlap,
        mode,
        max: 1 + chance.below(4) as u32,
        window_us: (6 + chance.below(20)) as i64 * SECOND,
        per_minute: *chance.pick(&[30, 60, 120, 240]),
        late_after_us: chance.percent(40).then_some(SECOND),
        // Named, because otherwise each time has the distance to the next one; the simulator checks that.
        missed_after_us: Some(if chance.percent(25) { 6 * SECOND } else { MISSED_AFTER.as_micros() as i64 }),
    }
}

/// One that ends at `end_us`.
pub(super) fn definition(policy: &Policy, end_us: i64, chance: &mut SplitMix64) -> Definition {
    let (beat, seconds) = if chance.percent(60) {
        let ms = 2000 + chance.below(8000);
        (Beat::Every { every_us: ms as i64 * 1000, anchor_us: chance.below(10_000) as i64 * 1000 }, ms / 1000)
    } else {
        let (text, seconds) = chance.pick(&CRONS);
        (Beat::Cron((*text).to_owned()), *seconds)
    };
    let jitter_us = if chance.percent(25) { (500 + chance.below(4000)) as i64 * 1000 } else { 0 };
    // Runs meet now and then; a queue that grows for ever would say nothing more.
    let percent = match policy.overlap {
        Overlap::Allow => chance.below(40),
        Overlap::QueueAll => 20 + chance.below(60),
        Overlap::Skip | Overlap::QueueOne | Overlap::CancelPrevious => 30 + chance.below(120),
    };
    Definition {
        beats: vec![beat],
        zone: (*chance.pick(&ZONES)).to_owned(),
        jitter_us,
        end_us,
        sleep_ms: seconds * 10 * percent,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_policy_comes_with_every_other_and_every_definition_fires() {
        let mut chance = SplitMix64::new(1);
        let mut seen = BTreeSet::new();
        for number in 0..200 {
            let policy = policy(number, &mut chance);
            seen.insert(format!("{:?} {:?}", policy.overlap, policy.mode));
            let definition = definition(&policy, 100 * SECOND, &mut chance);
            let times = definition.times("some", 0, 100 * SECOND).len();
            assert!((8..=60).contains(&times), "{times}: {definition:?}");
        }
        assert_eq!(seen.len(), OVERLAPS.len() * MODES.len());
    }
}
