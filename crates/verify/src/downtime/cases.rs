//! The schedules of a downtime: each way to make up for what was missed.

use punctual_core::schedule::{CatchUpMode, Overlap};

use super::MISSED_AFTER;
use crate::schedules::definition::{Beat, Definition, Policy};

const SECOND: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND;

pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) policy: Policy,
    pub(super) definition: Definition,
    /// Whether it is paused before the server dies.
    pub(super) is_paused: bool,
}

/// What the mode `all` grants.
struct Budget {
    max: u32,
    window_us: i64,
    per_minute: u32,
}

/// For a downtime of so long. A window is a part of it.
pub(super) fn cases(down_us: i64, end_us: i64) -> Vec<Case> {
    let once_a_second = || beats(1);
    let usual = Budget { max: 100, window_us: DAY_US, per_minute: 60 };
    let ten = Budget { max: 10, window_us: DAY_US, per_minute: 120 };
    let third = Budget { max: 1000, window_us: down_us / 3, per_minute: 600 };
    let everything = Budget { max: 10_000, window_us: DAY_US, per_minute: 6000 };
    let dense = Budget { max: 100, window_us: DAY_US, per_minute: 1200 };
    let case = |name, about, overlap, mode, budget: &Budget, beats: Vec<Beat>| Case {
        name,
        about,
        policy: Policy {
            overlap,
            mode,
            max: budget.max,
            window_us: budget.window_us,
            per_minute: budget.per_minute,
            late_after_us: None,
            missed_after_us: Some(MISSED_AFTER.as_micros() as i64),
        },
        definition: Definition { beats, zone: "Europe/Berlin".to_owned(), jitter_us: 0, end_us, sleep_ms: 20 },
        is_paused: false,
    };
    let (none, last, all) = (CatchUpMode::None, CatchUpMode::Last, CatchUpMode::All);
    let (allow, skip, in_turn) = (Overlap::Allow, Overlap::Skip, Overlap::QueueAll);
    let mut cases = vec![
        case("none", "all stay missed", allow, none, &usual, once_a_second()),
        case("last", "the latest runs", allow, last, &usual, once_a_second()),
        case("last-skip", "the latest runs, runs do not meet", skip, last, &usual, once_a_second()),
        case("all-count", "the latest 10 run, 2 a second", allow, all, &ten, once_a_second()),
        case("all-window", "those of the last third run, 10 a second", allow, all, &third, once_a_second()),
        case("all-everything", "all run, 100 a second", allow, all, &everything, once_a_second()),
        case("all-in-turn", "the latest 10 run, 2 a second, one after the other", in_turn, all, &ten, once_a_second()),
        case("dense-none", "32 a second, all stay missed", allow, none, &usual, beats(32)),
        case("dense-all", "16 a second, the latest 100 run, 20 a second", allow, all, &dense, beats(16)),
    ];
    let mut patient = case("own-threshold", "missed after 6 s, all stay missed", allow, none, &usual, once_a_second());
    patient.policy.missed_after_us = Some(6 * SECOND);
    cases.push(patient);
    let mut paused = case("paused", "paused, nothing runs", allow, all, &ten, once_a_second());
    paused.is_paused = true;
    cases.push(paused);
    let mut jitter =
        case("all-jitter", "with jitter, the latest 10 run, 2 a second", allow, all, &ten, once_a_second());
    jitter.definition.jitter_us = 800_000;
    cases.push(jitter);
    cases
}

/// So many a second, as far from each other as they can be.
fn beats(per_second: i64) -> Vec<Beat> {
    (0..per_second).map(|number| Beat::Every { every_us: SECOND, anchor_us: number * SECOND / per_second }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ninety_seconds_hold_as_many_times_as_a_day_has_minutes() {
        let cases = cases(90 * SECOND, 1000 * SECOND);
        let times = |name: &str| {
            let case = cases.iter().find(|case| case.name == name).unwrap();
            case.definition.times(name, 100 * SECOND, 190 * SECOND).len()
        };
        assert_eq!((times("none"), times("dense-all"), times("dense-none")), (90, 1440, 2880));
    }
}
