//! Inputs for the parser of rules, and what has to hold for each.

use std::time::{Duration, Instant};

use punctual_recurrence::{CronExpr, Rule};

use super::random::Random;

const LETTERS: &[u8] = b"0123456789 */,-?LWH#~()@adeonuJMSFRI \t";
pub(crate) const LIMIT: Duration = Duration::from_millis(1);

const SEEDS: &[&str] = &[
    "* * * * *",
    "*/5 9-17 * * MON-FRI",
    "0 0 29 2 *",
    "0 0 30 2 *",
    "H H(0-29) L-3,LW,15W JAN 5L,MON#2",
    "@every 1h30m",
    "0 0 0 31 4,6,9,11 *",
    "@annually",
    "59 59 23 31 12 7",
    "0~59 ~ * * ?",
    "1-59/7,2,3-9 0-23 1-31 1-12 0-7",
];

fn mutated(random: &mut Random) -> String {
    let mut bytes = random.pick(SEEDS).as_bytes().to_vec();
    for _ in 0..*random.pick(&[1, 1, 2, 6]) {
        let at = random.between(0, bytes.len() as u32) as usize;
        let letter = *random.pick(LETTERS);
        match random.between(0, 4) {
            0 if at < bytes.len() => bytes[at] = letter,
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 => bytes.truncate(at),
            3 => {
                let copy = bytes[at..].to_vec();
                bytes.extend_from_slice(&copy);
            }
            _ => bytes.insert(at, letter),
        }
    }
    String::from_utf8(bytes).expect("the letters are ASCII")
}

fn any_string(random: &mut Random) -> String {
    let len = if random.once_in(20) { random.between(200, 400) } else { random.between(0, 40) };
    let letter = |random: &mut Random| match random.between(0, 30) {
        0 => char::from_u32(random.between(0, 0x2_ffff)).unwrap_or('\u{fffd}'),
        _ => char::from(*random.pick(LETTERS)),
    };
    (0..len).map(|_| letter(random)).collect()
}

/// The quickest of a few tries: a busy machine can interrupt any one of them.
pub(crate) fn quickest_parse(text: &str) -> Duration {
    let mut quickest = Duration::MAX;
    for _ in 0..20 {
        let started = Instant::now();
        let _ = std::hint::black_box(text.parse::<Rule>());
        quickest = quickest.min(started.elapsed());
        if quickest <= LIMIT {
            break;
        }
    }
    quickest
}

/// Something close to a rule, or anything.
pub(crate) fn input(random: &mut Random) -> String {
    if random.once_in(2) { mutated(random) } else { any_string(random) }
}

/// Panics if the parser takes too long, or says something useless. True if it is a rule.
pub(crate) fn check(text: &str) -> bool {
    let elapsed = quickest_parse(text);
    assert!(elapsed <= LIMIT, "{text:?} took {elapsed:?}");
    match text.parse::<Rule>() {
        Ok(Rule::Cron(expr)) => {
            assert_eq!(CronExpr::parse(&expr.to_string()).as_ref(), Ok(&expr), "{text:?} shown as {expr}");
            true
        }
        Ok(_) => true,
        Err(error) => {
            assert!(error.column >= 1 && error.column <= text.chars().count() + 1, "{text:?}: {error}");
            assert!(!error.problem.is_empty() && !error.advice.is_empty(), "{text:?}: {error}");
            assert!(error.to_string().len() < 400, "{text:?}: {error}");
            false
        }
    }
}
