//! What is printed, in every format.

use crate::fake::{self, DONE, FAILED, WAITING};
use crate::{run, stderr, stdout};

/// How long ago something was changes while we look.
pub(crate) fn without_age(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once(" ago") {
        Some((before, after)) => {
            let (before, _) = before.rsplit_once([' ', '(']).unwrap();
            format!("{}|{after}", before.trim_end())
        }
        // And so does the width of its column.
        None if line.starts_with("ID ") => line.split_whitespace().collect::<Vec<_>>().join(" "),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) fn shown(line: &str) -> String {
    let url = fake::start();
    let mut args: Vec<_> = line.split_whitespace().collect();
    args.extend(["--server", &url]);
    let output = run(&args);
    let text = format!("$ punctual {line}\n{}--\n{}", stdout(&output), stderr(&output));
    without_age(&text)
}

#[test]
fn lists_print_in_every_format() {
    let texts = ["table", "json", "jsonl", "name"].map(|format| shown(&format!("job list -n 2 -o {format}")));
    insta::assert_snapshot!(texts.join("\n\n"));
}

#[test]
fn a_job_prints_in_detail_and_its_numbers_are_not_touched() {
    let texts = ["table", "json", "name"].map(|format| shown(&format!("job get {DONE} -o {format}")));
    insta::assert_snapshot!(texts.join("\n\n"));
}

#[test]
fn what_is_known_of_an_attempt_is_printed_below_it() {
    let text = shown(&format!("job get {FAILED}"));
    let lines: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("  attempt 1")).take(2).collect();
    let [attempt, details] = lines[..] else { panic!("{text}") };
    assert!(attempt.ends_with("took 998ms: it used too much memory"), "{text}");
    let known = "class limit, signal 9, limit oom, peak memory 512.0 MiB, CPU time 1.2s, sandbox full";
    assert_eq!(details, format!("{:14}{known}", ""));
    let json = shown(&format!("job get {FAILED} -o json"));
    assert!(json.contains(r#""signal": 9"#), "{json}");
}

#[test]
fn a_submission_prints_its_id_on_stdout_and_the_next_command_on_stderr() {
    let url = fake::start();
    for (format, out) in [("table", format!("{WAITING}\n")), ("name", format!("{WAITING}\n"))] {
        let output = run(&["run", "ping", "-o", format, "--server", &url]);
        assert_eq!(stdout(&output), out);
        assert_eq!(stderr(&output).contains("punctual logs -f"), format == "table");
    }
    let output = run(&["run", "ping", "-q", "--server", &url]);
    assert_eq!((stdout(&output), stderr(&output)), (format!("{WAITING}\n"), String::new()));
}

#[test]
fn times_are_shown_in_the_zone_that_was_asked_for() {
    for (zone, time) in [
        ("utc", "2026-01-01 00:00:00Z"),
        ("local", "2026-01-01 09:00:00+09:00"),
        ("Asia/Kolkata", "2026-01-01 05:30:00+05:30"),
    ] {
        let text = shown(&format!("job list --tz {zone}"));
        assert!(text.contains(time), "{text}");
    }
}

#[test]
fn a_pipe_gets_no_colour_unless_it_asks() {
    assert!(!shown("job list").contains('\x1b'));
    assert!(shown("job list --color always").contains('\x1b'));
}

#[test]
fn a_task_that_was_printed_can_be_applied_again() {
    let url = fake::start();
    let dir = tempfile::tempdir().unwrap();
    let printed = run(&["task", "get", "ping", "-o", "json", "--server", &url]);
    let file = dir.path().join("ping.json");
    std::fs::write(&file, printed.stdout).unwrap();
    let output = run(&["task", "apply", "-f", file.to_str().unwrap(), "--server", &url]);
    assert_eq!(stdout(&output), "ping\n", "{}", stderr(&output));
}
