//! A fuzz target for the parser of rules.
//!
//! `cargo run --release -p punctual-recurrence --example fuzz [minutes] [seed]` makes inputs of its own and panics at the
//! first that breaks a promise. With `-` it checks one input from stdin, for a fuzzer that makes better ones.

#[path = "../tests/support/fuzz.rs"]
mod fuzz;
#[path = "../tests/support/random.rs"]
mod random;

use std::io::Read;
use std::time::{Duration, Instant, SystemTime};

use random::Random;

/// So much of stdin is looked at; the parser refuses what is much shorter than that for its length.
const INPUT_MAX: u64 = 1 << 20;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "-") {
        let mut bytes = Vec::new();
        std::io::stdin().take(INPUT_MAX).read_to_end(&mut bytes).expect("stdin can be read");
        let is_rule = fuzz::check(&String::from_utf8_lossy(&bytes));
        return println!("{}", if is_rule { "a rule" } else { "refused" });
    }
    let number =
        |place: usize| arguments.get(place).map(|text| text.parse::<u64>().expect("minutes and seed are numbers"));
    let by_clock = || SystemTime::UNIX_EPOCH.elapsed().map_or(1, |since| since.as_micros() as u64);
    let (minutes, seed) = (number(0).unwrap_or(1), number(1).unwrap_or_else(by_clock));
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let (started, mut checked, mut rules) = (Instant::now(), 0_u64, 0_u64);
    while started.elapsed() < Duration::from_secs(60 * minutes) {
        for _ in 0..10_000 {
            checked += 1;
            rules += u64::from(fuzz::check(&fuzz::input(&mut random)));
        }
    }
    println!("{checked} inputs, {rules} of them rules: none took longer than {:?}", fuzz::LIMIT);
}
