//! The search against a brute-force walk through every zone of the database.

mod support;

use jiff::tz::TimeZoneDatabase;
use support::compare::{Tally, Tick, compare_one, random_table};
use support::random::Random;

/// Every zone gets one stretch around a clock change and a few random schedules; the example `compare` does the same
/// for longer.
fn compare_all_zones(seed: u64, tick: Tick, schedules_per_zone: usize, zones_step: usize) -> Tally {
    let database = TimeZoneDatabase::bundled();
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    for name in database.available().step_by(zones_step) {
        let zone = database.get(name.as_str()).expect("the database lists it");
        let table = random_table(&mut random, &zone, tick);
        for _ in 0..schedules_per_zone {
            compare_one(&mut random, &database, name.as_str(), &table, &mut tally);
        }
    }
    tally
}

#[test]
fn minutes_agree_with_a_walk_in_every_zone() {
    let tally = compare_all_zones(1, Tick::Minute { days: 14 }, 8, 1);
    assert!(tally.schedules > 4500, "only {} schedules were compared", tally.schedules);
    assert!(tally.touched_by_clock_changes > 1000, "only {} met a clock change", tally.touched_by_clock_changes);
    assert!(tally.merged > 100 && tally.moved > 100, "{} merged, {} moved", tally.merged, tally.moved);
}

#[test]
fn seconds_agree_with_a_walk_in_some_zones() {
    let tally = compare_all_zones(2, Tick::Second { days: 5 }, 3, 9);
    assert!(tally.schedules > 180, "only {} schedules were compared", tally.schedules);
    assert!(tally.touched_by_clock_changes > 1000, "only {} met a clock change", tally.touched_by_clock_changes);
}
