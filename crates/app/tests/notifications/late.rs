//! What the watcher tells of, and what it leaves to owners.

use bytes::Bytes;
use punctual_api::{ListQuery, NoteRequest, OverdueQuery};
use punctual_app::{Reports, Round};
use punctual_core::notice::{Notice, NoticeKind};
use punctual_core::schedule::{Plan, ScheduleRow, ScheduleSpec, Source, SourceKind, seed_of};
use punctual_core::shard::write::{JobWrite, Write};
use punctual_core::{AttemptNo, NamespaceId, Span, Timestamp};
use punctual_store::{LogChunk, Logs, NewJob, Notices};
use punctual_store_tests::fixture::{Owner, at, given_back, new_job, original, owner_of, submit};
use punctual_store_tests::report_fixture::{notice, tell};
use punctual_store_tests::schedule_fixture::{add, watermark};
use serde_json::{Value, json};

use super::{interval, put, report, schedule, sent, summaries, text, with, world_with};
use crate::world::{World, by};

pub(super) fn late_rule() -> Value {
    with(json!({"on": ["late"], "late_after": "60s"}))
}

pub(super) async fn go_on(world: &World, reports: &mut Reports, secs: i64) {
    for _ in 0..secs {
        report(world, reports).await;
        world.pass(1);
    }
}

pub(super) async fn events(world: &World) -> u32 {
    sent(world).await.iter().map(|(_, events, ..)| events).sum()
}

/// A run of a schedule that was planned for second 10, and whose job was made for `due`.
pub(super) fn run_of(schedule: &ScheduleRow, due: i64) -> NewJob {
    let source = Source { schedule: schedule.id, at: at(10), kind: SourceKind::Planned, is_tracked: false };
    NewJob { source: Some(source), ..new_job(1, due, schedule.id.shard().0) }
}

/// A schedule whose runs may be late for 200 seconds.
pub(super) async fn patient(owner: &mut Owner<'_>) -> ScheduleRow {
    let spec = ScheduleSpec { late_after: Some(Span::from_secs(200)), ..interval(60) };
    let row = schedule(1, "patient", 2, &spec);
    owner.done(vec![add(&row)]).await;
    row
}

pub(super) fn started(job: &NewJob, start: i64, lateness: i64) -> Notice {
    let planned = job.source.as_ref().map(|source| (source.schedule, source.at));
    let late = notice(NoticeKind::Late, start, job.id.shard().0);
    Notice { job: Some(job.id), planned, lateness: Some(Span::from_secs(lateness)), ..late }
}

#[tokio::test]
async fn a_run_that_waits_is_told_by_the_longer_limit_of_its_schedule() {
    let world = world_with(&[("late", late_rule())]).await;
    let mut owner = owner_of(&world.store, &[]).await;
    let patient = patient(&mut owner).await;
    let job = run_of(&patient, 10);
    submit(&world.store, vec![job.clone()]).await.unwrap();
    let mut reports = Reports::default();
    go_on(&world, &mut reports, 209).await;
    assert_eq!(events(&world).await, 0, "by its schedule it is not late yet");
    go_on(&world, &mut reports, 10).await;
    assert_eq!(summaries(&world).await, ["report is late"]);
    let (_, _, task, input) = sent(&world).await.pop().unwrap();
    let text = text(&task, &input);
    assert!(text.contains("It has not started yet.") && text.contains("late by  3m 2"), "{text}");
    owner.done(vec![tell(&started(&job, 300, 290))]).await;
    go_on(&world, &mut reports, 200).await;
    assert_eq!(events(&world).await, 1, "it was told as it waited");
}

#[tokio::test]
async fn a_late_job_of_a_paused_queue_is_told_with_the_pause() {
    let world = world_with(&[("late", late_rule())]).await;
    let _owner = owner_of(&world.store, &[new_job(1, 10, 0)]).await;
    let note = NoteRequest { note: Some("the provider is down".to_owned()) };
    world.app.pause_queue(&by(&world.app), "default", note).await.unwrap();
    let mut reports = Reports::default();
    go_on(&world, &mut reports, 90).await;
    assert_eq!(summaries(&world).await, ["report is late"]);
    let (_, _, task, input) = sent(&world).await.pop().unwrap();
    let text = text(&task, &input);
    assert!(text.contains("It has not started yet: queue default is paused since"), "{text}");
    assert!(text.contains("the provider is down."), "{text}");
}

#[tokio::test]
async fn a_job_that_is_given_back_again_and_again_is_late_since_it_was_due() {
    let world = world_with(&[("late", late_rule())]).await;
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(&world.store, std::slice::from_ref(&job)).await;
    let mut reports = Reports::default();
    let mut key = original(&job);
    for attempt in 1..=4 {
        let due_at = at(50 * i64::from(attempt) + 10);
        owner.done(vec![Write::Job(JobWrite::Requeue(given_back(key, attempt, due_at, at(10))))]).await;
        key.due_at = due_at;
        go_on(&world, &mut reports, 50).await;
    }
    assert_eq!(summaries(&world).await, ["report is late"], "once, though each give-back moved its due time");
    let overdue = world.app.overdue(&by(&world.app), OverdueQuery::default()).await.unwrap();
    let shown = overdue.jobs.iter().find(|shown| shown.job == job.id).expect("it is overdue");
    assert_eq!((shown.due_at, overdue.jobs_total), (at(10), overdue.jobs.len() as u64));
    assert!(shown.late_by >= Span::from_secs(190), "{}", shown.late_by);
    assert!(shown.why.contains("given back 4 times") && shown.why.contains("the disk is full"), "{}", shown.why);
    let view = world.app.job(&by(&world.app), job.id, None).await.unwrap();
    assert!(view.explanation.contains("the disk is full"), "{}", view.explanation);
    assert!(view.reason.unwrap().contains("the disk is full"));
    let listed = world.app.list_jobs(&by(&world.app), ListQuery::default()).await.unwrap().jobs;
    let listed = listed.into_iter().find(|listed| listed.id == job.id).unwrap();
    assert!(listed.reason.unwrap().contains("the disk is full"));
}

#[tokio::test]
async fn a_job_that_was_given_back_after_it_printed_something_says_so() {
    let world = world_with(&[]).await;
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(&world.store, std::slice::from_ref(&job)).await;
    let requeue = given_back(original(&job), 1, at(60), at(10));
    owner.done(vec![Write::Job(JobWrite::Requeue(requeue))]).await;
    let explanation = async || world.app.job(&by(&world.app), job.id, None).await.unwrap().explanation;
    let before = explanation().await;
    assert!(before.contains("given back once as not started, last because: the disk is full"), "{before}");
    assert!(!before.contains("has a log"), "{before}");
    let (bytes, marks) = (Bytes::from_static(b"half done\n"), Bytes::new());
    let chunk = LogChunk { job: job.id, attempt: AttemptNo(1), offset: 0, bytes, marks };
    world.store.append_logs(vec![chunk]).await.unwrap();
    let after = explanation().await;
    assert!(after.contains("Attempt 1 was given back as not started, but it has a log"), "{after}");
}

#[tokio::test]
async fn a_start_that_is_late_by_the_longer_limit_of_its_schedule_is_told_if_nobody_saw_it_wait() {
    let world = world_with(&[("late", late_rule())]).await;
    let mut owner = owner_of(&world.store, &[]).await;
    let patient = patient(&mut owner).await;
    let mut reports = Reports::default();
    go_on(&world, &mut reports, 300).await;
    owner.done(vec![tell(&started(&run_of(&patient, 10), 300, 190))]).await;
    go_on(&world, &mut reports, 100).await;
    assert_eq!(events(&world).await, 0, "it is not late by its schedule");
    owner.done(vec![tell(&started(&run_of(&patient, 10), 400, 290))]).await;
    go_on(&world, &mut reports, 100).await;
    assert_eq!(summaries(&world).await, ["report is late"]);
    let (_, _, task, input) = sent(&world).await.pop().unwrap();
    assert!(text(&task, &input).contains("It has started by now."));
}

#[tokio::test]
async fn a_rule_with_other_words_addresses_and_window_does_not_tell_again_of_a_late_job() {
    let world = world_with(&[("late", late_rule())]).await;
    let jobs = [1, 2].map(|n| new_job(n, 10, 0));
    let mut owner = owner_of(&world.store, &jobs).await;
    let mut reports = Reports::default();
    go_on(&world, &mut reports, 90).await;
    assert_eq!(events(&world).await, 2, "they were told as they waited");
    let edited = json!({
        "on": ["failed", "late"], "late_after": "60s", "window": "5s", "queue": "urgent",
        "email": {"to": ["others@example.com"]}, "templates": {"subject": "late again"},
    });
    put(&world, &[("late", edited.clone())]).await;
    go_on(&world, &mut reports, 5).await;
    owner.done(vec![tell(&started(&jobs[0], 94, 84))]).await;
    go_on(&world, &mut reports, 100).await;
    assert_eq!(events(&world).await, 2);
    // Another server goes on, and the rule is written down once more.
    put(&world, &[("late", edited)]).await;
    go_on(&world, &mut Reports::default(), 5).await;
    owner.done(vec![tell(&started(&jobs[1], 198, 188))]).await;
    go_on(&world, &mut Reports::default(), 100).await;
    assert_eq!(events(&world).await, 2);
}

#[tokio::test]
async fn many_late_jobs_are_told_once_each() {
    let world = world_with(&[("late", late_rule())]).await;
    // More than are read at a time.
    let jobs: Vec<NewJob> = (0..1500).map(|n| new_job(n, 10, (n % 4) as u16)).collect();
    let _owner = owner_of(&world.store, &jobs).await;
    go_on(&world, &mut Reports::default(), 200).await;
    assert_eq!(events(&world).await, 1500);
}

#[tokio::test]
async fn a_job_that_cannot_be_read_does_not_hide_others_that_wait() {
    let world = world_with(&[("late", late_rule())]).await;
    let jobs = [1, 2, 3].map(|n| new_job(n, 10, 0));
    let _owner = owner_of(&world.store, &jobs).await;
    world.store.spoil(jobs[1].id);
    go_on(&world, &mut Reports::default(), 200).await;
    assert_eq!(events(&world).await, 2);
    let overdue = world.app.overdue(&by(&world.app), OverdueQuery::default()).await.unwrap();
    let shown: Vec<_> = overdue.jobs.iter().map(|job| job.job).collect();
    assert_eq!(shown.iter().filter(|id| [jobs[0].id, jobs[2].id].contains(id)).count(), 2);
    assert!(!shown.contains(&jobs[1].id));
}

#[tokio::test]
async fn a_run_that_was_made_long_after_its_time_is_told_when_it_starts() {
    let world = world_with(&[("late", late_rule())]).await;
    let spec = ScheduleSpec { late_after: Some(Span::from_secs(30)), ..interval(60) };
    let queued = schedule(1, "queued", 2, &spec);
    let mut owner = owner_of(&world.store, &[]).await;
    owner.done(vec![add(&queued)]).await;
    let mut reports = Reports::default();
    go_on(&world, &mut reports, 300).await;
    // It waited for the run before it, so nobody saw it wait.
    owner.done(vec![tell(&started(&run_of(&queued, 299), 300, 290))]).await;
    go_on(&world, &mut reports, 100).await;
    assert_eq!(summaries(&world).await, ["report is late"]);
}

#[tokio::test]
async fn a_late_job_is_told_once_although_an_answer_got_lost() {
    let world = world_with(&[("late", late_rule())]).await;
    let _owner = owner_of(&world.store, &[new_job(1, 10, 0)]).await;
    let mut reports = Reports::default();
    go_on(&world, &mut reports, 65).await;
    // The next thing to be written is that the job is late.
    world.store.lose_dispatch();
    let mut failures = 0;
    for _ in 0..200 {
        failures += usize::from(reports.round(&world.app).await.is_err());
        world.pass(1);
    }
    assert_eq!((failures, events(&world).await), (1, 1));
}

#[tokio::test]
async fn an_overdue_time_with_jitter_is_told_once() {
    let world = world_with(&[("ops", with(json!({"window": "5s"})))]).await;
    let mut spec = interval(60);
    spec.when.jitter = Some(jiff::SignedDuration::from_mins(30));
    let row = schedule(1, "spread", 2, &spec);
    let seed = seed_of(&row.name);
    let slot = Plan::new(spec, &Default::default(), seed).unwrap().slot(at(3600), seed);
    let secs = |time: Timestamp| time.since(at(0)).as_micros() / 1_000_000;
    assert!(secs(slot) > 3610, "its jitter is worth a test");
    let mut owner = owner_of(&world.store, &[]).await;
    owner.done(vec![add(&row), watermark(2, 3605)]).await;
    world.pass(secs(slot) + 130);
    go_on(&world, &mut Reports::default(), 300).await;
    assert_eq!(summaries(&world).await, ["report is overdue"]);
}

#[tokio::test]
async fn a_rule_that_waits_for_longest_is_served_first_whatever_its_name() {
    let failed = |n| (format!("a-{n:02}"), with(json!({"on": ["failed"], "window": "5s"})));
    let mut rules: Vec<(String, Value)> = (0..55).map(failed).collect();
    rules.push(("z".to_owned(), with(json!({"on": ["lost"], "window": "5s"}))));
    let rules: Vec<(&str, Value)> = rules.iter().map(|(name, json)| (name.as_str(), json.clone())).collect();
    let world = world_with(&rules).await;
    let mut owner = owner_of(&world.store, &[]).await;
    let mut reports = Reports::default();
    for (kind, secs) in [(NoticeKind::Lost, 0), (NoticeKind::Failed, 1)] {
        owner.done(vec![tell(&notice(kind, secs, 0))]).await;
        report(&world, &mut reports).await;
        world.pass(1);
        report(&world, &mut reports).await;
    }
    assert_eq!(world.store.deliveries(NamespaceId::DEFAULT, None, None, 100).await.unwrap().len(), 56);
    // The window of `z` ends a second before that of the others; nobody is there for a while.
    owner.done(vec![tell(&notice(NoticeKind::Lost, 2, 0)), tell(&notice(NoticeKind::Failed, 2, 0))]).await;
    report(&world, &mut reports).await;
    world.pass(60);
    assert_eq!(reports.round(&world.app).await.unwrap(), Round::Done { is_more: true });
    assert_eq!(world.store.deliveries(NamespaceId::DEFAULT, Some("z".to_owned()), None, 100).await.unwrap().len(), 2);
}

#[tokio::test]
async fn rules_with_very_many_limits_take_turns() {
    let rules: Vec<(String, Value)> = (0..60)
        .map(|n| (format!("rule-{n:02}"), with(json!({"on": ["late"], "late_after": format!("{}s", 30 + n)}))))
        .collect();
    let rules: Vec<(&str, Value)> = rules.iter().map(|(name, json)| (name.as_str(), json.clone())).collect();
    let world = world_with(&rules).await;
    let _owner = owner_of(&world.store, &[new_job(1, 10, 0)]).await;
    go_on(&world, &mut Reports::default(), 120).await;
    assert_eq!(world.store.deliveries(NamespaceId::DEFAULT, None, None, 100).await.unwrap().len(), 60);
}
