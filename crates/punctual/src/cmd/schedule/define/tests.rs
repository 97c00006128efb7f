use clap::Parser;
use serde_json::{Value, json};

use super::*;
use crate::output::Output;

#[derive(Parser)]
struct Only {
    #[command(flatten)]
    args: EditArgs,
}

/// The definition after an edit with these flags.
async fn edited(before: Value, flags: &[&str]) -> anyhow::Result<Value> {
    let args = Only::try_parse_from([&["x", "nightly"], flags].concat())?.args;
    let mut request = serde_json::from_value(before)?;
    for unset in &args.unset {
        unset.apply(&mut request);
    }
    let client = Client::new("http://127.0.0.1:1")?;
    args.definition.apply(&mut request, &client, &Output::plain(None)).await?;
    Ok(serde_json::to_value(request)?)
}

async fn check(before: Value, flags: &[&str], after: Value) {
    assert_eq!(edited(before, flags).await.expect("good flags"), after, "{flags:?}");
}

#[tokio::test]
async fn an_edit_changes_what_is_given_and_nothing_else() {
    let nightly =
        || json!({ "task": "t", "cron": "0 2 * * *", "zone": "Europe/Berlin", "jitter": "PT1M", "max_runs": 9 });
    check(nightly(), &[], nightly()).await;
    check(
        nightly(),
        &["--jitter", "5s", "--overlap", "cancel-previous", "--catch-up", "all", "--catch-up-rate", "10/min"],
        json!({
            "task": "t", "cron": "0 2 * * *", "zone": "Europe/Berlin", "jitter": "PT5S", "max_runs": 9,
            "overlap": "cancel_previous", "catch_up": { "mode": "all", "per_minute": 10 },
        }),
    )
    .await;
    check(
        nightly(),
        &["--unset", "jitter,max-runs", "--task", "other"],
        json!({ "task": "other", "cron": "0 2 * * *", "zone": "Europe/Berlin" }),
    )
    .await;
}

#[tokio::test]
async fn rules_replace_all_rules_and_several_become_a_list() {
    let before = || json!({ "task": "t", "every": "1h", "anchor": "2026-01-01T00:00:00.000000Z" });
    check(before(), &["--daily", "09:30"], json!({ "task": "t", "daily": "09:30" })).await;
    let two = json!({ "task": "t", "rules": [{ "cron": "@hourly" }, { "daily": "09:30" }] });
    check(before(), &["--daily", "09:30", "--cron", "@hourly"], two.clone()).await;
    check(two, &["--at", "2026-12-24T18:00:00Z"], json!({ "task": "t", "at": "2026-12-24T18:00:00.000000Z" })).await;
}

#[tokio::test]
async fn calendars_go_when_the_last_of_them_does() {
    let before = json!({ "task": "t", "cron": "@daily" });
    let with = json!({ "task": "t", "cron": "@daily", "calendars": { "exclude": ["a", "b"], "on_closed_day": "next_business_day" } });
    check(before.clone(), &["--exclude", "a", "--exclude", "b", "--on-closed-day", "next-business-day"], with.clone())
        .await;
    check(with, &["--unset", "exclude,on-closed-day"], before).await;
}

#[tokio::test]
async fn a_task_in_flags_takes_the_place_of_a_named_one() {
    let after = edited(json!({ "task": "t", "cron": "@daily" }), &["--ping", "http://h/", "--retries", "0"]).await;
    let after = after.expect("good flags");
    assert_eq!((&after["task"], &after["inline"]["run"]["http"]["url"]), (&Value::Null, &json!("http://h/")));
}

#[tokio::test]
async fn flags_that_say_nothing_sensible_are_refused_with_a_reason() {
    for (flags, reason) in [
        (&["--cron", "61 * * * *"][..], "minute field, column 1: 61 is out of range; use 0 to 59"),
        (&["--cron", "@reboot"], "@reboot has no time"),
        (&["--zone", "Europe/Berlim"], "did you mean Europe/Berlin?"),
        (&["--every", "soon"], "is not a duration"),
        (&["--anchor", "2026-01-01T00:00:00Z"], "--every"),
        (&["--at", "2026-12-24 18:00"], "has no zone"),
        (&["--gap", "jump"], "`jump` is not known; write shift or skip"),
        (&["--overlap", "skp"], "`skp` is not known; write allow, skip, queue_one, queue_all or cancel_previous"),
        (&["--catch-up-rate", "fast"], "is not a rate, such as 60/min"),
        (&["--unset", "task"], "invalid value 'task'"),
        (&["--input", "nonsense"], "--input is not JSON"),
        (&["--task", "t", "--http", "http://h/"], "has its own definition"),
        (&["--memory", "1MiB"], "only a binary has arguments and limits of its own"),
        (&["--retries", "1"], "nothing says what to run"),
    ] {
        let refused = edited(json!({ "task": "t", "cron": "@daily" }), flags).await.expect_err(&flags.join(" "));
        assert!(refused.to_string().contains(reason), "{flags:?}: {refused}");
    }
}
