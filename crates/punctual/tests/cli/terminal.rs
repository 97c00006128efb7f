//! What lists look like on terminals of different widths: real ones, as the kernel makes them.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};

use crate::fake::{self, DONE, WAITING};
use crate::punctual;

/// What the program writes to a terminal of so many columns.
fn on_terminal(columns: u16, args: &[&str]) -> String {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("crontab"), "CRON_TZ=Europe/Berlin\nMAILTO=ops@example.org\n30 2 * * 1-5 curl h\n")
        .unwrap();
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    tcsetwinsize(&controller, Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let terminal = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut command = punctual(dir.path(), args);
    command.env("NO_COLOR", "1").stdout(terminal).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    // Only the child keeps the terminal open; its end is the end of the text.
    drop(command);
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    let mut controller = File::from(controller);
    while let Ok(read @ 1..) = controller.read(&mut piece) {
        text.extend_from_slice(&piece[..read]);
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "{args:?}: {status}");
    String::from_utf8(text).unwrap().replace('\r', "")
}

/// What the other tests have no answers for.
fn more_answers() -> Vec<(String, (u16, Value))> {
    let at = "2026-01-01T00:00:00Z";
    let artifact = json!({
        "id": "artifact_01m7et433kee4803yssgvaf2fh", "name": "tool", "kind": "binary", "size": 1234, "sha256": "00",
        "state": "ready", "created_at": at,
    });
    let task = json!({
        "id": "task_01m7et433kee4803yssgvaf2fh", "name": "ping", "revision": 3, "created_at": at, "updated_at": at,
        "spec": { "run": { "http": { "url": "http://127.0.0.1/" } } },
    });
    let server = json!({
        "id": "server_01m7etg8hwe0sbbaq92e8h11ex", "address": "http://127.0.0.1:8020", "version": "0.1.0",
        "roles": ["api", "scheduler"], "state": "alive", "answered": true, "started_at": at, "last_seen_at": at,
        "shards": [], "duties": [], "workers": 2, "running": 17, "lag_us": 1500,
    });
    let worker = json!({
        "id": "worker_01m7et40a5e6hs5g996vdmh7f3", "name": "machine", "version": "0.1.0", "state": "connected",
        "queues": ["default"], "capabilities": [], "labels": {}, "slots": 64, "running": 3, "last_seen_at": at,
    });
    let forecast = json!({
        "from": at, "to": "2026-01-02T00:00:00Z", "is_cut": false, "schedules": 2, "starts": 1, "skipped": 0,
        "queued_at_end": 0, "not_run": 0, "peak": { "at": at, "starts": 1 },
        "hours": [{ "at": at, "parts": [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] }], "busiest": [{ "at": at, "starts": 1 }],
        "overlapping": [],
    });
    let backfill = json!({
        "id": "backfill_01m7et433kee4803yssgvaf2fh", "schedule": "nightly", "schedule_id": "schedule_01m7et433kee4803yssgvaf2fh",
        "from": at, "to": "2026-01-02T00:00:00Z", "overlap": "queue_all", "max_active": 1, "include": "not_run",
        "state": "running", "total": 3, "made": 1, "passed_over": 0, "running": 1, "succeeded": 0, "failed": 0,
        "cancelled": 0, "remaining": 2, "reached": at, "created": { "at": at, "who": "local" },
    });
    let mut replayed = json!({
        "id": WAITING, "task": fake::task_ref(), "state": "scheduled", "priority": 0, "attempt_count": 1,
        "submitted_at": at, "scheduled_at": at, "due_at": at,
    });
    replayed["schedule"] = json!({ "id": "schedule_01m7et433kee4803yssgvaf2fh", "at": at, "kind": "replayed" });
    [
        ("GET /v1/jobs", json!({ "jobs": [replayed] })),
        ("GET /v1/tasks", json!({ "tasks": [task] })),
        ("GET /v1/workers", json!({ "workers": [worker] })),
        ("GET /v1/servers", json!({ "servers": [server], "shards_total": 64, "shards_unowned": [] })),
        ("GET /v1/artifacts", json!({ "artifacts": [artifact] })),
        ("GET /v1/forecast", forecast),
        ("GET /v1/backfills", json!({ "backfills": [backfill] })),
    ]
    .map(|(line, answer)| (line.to_owned(), (200, answer)))
    .into()
}

/// Times of day that nothing says the zone of.
fn without_zone(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let letters: Vec<char> = line.chars().collect();
        for (place, part) in letters.windows(5).enumerate() {
            let is_clock = part.iter().zip("00:00".chars()).all(|(letter, form)| match form {
                ':' => *letter == ':',
                _ => letter.is_ascii_digit(),
            });
            // The port of an address, the inside of a time, or its offset.
            let before = place.checked_sub(1).map(|before| letters[before]);
            let is_other =
                before.is_some_and(|letter| letter.is_ascii_digit() || matches!(letter, '.' | ':' | '+' | '-'));
            if !is_clock || is_other {
                continue;
            }
            let rest = &letters[place + 5..];
            let end = rest.iter().position(|letter| !letter.is_ascii_digit() && !matches!(letter, ':' | '.'));
            let rest = &rest[end.unwrap_or(rest.len())..];
            let has_offset = matches!(rest, ['Z', ..] | ['+' | '-', '0'..='9', '0'..='9', ..]);
            // A rule such as "at 02:30" is in the zone that stands beside it.
            if !has_offset && !line.contains("Europe/Berlin") {
                found.push(line.to_owned());
            }
        }
    }
    found
}

const LISTS: &[(&str, Times)] = &[
    ("ps", Times::Wide),
    ("job list", Times::Wide),
    ("task list", Times::Wide),
    ("worker list", Times::None),
    ("server list", Times::Wide),
    ("schedule list", Times::Narrow),
    ("schedule history nightly", Times::Narrow),
    ("backfill list", Times::Wide),
    ("calendar list", Times::Wide),
    ("artifact list", Times::Wide),
    ("notify list", Times::None),
    ("notify log", Times::Narrow),
    ("overdue", Times::Narrow),
    ("import crontab crontab --dry-run", Times::Wide),
    ("simulate", Times::Narrow),
];

/// Where a list shows times, so that their absence is no success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Times {
    None,
    /// Where there is room.
    Wide,
    /// Also on a narrow terminal.
    Narrow,
}

#[test]
fn every_time_in_a_list_has_its_zone_on_every_terminal() {
    let url = fake::start_with(more_answers());
    for &(line, times) in LISTS {
        for (columns, has_times) in [(60, times == Times::Narrow), (200, times != Times::None)] {
            for (zone, offset) in [("utc", "Z"), ("Asia/Kolkata", "+05:30"), ("Asia/Tokyo", "+09")] {
                let mut args: Vec<&str> = line.split_whitespace().collect();
                args.extend(["--server", &url, "--tz", zone]);
                let text = on_terminal(columns, &args);
                assert_eq!(without_zone(&text), Vec::<String>::new(), "{line}, {columns} columns:\n{text}");
                // Lists of schedules are in the zone of each.
                let is_found = text.contains(offset) || text.contains("+01:00");
                assert!(!has_times || is_found, "{line}, {columns} columns: no time\n{text}");
                let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
                // It has sentences besides its table.
                assert!(
                    widest <= columns.into() || line == "simulate",
                    "{line}, {columns} columns, {widest} wide:\n{text}"
                );
            }
        }
    }
}

#[test]
fn details_have_zones_too() {
    let url = fake::start();
    let job = format!("job get {DONE}");
    for line in [&job, "schedule get nightly", "calendar get holidays", "notify get billing", "task get ping"] {
        let mut args: Vec<&str> = line.split_whitespace().collect();
        args.extend(["--server", &url, "--tz", "Asia/Tokyo"]);
        let text = on_terminal(60, &args);
        assert_eq!(without_zone(&text), Vec::<String>::new(), "{text}");
        assert!(text.contains("+09:00"), "{text}");
    }
}

#[test]
fn a_time_without_a_zone_would_be_found() {
    for (text, count) in [
        ("12-24 17:00", 1),
        ("2026-12-24 17:00:00.123 x", 1),
        ("12-24 17:00Z, 2026-12-24 18:00:00+01:00, 18:00-03:30", 0),
        ("http://127.0.0.11:8020 and http://h:8020", 0),
        ("at 02:30, Europe/Berlin", 0),
        ("at 02:30, Monda…", 1),
    ] {
        assert_eq!(without_zone(text).len(), count, "{text}");
    }
}

/// Steers a terminal in every way that one knows: the title, the screen, the clipboard, a link, the direction of text.
const HOSTILE: &str =
    "a\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}]52;c;AAAA\u{7}\u{1b}]8;;http://evil\u{7}\u{9b}31m\u{202e}b\u{200b}\rc\u{7f}";

/// Whether a terminal would do anything but show it. `NO_COLOR` is set, so we add nothing ourselves.
fn steers(text: &str) -> bool {
    text.chars().any(|letter| {
        (letter.is_control() && !matches!(letter, '\n' | '\t'))
            || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}'..='\u{200f}')
    })
}

#[test]
fn what_others_wrote_is_shown_and_not_obeyed() {
    let mut answers = more_answers();
    let at = "2026-01-01T00:00:00Z";
    let summary = json!({
        "id": WAITING, "title": HOSTILE, "task": { "id": "task_01m7et433kee4803yssgvaf2fh", "kind": "http", "queue": HOSTILE },
        "state": HOSTILE, "priority": 0, "attempt_count": 1, "reason": HOSTILE, "waiting_for": HOSTILE,
        "submitted_at": at, "scheduled_at": at, "due_at": at, "tracing_id": HOSTILE,
    });
    let mut job = summary.clone();
    for (name, value) in [
        ("explanation", json!(format!("{HOSTILE}\n  state  faked"))),
        (
            "attempts",
            json!([{
                "attempt": 1, "state": "failed", "worker": "worker_01m7et40a5e6hs5g996vdmh7f3", "worker_name": HOSTILE,
                "worker_host": HOSTILE, "due_at": at, "picked_up_at": at, "started_at": at, "finished_at": at,
                "reason": HOSTILE, "log_path": HOSTILE,
            }]),
        ),
        ("cancel_requested", json!(false)),
        ("input", json!({ HOSTILE: HOSTILE })),
        ("output", json!(HOSTILE)),
    ] {
        job[name] = value;
    }
    let worker = json!({
        "id": "worker_01m7et40a5e6hs5g996vdmh7f3", "name": HOSTILE, "version": HOSTILE, "state": "connected",
        "queues": [HOSTILE], "capabilities": [HOSTILE], "labels": { HOSTILE: HOSTILE }, "slots": 64, "running": 3,
        "last_seen_at": at, "host": HOSTILE,
    });
    answers.extend([
        ("GET /v1/jobs".to_owned(), (200, json!({ "jobs": [summary] }))),
        (format!("GET /v1/jobs/{WAITING}"), (200, job)),
        ("GET /v1/workers".to_owned(), (200, json!({ "workers": [worker] }))),
        ("GET /v1/tasks/nope".to_owned(), (404, fake::problem("task_not_found", 404, HOSTILE))),
    ]);
    let url = fake::start_with(answers);
    let job = format!("job get {WAITING}");
    for line in [job.as_str(), "ps", "worker list", "task get nope"] {
        for format in ["table", "json", "jsonl"] {
            let args: Vec<&str> =
                line.split_whitespace().chain(["--server", &url, "-o", format, "--tz", "utc"]).collect();
            // A pipe is cleaned as well: it may end at a terminal.
            let dir = tempfile::tempdir().unwrap();
            let output = punctual(dir.path(), &args).env("NO_COLOR", "1").output().unwrap();
            for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
                let text = String::from_utf8(bytes.clone()).unwrap();
                assert!(!steers(&text), "{line} -o {format}, {name}: {text:?}");
            }
            if line != "task get nope" {
                let text = on_terminal(120, &args);
                assert!(!steers(&text) && !text.is_empty(), "{line} -o {format}: {text:?}");
            }
        }
    }
    let shown = on_terminal(200, &["job", "get", WAITING, "--server", &url]);
    assert!(shown.contains("^[]0;owned^G") && shown.contains("<U+202E>"), "{shown}");
    assert!(!shown.contains("\n  state  faked"), "a line of ours was faked: {shown}");
}
