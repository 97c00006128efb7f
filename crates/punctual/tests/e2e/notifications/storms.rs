//! Many failures, few mails.

use std::time::{Duration, Instant};

use punctual_api::{BulkRequest, JobRequest};

use super::{BROKEN, Office};
use crate::harness::eventually;
use crate::mailbox::Mail;

const JOBS: usize = 10_000;
const PARTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(1200);
/// What people still read.
const MAILS_MAX: usize = 5;

/// `9,997`
fn number(text: &str) -> Option<usize> {
    text.replace(',', "").parse().ok()
}

/// How many failures a mail tells of.
fn failures(mail: &Mail) -> usize {
    let first = mail.text.lines().next().unwrap_or_default();
    match first.split_once(" failed") {
        Some((count, "")) if number(count).is_some() => number(count).unwrap_or_default(),
        // One is told by its task's name.
        Some((_, "")) => 1,
        _ => panic!("{first:?} tells no number: {}", mail.text),
    }
}

/// The same, counted by task.
fn failures_by_task(mail: &Mail) -> usize {
    let counts = mail.text.lines().filter_map(|line| {
        let (_, count) = line.strip_prefix("  storm-")?.split_once(": ")?;
        number(count.strip_suffix(" failed")?)
    });
    counts.sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_failures_make_a_handful_of_mails() {
    let office = Office::new();
    office.ok("notify apply ops --email ops@example.org --window 6s");
    office.ok(&format!("task apply storm-a {BROKEN}"));
    office.ok(&format!("task apply storm-b {BROKEN}"));
    let client = office.server.client();
    let begun = Instant::now();
    // Longer than a window or two: they go on while messages go out.
    for _ in 0..PARTS {
        for task in ["storm-a", "storm-b"] {
            let job = JobRequest { task: Some(task.to_owned()), ..JobRequest::default() };
            let jobs = vec![job; JOBS / PARTS / 2];
            client.submit_bulk(&BulkRequest { jobs }).await.expect("they are taken");
        }
        tokio::time::sleep(PAUSE).await;
    }
    eventually("all of them have failed", || async {
        client.stats().await.expect("the server answers").failed >= JOBS as u64
    })
    .await;
    let failed_within = begun.elapsed();
    assert!(failed_within < Duration::from_secs(60), "{failed_within:?}");
    let total = |mails: &[Mail]| mails.iter().map(failures).sum::<usize>();
    let mails = office.mails("all are told", |mails| total(mails) >= JOBS);
    println!("{JOBS} failures within {failed_within:.1?}, told in {} mails", mails.len());
    assert_eq!(total(&mails), JOBS, "each is told once");
    assert!((2..=MAILS_MAX).contains(&mails.len()), "{} mails", mails.len());
    for mail in mails.iter().filter(|mail| mail.text.contains("By task:")) {
        assert_eq!(failures_by_task(mail), failures(mail), "{}", mail.text);
    }
    // A storm is told with samples, not with ten thousand jobs.
    let largest = mails.iter().max_by_key(|mail| failures(mail)).expect("there are mails");
    let samples = largest.text.matches("/v1/jobs/job_").count();
    assert!((1..=20).contains(&samples), "{samples} samples: {}", largest.text);
}
