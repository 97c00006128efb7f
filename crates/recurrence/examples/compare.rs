//! The long form of the oracle test: `cargo run --release --example compare -- --expressions 2000 --minutes 20`.
//!
//! Goes round all zones of the bundled database with random schedules until so many were compared or the time is over.
//! Panics at the first difference, with what is needed to repeat it.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use jiff::tz::TimeZoneDatabase;
use support::compare::{Tally, Tick, compare_one, random_table};
use support::random::Random;

/// Building a table costs as much as a few comparisons, so each one serves several.
const SCHEDULES_PER_TABLE: u64 = 8;

fn option(name: &str, default: u64) -> u64 {
    let arguments: Vec<String> = std::env::args().collect();
    let value = arguments.iter().position(|argument| argument == name).and_then(|at| arguments.get(at + 1));
    value.map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} takes a number, not `{value}`")))
}

fn main() {
    let (expressions, minutes, seed) = (option("--expressions", 2000), option("--minutes", 20), option("--seed", 1));
    let started = Instant::now();
    let limit = Duration::from_secs(minutes * 60);
    let database = TimeZoneDatabase::bundled();
    let names: Vec<String> = database.available().map(|name| name.as_str().to_owned()).collect();
    let mut random = Random::new(seed);
    let mut tally = Tally::default();
    let mut tables = 0_u64;
    while tally.schedules < expressions && started.elapsed() < limit {
        let name = &names[tables as usize % names.len()];
        let zone = database.get(name).expect("the database lists it");
        // Mostly a month around a clock change; also whole years, and days by the second.
        let tick = match tables % 10 {
            0 => Tick::Minute { days: 370 },
            1 | 2 => Tick::Second { days: 6 },
            _ => Tick::Minute { days: 40 },
        };
        let table = random_table(&mut random, &zone, tick);
        for _ in 0..SCHEDULES_PER_TABLE {
            compare_one(&mut random, &database, name, &table, &mut tally);
        }
        tables += 1;
    }
    println!(
        "{} schedules and {} occurrences agree in {} stretches of {} zones, after {:.0?} (seed {seed})",
        tally.schedules,
        tally.occurrences,
        tables,
        names.len().min(tables as usize),
        started.elapsed()
    );
    println!(
        "{} occurrences met a clock change, {} stand for others merged into them, {} were moved by a calendar; {} \
         expressions were refused because no date matches",
        tally.touched_by_clock_changes, tally.merged, tally.moved, tally.refused_as_never_firing
    );
}
