//! From create to delete.

use serde_json::json;

use super::World;
use crate::binaries::compile_c;
use crate::harness::eventually;

#[tokio::test]
async fn a_schedule_runs_is_changed_and_tells_what_became_of_it() {
    let world = World::new();
    world.ok("task apply hello --probe '{\"output\":\"hi\"}'");
    let told = world.ok("schedule create beat --task hello --every 1s");
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!((lines[0], lines.len()), ("beat  every 1s, Europe/Berlin", 4), "{told}");
    let fired = || world.json("schedule history beat --verdict fired");
    eventually("it fires", async || fired()["occurrences"].as_array().is_some_and(|times| times.len() >= 3)).await;
    let job = fired()["occurrences"][2]["job"].as_str().expect("a job").to_owned();
    world.ok(&format!("wait {job}"));
    let shown = world.ok(&format!("job get {job}"));
    assert!(shown.contains("schedule    beat, planned for "), "{shown}");
    assert!(world.ok("ps").contains("by schedule"), "{}", world.ok("ps"));

    world.ok("schedule pause beat --note 'too loud'");
    let paused = world.ok("schedule get beat");
    assert!(paused.starts_with("beat  paused\n") && paused.contains(": too loud\n"), "{paused}");
    assert_eq!(world.ok("schedule list --paused -o name"), "beat\n");
    assert_eq!(world.ok("schedule list --not-paused -o name"), "");
    eventually("paused times are on record", async || {
        !world.ok("schedule history beat --verdict skipped_paused -o name").is_empty()
    })
    .await;
    let manual = world.json("schedule run beat --wait");
    assert_eq!((&manual["state"], &manual["schedule"]["kind"]), (&json!("succeeded"), &json!("manual")));

    let edited = world.ok("schedule edit beat --cron '30 2 * * MON-FRI' --zone America/New_York");
    assert!(edited.starts_with("beat  at 02:30, Monday to Friday, America/New_York\n"), "{edited}");
    world.ok("schedule resume beat");
    assert_eq!(world.ok("schedule skip beat --count 2").lines().count(), 2);
    let definition = &world.json("schedule get beat")["definition"];
    assert_eq!((&definition["every"], &definition["task"]), (&json!(null), &json!("hello")));
    world.ok("schedule delete beat");
    let gone = world.say("schedule get beat");
    assert_eq!(gone.code, Some(5), "{}", gone.err);
    assert!(gone.err.contains("punctual schedule list"), "{}", gone.err);
}

#[tokio::test]
async fn a_run_beside_the_plan_obeys_the_overlap_policy_and_a_queue_can_be_cleared() {
    let world = World::new();
    world.ok("task apply slow --probe '{\"sleep\":\"5m\"}'");
    world.ok("schedule create slow --task slow --every 1h --overlap skip");
    let first = world.ok("schedule run slow").trim().to_owned();
    let skipped = world.say("schedule run slow");
    assert_eq!((skipped.code, skipped.out.as_str()), (Some(6), ""), "{}", skipped.err);
    assert!(skipped.err.contains(&format!("slow was not run: {first} had not ended.")), "{}", skipped.err);
    assert_eq!(world.json("schedule run slow --overlap allow")["outcome"], json!("started"));

    let queued = world.say("schedule run slow --overlap queue-one");
    assert_eq!((queued.code, queued.out.as_str()), (Some(0), ""), "{}", queued.err);
    assert!(queued.err.contains("slow waits for the run before it to end."), "{}", queued.err);
    let late = world.say("schedule run slow --overlap queue-all --wait --wait-timeout 1s");
    assert_eq!(late.code, Some(124), "{}", late.err);
    assert_eq!(world.json("schedule clear-queue slow")["skipped"], json!(2));
    let history = world.json("schedule history slow --verdict skipped_by_request");
    assert_eq!(history["occurrences"][0]["explanation"], json!("did not run: local cleared the queue"), "{history}");
    assert_eq!(world.json("schedule get slow")["changes"][0]["kind"], json!("queue_cleared"));
    assert_eq!(world.say("schedule clear-queue slow").code, Some(0));

    let cancels = world.json("schedule run slow --overlap cancel-previous");
    assert_eq!(cancels["outcome"], json!("cancels_previous"));
    eventually("the run before is cancelled and the new one starts", async || {
        let fired = world.json("schedule history slow --verdict fired");
        let is_ended = world.json(&format!("job get {first}"))["state"] == json!("cancelled");
        is_ended && fired["occurrences"][0]["at"] == cancels["at"]
    })
    .await;

    world.ok("schedule edit slow --overlap allow");
    let refused = world.say("schedule run slow --overlap skip");
    assert_eq!(refused.code, Some(6), "{}", refused.err);
    assert!(refused.err.contains("its overlap policy is `allow`"), "{}", refused.err);
}

#[test]
fn a_program_of_ones_own_is_uploaded_and_scheduled() {
    let world = World::new();
    compile_c(&world.home, "tool", "#include <stdio.h>\nint main(int count, char **args) { puts(args[count - 1]); }");
    world.ok("schedule create tool --task ./tool --daily 02:30 --retries 0 -- --full");
    let job = world.json("schedule run tool --wait");
    assert_eq!((&job["state"], &job["task"]["kind"]), (&json!("succeeded"), &json!("binary")), "{job}");
    let log = world.ok(&format!("logs {}", job["id"].as_str().expect("an id")));
    assert!(log.contains("--full"), "{log}");
    let shown = world.ok("schedule get tool");
    assert!(shown.contains("  runs           artifact_"), "{shown}");
}

#[test]
fn a_day_is_answered_in_words_whether_it_is_over_or_to_come() {
    let world = World::new();
    world.ok("schedule create nightly --probe '{}' --daily 02:30 --start-at 2026-01-01T00:00:00Z");
    let past = world.ok("schedule history nightly --on 2020-02-03");
    assert!(past.starts_with("2020-02-03  ") && past.lines().count() == 1, "{past}");
    let future = world.ok("schedule history nightly --on 2031-07-01");
    assert_eq!(future, "2031-07-01  still to come, Europe/Berlin: 2031-07-01 02:30+02:00\n");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "today is a matter of the real clock")]
fn of_today_only_what_is_still_to_come_is_promised() {
    let world = World::new();
    // In a zone where it is noon.
    let now = jiff::Timestamp::now();
    let hours = 12 - i64::from(now.to_zoned(jiff::tz::TimeZone::UTC).hour());
    // Their signs are the wrong way round.
    let zone = format!("Etc/GMT{:+}", -hours);
    let today = (now + jiff::SignedDuration::from_hours(hours)).strftime("%Y-%m-%d").to_string();
    world.ok(&format!("schedule create hourly --probe '{{}}' --every 1h --zone {zone}"));
    let told = world.ok(&format!("schedule history hourly --on {today}"));
    assert!(told.contains("still to come") && !told.contains(&format!("{today} 00:00")), "{told}");
    world.ok("schedule pause hourly");
    let told = world.ok(&format!("schedule history hourly --on {today}"));
    assert!(told.starts_with(&format!("{today}  planned, but the schedule is paused, {zone}: ")), "{told}");
    world.ok(&format!("schedule create early --probe '{{}}' --daily 06:00 --zone {zone}"));
    let told = world.ok(&format!("schedule history early --on {today}"));
    assert!(told.contains("nothing is on record: the schedule was created later"), "{told}");
}

#[test]
fn what_the_server_refuses_is_told_with_the_flag() {
    let world = World::new();
    world.ok("task apply hello --probe '{}'");
    for (line, code, part) in [
        ("schedule create x --task nope --cron @daily", 5, "punctual task list"),
        ("schedule create x --task hello --daily 25:00", 2, "--daily"),
        ("schedule create x --task hello --every 1ms", 2, "--every"),
        ("schedule create x --task hello --cron @daily --jitter 25h", 2, "--jitter"),
        ("schedule create x --task hello --cron @daily --catch-up-max 0", 2, "--catch-up-max"),
        ("schedule create x --task hello --cron @daily --catch-up none --catch-up-max 3", 2, "use --catch-up all"),
        ("schedule create x --task hello --cron @daily --missed-after 2h", 2, "--missed-after: must be 1s to 1h"),
        ("schedule create x --task hello --cron 'CRON_TZ=Asia/Tokyo 0 9 * * *'", 2, "zone to `Asia/Tokyo`"),
        (
            "schedule create x --task hello --cron @daily --exclude nope",
            2,
            "--exclude: there is no calendar `nope`. `punctual calendar apply` makes one;",
        ),
        ("schedule create x --task hello --at 2020-01-01T00:00:00Z", 2, "Set a later --at or --end-at"),
        ("schedule create 'a b' --task hello --cron @daily", 2, "name"),
        ("schedule pause nope", 5, "punctual schedule list"),
        ("calendar get nope", 5, "punctual calendar list"),
    ] {
        let said = world.say(line);
        assert_eq!(said.code, Some(code), "{line}: {}", said.err);
        assert!(said.err.contains(part), "{line}: {}", said.err);
    }
    world.ok("schedule create x --task hello --cron @daily");
    let taken = world.say("schedule create x --task hello --cron @daily");
    assert_eq!(taken.code, Some(6), "{}", taken.err);
    let used = world.say("task delete hello");
    assert_eq!(used.code, Some(6), "{}", used.err);
}

#[test]
fn a_calendar_closes_days_and_a_preview_shows_it() {
    let world = World::new();
    let ics = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20310101\r\nDTEND;VALUE=DATE:20310103\r\n\
               SUMMARY:New Year\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
    std::fs::write(world.path().join("new-year.ics"), ics).expect("the file is written");
    world.ok("calendar apply new-year --file new-year.ics");
    assert!(world.ok("calendar get new-year").ends_with("\n  2031-01-01\n  2031-01-02\n"));
    let preview = world.ok("schedule preview --daily 09:00 --exclude new-year --from 2030-12-31 --count 4");
    let days: Vec<bool> = preview.lines().skip(2).take(4).map(|line| line.contains("does not")).collect();
    assert_eq!(days, [false, true, true, false], "{preview}");
    world.ok("schedule create morning --probe '{}' --daily 09:00 --exclude new-year");
    let used = world.say("calendar delete new-year");
    assert_eq!(used.code, Some(6), "{}", used.err);
    assert!(used.err.contains("morning"), "{}", used.err);
    world.ok("schedule edit morning --unset exclude");
    world.ok("calendar delete new-year");
}

#[test]
fn a_preview_tells_of_clock_changes() {
    let world = World::new();
    let preview = world.ok("schedule preview --cron '30 2 * * *' --zone Europe/Berlin --from 2027-03-27 --count 3");
    assert!(preview.contains("2027-03-28 03:00+02:00  2027-03-28 01:00Z"), "{preview}");
    assert!(preview.contains("Clock changes of the coming 12 months that touch it (Europe/Berlin):"), "{preview}");
    let untouched = world.ok("schedule preview --every 1h");
    assert!(untouched.contains("No clock change of the coming 12 months touches it"), "{untouched}");
}
