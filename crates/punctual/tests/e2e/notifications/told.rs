//! Who is told what, and in which words.

use std::time::Duration;

use punctual_core::Timestamp;

use super::{BROKEN, Office, say};
use crate::checked::plain_http;
use crate::harness::Home;
use crate::mailbox::Mailbox;

/// From the end of the job to the mail.
const TOLD_WITHIN: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_failure_is_told_in_one_readable_mail_within_five_seconds() {
    let office = Office::new();
    office.ok("notify apply ops --email 'Ops <ops@example.org>' --cc boss@example.org --window 5s");
    office.ok("task apply report --probe '{\"fail_times\":9}' --retries 1 --retry-wait 200ms");
    let id = office.fails("report");
    let job = office.json(&format!("job get {id}"));
    let mails = office.mails("the mail", |mails| !mails.is_empty());
    let mail = &mails[0];
    let arrived_us = mail.arrived_at.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_micros();
    let finished_at = Timestamp::parse(job["finished_at"].as_str().expect("it ended")).expect("a time");
    let told_after_us = i64::try_from(arrived_us).expect("a near time") - finished_at.as_micros();
    println!("told after {} ms", told_after_us / 1000);
    assert!(told_after_us < TOLD_WITHIN.as_micros() as i64, "told after {told_after_us} us");

    assert_eq!(mail.subject(), "[punctual] report failed");
    assert_eq!(mail.to, ["ops@example.org", "boss@example.org"]);
    assert!(mail.header("content-type").starts_with("text/plain"));
    let link = format!("{}/v1/jobs/{id}", office.server.url);
    for part in [
        "report failed\n",
        "attempt 2 failed as asked: the first 9 do\n",
        id.as_str(),
        "  1. failed",
        "attempt 1 failed as asked: the first 9 do",
        "  2. failed",
        job["attempts"][1]["worker"].as_str().expect("a worker"),
        link.as_str(),
    ] {
        assert!(mail.text.contains(part), "{part:?} in {}", mail.text);
    }
    let ended_at = job["finished_at"].as_str().expect("it ended");
    let ended_at = format!("{} {} UTC", &ended_at[..10], &ended_at[11..19]);
    assert!(mail.text.contains(&ended_at), "{ended_at} in {}", mail.text);
    assert!(mail.text.lines().all(|line| line.chars().count() <= 100), "{}", mail.text);
    let linked = plain_http().get(&link).send().await.expect("the link leads somewhere");
    assert_eq!(linked.status().as_u16(), 200);

    // The next failure is told when the window is over. A repetition of the first would come before it, or with it.
    let next = office.fails("report");
    let mails = office.mails("the next mail", |mails| mails.iter().any(|mail| mail.text.contains(&next)));
    assert_eq!(mails.len(), 2, "one failure is one mail: {mails:#?}");
    let log = office.json("notify log ops");
    let deliveries = log["deliveries"].as_array().expect("a list");
    assert_eq!(deliveries.len(), 2, "{log}");
    assert!(deliveries.iter().all(|delivery| delivery["events"] == 1), "{log}");
    let first = deliveries.iter().find(|delivery| delivery["job"] == mail.header("x-punctual-job"));
    assert_eq!(first.expect("the mail names its delivery")["state"], "succeeded");
}

#[test]
fn each_rule_tells_of_what_it_names() {
    let office = Office::new();
    for (rule, scope) in [("all", ""), ("task", "--task a"), ("queue", "--queue slow"), ("schedule", "--schedule s")] {
        office.ok(&format!("notify apply {rule} --email {rule}@example.org --window 5s {scope}"));
    }
    office.ok("notify apply only-missed --email missed@example.org --on missed --window 5s");
    office.ok("notify apply silent --email silent@example.org --disabled --window 5s");
    for task in ["a", "c", "d"] {
        office.ok(&format!("task apply {task} {BROKEN}"));
    }
    office.ok(&format!("task apply b {BROKEN} --queue slow"));
    office.ok("schedule create s --task c --cron '0 0 1 1 *'");
    let (a, b, d) = (office.fails("a"), office.fails("b"), office.fails("d"));
    let c = office.ok("schedule run s -o name");
    let mails = office.mails("all four are told to all", |mails| {
        let told = |id: &String| mails.iter().any(|mail| mail.to == ["all@example.org"] && mail.text.contains(id));
        [&a, &b, &c, &d].into_iter().all(told) && mails.iter().any(|mail| mail.to == ["schedule@example.org"])
    });
    let to = |rule: &str| -> String {
        let address = format!("{rule}@example.org");
        mails.iter().filter(|mail| mail.to == [address.clone()]).map(|mail| mail.text.clone()).collect()
    };
    for (rule, own) in [("task", &a), ("queue", &b), ("schedule", &c)] {
        let told = to(rule);
        assert!(told.contains(own.as_str()), "{rule}: {told}");
        let others = [&a, &b, &c, &d].into_iter().filter(|other| *other != own);
        assert!(others.into_iter().all(|other| !told.contains(other.as_str())), "{rule}: {told}");
    }
    assert_eq!((to("missed"), to("silent")), (String::new(), String::new()));
}

#[test]
fn a_test_says_what_is_missing_and_then_arrives() {
    let mailbox = Mailbox::open();
    let home = Home::new();
    let server = home.server();
    let _without_mail = home.worker(&server, &[]);
    let said = say(&home, &server, "notify apply ops --email ops@example.org");
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("punctual notify test ops"), "{}", said.err);
    let early = say(&home, &server, "notify test ops --wait-timeout 2s");
    assert_eq!(early.code, Some(124), "{}{}", early.out, early.err);
    assert!(early.err.contains("no connected worker sends mail"), "{}", early.err);
    assert!(early.err.contains("smtp_url"), "{}", early.err);
    let log = say(&home, &server, "notify log");
    assert!(log.out.contains("a test") && log.err.contains("punctual explain job_"), "{}{}", log.out, log.err);

    let settings = format!("smtp_url = \"smtp://{}\"\nsmtp_from = \"punctual@example.org\"\n", mailbox.address());
    home.set(&settings);
    let _with_mail = home.worker_with_spool(&server, "another-spool", &[]);
    let said = say(&home, &server, "notify test ops --wait-timeout 30s");
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let mails = mailbox.mails();
    let mail = mails.last().expect("it was waited for");
    assert!(mail.subject().starts_with("Test: [punctual] "), "{mail:?}");
    assert!(mail.text.starts_with("This is a test of the rule ops."), "{mail:?}");
}

#[test]
fn a_rule_has_words_of_its_own() {
    let office = Office::new();
    let write = |name: &str, text: &str| std::fs::write(office.home.file(name), text).expect("it is written");
    write("subject", "{{ counts.failed }} × {{ tasks[0].task }}\n");
    write("text", "{% for event in events %}{{ event.task }} {{ event.job }}: {{ event.reason }}\n{% endfor %}");
    write("wrong", "first\n{{ events | reverse }}");
    let refused = office.say("notify apply own --email ops@example.org --text-template wrong");
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.starts_with("error: --text-template: line 2: "), "{}", refused.err);
    let refused = office.say("notify preview --text-template wrong");
    assert!(refused.err.starts_with("error: --text-template: line 2: "), "{}", refused.err);
    let preview = office.ok("notify preview --subject-template subject --text-template text");
    assert!(preview.starts_with("Subject: 1 × nightly-report\n\nnightly-report job_"), "{preview}");
    assert!(office.ok("notify preview").starts_with("Subject: [punctual] "));

    office.ok("notify apply own --email ops@example.org --subject-template subject --text-template text");
    office.ok(&format!("task apply broken {BROKEN}"));
    let job = office.fails("broken");
    let mails = office.mails("the mail", |mails| !mails.is_empty());
    assert_eq!(mails[0].subject(), "1 × broken");
    let words = format!("broken {job}: attempt 1 failed as asked: the first 1 do");
    assert_eq!(mails[0].text.trim_end(), words);
}

#[tokio::test]
async fn the_address_of_a_channel_is_never_shown() {
    let office = Office::new();
    let address = "https://hooks.slack.com/services/T0/B0/s3cret";
    std::fs::write(office.home.file("address"), address).expect("it is written");
    let mut shown = vec![
        office.ok("notify apply chat --slack @address --window 5s"),
        office.ok("notify list"),
        office.ok("notify list -o json"),
        office.ok("notify get chat"),
        office.ok("notify get chat -o json"),
        office.ok("notify preview chat"),
    ];
    // The worker may not call it, so the delivery fails: its reason is shown in many places.
    let test = office.say("notify test chat --wait-timeout 10s -o json");
    shown.extend([test.out, test.err]);
    let log = office.json("notify log chat");
    let job = log["deliveries"][0]["job"].as_str().expect("a job").to_owned();
    assert!(log["deliveries"][0]["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "it was tried: {log}");
    let answered = plain_http().get(format!("{}/v1/jobs/{job}", office.server.url)).send().await.expect("an answer");
    shown.extend([
        log.to_string(),
        office.ok("notify log"),
        office.ok(&format!("job get {job}")),
        office.ok(&format!("explain {job}")),
        office.ok("ps -o json"),
        office.ok("task list -o json"),
        answered.text().await.expect("a body"),
    ]);
    // What is stored again as it was shown keeps the address.
    office.ok("notify disable chat");
    office.ok("notify enable chat");
    shown.push(office.ok("notify get chat -o json"));
    let again = office.say("notify test chat --wait-timeout 10s -o json");
    let reason = office.json("notify log chat")["deliveries"][0]["reason"].clone();
    assert_eq!(reason, log["deliveries"][0]["reason"], "the same address is called: {}", again.err);
    for text in &shown {
        assert!(!text.contains("s3cret"), "{text}");
    }
}

#[test]
fn a_scheduled_run_of_a_workflow_that_fails_is_told_once_as_the_failure_of_its_job() {
    let office = Office::new();
    office.ok("notify apply ops --email ops@example.org --window 5s --schedule nightly");
    let bad = r#"{"nodes":[{"name":"extract","inline":{"run":{"probe":{"fail_times":9}},"retry":{"max":0}}}]}"#;
    std::fs::write(office.home.file("flow.json"), bad).expect("it is written");
    office.ok("workflow apply flow flow.json");
    office.ok("schedule create nightly --workflow flow --cron '0 0 1 1 *'");
    let job = office.ok("schedule run nightly -o name");
    let said = office.say(&format!("wait {job} --timeout 30s"));
    assert_eq!(said.code, Some(3), "{}{}", said.out, said.err);
    let mails = office.mails("it is told", |mails| mails.iter().any(|mail| mail.text.contains(&job)));
    let run = office.json(&format!("job get {job}"))["run"].as_str().expect("its run").to_owned();
    let mail = mails.iter().find(|mail| mail.text.contains(&job)).expect("it is there");
    assert!(mail.text.contains(&format!("{run} failed")), "{}", mail.text);
    // The next one is another failure, and the first is not told again.
    let next = office.ok("schedule run nightly -o name");
    let mails = office.mails("the next is told", |mails| mails.iter().any(|mail| mail.text.contains(&next)));
    assert_eq!(mails.iter().filter(|mail| mail.text.contains(&job)).count(), 1, "{mails:#?}");
}
