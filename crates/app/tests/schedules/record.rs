//! What people read of schedules and their runs when something did not go by plan.

use punctual_api::{
    JobSummary, OccurrenceQuery, OccurrenceView, PlannedStart, PreviewQuery, RunRequest, ScheduleQuery,
};
use punctual_app::Precondition;
use punctual_core::{Span, Timestamp};

use crate::worker::{Lasts, Worker};
use crate::world::{World, by, eventually};

fn first(starts: &[PlannedStart]) -> Option<&str> {
    starts.first().map(|start| start.local.as_str())
}

#[tokio::test]
async fn after_the_clock_was_set_back_the_next_start_is_one_that_will_fire() {
    let world = World::new().await;
    // It is 08:00.
    let report = world.create(r#"{"name":"report","task":"t","daily":"09:00"}"#).await;
    world.create(r#"{"name":"other","task":"t","daily":"10:00"}"#).await;
    world.pass(Span::from_secs(3601));
    eventually("09:00 is decided", || async { world.verdicts("report").await == ["fired"] }).await;
    let nine = Timestamp::parse("2026-11-16T09:00:00Z").unwrap();
    eventually("its shard has a watermark", || async {
        let watermarks = world.store.watermarks().await.unwrap();
        watermarks.iter().any(|(shard, at)| *shard == report.id.shard() && *at >= nine)
    })
    .await;
    world.set_back(Span::from_secs(1800));
    for app in [&world.owner, &world.front] {
        assert!(app.now() < nine);
        let report = app.schedule(&by(app), "report").await.unwrap();
        assert_eq!(first(&report.next), Some("2026-11-17T09:00:00+00:00"));
        let other = app.schedule(&by(app), "other").await.unwrap();
        assert_eq!(first(&other.next), Some("2026-11-16T10:00:00+00:00"), "nothing of it is decided");
        let list = app.list_schedules(&by(app), ScheduleQuery::default()).await.unwrap().schedules;
        let listed: Vec<_> = list.iter().map(|schedule| (schedule.name.as_str(), first(&schedule.next))).collect();
        assert_eq!(listed, [("other", first(&other.next)), ("report", first(&report.next))]);
        let preview = app.preview_schedule(&by(app), "report", PreviewQuery::default()).await.unwrap();
        assert_eq!(preview.occurrences[0].local, "2026-11-17T09:00:00+00:00");
    }
}

#[tokio::test]
async fn jobs_keep_the_name_of_their_schedule_when_it_is_deleted() {
    let world = World::new().await;
    let named = world.create(r#"{"name":"report","task":"t","daily":"09:00"}"#).await;
    let unnamed = world.create(r#"{"name":"nightly","inline":{"run":{"probe":{}}},"daily":"09:00"}"#).await;
    let mut jobs = Vec::new();
    for schedule in [&named, &unnamed] {
        let run = world.owner.run_schedule(&by(&world.owner), &schedule.name, RunRequest::default()).await.unwrap();
        jobs.push(run.job.expect("it made a job"));
        world.owner.delete_schedule(&by(&world.owner), &schedule.name, Precondition::None).await.unwrap();
    }
    // The other server has never seen the schedules.
    for (id, name, title) in [(jobs[0], "report", "t"), (jobs[1], "nightly", "nightly")] {
        let job = world.front.job(&by(&world.front), id, None).await.unwrap();
        assert_eq!(job.schedule.and_then(|schedule| schedule.name).as_deref(), Some(name));
        assert_eq!(job.title, title);
        let list = world.front.list_jobs(&by(&world.front), Default::default()).await.unwrap().jobs;
        let listed = list.into_iter().find(|job| job.id == id).expect("it is in the list");
        assert_eq!(listed.schedule.and_then(|schedule| schedule.name).as_deref(), Some(name));
        assert_eq!(listed.title, title);
    }
}

async fn run_of(world: &World, name: &str) -> (OccurrenceView, JobSummary) {
    let run = world
        .owner
        .occurrences(&by(&world.owner), name, OccurrenceQuery::default())
        .await
        .unwrap()
        .occurrences
        .remove(0);
    let jobs = world.owner.list_jobs(&by(&world.owner), Default::default()).await.unwrap().jobs;
    let job = jobs.into_iter().find(|job| Some(job.id) == run.job).expect("it is in the list");
    (run, job)
}

#[tokio::test]
async fn a_run_that_waits_for_a_worker_is_late_before_it_starts() {
    let world = World::new().await;
    world.create(r#"{"name":"report","task":"t","daily":"09:00","late_after":"10m"}"#).await;
    world.pass(Span::from_secs(3600));
    eventually("09:00 is decided", || async { world.verdicts("report").await == ["fired"] }).await;
    world.pass(Span::from_secs(300));
    let minutes = |late_by: Option<Span>| late_by.map(|late_by| late_by.as_micros() / 60_000_000);
    let (run, job) = run_of(&world, "report").await;
    let id = job.id;
    assert_eq!((minutes(run.late_by), run.marks.len()), (Some(5), 0), "it may be late by ten minutes");
    assert_eq!(run.explanation, format!("fired as {id}; waiting to start since 2026-11-16T09:00:00.000000Z"));
    assert_eq!(minutes(job.late_by), Some(5));
    world.pass(Span::from_secs(600));
    let (run, job) = run_of(&world, "report").await;
    assert_eq!((minutes(run.late_by), run.marks), (Some(15), vec!["late".to_owned()]));
    let expected = format!("fired as {id}; waiting to start since 2026-11-16T09:00:00.000000Z, late by 15m");
    assert!(run.explanation.starts_with(&expected), "{}", run.explanation);
    assert_eq!(minutes(job.late_by), Some(15));
    assert_eq!(minutes(world.owner.job(&by(&world.owner), id, None).await.unwrap().late_by), Some(15));

    let _worker = Worker::start(&world.owner, Lasts::UntilCancelled).await;
    eventually("it runs", || async { world.owner.job(&by(&world.owner), id, None).await.unwrap().state == "running" })
        .await;
    world.pass(Span::from_secs(3600));
    eventually("the late start is on record", || async {
        let (run, job) = run_of(&world, "report").await;
        assert_eq!(job.late_by, None, "it does not wait");
        run.explanation.starts_with(&format!("fired as {id}, 15m "))
            && run.explanation.ends_with(" late")
            && minutes(run.late_by) == Some(15)
            && run.marks == ["late"]
    })
    .await;
}

#[tokio::test]
async fn a_run_that_waited_for_the_run_before_it_has_one_lateness_everywhere() {
    let world = World::new().await;
    world
        .create(r#"{"name":"slow","inline":{"run":{"probe":{}}},"every":"1h","overlap":"queue_all","late_after":"10m","anchor":"2026-11-16T09:00:00Z"}"#)
        .await;
    world.pass(Span::from_secs(3600));
    // It waits for a worker, and so the next one for it.
    eventually("09:00 has fired", || async { world.verdicts("slow").await == ["fired"] }).await;
    let first = run_of(&world, "slow").await.1.id;
    world.pass(Span::from_secs(3600));
    eventually("10:00 waits", || async { world.verdicts("slow").await == ["fired", "queued"] }).await;
    world.pass(Span::from_secs(900));
    let minutes = |late_by: Option<Span>| late_by.map(|late_by| late_by.as_micros() / 60_000_000);
    let list = world.owner.occurrences(&by(&world.owner), "slow", OccurrenceQuery::default()).await.unwrap();
    let queued = &list.occurrences[0];
    assert_eq!((minutes(queued.late_by), &queued.marks[..]), (Some(15), &["late".to_owned()][..]));
    assert_eq!(queued.explanation, "waits since 2026-11-16T10:00:00.000000Z for the run before it to end");

    world.owner.cancel_job(&by(&world.owner), first).await.unwrap();
    let _worker = Worker::start(&world.owner, Lasts::UntilCancelled).await;
    let has_job = || async {
        let list = world.owner.occurrences(&by(&world.owner), "slow", OccurrenceQuery::default()).await.unwrap();
        list.occurrences[0].job.is_some()
    };
    eventually("10:00 has a job", has_job).await;
    eventually("10:00 runs", || async { run_of(&world, "slow").await.1.state == "running" }).await;
    eventually("its start is on record", || async { run_of(&world, "slow").await.0.marks == ["late"] }).await;
    let (run, job) = run_of(&world, "slow").await;
    let job = world.owner.job(&by(&world.owner), job.id, None).await.unwrap();
    assert_eq!((minutes(job.late_by), job.late_by), (Some(15), run.late_by));
}
