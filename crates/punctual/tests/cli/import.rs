//! `punctual import crontab` as people meet it.

use std::io::Write;
use std::process::Stdio;

use crate::{fake, punctual, stderr, stdout};

const GOOD: &str = "CRON_TZ=Europe/Berlin\n30 2 * * * curl -fsS http://127.0.0.1/x >/dev/null 2>&1\n";
const MIXED: &str = "@daily curl http://127.0.0.1/x\n@daily cd / && ls\n";

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

fn import(crontab: &str, flags: &[&str], server: &str) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    let args = [&["import", "crontab", "--server", server], flags].concat();
    let mut command = punctual(dir.path(), &args);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(crontab.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    Ran { code: output.status.code(), out: stdout(&output), err: stderr(&output) }
}

/// Nobody listens there.
const NOWHERE: &str = "http://127.0.0.1:1";

#[test]
fn a_dry_run_needs_no_server() {
    let ran = import(GOOD, &["--dry-run"], NOWHERE);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("at 02:30, every day  Europe/Berlin"), "{}", ran.out);
    assert!(ran.out.contains("GET http://127.0.0.1/x"), "{}", ran.out);
    let named = import(GOOD, &["--dry-run", "-o", "name"], NOWHERE);
    assert_eq!(named.out, "crontab-curl-98fa277e\n");
    let json: serde_json::Value =
        serde_json::from_str(&import(MIXED, &["--dry-run", "-o", "json"], NOWHERE).out).unwrap();
    assert_eq!((&json["lines"][0]["zone"], &json["problems"][0]["line"]), (&"Asia/Tokyo".into(), &2.into()));
    let with_task = import(MIXED, &["--dry-run", "--task", "ping"], NOWHERE);
    assert_eq!(with_task.code, Some(7), "whether there is such a task only a server knows");
}

#[test]
fn nothing_is_made_unless_every_line_can_be() {
    // Had it asked for anything, the exit code would be 7.
    let ran = import(MIXED, &[], NOWHERE);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    assert!(ran.err.contains("line 2: error: `&` needs a shell"), "{}", ran.err);
    assert!(ran.err.contains("--keep-going"), "{}", ran.err);
}

#[test]
fn a_shell_is_offered_once_for_all_lines_that_need_this_machine() {
    const CRONTAB: &str = "@daily cd / && ls\n@daily /bin/ls | wc\n61 * * * * x\n";
    let server = fake::start();
    for (flags, url, code) in [
        (&[][..], NOWHERE, 2),
        (&["--dry-run"], NOWHERE, 2),
        (&["--dry-run", "--keep-going", "--zone", "Europe/Berlin"], NOWHERE, 9),
        (&["--keep-going", "--prefix", "a'b"], &server, 9),
    ] {
        let ran = import(CRONTAB, flags, url);
        assert_eq!(ran.code, Some(code), "{flags:?} {}", ran.err);
        assert!(ran.err.contains("line 1: error: `&` needs a shell\n"), "{flags:?} {}", ran.err);
        let typed = [&["import crontab --server", url], flags].concat().join(" ").replace("a'b", r"'a'\''b'");
        let offer = format!(
            "2 lines need this machine. To run them by a shell, pipe the same crontab into:\n  punctual {typed} --shell\n\
             Commands run only on workers that allow them:\n  punctual dev --allow-commands     a server and a worker\n  \
             punctual worker --allow-commands  beside a server\n\
             To hand them to a task of yours instead: --task NAME\n"
        );
        assert!(ran.err.ends_with(&offer), "{flags:?} {}", ran.err);
        assert_eq!(ran.err.matches("--shell").count(), 1, "{flags:?} {}", ran.err);
    }
    let left_out = import(CRONTAB, &["--dry-run", "--keep-going"], NOWHERE).err;
    let told = "3 lines would be left out. Nothing was made. Import the rest without --dry-run.\n";
    assert!(left_out.contains(told), "{left_out}");
    for flags in [&["--dry-run", "--shell"][..], &["--dry-run", "-q"]] {
        let ran = import(CRONTAB, flags, NOWHERE);
        assert!(!ran.err.contains("--shell"), "{flags:?} {}", ran.err);
    }
}

#[test]
fn a_shell_is_not_offered_for_a_stream_that_is_gone() {
    for path in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let ran = import(MIXED, &[path], NOWHERE);
        assert_eq!(ran.code, Some(2), "{path} {}", ran.err);
        let offer = format!(
            "To run it by a shell, pipe the same crontab into:\n  punctual import crontab --server {NOWHERE} - --shell\n"
        );
        assert!(ran.err.contains(&offer), "{path} {}", ran.err);
    }
}

const BAD_MAILTO: &str = "MAILTO=a@b@c,ops@example.org\n@daily curl http://127.0.0.1/x\n@daily curl http://127.0.0.1/y\n\
                          MAILTO=ops@example.org\n@daily curl http://127.0.0.1/z\n";

#[test]
fn a_bad_mailto_is_found_before_anything_is_made() {
    let refused = "line 2: error: MAILTO: `a@b@c` is not an email address; write it like ops@example.com";
    for flags in [&["--dry-run"][..], &[]] {
        let ran = import(BAD_MAILTO, flags, NOWHERE);
        assert_eq!(ran.code, Some(2), "{flags:?} {}", ran.err);
        assert!(ran.err.contains(refused), "{flags:?} {}", ran.err);
        assert!(
            ran.err.contains("1 list of MAILTO cannot be imported, and nothing was made."),
            "{flags:?} {}",
            ran.err
        );
    }
    let ran = import(BAD_MAILTO, &["--dry-run", "--keep-going", "-o", "json"], NOWHERE);
    assert_eq!(ran.code, Some(9), "{}", ran.err);
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert!(json["lines"].as_array().unwrap().iter().all(|line| line["becomes"].is_string()), "{json}");
    assert_eq!(json["problems"][0]["line"], 2, "{json}");
    let rules = json["notifications"].as_array().unwrap();
    assert_eq!((rules.len(), &rules[0]["lines"]), (1, &serde_json::json!([5])), "only the bad list has no rule");
}

#[test]
fn with_a_server_tasks_and_schedules_are_made() {
    let server = fake::start();
    let ran = import(MIXED, &["--task", "ping", "--prefix", "ping"], &server);
    // The fake server has no task for the first line.
    assert_eq!(ran.code, Some(5), "{}", ran.err);
    assert!(ran.err.starts_with("error: line 1: "), "{}", ran.err);
    let ran = import("@daily cd / && ls\n", &["--task", "ping"], &server);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("input of ping"), "{}", ran.out);
    assert!(ran.err.starts_with("1 schedule created, 1 replaced."), "{}", ran.err);
    let ran = import("@daily ls\n", &["--task", "nope"], &server);
    assert_eq!(ran.code, Some(5), "{}", ran.err);
}

#[test]
fn an_import_that_leaves_lines_out_has_an_exit_code_of_its_own() {
    let server = fake::start();
    let ran = import("@daily cd / && ls\n61 * * * * x\n* * *\n", &["--keep-going", "--task", "ping"], &server);
    assert_eq!(ran.code, Some(9), "{}", ran.err);
    assert!(ran.err.contains("1 schedule created"), "the rest was imported: {}", ran.err);
    assert!(ran.err.ends_with("2 lines left out; see above.\n"), "{}", ran.err);
    let ran = import("@daily cd / && ls\n61 * * * * x\n", &["--keep-going", "--task", "ping", "-q"], &server);
    assert_eq!(ran.code, Some(9), "{}", ran.err);
    assert!(ran.err.ends_with("1 line left out; see above.\n"), "{}", ran.err);
}

#[test]
fn a_crontab_with_users_asks_for_its_flag() {
    let system = "17 * * * * root cd / && run-parts --report /etc/cron.hourly\n";
    let ran = import(system, &["--dry-run", "--shell"], NOWHERE);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
    let told = "line 1: error: `root` looks like the user column of a system crontab; import the file with --system, or \
                write the full path of `root` if it is the command\n";
    assert!(ran.err.contains(told), "{}", ran.err);
    let ran = import(system, &["--dry-run", "--shell", "--system"], NOWHERE);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.out.contains("command cd / && run-parts"), "{}", ran.out);
}

#[test]
fn a_dry_run_without_a_server_says_how_lines_of_one_command_are_numbered() {
    let ran = import("0 9 * * * curl h\n0 17 * * * curl h\n", &["--dry-run"], NOWHERE);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.starts_with("No server was reached, so lines of the same command are numbered"), "{}", ran.err);
}
