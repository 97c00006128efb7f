//! No input makes the parsers panic, or takes them longer than a millisecond.

#[path = "support/random.rs"]
mod random;

use std::time::{Duration, Instant};

use punctual_recurrence::crontab::{Crontab, CrontabFormat};
use punctual_recurrence::{CronExpr, Rule};
use random::Random;

const LETTERS: &[u8] = b"0123456789 */,-?LWH#~()@adeonuJMSFRI \t";
const LIMIT: Duration = Duration::from_millis(1);

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
fn quickest_parse(text: &str) -> Duration {
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

#[test]
fn a_million_strings_parse_or_fail_within_a_millisecond() {
    let mut random = Random(42);
    let (mut accepted, mut slowest) = (0, Duration::ZERO);
    for round in 0..1_000_000 {
        let text = if round % 2 == 0 { mutated(&mut random) } else { any_string(&mut random) };
        let elapsed = quickest_parse(&text);
        assert!(elapsed <= LIMIT, "{text:?} took {elapsed:?}");
        slowest = slowest.max(elapsed);
        match text.parse::<Rule>() {
            Ok(Rule::Cron(expr)) => {
                accepted += 1;
                assert_eq!(CronExpr::parse(&expr.to_string()).as_ref(), Ok(&expr), "{text:?} shown as {expr}");
            }
            Ok(_) => accepted += 1,
            Err(error) => {
                assert!(error.column >= 1 && error.column <= text.chars().count() + 1, "{text:?}: {error}");
                assert!(!error.problem.is_empty() && !error.advice.is_empty(), "{text:?}: {error}");
                assert!(error.to_string().len() < 400, "{text:?}: {error}");
            }
        }
    }
    assert!(accepted > 20_000, "only {accepted} strings were valid: the test must see both kinds");
}

#[test]
fn the_costliest_refusal_stays_within_a_millisecond() {
    // Workdays that must be Sundays: every term must be looked at for every shape of a month.
    let workdays: Vec<String> = (1..=31).map(|day| format!("{day}W")).collect();
    let never = format!("0 0 {},LW,{} * */7", workdays.join(","), workdays[9..].join(","));
    let crowded = format!("* * {} 4 */2", vec!["31W"; 59].join(","));
    for text in [never, crowded] {
        assert!((200..=256).contains(&text.len()), "{}", text.len());
        assert!(CronExpr::parse(&text).is_err(), "{text}");
        let elapsed = quickest_parse(&text);
        assert!(elapsed <= LIMIT, "{text}: {elapsed:?}");
    }
    assert!("9".repeat(10_000_000).parse::<Rule>().is_err());
}

#[test]
fn any_text_can_be_read_as_a_crontab() {
    const PIECES: &[&str] = &[
        "* * * * * ",
        "@reboot ",
        "@daily ",
        "root ",
        "CRON_TZ=",
        "Europe/Berlin",
        "TZ = 'x",
        "MAILTO=\"\"",
        "\n",
        "\r\n",
        "\\%",
        "%",
        "#",
        "\"",
        "=",
        "\0",
        "ü",
        "-",
        "\t",
        "x",
        "0 0 30 2 * ",
    ];
    let mut random = Random(7);
    for _ in 0..100_000 {
        let text: String = (0..random.between(0, 20)).map(|_| *random.pick(PIECES)).collect();
        for format in [CrontabFormat::User, CrontabFormat::System] {
            let crontab = Crontab::parse(&text, format);
            let lines = text.lines().count().max(1);
            assert!(
                crontab
                    .entries
                    .iter()
                    .all(|entry| entry.line <= lines && !entry.command.is_empty() || entry.stdin.is_some())
            );
            assert!(crontab.diagnostics.iter().all(|diagnostic| diagnostic.line <= lines && diagnostic.column >= 1));
        }
    }
}
