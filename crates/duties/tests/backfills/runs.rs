//! Past times that are run after all: which ones, how many at a time, and how that ends.

use std::time::Duration;

use std::sync::Arc;

use punctual_api::{
    AbortRequest, BackfillQuery, BackfillRequest, BackfillRunQuery, BackfillStanding, BackfillView, ErrorKind, JobList,
    JobRequest, JobSummary, ListQuery, NamespaceEdit, NoteRequest, OccurrenceQuery, OlderTimes,
};
use punctual_app::permission::{ManageNamespaces, SubmitJobs};
use punctual_app::{App, Backfilling, Precondition, Transport};
use punctual_core::{BackfillId, JobId, Span};

use crate::Driven;
use crate::worker::{Lasts, Worker};
use crate::world::{WHO, World, by, eventually, json, request};

/// Long enough that the next one would be seen beside it.
const A_MOMENT: Lasts = Lasts::For(Duration::from_millis(30));

fn wanted(text: &str) -> BackfillRequest {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

async fn start(app: &App, schedule: &str, text: &str) -> BackfillView {
    match app.start_backfill(&by(app), schedule, &wanted(text)).await.unwrap() {
        Backfilling::Started(view) => *view,
        Backfilling::Planned(plan) => panic!("a dry run: {plan:?}"),
    }
}

async fn ended(app: &App, id: BackfillId) -> BackfillView {
    eventually("the backfill ends", || async {
        let now = app.backfill(&by(app), id).await.unwrap();
        now.state != BackfillStanding::Running && now.running == 0
    })
    .await;
    app.backfill(&by(app), id).await.unwrap()
}

async fn all_jobs(app: &App) -> JobList {
    app.list_jobs(&by(app), ListQuery { limit: Some("1000".to_owned()), ..ListQuery::default() }).await.unwrap()
}

/// Runs every hour; it is 08:00 in UTC.
async fn hourly(world: &World) {
    world.create(r#"{"name":"hourly","task":"t","cron":"0 * * * *","zone":"UTC","input":{"a":1}}"#).await;
}

/// Eight times.
const NIGHT: &str = r#"{"from":"2026-11-16","to":"2026-11-16T08:00:00Z"}"#;

#[tokio::test]
async fn a_dry_run_says_what_would_be_run_and_makes_nothing() {
    let world = Driven::new().await;
    world.create(r#"{"name":"h","task":"t","cron":"0 * * * *","zone":"Europe/Berlin"}"#).await;
    let request = wanted(r#"{"from":"2026-11-15","to":"2026-11-16","dry_run":true}"#);
    let Backfilling::Planned(plan) = world.front.start_backfill(&by(&world.front), "h", &request).await.unwrap() else {
        panic!("it was started")
    };
    assert_eq!((plan.total, plan.runs, plan.passed_over, plan.zone.as_str()), (24, 24, 0, "Europe/Berlin"));
    assert_eq!((plan.first.len(), plan.first[0].local.as_str()), (10, "2026-11-15T00:00:00+01:00"));
    assert_eq!(plan.last.unwrap().local, "2026-11-15T23:00:00+01:00");
    assert!(
        world.owner.list_backfills(&by(&world.owner), BackfillQuery::default()).await.unwrap().backfills.is_empty()
    );
}

#[tokio::test]
async fn what_cannot_be_backfilled_is_refused_with_a_way_out() {
    let world = Driven::new().await;
    hourly(&world).await;
    world.create(r#"{"name":"often","task":"t","every":"1s"}"#).await;
    for (schedule, body, kind, told) in [
        ("nobody", NIGHT, ErrorKind::ScheduleNotFound, "there is no schedule named nobody"),
        ("hourly", r#"{"from":"yesterday"}"#, ErrorKind::InvalidRequest, "/from: "),
        ("hourly", r#"{"from":"2026-11-16","to":"2026-11-17"}"#, ErrorKind::InvalidRequest, "/to: must not be in the"),
        ("hourly", r#"{"from":"2026-11-16","to":"2026-11-16"}"#, ErrorKind::InvalidRequest, "/from: must be earlier"),
        ("hourly", r#"{"from":"2026-11-20"}"#, ErrorKind::InvalidRequest, "/from: must be earlier"),
        (
            "hourly",
            r#"{"from":"2026-11-16T01:01:00Z","to":"2026-11-16T01:59:00Z"}"#,
            ErrorKind::InvalidRequest,
            "/from: the schedule has no times in this range",
        ),
        ("hourly", r#"{"from":"2026-11-16","overlap":"skip"}"#, ErrorKind::InvalidRequest, "/overlap: `skip` is not"),
        ("hourly", r#"{"from":"2026-11-16","max_active":5}"#, ErrorKind::InvalidRequest, "/max_active: runs of queue"),
        (
            "often",
            r#"{"from":"2026-11-15","to":"2026-11-16T03:46:41Z"}"#,
            ErrorKind::InvalidRequest,
            "/from: the range has 100001 times, and a backfill at most 100000",
        ),
        (
            "often",
            r#"{"from":"2020-01-01","dry_run":true}"#,
            ErrorKind::InvalidRequest,
            "/from: the range has 1000000 times or more",
        ),
    ] {
        let error = world.owner.start_backfill(&by(&world.owner), schedule, &wanted(body)).await.unwrap_err();
        assert_eq!(error.kind, kind, "{body}: {error}");
        assert!(error.detail.starts_with(told) && error.hint.is_some(), "{body}: {error:?}");
    }
    let none: BackfillId = "backfill_01m7et433kee4803yssgvaf2fh".parse().unwrap();
    let abort = world.owner.abort_backfill(&by(&world.owner), none, AbortRequest::default()).await.unwrap_err();
    assert_eq!(abort.kind, ErrorKind::BackfillNotFound);
    assert_eq!(world.owner.backfill(&by(&world.owner), none).await.unwrap_err().kind, ErrorKind::BackfillNotFound);
    assert_eq!(all_jobs(&world.owner).await.jobs.len(), 0);
}

#[tokio::test]
async fn a_backfill_waits_while_its_namespace_stores_as_many_jobs_as_it_may() {
    let world = Driven::new().await;
    hourly(&world).await;
    let app = &world.owner;
    let quotas = serde_json::from_str(r#"{"stored_jobs":3}"#).unwrap();
    let edit = NamespaceEdit { quotas, ..NamespaceEdit::default() };
    app.edit_namespace(&by::<ManageNamespaces>(app), "default", edit, Precondition::None).await.unwrap();
    let night = r#"{"from":"2026-11-16","to":"2026-11-16T08:00:00Z","overlap":"allow","max_active":8}"#;
    let started = start(app, "hourly", night).await;
    let full = "namespace default stores 3 of 3 jobs (quota stored_jobs)";
    let now = || async { app.backfill(&by(app), started.id).await.unwrap() };
    eventually("it says what it waits for", || async { now().await.note.is_some_and(|note| note.contains(full)) })
        .await;
    let waiting = now().await;
    assert_eq!((waiting.state, waiting.made, waiting.remaining), (BackfillStanding::Running, 3, 5), "{waiting:?}");
    // Somebody who asks for a job is refused meanwhile.
    let job: JobRequest = serde_json::from_str(r#"{"task":"t"}"#).unwrap();
    let refused = app.submit(&by::<SubmitJobs>(app), job, None, None).await.unwrap_err();
    assert_eq!((refused.kind, refused.detail.as_str()), (ErrorKind::QuotaExceeded, full));
    let worker = Worker::start(app, A_MOMENT).await;
    let done = ended(app, started.id).await;
    assert_eq!((done.state, done.made, done.succeeded, done.remaining), (BackfillStanding::Done, 8, 8, 0));
    assert_eq!(done.note, None, "it does not wait any more");
    assert!(worker.seen(|seen| seen.most) <= 3, "never more than the quota");
}

#[tokio::test]
async fn runs_follow_one_another_in_the_order_of_their_times() {
    let world = Driven::new().await;
    hourly(&world).await;
    let worker = Worker::start(&world.owner, A_MOMENT).await;
    let started = start(&world.owner, "hourly", NIGHT).await;
    assert_eq!(
        (started.total, started.remaining, started.max_active, started.overlap.as_str()),
        (8, 8, 1, "queue_all")
    );
    let done = ended(&world.owner, started.id).await;
    assert_eq!((done.state, done.made, done.succeeded, done.remaining), (BackfillStanding::Done, 8, 8, 0));
    assert_eq!((done.ended.unwrap().who.as_str(), done.created.who.as_str(), done.note), ("scheduler", WHO, None));
    assert_eq!(worker.seen(|seen| seen.most), 1, "they never overlap");

    let runs = world.owner.backfill_runs(&by(&world.owner), started.id, BackfillRunQuery::default()).await.unwrap();
    let begun: Vec<String> = runs.runs.iter().map(|run| format!("{}/{}", started.id, run.at)).collect();
    assert_eq!(worker.seen(|seen| seen.begun.clone()), begun, "in order, and each knows its time");
    assert_eq!((runs.runs[2].local.as_str(), runs.runs[2].state.as_str()), ("2026-11-16T02:00:00+00:00", "succeeded"));
    let job = world.owner.job(&by(&world.owner), runs.runs[2].job, None).await.unwrap();
    let schedule = job.schedule.unwrap();
    assert_eq!(
        (schedule.kind.as_str(), schedule.at, schedule.name.as_deref()),
        ("backfill", runs.runs[2].at, Some("hourly"))
    );
    assert_eq!(job.input.unwrap().get(), r#"{"a":1}"#);

    // Page by page.
    let limit = Some("5".to_owned());
    let first = world
        .owner
        .backfill_runs(&by(&world.owner), started.id, BackfillRunQuery { limit: limit.clone(), cursor: None })
        .await
        .unwrap();
    let next = BackfillRunQuery { limit, cursor: first.next_cursor };
    let second = world.owner.backfill_runs(&by(&world.owner), started.id, next).await.unwrap();
    assert_eq!((first.runs.len(), second.runs.len(), second.next_cursor), (5, 3, None));
    let abort = world.owner.abort_backfill(&by(&world.owner), started.id, AbortRequest::default()).await.unwrap_err();
    assert_eq!(abort.kind, ErrorKind::BackfillEnded);
}

#[tokio::test]
async fn as_many_run_side_by_side_as_may_and_no_more() {
    let world = Driven::new().await;
    hourly(&world).await;
    let worker = Worker::start(&world.owner, Lasts::For(Duration::from_millis(100))).await;
    // The owner finds what a peer took.
    let body = r#"{"from":"2026-11-14","to":"2026-11-16","overlap":"allow","max_active":7}"#;
    let started = start(&world.front, "hourly", body).await;
    let done = ended(&world.front, started.id).await;
    assert_eq!((done.state, done.made, done.succeeded), (BackfillStanding::Done, 48, 48));
    assert_eq!(worker.seen(|seen| (seen.most, seen.begun.len())), (7, 48));
}

#[tokio::test]
async fn what_ran_is_passed_over_and_what_was_cancelled_is_not() {
    let world = Driven::new().await;
    hourly(&world).await;
    let app = &world.owner;
    let patient = Worker::start(app, Lasts::UntilCancelled).await;
    let body = r#"{"from":"2026-11-16","to":"2026-11-16T04:00:00Z","overlap":"allow"}"#;
    let cancelled = start(app, "hourly", body).await;
    eventually("they run", || async { patient.seen(|seen| seen.begun.len()) == 4 }).await;
    for run in app.backfill_runs(&by(app), cancelled.id, BackfillRunQuery::default()).await.unwrap().runs {
        assert_eq!(run.state, "running");
        app.cancel_job(&by(app), run.job).await.unwrap();
    }
    let cancelled = ended(app, cancelled.id).await;
    assert_eq!((cancelled.state, cancelled.cancelled), (BackfillStanding::Done, 4));
    drop(patient);

    let worker = Worker::start(app, A_MOMENT).await;
    let again = ended(app, start(app, "hourly", NIGHT).await.id).await;
    assert_eq!((again.made, again.passed_over, again.succeeded), (8, 0, 8));
    let over = ended(app, start(app, "hourly", NIGHT).await.id).await;
    assert_eq!((over.state, over.made, over.passed_over), (BackfillStanding::Done, 0, 8));
    let all = r#"{"from":"2026-11-16","to":"2026-11-16T08:00:00Z","include":"all","overlap":"allow"}"#;
    let all = ended(app, start(app, "hourly", all).await.id).await;
    assert_eq!((all.made, all.passed_over, worker.seen(|seen| seen.begun.len())), (8, 0, 16));

    let list = app.list_backfills(&by(app), BackfillQuery::default()).await.unwrap().backfills;
    let ids: Vec<BackfillId> = list.iter().map(|backfill| backfill.id).collect();
    assert_eq!(ids, [all.id, over.id, again.id, cancelled.id], "the latest first");
    let query = |limit: &str, cursor| BackfillQuery {
        schedule: Some("hourly".to_owned()),
        limit: Some(limit.to_owned()),
        cursor,
    };
    let first = app.list_backfills(&by(app), query("3", None)).await.unwrap();
    let second = app.list_backfills(&by(app), query("3", first.next_cursor)).await.unwrap();
    assert_eq!((second.backfills[0].id, second.backfills.len(), second.next_cursor), (cancelled.id, 1, None));
    assert!(app.list_backfills(&by(app), query("3", Some("x".to_owned()))).await.is_err());
}

#[tokio::test]
async fn what_another_backfill_is_running_is_waited_for() {
    let world = Driven::new().await;
    hourly(&world).await;
    let app = &world.owner;
    let worker = Worker::start(app, Lasts::UntilCancelled).await;
    let two = r#"{"from":"2026-11-16","to":"2026-11-16T02:00:00Z","overlap":"allow"}"#;
    let first = start(app, "hourly", two).await;
    eventually("both run", || async { worker.seen(|seen| seen.begun.len()) == 2 }).await;
    let second = start(app, "hourly", two).await;
    let told = format!("it waits for {}, which is running 2026-11-16T00:00:00+00:00", first.id);
    eventually("it says so", || async {
        app.backfill(&by(app), second.id).await.unwrap().note.as_ref() == Some(&told)
    })
    .await;
    let waiting = app.backfill(&by(app), second.id).await.unwrap();
    assert_eq!((waiting.state, waiting.made, waiting.passed_over), (BackfillStanding::Running, 0, 0));
    app.abort_backfill(&by(app), first.id, AbortRequest { cancel: true }).await.unwrap();
    // Nobody else runs them now.
    eventually("it runs them itself", || async { app.backfill(&by(app), second.id).await.unwrap().made == 2 }).await;
    app.abort_backfill(&by(app), second.id, AbortRequest { cancel: true }).await.unwrap();
    assert_eq!(ended(app, second.id).await.passed_over, 0);
}

#[tokio::test]
async fn times_that_are_older_than_the_record_are_not_run_unless_somebody_decides_so() {
    let world = Driven::new().await;
    hourly(&world).await;
    let app = &world.owner;
    let _worker = Worker::start(app, A_MOMENT).await;
    // 07:30 two days later: the record goes back an hour.
    world.pass(Span::from_secs(48 * 3600 - 1800));
    let made_up_for = || async { !world.verdicts("hourly").await.is_empty() };
    eventually("what was missed is on record", made_up_for).await;
    let before = app.now() - Span::from_secs(3600);
    eventually("what is old is not", || async {
        world.store.prune(before, app.now(), 1000).await.unwrap();
        world.verdicts("hourly").await.len() == 1
    })
    .await;

    // One from before the schedule was made, and one that is on record.
    let range = r#""from":"2026-11-16T08:00:00Z","to":"2026-11-18T07:15:00Z","overlap":"allow""#;
    let error = app.start_backfill(&by(app), "hourly", &wanted(&format!("{{{range}}}"))).await.unwrap_err();
    let told = "/unknown: 46 of the 48 times are older than the record, which begins at 2026-11-18T06:30:";
    assert!(error.detail.starts_with(told) && error.hint.is_some(), "{error:?}");
    let dry = wanted(&format!(r#"{{{range},"dry_run":true}}"#));
    let Backfilling::Planned(plan) = app.start_backfill(&by(app), "hourly", &dry).await.unwrap() else {
        panic!("it was started")
    };
    let unknown = plan.unknown.as_ref().unwrap();
    assert_eq!((unknown.times, unknown.decision), (46, None));
    assert_eq!((plan.total, plan.runs, plan.passed_over), (48, 1, 1), "the last one fired: {plan:?}");
    let all = wanted(&format!(r#"{{{range},"include":"all","unknown":"run"}}"#));
    assert!(app.start_backfill(&by(app), "hourly", &all).await.unwrap_err().detail.starts_with("/unknown: "));

    let skip = ended(app, start(app, "hourly", &format!(r#"{{{range},"unknown":"skip"}}"#)).await.id).await;
    assert_eq!((skip.made, skip.passed_over), (1, 47), "{skip:?}");
    assert_eq!(skip.unknown.unwrap().decision, Some(OlderTimes::Skip));
    let run = ended(app, start(app, "hourly", &format!(r#"{{{range},"unknown":"run"}}"#)).await.id).await;
    assert_eq!((run.made, run.passed_over), (46, 2), "{run:?}");

    // They are not on record, and still not denied.
    let day = OccurrenceQuery {
        from: Some("2026-11-16".to_owned()),
        before: Some("2026-11-17".to_owned()),
        ..OccurrenceQuery::default()
    };
    let list = app.occurrences(&by(app), "hourly", day).await.unwrap();
    assert!(list.occurrences.is_empty() && !list.backfilled_only_is_partial, "{list:?}");
    assert_eq!(list.backfilled_only.len(), 16);
    let latest = &list.backfilled_only[0];
    assert_eq!((latest.local.as_str(), latest.backfilled.len()), ("2026-11-16T23:00:00+00:00", 1));
    assert_eq!((latest.backfilled[0].backfill, latest.backfilled[0].state.as_str()), (run.id, "succeeded"));
    assert!(app.occurrences(&by(app), "hourly", OccurrenceQuery::default()).await.unwrap().backfilled_only.is_empty());
}

#[tokio::test]
async fn times_that_fired_are_left_alone_and_skipped_ones_show_their_backfill() {
    let world = Driven::new().await;
    let app = &world.owner;
    let _worker = Worker::start(app, A_MOMENT).await;
    world.create(r#"{"name":"tick","task":"t","every":"1s"}"#).await;
    eventually("it fires", || async { world.verdicts("tick").await.len() >= 2 }).await;
    app.pause_schedule(&by(app), "tick", NoteRequest::default()).await.unwrap();
    let skipped = |verdicts: &[String]| verdicts.iter().filter(|verdict| *verdict == "skipped_paused").count();
    eventually("times are skipped", || async { skipped(&world.verdicts("tick").await) >= 2 }).await;
    let query = OccurrenceQuery { order: Some("asc".to_owned()), ..OccurrenceQuery::default() };
    let before = app.occurrences(&by(app), "tick", query.clone()).await.unwrap().occurrences;
    let (first, last) = (before[0].at, before.last().unwrap().at);
    let body = format!(r#"{{"from":"{first}","to":"{last}"}}"#);
    let done = ended(app, start(app, "tick", &body).await.id).await;
    let (known, last_is_out) = (before.len() - 1, 1);
    let verdicts: Vec<String> = before.iter().map(|row| row.verdict.clone()).collect();
    assert_eq!(done.made as usize, skipped(&verdicts) - last_is_out, "{before:?}");
    assert_eq!((done.total as usize, (done.made + done.passed_over) as usize), (known, known));
    assert!(done.passed_over >= 1 && done.succeeded == done.made, "{done:?}");

    // The verdicts stay, and the jobs are beside them.
    let after = app.occurrences(&by(app), "tick", query).await.unwrap().occurrences;
    for (was, is) in before.iter().zip(&after) {
        assert_eq!((was.at, &was.verdict, was.job), (is.at, &is.verdict, is.job));
        let is_backfilled = is.verdict == "skipped_paused" && is.at < last;
        assert_eq!(is.backfilled.len(), usize::from(is_backfilled), "{is:?}");
        if is_backfilled {
            assert_eq!((is.backfilled[0].backfill, is.backfilled[0].state.as_str()), (done.id, "succeeded"));
        }
    }
}

#[tokio::test]
async fn a_time_that_the_schedule_is_about_to_run_is_waited_for() {
    let world = Driven::new().await;
    let app = &world.owner;
    // Each of its times runs up to an hour later.
    let jittery = r#"{"name":"jittery","task":"t","every":"1s","jitter":"1h"}"#;
    let created = world.create(jittery).await.created.at;
    world.pass(Span::from_millis(2500));
    let body = format!(r#"{{"from":"{created}"}}"#);
    let started = start(app, "jittery", &body).await;
    eventually("it says what it waits for", || async {
        let note = app.backfill(&by(app), started.id).await.unwrap().note;
        note.is_some_and(|note| {
            note.starts_with("it waits until the schedule itself has decided about 2026-11-16T08:0")
        })
    })
    .await;
    assert_eq!(app.backfill(&by(app), started.id).await.unwrap().made, 0);
    let is_backfill = |job: &JobSummary| job.schedule.as_ref().is_some_and(|schedule| schedule.kind == "backfill");
    assert!(!all_jobs(app).await.jobs.iter().any(is_backfill));
    let aborted = app.abort_backfill(&by(app), started.id, AbortRequest::default()).await.unwrap();
    assert_eq!((aborted.state, aborted.note), (BackfillStanding::Aborted, None));
    // Whoever wants every time does not wait.
    let all = format!(r#"{{"from":"{created}","include":"all","overlap":"allow"}}"#);
    let started = start(app, "jittery", &all).await;
    eventually("it makes its jobs", || async { app.backfill(&by(app), started.id).await.unwrap().remaining == 0 })
        .await;
}

#[tokio::test]
async fn an_aborted_backfill_makes_no_more_jobs() {
    let world = Driven::new().await;
    hourly(&world).await;
    let app = &world.owner;
    let worker = Worker::start(app, Lasts::UntilCancelled).await;
    let three = r#"{"from":"2026-11-15","to":"2026-11-16","overlap":"allow","max_active":3}"#;
    let started = start(app, "hourly", three).await;
    eventually("three run", || async { worker.seen(|seen| seen.begun.len()) == 3 }).await;
    let keys = app.cluster_keys().now();
    let token = keys.access_token();
    let colleague = Arc::new(app.authenticate(&Transport::default(), Some(token.as_str()), None).unwrap());
    let colleague = colleague.permit().unwrap();
    let aborted = app.abort_backfill(&colleague, started.id, AbortRequest { cancel: false }).await.unwrap();
    assert_eq!((aborted.state, aborted.running, aborted.remaining), (BackfillStanding::Aborted, 3, 21));
    let who = aborted.ended.unwrap().who;
    assert_eq!(who, "token");
    // One of its jobs ends, and no other takes its place.
    let runs = app.backfill_runs(&by(app), started.id, BackfillRunQuery::default()).await.unwrap().runs;
    app.cancel_job(&by(app), runs[0].job).await.unwrap();
    eventually("that is seen", || async { app.backfill(&by(app), started.id).await.unwrap().running == 2 }).await;
    // Whoever asks again may have the others cancelled, and it stays with the first who asked.
    let again = app.abort_backfill(&by(app), started.id, AbortRequest { cancel: true }).await.unwrap();
    assert_eq!(again.state, BackfillStanding::Aborted);
    let over = ended(app, started.id).await;
    assert_eq!((over.cancelled, over.made, over.remaining, over.ended.unwrap().who), (3, 3, 21, who));
    assert_eq!(all_jobs(app).await.jobs.len(), 3);
    app.abort_backfill(&by(app), started.id, AbortRequest { cancel: true }).await.unwrap();
}

#[tokio::test]
async fn a_backfill_does_not_outlive_its_schedule_or_its_calendar() {
    let world = Driven::new().await;
    hourly(&world).await;
    let app = &world.owner;
    let days = serde_json::from_str(r#"{"dates":["2026-11-14"]}"#).unwrap();
    app.put_calendar(&by(app), "closed", &days, Precondition::None).await.unwrap();
    let daily = r#"{"task":"t","daily":"09:00","zone":"UTC","calendars":{"exclude":["closed"]}}"#;
    app.put_schedule(&by(app), "daily", request(daily), Precondition::None, None).await.unwrap();
    let from = r#"{"from":"2026-11-12","to":"2026-11-16"}"#;
    let (by_calendar, by_schedule) = (start(app, "daily", from).await, start(app, "hourly", NIGHT).await);
    assert_eq!(by_calendar.total, 3, "the calendar takes a day away");
    eventually("each has a job", || async { all_jobs(app).await.jobs.len() == 2 }).await;
    app.put_schedule(
        &by(app),
        "daily",
        request(r#"{"task":"t","daily":"09:00","zone":"UTC"}"#),
        Precondition::None,
        None,
    )
    .await
    .unwrap();
    app.delete_calendar(&by(app), "closed", Precondition::None).await.unwrap();
    app.delete_schedule(&by(app), "hourly", Precondition::None).await.unwrap();
    for (backfill, reason) in [
        (by_calendar.id, "its times are not known any more: there is no calendar `closed`"),
        (by_schedule.id, "the schedule was deleted"),
    ] {
        let job: JobId = app.backfill_runs(&by(app), backfill, BackfillRunQuery::default()).await.unwrap().runs[0].job;
        app.cancel_job(&by(app), job).await.unwrap();
        let over = ended(app, backfill).await;
        assert_eq!((over.state, over.made), (BackfillStanding::Aborted, 1), "{over:?}");
        assert_eq!((over.note.as_deref(), over.ended.unwrap().who.as_str()), (Some(reason), "scheduler"));
    }
    let id = by_schedule.schedule_id.to_string();
    let query = BackfillQuery { schedule: Some(id), ..BackfillQuery::default() };
    assert_eq!(
        json(&app.list_backfills(&by(app), query).await.unwrap())["backfills"][0]["schedule"],
        "hourly",
        "by its id"
    );
}

#[tokio::test]
async fn only_so_many_run_at_a_time() {
    let world = Driven::new().await;
    hourly(&world).await;
    for _ in 0..punctual_store::BACKFILLS_MAX {
        start(&world.owner, "hourly", r#"{"from":"2026-11-16","to":"2026-11-16T08:00:00Z","include":"all"}"#).await;
    }
    let error = world.owner.start_backfill(&by(&world.owner), "hourly", &wanted(NIGHT)).await.unwrap_err();
    assert_eq!((error.kind, error.kind.http_status()), (ErrorKind::TooManyBackfills, 409));
    let dry = wanted(r#"{"from":"2026-11-16","to":"2026-11-16T08:00:00Z","dry_run":true}"#);
    assert!(world.owner.start_backfill(&by(&world.owner), "hourly", &dry).await.is_ok(), "looking costs nothing");
}
