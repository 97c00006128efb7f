//! No report is lost, and none is sent twice, when things die on the way.

use std::collections::BTreeSet;
use std::time::Duration;

use punctual_api::{EmailChannel, NotificationRequest, ServerView};
use punctual_client::IfMatch;
use punctual_core::Span;
use punctual_core::task::Probe;

use super::{BROKEN, Office};
use crate::cluster::{Cluster, finished, probe, submit};
use crate::harness::eventually;
use crate::mailbox::{Mail, Mailbox};

/// Of the rules here, and a little more.
const WINDOW: Duration = Duration::from_millis(5500);

#[tokio::test]
async fn a_mail_server_that_is_away_delays_a_report_and_loses_none() {
    let office = Office::with_mailbox(Mailbox::closed());
    office.ok("notify apply ops --email ops@example.org --window 5s");
    office.ok(&format!("task apply broken {BROKEN}"));
    let first = office.fails("broken");
    let log = || office.json("notify log ops");
    eventually("the delivery is refused, and goes on", async || {
        let log = log();
        let delivery = &log["deliveries"][0];
        delivery["state"] == "scheduled" && delivery["reason"].as_str().is_some_and(|reason| reason.contains("connect"))
    })
    .await;
    let second = office.fails("broken");
    assert_eq!(office.mailbox.mails().len(), 0);
    office.mailbox.listen();
    let told = |mails: &[Mail], job: &str| mails.iter().filter(|mail| mail.text.contains(job)).count();
    let mails = office.mails("both are told", |mails| told(mails, &first) > 0 && told(mails, &second) > 0);
    assert_eq!((told(&mails, &first), told(&mails, &second)), (1, 1), "{mails:#?}");
    eventually("both deliveries are on record as done", async || {
        let log = log();
        let deliveries = log["deliveries"].as_array().expect("a list");
        deliveries.len() == 2 && deliveries.iter().all(|delivery| delivery["state"] == "succeeded")
    })
    .await;
}

/// The letters that tell of a job.
fn letters(mails: &[Mail], job: &str) -> BTreeSet<String> {
    let about = mails.iter().filter(|mail| mail.text.contains(job));
    about.map(|mail| mail.header("message-id").to_owned()).collect()
}

#[test]
fn a_server_that_is_killed_between_failure_and_mail_loses_none_and_repeats_none() {
    let mut office = Office::new();
    office.ok("notify apply ops --email ops@example.org --window 5s");
    office.ok(&format!("task apply broken {BROKEN}"));
    let mut jobs = Vec::new();
    // At once; shortly before the message is made, about then, and shortly after. Twice without a mail in between.
    for (after_ms, is_quiet) in [(0, true), (900, true), (1000, true), (1100, true), (300, false), (0, true)] {
        jobs.push(office.fails("broken"));
        std::thread::sleep(Duration::from_millis(after_ms));
        office = office.after_a_crash();
        if is_quiet {
            office.mails("it is told", |mails| jobs.iter().all(|job| !letters(mails, job).is_empty()));
            // The window is over, so the next one is told after a second again.
            std::thread::sleep(WINDOW);
        }
    }
    let mails = office.mailbox.mails();
    for job in &jobs {
        // A mail that was on its way when the server died may come again, as the same letter.
        assert_eq!(letters(&mails, job).len(), 1, "{job} in {mails:#?}");
    }
    let log = office.json("notify log ops");
    let events = log["deliveries"].as_array().expect("a list").iter().filter_map(|row| row["events"].as_u64());
    assert_eq!(events.sum::<u64>(), jobs.len() as u64, "each is counted once: {log}");
    println!("{} failures and crashes, {} mails", jobs.len(), mails.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_tells_when_the_one_that_reports_dies() {
    let mailbox = Mailbox::open();
    let cluster = Cluster::new();
    let settings = format!("smtp_url = \"smtp://{}\"\nsmtp_from = \"punctual@example.org\"\n", mailbox.address());
    cluster.home.set(&settings);
    let [first, second] = cluster.pair().await;
    let _worker = cluster.worker(&first);
    let client = first.client();
    let email = EmailChannel { to: vec!["ops@example.org".to_owned()], cc: Vec::new(), requester: false };
    let rule =
        NotificationRequest { email: Some(email), window: Some(Span::from_secs(5)), ..NotificationRequest::default() };
    client.put_notification("ops", &rule, IfMatch::Any).await.expect("the rule is stored");
    let reporter = || async {
        let list = client.servers().await.expect("the servers answer");
        let reports = |server: &&ServerView| server.duties.iter().any(|duty| duty.name == "reports");
        list.servers.iter().find(reports).map(|server| server.address.clone())
    };
    eventually("one of them reports", || async { reporter().await.is_some() }).await;
    let address = reporter().await.expect("one does");
    let (reporter, other) = if first.url == address { (first, second) } else { (second, first) };
    assert_eq!(reporter.url, address);

    let client = other.client();
    let mut failing = probe(Probe { fail_times: 1, ..Probe::default() });
    failing.inline.as_mut().expect("it has a task").retry.max = 0;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(submit(&client, &failing).await);
    }
    for job in &jobs {
        assert_eq!(finished(&client, *job).await.state, "failed");
    }
    reporter.kill();
    let is_told = || jobs.iter().all(|job| !letters(&mailbox.mails(), &job.to_string()).is_empty());
    eventually("the other server tells", || async { is_told() }).await;
    // The next failure is told when the window is over. A repetition would come before it, or with it.
    let next = submit(&client, &failing).await;
    assert_eq!(finished(&client, next).await.state, "failed");
    let is_told = || !letters(&mailbox.mails(), &next.to_string()).is_empty();
    eventually("the next failure is told", || async { is_told() }).await;
    for job in &jobs {
        assert_eq!(letters(&mailbox.mails(), &job.to_string()).len(), 1, "{job} in {:#?}", mailbox.mails());
    }
}
