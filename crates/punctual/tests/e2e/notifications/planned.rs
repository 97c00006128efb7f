//! What does not happen is told as well: planned times that were missed, and that all is well again.

use std::time::Duration;

use super::{BROKEN, Office};
use crate::mailbox::Mail;

fn about<'a>(mails: &'a [Mail], words: &str) -> Option<&'a Mail> {
    mails.iter().find(|mail| mail.text.contains(words))
}

/// How late the server decides at most, so that the test need not be away for a minute.
const MISSED_AFTER: (&str, &str) = ("PUNCTUAL_MISSED_AFTER", "1s");

#[test]
fn a_time_that_was_missed_is_told_with_its_zone() {
    let Office { home, server, worker, mailbox } = Office::new();
    let address = server.address();
    server.process.stop();
    let server = home.server_with(&address, &[], &[MISSED_AFTER]);
    let office = Office { home, server, worker, mailbox };
    office.ok("notify apply ops --email ops@example.org --window 5s");
    office.ok("task apply report --probe '{}'");
    office.ok("schedule create often --task report --every 1s --catch-up none --zone Europe/Berlin");
    let Office { home, server, worker, mailbox } = office;
    server.kill();
    // It is away for several of its times.
    std::thread::sleep(Duration::from_secs(5));
    let server = home.server_with(&address, &[], &[MISSED_AFTER]);
    let office = Office { home, server, worker, mailbox };
    let mails = office.mails("it is told", |mails| about(mails, "missed").is_some());
    let mail = about(&mails, "missed").expect("it is there");
    assert!(mail.subject().starts_with("[punctual] ") && mail.subject().contains("missed"), "{mail:#?}");
    for part in ["schedule often\n", "planned  20", " UTC\n", " (Europe/Berlin)\n"] {
        assert!(mail.text.contains(part), "{part:?} in {}", mail.text);
    }
    let missed = office.json("schedule history often --verdict missed");
    assert!(missed["occurrences"].as_array().is_some_and(|times| times.len() >= 2), "{missed}");
}

#[test]
fn a_job_that_waits_for_too_long_is_told_once() {
    let office = Office::new();
    office.ok("notify apply ops --email ops@example.org --on late --late-after 5s --window 5s");
    office.ok("task apply orphan --handler nobody");
    let job = office.ok("run orphan -o name");
    let mails = office.mails("it is told", |mails| about(mails, &job).is_some());
    let mail = about(&mails, &job).expect("it is there");
    assert_eq!(mail.subject(), "[punctual] orphan is late");
    assert!(mail.text.contains("late by  ") && mail.text.contains("It has not started yet."), "{}", mail.text);
    let overdue = office.say("overdue --after 5s");
    assert!(overdue.out.contains(&job) && overdue.out.contains("has the handler nobody"), "{}", overdue.out);
    // Whoever finds the next late job has looked at the first one again.
    let next = office.ok("run orphan -o name");
    let mails = office.mails("the next is told", |mails| about(mails, &next).is_some());
    assert_eq!(mails.len(), 2, "{mails:#?}");
    assert_eq!(mails.iter().filter(|mail| mail.text.contains(&job)).count(), 1, "{mails:#?}");
}

#[test]
fn that_a_task_is_well_again_is_told_once() {
    let office = Office::new();
    office.ok("notify apply ops --email ops@example.org --window 5s");
    office.ok(&format!("task apply flaky {BROKEN}"));
    office.ok("task apply sound --probe '{}'");
    let failed = office.fails("flaky");
    office.mails("the failure is told", |mails| about(mails, &failed).is_some());
    let overdue = office.json("overdue");
    assert_eq!((&overdue["ailing"][0]["task"], &overdue["ailing"][0]["failures"]), (&"flaky".into(), &1.into()));
    assert!(office.ok("overdue").contains("flaky"), "{}", office.ok("overdue"));

    office.ok("task apply flaky --probe '{}'");
    office.ok("run sound --wait -o name");
    let recovered = office.ok("run flaky --wait -o name");
    let mails = office.mails("the recovery is told", |mails| about(mails, &recovered).is_some());
    let mail = about(&mails, &recovered).expect("it is there");
    assert_eq!(mail.subject(), "[punctual] flaky is well again");
    // What goes on being well is no news.
    let well = office.ok("run flaky --wait -o name");
    assert_eq!(office.json("overdue")["ailing"], serde_json::json!([]));
    // Notices are taken in order, so a notice of that success would be told before this failure, or with it.
    office.ok(&format!("task apply other {BROKEN}"));
    let failed = office.fails("other");
    let mails = office.mails("the next failure is told", |mails| about(mails, &failed).is_some());
    assert_eq!(mails.len(), 3, "{mails:#?}");
    assert!(about(&mails, &well).is_none(), "{mails:#?}");
    assert_eq!(about(&mails, &failed).expect("it is there").subject(), "[punctual] other failed");
}

#[test]
fn mailto_of_a_crontab_becomes_a_rule() {
    let office = Office::new();
    let crontab = format!(
        "MAILTO=cron@example.org\n30 2 * * * curl -fsS {0}/nowhere\n@daily curl -fsS {0}/livez\n\
         MAILTO=\"\"\n@daily curl -fsS {0}/nothing\n",
        office.server.url
    );
    std::fs::write(office.home.file("crontab"), crontab).expect("it is written");
    let dry = office.say("import crontab crontab --dry-run");
    assert!(dry.out.contains("cron@example.org") && dry.err.contains("Cron mails whatever"), "{}{}", dry.out, dry.err);
    assert_eq!(office.ok("notify list -o name"), "", "a dry run makes nothing");
    let made = office.say("import crontab crontab");
    assert_eq!(made.code, Some(0), "{}", made.err);
    assert!(made.err.contains("punctual notify test crontab-mail-"), "{}", made.err);
    let rules = office.ok("notify list -o name");
    assert_eq!(rules.lines().count(), 1, "{rules}");
    let rule = office.json(&format!("notify get {rules}"));
    assert_eq!(rule["on"], serde_json::json!(["failed", "lost", "quarantined", "missed"]));
    assert_eq!(rule["schedules"].as_array().map(Vec::len), Some(2), "{rule}");

    let names = office.ok("schedule list -o name");
    for name in names.lines() {
        office.say(&format!("schedule run {name} --wait"));
    }
    let mails = office.mails("the failure is told", |mails| !mails.is_empty());
    let failing = office.json("job list --state failed");
    assert_eq!(failing["jobs"].as_array().map(Vec::len), Some(2), "{failing}");
    assert!(mails[0].to == ["cron@example.org"] && mails[0].subject().ends_with(" failed"), "{mails:#?}");
    assert_eq!(mails[0].text.matches("/v1/jobs/").count(), 1, "the lines without MAILTO are not told: {mails:#?}");

    // What somebody made of the rule stays when the crontab is imported again.
    let name = rules.trim_end();
    office.ok(&format!(
        "notify apply {name} --email cron@example.org --cc boss@example.org --window 10m --on failed,late --late-after 7m --disabled"
    ));
    let again = office.say("import crontab crontab");
    assert_eq!(again.code, Some(0), "{}", again.err);
    assert!(again.err.contains(&format!("Still disabled: {name}.")), "{}", again.err);
    let kept = office.json(&format!("notify get {name}"));
    assert_eq!(
        (&kept["enabled"], &kept["window"], &kept["late_after"]),
        (&false.into(), &"PT10M".into(), &"PT7M".into())
    );
    assert_eq!(kept["email"], serde_json::json!({ "to": ["cron@example.org"], "cc": ["boss@example.org"] }));
    assert_eq!((&kept["schedules"], &kept["on"]), (&rule["schedules"], &serde_json::json!(["failed", "late"])));

    // Other addresses are another rule; the former one is named, not removed.
    std::fs::write(office.home.file("crontab"), format!("MAILTO=new@example.org\n@daily curl {}\n", office.server.url))
        .expect("it is written");
    let again = office.say("import crontab crontab");
    assert!(
        again.err.contains(&format!("1 rule with the prefix `crontab-` is not in this crontab: {rules}.")),
        "{}",
        again.err
    );
    std::fs::write(office.home.file("crontab"), "MAILTO=a@b@c\n@daily curl http://127.0.0.1/new\n")
        .expect("it is written");
    let refused = office.say("import crontab crontab --prefix other-");
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("line 2: error: MAILTO: `a@b@c` is not"), "{}", refused.err);
    assert_eq!(office.ok("schedule list --prefix other- -o name"), "", "nothing was made");
    let rest = office.say("import crontab crontab --prefix other- --keep-going");
    assert_eq!(rest.code, Some(9), "{}", rest.err);
    assert_eq!(office.ok("schedule list --prefix other- -o name").lines().count(), 1, "the line is imported");
    assert!(!office.ok("notify list -o name").contains("other-mail-"), "its list is not");
}
