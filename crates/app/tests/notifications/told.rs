//! What is told, when, and how often.

use crate::world::by;
use punctual_api::OverdueQuery;
use punctual_app::{Reports, Round};
use punctual_core::Span;
use punctual_core::notice::{Notice, NoticeKind};
use punctual_core::schedule::Verdict;
use punctual_core::task::Run;
use punctual_store::{NewJob, Notices, Tasks};
use punctual_store_tests::fixture::{at, named_task, new_job, original, owner_of, start, submit, task_id};
use punctual_store_tests::report_fixture::{notice, tell};
use punctual_store_tests::schedule_fixture::{add, decide, unfired};
use serde_json::json;

use super::{fail, interval, mail, report, schedule, sent, summaries, text, with, world_with};

#[tokio::test]
async fn a_job_that_fails_becomes_one_message_a_second_later() {
    let world = world_with(&[("ops", mail())]).await;
    let job = new_job(1, 60, 0);
    let mut owner = owner_of(&world.store, std::slice::from_ref(&job)).await;
    fail(&mut owner, &job).await;
    world.pass(102);
    let mut reports = Reports::default();
    assert_eq!(reports.round(&world.app).await.unwrap(), Round::Done { is_more: false });
    assert_eq!(summaries(&world).await, Vec::<String>::new(), "others may come");
    let waiting = world.app.notification(&by(&world.app), "ops").await.unwrap().waiting.unwrap();
    assert_eq!((waiting.events, waiting.send_at), (1, at(103)));
    world.pass(1);
    report(&world, &mut reports).await;
    let mut sent = sent(&world).await;
    let (summary, events, task, input) = sent.pop().unwrap();
    assert!(sent.is_empty());
    assert_eq!((summary.as_str(), events), ("report failed", 1));
    let text = text(&task, &input);
    let Run::Email(mail) = task.spec.run else { panic!("it is a mail") };
    assert_eq!(mail.to, ["ops@example.com"]);
    assert_eq!(mail.subject, "[punctual] report failed");
    for part in [
        "report failed\nattempt 1 failed\n",
        "at       2026-11-16 08:01:42 UTC",
        &format!("job      {}", job.id),
        "  1. failed after 1s",
        &format!("http://127.0.0.1:8020/v1/jobs/{}", job.id),
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    world.pass(1000);
    report(&world, &mut reports).await;
    assert_eq!(summaries(&world).await.len(), 1, "it is told once");
    assert_eq!(world.store.waiting_notices(10).await.unwrap(), []);
}

/// Runs a test on a runtime that writes no text while its one thread for that is taken.
fn with_one_writer(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(test);
}

/// Takes that thread until the sender is dropped.
fn hold_writer() -> std::sync::mpsc::Sender<()> {
    let (held, waiting) = std::sync::mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || waiting.recv());
    held
}

#[test]
fn of_two_servers_that_both_report_one_does() {
    with_one_writer(two_servers());
}

async fn two_servers() {
    let world = world_with(&[("ops", mail())]).await;
    let job = new_job(1, 60, 0);
    let mut owner = owner_of(&world.store, std::slice::from_ref(&job)).await;
    fail(&mut owner, &job).await;
    world.pass(200);
    let (mut one, mut other) = (Reports::default(), Reports::default());
    let held = hold_writer();
    // Both have read everything by the time at which either can go on.
    let (first, second, ()) = tokio::join!(one.round(&world.app), other.round(&world.app), async move { drop(held) });
    let rounds = [first.unwrap(), second.unwrap()];
    assert!(rounds.contains(&Round::Conflict) && rounds.contains(&Round::Done { is_more: false }), "{rounds:?}");
    world.pass(200);
    report(&world, &mut one).await;
    report(&world, &mut other).await;
    assert_eq!(summaries(&world).await, ["report failed"]);
}

#[test]
fn a_server_that_dies_while_it_reports_loses_nothing_and_repeats_nothing() {
    with_one_writer(a_death());
}

async fn a_death() {
    let world = world_with(&[("ops", mail())]).await;
    let job = new_job(1, 60, 0);
    let mut owner = owner_of(&world.store, std::slice::from_ref(&job)).await;
    fail(&mut owner, &job).await;
    world.pass(200);
    {
        let _held = hold_writer();
        let mut reports = Reports::default();
        // It has read everything, and dies while it writes the text.
        let round = tokio::time::timeout(std::time::Duration::ZERO, reports.round(&world.app)).await;
        assert!(round.is_err(), "it was still under way");
    }
    assert_eq!(summaries(&world).await, Vec::<String>::new());
    report(&world, &mut Reports::default()).await;
    assert_eq!(summaries(&world).await, ["report failed"]);
    report(&world, &mut Reports::default()).await;
    assert_eq!(summaries(&world).await, ["report failed"]);
}

#[tokio::test]
async fn a_storm_is_a_few_messages_with_all_in_them() {
    let world = world_with(&[("ops", mail())]).await;
    let mut owner = owner_of(&world.store, &[]).await;
    for page in 0..5 {
        let notices: Vec<_> = (0..1000).map(|_| tell(&notice(NoticeKind::Failed, page, 0))).collect();
        owner.done(notices).await;
    }
    let mut reports = Reports::default();
    for _ in 0..130 {
        report(&world, &mut reports).await;
        world.pass(1);
    }
    let sent = sent(&world).await;
    assert!(sent.len() <= 2, "{}", sent.len());
    assert_eq!(sent.iter().map(|(_, events, ..)| events).sum::<u32>(), 5000);
    let ailing = &world.app.overdue(&by(&world.app), OverdueQuery::default()).await.unwrap().ailing[0];
    assert_eq!((ailing.task.as_str(), ailing.failures), ("report", 5000));
}

#[tokio::test]
async fn only_what_had_failed_recovers() {
    let world = world_with(&[("ops", mail())]).await;
    let mut owner = owner_of(&world.store, &[]).await;
    let mut reports = Reports::default();
    owner.done(vec![tell(&notice(NoticeKind::Recovered, 1, 0))]).await;
    world.pass(100);
    report(&world, &mut reports).await;
    owner.done(vec![tell(&notice(NoticeKind::Failed, 101, 0)), tell(&notice(NoticeKind::Recovered, 102, 0))]).await;
    owner.done(vec![tell(&notice(NoticeKind::Recovered, 103, 1))]).await;
    world.pass(100);
    report(&world, &mut reports).await;
    assert_eq!(summaries(&world).await, ["report: 1 failed, 1 recovered"]);
    assert_eq!(world.store.ailing(None, 10).await.unwrap(), []);
}

#[tokio::test]
async fn a_job_that_waits_too_long_is_told_once() {
    let world = world_with(&[("late", with(json!({"on": ["late"], "late_after": "60s"})))]).await;
    // One that runs, by a worker whose server is away, is not late.
    let (waits, runs) = (new_job(1, 10, 0), new_job(2, 11, 0));
    let mut owner = owner_of(&world.store, &[waits.clone(), runs.clone()]).await;
    owner.done(vec![start(original(&runs), 1)]).await;
    let mut reports = Reports::default();
    for _ in 0..100 {
        report(&world, &mut reports).await;
        world.pass(1);
    }
    assert_eq!(summaries(&world).await, ["report is late"]);
    // It starts at last, and its owner says so.
    let lateness = Some(Span::from_secs(90));
    let started = Notice { job: Some(waits.id), lateness, ..notice(NoticeKind::Late, 100, 0) };
    owner.done(vec![tell(&started)]).await;
    // Another one started late before anybody saw it wait.
    let lateness = Some(Span::from_secs(61));
    owner.done(vec![tell(&Notice { lateness, ..notice(NoticeKind::Late, 101, 0) })]).await;
    // And one is not late by this rule.
    let lateness = Some(Span::from_secs(59));
    owner.done(vec![tell(&Notice { lateness, ..notice(NoticeKind::Late, 101, 0) })]).await;
    for _ in 0..100 {
        report(&world, &mut reports).await;
        world.pass(1);
    }
    assert_eq!(summaries(&world).await, ["report is late", "report is late"]);
    let texts: Vec<String> = sent(&world).await.into_iter().map(|(_, _, task, input)| text(&task, &input)).collect();
    assert!(texts[0].contains("It has not started yet.") && texts[0].contains("late by  1m"), "{}", texts[0]);
    assert!(texts[1].contains("It has started by now.") && texts[1].contains("late by  1m 1s"), "{}", texts[1]);
}

#[tokio::test]
async fn a_planned_time_that_nobody_decides_about_is_told_once_and_shown() {
    let world = world_with(&[("ops", mail())]).await;
    let mut owner = owner_of(&world.store, &[]).await;
    let stuck = schedule(1, "stuck", 2, &interval(60));
    let paused = schedule(2, "decided", 3, &interval(60));
    owner.done(vec![add(&stuck), add(&paused)]).await;
    // The next full hour is 09:00, an hour after the begin.
    owner.done(vec![decide(&unfired(paused.id, 3600, Verdict::SkippedByRequest))]).await;
    let mut reports = Reports::default();
    world.pass(3600 + 119);
    report(&world, &mut reports).await;
    world.pass(4);
    for _ in 0..60 {
        report(&world, &mut reports).await;
        world.pass(4);
    }
    assert_eq!(summaries(&world).await, ["report is overdue"]);
    let overdue = world.app.overdue(&by(&world.app), OverdueQuery::default()).await.unwrap();
    let [planned] = &overdue.planned[..] else { panic!("{overdue:?}") };
    assert_eq!((planned.schedule.as_str(), planned.at), ("stuck", at(3600)));
    assert_eq!(planned.local, "2026-11-16T10:00:00+01:00");
    assert!(planned.why.contains("shard"), "{}", planned.why);
    assert!(!overdue.planned_is_partial);
    // It gets its verdict, and the next one is overdue an hour later.
    owner.done(vec![decide(&unfired(stuck.id, 3600, Verdict::Missed))]).await;
    for _ in 0..1000 {
        report(&world, &mut reports).await;
        world.pass(4);
    }
    // Both are, now that nobody decides any more.
    assert_eq!(summaries(&world).await.len(), 2);
}

#[tokio::test]
async fn what_is_gone_by_then_is_named_by_its_id() {
    let world = world_with(&[("ops", mail())]).await;
    let mut owner = owner_of(&world.store, &[]).await;
    let gone = Notice { task: Some(task_id(99)), job: Some(new_job(9, 1, 1).id), ..notice(NoticeKind::Failed, 1, 1) };
    owner.done(vec![tell(&gone)]).await;
    world.pass(60);
    report(&world, &mut Reports::default()).await;
    assert_eq!(summaries(&world).await, [format!("{} failed", task_id(99))]);
}

#[tokio::test]
async fn a_notice_without_a_task_is_that_of_its_job_and_quiet_ones_are_not_told() {
    let world = world_with(&[("ops", mail())]).await;
    let mut quiet = named_task(2, "quiet");
    quiet.spec.quiet = true;
    world.store.create_task(quiet).await.unwrap();
    let (loud, silent) = (new_job(1, 10, 0), NewJob { task: task_id(2), ..new_job(2, 10, 0) });
    let mut owner = owner_of(&world.store, std::slice::from_ref(&loud)).await;
    submit(&world.store, vec![silent.clone()]).await.unwrap();
    for job in [&loud, &silent] {
        let untold = Notice { task: None, job: Some(job.id), ..notice(NoticeKind::Failed, 20, 0) };
        owner.done(vec![tell(&untold)]).await;
    }
    world.pass(60);
    report(&world, &mut Reports::default()).await;
    assert_eq!(summaries(&world).await, ["report failed"]);
    let overdue = world.app.overdue(&by(&world.app), OverdueQuery { after: Some("5s".to_owned()) }).await.unwrap();
    let shown: Vec<_> = overdue.jobs.iter().map(|job| job.job).collect();
    assert_eq!((shown, overdue.jobs_total), (vec![loud.id, silent.id], 2), "who looks sees what nobody is told of");
}
