//! No input makes the parsers panic, or takes them longer than a millisecond.

#[path = "support/fuzz.rs"]
mod fuzz;
#[path = "support/random.rs"]
mod random;

use fuzz::{LIMIT, check, input, quickest_parse};
use punctual_recurrence::crontab::{Crontab, CrontabFormat};
use punctual_recurrence::{CronExpr, Rule};
use random::Random;

#[test]
fn a_million_strings_parse_or_fail_within_a_millisecond() {
    let mut random = Random::new(42);
    let accepted = (0..1_000_000).filter(|_| check(&input(&mut random))).count();
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
    let mut random = Random::new(7);
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
