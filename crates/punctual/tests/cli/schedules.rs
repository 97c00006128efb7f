//! `punctual schedule` and `punctual calendar` as people and scripts meet them.

use std::path::Path;

use crate::fake::{self, DONE};
use crate::formats::shown;
use crate::{punctual, run, stderr, stdout};

/// Columns are as wide as an age is long, which changes from day to day.
fn steady(text: &str) -> String {
    let is_header = |line: &str| line.starts_with("LOCAL ") || line.starts_with("NAME ");
    let is_wide = |line: &str| line.contains('|') || line.contains("  -  ") || is_header(line);
    let narrow = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines().map(|line| if is_wide(line) { narrow(line) } else { line.to_owned() }).collect::<Vec<_>>().join("\n")
}

pub(crate) fn all(lines: &[&str]) -> String {
    lines.iter().map(|line| steady(&shown(line))).collect::<Vec<_>>().join("\n\n")
}

#[test]
fn schedules_print_in_every_format() {
    let lines = ["table", "name", "jsonl"].map(|format| format!("schedule list -n 2 -o {format}"));
    insta::assert_snapshot!(all(&lines.each_ref().map(String::as_str)));
}

#[test]
fn a_schedule_is_shown_with_its_past_and_its_future() {
    insta::assert_snapshot!(all(&["schedule get nightly", "schedule preview nightly", "schedule history nightly"]));
}

#[test]
fn what_is_done_to_a_schedule_is_answered_in_words() {
    insta::assert_snapshot!(all(&[
        "schedule create nightly --task ping --daily 02:30 --zone Europe/Berlin",
        "schedule edit nightly --jitter 5s",
        "schedule pause nightly --note maintenance",
        "schedule resume nightly",
        "schedule skip nightly --count 2",
        "schedule run nightly",
        "schedule delete nightly",
        "calendar list",
        "calendar get holidays",
        "calendar apply holidays --date 2026-12-25",
        "calendar delete holidays",
    ]));
}

#[test]
fn a_day_is_told_in_plain_words() {
    let text = shown("schedule history nightly --on 2026-01-02 --tz utc");
    let wanted = format!(
        "2026-01-03 02:30+01:00  did not run: the run of 2026-01-02 01:30:00Z had not ended\n\
         2026-01-02 02:30+01:00  ran 1h late: it had been missed\n  {DONE} succeeded: It is succeeded.\n"
    );
    assert!(text.contains(&wanted), "{text}");
}

#[test]
fn what_only_backfills_know_is_told_beside_the_record() {
    let known = serde_json::json!({
        "at": "2025-12-05T01:30:00Z", "local": "2025-12-05T02:30:00+01:00",
        "backfilled": [{ "backfill": crate::fake_backfills::ID, "job": DONE, "state": "succeeded" }],
    });
    let page = serde_json::json!({ "zone": "Europe/Berlin", "occurrences": [], "backfilled_only": [known] });
    let url = fake::start_with([("GET /v1/schedules/nightly/occurrences".to_owned(), (200, page))]);
    let sentence = format!("2025-12-05 02:30+01:00  not on record; backfilled as {DONE}, succeeded\n");
    for (line, wanted) in [
        ("schedule history nightly --on 2025-12-05", sentence.clone()),
        ("schedule history nightly --from 2025-12-05", sentence),
        ("schedule history nightly --on 2025-12-05 -o name", "2025-12-05T01:30:00.000000Z\n".to_owned()),
        ("schedule history nightly --from 2025-12-05 -o name", "2025-12-05T01:30:00.000000Z\n".to_owned()),
    ] {
        let output = run(&line.split(' ').chain(["--server", url.as_str()]).collect::<Vec<_>>());
        assert_eq!(stdout(&output), wanted, "{line}: {}", stderr(&output));
        assert!(!stderr(&output).contains("Nothing is on record"), "{line}: {}", stderr(&output));
    }
    let line = "schedule history nightly --on 2025-12-05 -o jsonl --server";
    let told: serde_json::Value =
        serde_json::from_str(&stdout(&run(&line.split(' ').chain([url.as_str()]).collect::<Vec<_>>()))).unwrap();
    assert_eq!((&told["at"], &told["backfilled"][0]["job"]), (&"2025-12-05T01:30:00.000000Z".into(), &DONE.into()));
}

#[test]
fn every_outcome_has_its_exit_code() {
    let url = fake::start();
    for (line, code) in [
        ("schedule get nope", 5),
        ("schedule create x --task ping", 2),
        ("schedule create x --cron @daily", 2),
        ("schedule create x --task ping --cron nonsense", 2),
        ("schedule create x --task ping --cron @daily --zone Atlantis", 2),
        ("schedule edit nightly", 2),
        ("schedule preview", 2),
        ("schedule preview nightly --cron @daily", 2),
        ("schedule preview --daily 09:30", 0),
        ("schedule history nightly --on 12.11.2026", 2),
        ("schedule history nightly --on 2026-11-12 --from 2026-11-01", 2),
        ("schedule run nightly --wait", 0),
        ("schedule list --paused --not-paused", 2),
        ("calendar apply holidays", 2),
        ("calendar apply holidays --date 2026-02-30", 2),
        ("calendar apply holidays --file /nowhere", 2),
        ("calendar delete holidays", 6),
    ] {
        let mut args = vec!["--server", url.as_str()];
        args.extend(line.split_whitespace());
        let output = run(&args);
        assert_eq!(output.status.code(), Some(code), "{line}: {}", stderr(&output));
        assert!(code != 2 || output.stdout.is_empty(), "{line} wrote to stdout");
    }
}

#[test]
fn a_calendar_comes_from_a_file_of_either_kind() {
    let url = fake::start();
    let dir = tempfile::tempdir().unwrap();
    let put = |dir: &Path, name: &str, text: &str| {
        std::fs::write(dir.join(name), text).unwrap();
        punctual(dir, &["calendar", "apply", "holidays", "--file", name, "--server", &url]).output().unwrap()
    };
    let text = put(dir.path(), "dates.txt", "2026-12-25\n2026-12-26 # both\n");
    assert_eq!(stdout(&text), "holidays\n", "{}", stderr(&text));
    let ics = put(dir.path(), "holidays.ics", "BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n");
    assert_eq!(stdout(&ics), "holidays\n", "{}", stderr(&ics));
    let wrong = put(dir.path(), "wrong.txt", "2026-12-25\nChristmas\n");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("wrong.txt, line 2: `Christmas` is not a date"), "{}", stderr(&wrong));
}
