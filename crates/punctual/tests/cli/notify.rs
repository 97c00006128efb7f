//! `punctual notify` and `punctual overdue` as people and scripts meet them.

use crate::fake::{self, DONE};
use crate::fake_notifications;
use crate::formats::shown;
use crate::schedules::all;
use crate::{punctual, run, stderr, stdout};

#[test]
fn rules_print_in_every_format() {
    let lines = ["table", "name", "jsonl"].map(|format| format!("notify list -o {format}"));
    insta::assert_snapshot!(all(&lines.each_ref().map(String::as_str)));
}

#[test]
fn a_rule_is_shown_with_what_waits_and_what_was_sent() {
    insta::assert_snapshot!(all(&["notify get billing", "notify get chat", "notify log", "notify log -o name"]));
}

#[test]
fn what_is_done_to_a_rule_is_answered_in_words() {
    insta::assert_snapshot!(all(&[
        "notify apply billing --email ops@example.org --on failed,late --late-after 10m --task invoice",
        "notify disable chat",
        "notify test billing --detach",
        "notify preview billing",
        "notify delete billing",
    ]));
}

#[test]
fn what_is_overdue_is_shown_with_the_reason() {
    insta::assert_snapshot!(all(&["overdue", "overdue -o name"]));
}

#[test]
fn a_test_waits_for_what_it_sent() {
    let url = fake::start();
    let output = run(&["notify", "test", "billing", "--server", &url]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains(&format!("{DONE}  succeeded")), "{}", stdout(&output));
    let output = run(&["notify", "test", "chat", "--wait-timeout", "10ms", "--server", &url]);
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
    assert!(stderr(&output).contains("is still scheduled: It is scheduled."), "{}", stderr(&output));
}

#[test]
fn every_outcome_has_its_exit_code() {
    let url = fake::start();
    for (line, code) in [
        ("notify get nope", 5),
        ("notify apply full --email ops@example.org", 6),
        ("notify apply x", 2),
        ("notify apply x --email a@example.org --slack ops", 2),
        ("notify apply x --cc a@example.org", 2),
        ("notify apply x --webhook http://h/ --on failing", 2),
        ("notify apply x --email a@example.org --late-after 5m", 2),
        ("notify apply x --email a@example.org --text-template /nowhere", 2),
        ("notify apply x --slack @/nowhere", 2),
        ("notify apply x --email a@example.org --window soon", 2),
        ("notify test billing --detach --wait-timeout 1s", 2),
        ("notify preview", 0),
        ("notify preview --subject-template - --text-template -", 2),
        ("overdue --after soon", 2),
        ("overdue --after 5m", 0),
    ] {
        let mut args = vec!["--server", url.as_str()];
        args.extend(line.split_whitespace());
        let output = run(&args);
        assert_eq!(output.status.code(), Some(code), "{line}: {}", stderr(&output));
        assert!(code != 2 || output.stdout.is_empty(), "{line} wrote to stdout");
    }
}

#[test]
fn a_rule_about_what_is_not_there_is_taken_with_a_hint() {
    let unknown = || (404, fake::problem("schedule_not_found", 404, "there is no schedule named nightlly"));
    let mut about = fake_notifications::rule("billing");
    (about["tasks"], about["schedules"]) = (serde_json::json!(["ping", "nope"]), serde_json::json!(["nightlly"]));
    let url = fake::start_with([
        ("PUT /v1/notifications/billing".to_owned(), (200, about)),
        ("GET /v1/schedules/nightlly".to_owned(), unknown()),
    ]);
    let line = "notify apply billing --email a@example.org --task ping --task nope --schedule nightlly --server";
    let output = run(&line.split(' ').chain([url.as_str()]).collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("There is no task named nope and no schedule named nightlly yet."), "{said}");
}

#[test]
fn advice_is_about_commands_and_not_about_requests() {
    let refused = |pointer: &str, detail: &str, hint: &str| {
        let mut problem = fake::problem("invalid_request", 422, detail);
        problem["hint"] = hint.into();
        problem["errors"] = serde_json::json!([{ "pointer": pointer, "detail": detail }]);
        (422, problem)
    };
    let preview = "POST /v1/notifications/preview shows what a template makes of a sample";
    let url = fake::start_with([
        ("PUT /v1/notifications/x".to_owned(), refused("/templates/text", "line 1: syntax error", preview)),
        (
            "POST /v1/schedules/nightly/backfills".to_owned(),
            refused(
                "/max_active",
                "runs of queue_all are one at a time",
                "set `overlap` to allow, or leave `max_active` out",
            ),
        ),
    ]);
    for (line, said) in [
        (
            "notify apply x --email a@example.org",
            "--text-template: line 1: syntax error. `punctual notify preview` shows what a template makes of a sample.",
        ),
        (
            "backfill create nightly --from 2026-01-01 --max-active 2",
            "--max-active: runs of queue_all are one at a time. Set --overlap to allow, or leave --max-active out.",
        ),
    ] {
        let output = run(&line.split(' ').chain(["--server", url.as_str()]).collect::<Vec<_>>());
        assert_eq!(stderr(&output), format!("error: {said}\n"));
    }
}

#[test]
fn an_address_of_slack_can_be_kept_in_a_file() {
    let url = fake::start();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("address"), "https://hooks.slack.com/services/s3cret\n").unwrap();
    let output =
        punctual(dir.path(), &["notify", "apply", "chat", "--slack", "@address", "--server", &url]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert!(said.contains("a Slack channel") && !said.contains("s3cret"), "{said}");
}

#[test]
fn a_list_without_rules_says_how_to_begin() {
    let text = shown("notify list");
    assert!(!text.contains("Nobody is told"), "{text}");
    let none = serde_json::json!({ "notifications": [] });
    let url = fake::start_with([("GET /v1/notifications".to_owned(), (200, none))]);
    let output = run(&["notify", "list", "--server", &url]);
    assert!(stderr(&output).contains("punctual notify apply ops --email"), "{}", stderr(&output));
}
