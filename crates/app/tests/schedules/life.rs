//! One schedule from its creation to its end.

use punctual_api::{
    ErrorKind, ForecastQuery, NoteRequest, OccurrenceQuery, PreviewQuery, RunOutcome, RunRequest, ScheduleQuery,
    ScheduleStanding, SkipRequest, UnfiredBy,
};
use punctual_app::{Precondition, Put, RequestZone};
use punctual_core::schedule::Overlap;
use punctual_core::{JobId, Span, Timestamp};

use crate::world::{WHO, World, by, eventually, json, request};

fn note(text: &str) -> NoteRequest {
    NoteRequest { note: Some(text.to_owned()) }
}

#[tokio::test]
async fn a_schedule_shows_all_that_is_known_of_it() {
    let world = World::new().await;
    let zone = RequestZone::parse("Time-Zone", "europe/berlin").unwrap();
    let body = r#"{"name":"report","task":"t","cron":"30 9 * * MON-FRI","input":{"a":1},"max_runs":3}"#;
    let schedule = world.owner.create_schedule(&by(&world.owner), request(body), Some(&zone)).await.unwrap();
    assert_eq!(schedule.explanation, "at 09:30, Monday to Friday, Europe/Berlin");
    assert_eq!((schedule.zone.as_str(), schedule.state), ("Europe/Berlin", ScheduleStanding::Active));
    // The day is a Monday, and it is 09:00 in Berlin.
    assert_eq!(json(&schedule.next[0])["local"], "2026-11-16T09:30:00+01:00");
    assert_eq!(schedule.next.len(), 3, "it runs three times");
    assert_eq!((schedule.runs, schedule.failures, schedule.revision), (Some(0), None, 1));
    assert_eq!((schedule.created.who.as_str(), schedule.changes.len()), (WHO, 0));
    let definition = json(&schedule.definition);
    let expected = r#"{"task":"t","cron":"30 9 * * 1-5","zone":"Europe/Berlin","max_runs":3,"input":{"a":1}}"#;
    assert_eq!(definition, serde_json::from_str::<serde_json::Value>(expected).unwrap());
    // By its id, too.
    assert_eq!(world.owner.schedule(&by(&world.owner), &schedule.id.to_string()).await.unwrap().name, "report");
    let nameless = world.create(r#"{"task":"t","daily":"09:00"}"#).await;
    assert_eq!(nameless.name, nameless.id.to_string());
    assert_eq!(world.names().await, ["report".to_owned(), nameless.name]);
}

#[tokio::test]
async fn a_name_is_given_once() {
    let world = World::new().await;
    world.create(r#"{"name":"report","task":"t","daily":"09:00"}"#).await;
    for app in [&world.owner, &world.front] {
        let again = request(r#"{"name":"report","task":"t","daily":"10:00"}"#);
        let error = app.create_schedule(&by(app), again, None).await.unwrap_err();
        assert_eq!(
            (error.kind, error.detail.as_str()),
            (ErrorKind::ScheduleNameTaken, "there is a schedule named report")
        );
    }
    let error = world.owner.schedule(&by(&world.owner), "other").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ScheduleNotFound);
}

#[tokio::test]
async fn what_refers_to_nothing_or_can_never_fire_is_refused() {
    let world = World::new().await;
    for (body, kind, detail) in [
        (r#"{"task":"nobody","daily":"09:00"}"#, ErrorKind::TaskNotFound, "there is no task named nobody"),
        (r#"{"task":"t","at":"2020-01-01T00:00:00Z"}"#, ErrorKind::InvalidRequest, "it would never fire"),
        (
            r#"{"task":"t","daily":"09:00","end_at":"2020-01-01T00:00:00Z"}"#,
            ErrorKind::InvalidRequest,
            "it would never fire",
        ),
        (
            r#"{"task":"t","daily":"09:00","calendars":{"exclude":["none"]}}"#,
            ErrorKind::InvalidRequest,
            "/calendars/exclude/0: there is no calendar `none`",
        ),
    ] {
        let error = world.front.create_schedule(&by(&world.front), request(body), None).await.unwrap_err();
        assert_eq!(error.kind, kind, "{body}: {error}");
        assert!(error.detail.contains(detail), "{body}: {error}");
    }
    assert!(world.names().await.is_empty());
}

#[tokio::test]
async fn a_new_definition_moves_the_next_starts_and_leaves_a_trace() {
    let world = World::new().await;
    let nine = r#"{"task":"t","daily":"09:00"}"#;
    let Put::Created(_) =
        world.front.put_schedule(&by(&world.front), "report", request(nine), Precondition::None, None).await.unwrap()
    else {
        panic!("it was new")
    };
    let ten = r#"{"task":"t","daily":"10:00","overlap":"skip"}"#;
    let Put::Replaced(schedule) = world
        .front
        .put_schedule(&by(&world.front), "report", request(ten), Precondition::Revision(1), None)
        .await
        .unwrap()
    else {
        panic!("it was there")
    };
    let moves = schedule.moves.clone().expect("it says how its starts move");
    assert_eq!((moves.before.len(), moves.after.len()), (5, 5));
    assert_eq!(moves.before[0].local, "2026-11-16T09:00:00+00:00");
    assert_eq!(moves.after[0].local, "2026-11-16T10:00:00+00:00");
    assert_eq!((schedule.revision, schedule.changes.len()), (2, 1));
    assert_eq!(schedule.changes[0].former.as_deref(), Some("at 09:00, every day, UTC"));
    assert_eq!(json(&schedule.definition)["overlap"], "skip");
    let error = world
        .owner
        .put_schedule(&by(&world.owner), "report", request(nine), Precondition::Revision(1), None)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::RevisionConflict);
    assert_eq!(error.detail, "the change expects revision 1, but the schedule report is at revision 2");
    let error = world
        .owner
        .put_schedule(&by(&world.owner), "new", request(nine), Precondition::Revision(1), None)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::RevisionConflict);
    let renamed = request(r#"{"name":"other","task":"t","daily":"09:00"}"#);
    let error =
        world.owner.put_schedule(&by(&world.owner), "report", renamed, Precondition::None, None).await.unwrap_err();
    assert_eq!(error.errors[0].pointer, "/name");
}

#[tokio::test]
async fn it_is_paused_and_resumed_with_a_word_on_why() {
    let world = World::new().await;
    world.create(r#"{"name":"report","task":"t","daily":"09:00"}"#).await;
    let paused = world.front.pause_schedule(&by(&world.front), "report", note("on holiday")).await.unwrap();
    assert_eq!((paused.state, paused.next.len()), (ScheduleStanding::Paused, 0));
    assert!(paused.reason.as_deref().unwrap().ends_with(": on holiday"), "{:?}", paused.reason);
    let pause = paused.pause.expect("it says who paused it");
    assert_eq!((pause.who.as_str(), pause.note.as_deref()), (WHO, Some("on holiday")));
    let list = |paused: &str| ScheduleQuery { paused: Some(paused.to_owned()), ..ScheduleQuery::default() };
    assert_eq!(world.owner.list_schedules(&by(&world.owner), list("true")).await.unwrap().schedules.len(), 1);
    assert_eq!(world.owner.list_schedules(&by(&world.owner), list("false")).await.unwrap().schedules.len(), 0);
    let resumed = world.owner.resume_schedule(&by(&world.owner), "report", NoteRequest::default()).await.unwrap();
    assert_eq!((resumed.state, resumed.next.len(), resumed.pause), (ScheduleStanding::Active, 5, None));
    let kinds: Vec<&str> = resumed.changes.iter().map(|change| change.kind.as_str()).collect();
    assert_eq!(kinds, ["resumed", "paused"]);
    let long = "x".repeat(257);
    let error = world.owner.pause_schedule(&by(&world.owner), "report", note(&long)).await.unwrap_err();
    assert_eq!(error.errors[0].pointer, "/note");
}

#[tokio::test]
async fn the_next_times_are_skipped_by_request() {
    let world = World::new().await;
    world.create(r#"{"name":"report","task":"t","daily":"09:00"}"#).await;
    let skip = |count| SkipRequest { count: Some(count) };
    let first = world.front.skip_schedule(&by(&world.front), "report", skip(2)).await.unwrap();
    let days: Vec<&str> = first.skipped.iter().map(|start| &start.local[..10]).collect();
    assert_eq!(days, ["2026-11-16", "2026-11-17"]);
    assert_eq!(first.until, first.skipped[1].at);
    // What is skipped already does not count again.
    let second = world.owner.skip_schedule(&by(&world.owner), "report", skip(1)).await.unwrap();
    assert_eq!(second.skipped.iter().map(|start| &start.local[..10]).collect::<Vec<_>>(), ["2026-11-18"]);
    let schedule = world.owner.schedule(&by(&world.owner), "report").await.unwrap();
    assert_eq!(schedule.skip_until, Some(second.until));
    assert_eq!(&schedule.next[0].local[..10], "2026-11-19");
    for bad in [0, 1001] {
        assert_eq!(
            world.owner.skip_schedule(&by(&world.owner), "report", skip(bad)).await.unwrap_err().errors[0].pointer,
            "/count"
        );
    }
}

#[tokio::test]
async fn it_fires_and_the_ledger_says_so() {
    let world = World::new().await;
    let schedule = world.create(r#"{"name":"tick","task":"t","every":"1s"}"#).await;
    eventually("it fires twice", || async { world.verdicts("tick").await.len() >= 2 }).await;
    let run = world.front.run_schedule(&by(&world.front), "tick", RunRequest::default()).await.unwrap();
    let list = world.owner.occurrences(&by(&world.owner), "tick", OccurrenceQuery::default()).await.unwrap();
    let manual = list.occurrences.iter().find(|occurrence| occurrence.job == run.job).expect("the run is there");
    assert_eq!(manual.marks, ["manual"]);
    assert_eq!(manual.explanation, format!("fired as {}, because {WHO} asked for it", run.job.unwrap()));
    let planned = list.occurrences.last().unwrap();
    assert_eq!((planned.verdict.as_str(), planned.local.ends_with("+00:00")), ("fired", true));
    let job: JobId = planned.job.expect("a job was made");
    let job = world.owner.job(&by(&world.owner), job, None).await.unwrap();
    let made_by = job.schedule.expect("it says who made it");
    assert_eq!((made_by.id, made_by.name.as_deref()), (schedule.id, Some("tick")));
    assert_eq!((made_by.at, made_by.kind.as_str()), (planned.at, "planned"));
    let listed = world.owner.list_jobs(&by(&world.owner), Default::default()).await.unwrap();
    assert!(listed.jobs.iter().all(|job| job.schedule.as_ref().is_some_and(|made_by| made_by.id == schedule.id)));

    world.owner.delete_schedule(&by(&world.owner), "tick", Precondition::None).await.unwrap();
    assert_eq!(
        world.front.delete_schedule(&by(&world.front), "tick", Precondition::None,).await.unwrap_err().kind,
        ErrorKind::ScheduleNotFound
    );
    // What became of its times stays, under its id.
    let id = schedule.id.to_string();
    assert!(!world.verdicts(&id).await.is_empty());
    assert_eq!(world.owner.schedule(&by(&world.owner), &id).await.unwrap_err().kind, ErrorKind::ScheduleNotFound);
    let filtered = OccurrenceQuery { verdict: Some("missed, queued".to_owned()), ..OccurrenceQuery::default() };
    assert!(world.owner.occurrences(&by(&world.owner), &id, filtered).await.unwrap().occurrences.is_empty());
}

#[tokio::test]
async fn pages_of_occurrences_and_schedules_leave_nothing_out() {
    let world = World::new().await;
    for number in 0..7 {
        world.create(&format!(r#"{{"name":"s{number}","task":"t","daily":"09:00"}}"#)).await;
    }
    let mut names = Vec::new();
    let mut cursor = None;
    loop {
        let query = ScheduleQuery { limit: Some("3".to_owned()), cursor, ..ScheduleQuery::default() };
        let page = world.owner.list_schedules(&by(&world.owner), query).await.unwrap();
        names.extend(page.schedules.into_iter().map(|schedule| schedule.name));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(names, ["s0", "s1", "s2", "s3", "s4", "s5", "s6"]);
    for _ in 0..5 {
        world.owner.run_schedule(&by(&world.owner), "s3", RunRequest::default()).await.unwrap();
    }
    let mut seen = Vec::new();
    let mut cursor = None;
    loop {
        let query = OccurrenceQuery { limit: Some("2".to_owned()), cursor, ..OccurrenceQuery::default() };
        let page = world.front.occurrences(&by(&world.front), "s3", query).await.unwrap();
        seen.extend(page.occurrences.into_iter().map(|occurrence| occurrence.at));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 5);
    assert!(seen.is_sorted_by(|a, b| a > b), "{seen:?}");
    let today = |from: &str| OccurrenceQuery { from: Some(from.to_owned()), ..OccurrenceQuery::default() };
    assert_eq!(
        world.owner.occurrences(&by(&world.owner), "s3", today("2026-11-16")).await.unwrap().occurrences.len(),
        5
    );
    assert_eq!(
        world.owner.occurrences(&by(&world.owner), "s3", today("2026-11-17")).await.unwrap().occurrences.len(),
        0
    );
}

#[tokio::test]
async fn a_run_that_is_asked_for_obeys_the_overlap_policy_and_what_waits_can_be_skipped() {
    let world = World::new().await;
    world.create(r#"{"name":"hourly","task":"t","every":"1h","overlap":"queue_one"}"#).await;
    let run = async |overlap: Option<Overlap>| {
        world.front.run_schedule(&by(&world.front), "hourly", RunRequest { overlap }).await
    };
    let first = run(None).await.unwrap();
    assert_eq!((first.outcome, first.at), (RunOutcome::Started, None));
    // Nobody works here, so it does not end.
    let waiting = run(None).await.unwrap();
    assert_eq!((waiting.outcome, waiting.job), (RunOutcome::Queued, None));
    let skipped = run(None).await.unwrap();
    assert_eq!(
        (skipped.outcome, skipped.reason.as_deref()),
        (RunOutcome::Skipped, Some("another run is already queued"))
    );
    let skipped = run(Some(Overlap::Skip)).await.unwrap();
    let reason = format!("{} had not ended", first.job.unwrap());
    assert_eq!((skipped.outcome, skipped.reason), (RunOutcome::Skipped, Some(reason)));
    assert_eq!(run(Some(Overlap::Allow)).await.unwrap().outcome, RunOutcome::Started);

    assert_eq!(world.front.clear_schedule_queue(&by(&world.front), "hourly").await.unwrap().skipped, 1);
    assert_eq!(world.front.clear_schedule_queue(&by(&world.front), "hourly").await.unwrap().skipped, 0);
    let list = world.owner.occurrences(&by(&world.owner), "hourly", OccurrenceQuery::default()).await.unwrap();
    let cleared = list.occurrences.iter().find(|row| Some(row.at) == waiting.at).expect("it is on record");
    assert_eq!(cleared.verdict, "skipped_by_request");
    assert_eq!(cleared.explanation, format!("did not run: {WHO} cleared the queue"));
    let schedule = world.front.schedule(&by(&world.front), "hourly").await.unwrap();
    assert_eq!((schedule.changes[0].kind.as_str(), schedule.changes[0].who.as_str()), ("queue_cleared", WHO));

    world.create(r#"{"name":"free","task":"t","every":"1h"}"#).await;
    let request = RunRequest { overlap: Some(Overlap::Skip) };
    let refused = world.front.run_schedule(&by(&world.front), "free", request).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::ScheduleRefused, "{refused}");
    assert!(
        matches!(world.front.clear_schedule_queue(&by(&world.front), "nope").await, Err(error) if error.kind == ErrorKind::ScheduleNotFound)
    );
}

#[tokio::test]
async fn a_pending_skip_survives_an_edit() {
    let world = World::new().await;
    let body = r#"{"name":"report","task":"t","daily":"09:00"}"#;
    world.create(body).await;
    let skip = world.front.skip_schedule(&by(&world.front), "report", SkipRequest { count: Some(4) }).await.unwrap();
    let Put::Replaced(schedule) =
        world.front.put_schedule(&by(&world.front), "report", request(body), Precondition::None, None).await.unwrap()
    else {
        panic!("it was there")
    };
    assert_eq!((schedule.revision, schedule.skip_until), (2, Some(skip.until)));
    assert!(schedule.next[0].at > skip.until);
}

#[tokio::test]
async fn a_forecast_counts_the_first_midnight_and_not_the_last() {
    let world = World::new().await;
    world.create(r#"{"name":"midnight","task":"t","cron":"0 0 * * *"}"#).await;
    let query = ForecastQuery {
        from: Some("2030-01-01".to_owned()),
        to: Some("2030-01-02".to_owned()),
        ..ForecastQuery::default()
    };
    let forecast = world.front.forecast(&by(&world.front), query).await.unwrap();
    assert_eq!((forecast.starts, forecast.peak.unwrap().at), (1, forecast.from));
    assert_eq!((forecast.hours.len(), forecast.hours[0].parts[0]), (24, 1));
    assert_eq!(forecast.hours.iter().flat_map(|hour| &hour.parts).sum::<usize>(), forecast.starts);
}

#[tokio::test]
async fn a_preview_tells_what_the_clocks_do() {
    let world = World::new().await;
    let body = request(r#"{"cron":"30 2 * * *","zone":"Europe/Berlin"}"#);
    let query = PreviewQuery { count: Some("3".to_owned()), from: Some("2027-03-27".to_owned()) };
    let preview = world.front.preview(&by(&world.front), body, query, None).await.unwrap();
    let times: Vec<(&str, Option<&str>)> =
        preview.occurrences.iter().map(|time| (time.local.as_str(), time.note.as_deref())).collect();
    assert_eq!(
        times,
        [
            ("2027-03-27T02:30:00+01:00", None),
            ("2027-03-28T03:00:00+02:00", Some("shifted: 02:30 does not exist on this day")),
            ("2027-03-29T02:30:00+02:00", None),
        ]
    );
    let changes: Vec<(&str, &str)> =
        preview.clock_changes.iter().map(|change| (change.explanation.as_str(), change.effects[0].as_str())).collect();
    assert_eq!(
        changes,
        [
            ("on 2027-03-28 the clocks go from 02:00 to 03:00", "02:30 does not exist and fires at 03:00 instead"),
            (
                "on 2027-10-31 the clocks go from 03:00 to 02:00",
                "02:30 comes twice and fires the first time, at 2027-10-31T00:30:00.000000Z"
            ),
            ("on 2028-03-26 the clocks go from 02:00 to 03:00", "02:30 does not exist and fires at 03:00 instead"),
        ]
    );
    // The same of one that is stored.
    world.create(r#"{"name":"report","task":"t","cron":"30 2 * * *","zone":"Europe/Berlin","gap":"skip"}"#).await;
    let query = PreviewQuery { count: Some("2".to_owned()), from: Some("2027-03-28".to_owned()) };
    let preview = world.owner.preview_schedule(&by(&world.owner), "report", query).await.unwrap();
    assert_eq!(
        preview.occurrences[0].note.as_deref(),
        Some("does not fire: the clocks leave its time out on this day")
    );
    assert_eq!(preview.occurrences[1].local, "2027-03-29T02:30:00+02:00");
    for bad in ["0", "1001", "many"] {
        let query = PreviewQuery { count: Some(bad.to_owned()), from: None };
        assert_eq!(
            world.owner.preview_schedule(&by(&world.owner), "report", query).await.unwrap_err().errors[0].pointer,
            "count"
        );
    }
}

#[tokio::test]
async fn a_preview_says_what_does_not_fire_as_things_are() {
    let world = World::new().await;
    world.create(r#"{"name":"report","task":"t","daily":"09:00","zone":"UTC"}"#).await;
    world.owner.skip_schedule(&by(&world.owner), "report", SkipRequest { count: Some(2) }).await.unwrap();
    let preview = async || {
        let query = PreviewQuery { count: Some("3".to_owned()), from: None };
        world.front.preview_schedule(&by(&world.front), "report", query).await
    };
    let skipped = preview().await.unwrap();
    let unfired: Vec<Option<UnfiredBy>> = skipped.occurrences.iter().map(|time| time.unfired).collect();
    assert_eq!(unfired, [Some(UnfiredBy::Request), Some(UnfiredBy::Request), None]);
    assert_eq!(skipped.occurrences[0].note.as_deref(), Some("does not fire: somebody asked to skip it"));
    assert_eq!(skipped.reason, None);
    world.owner.pause_schedule(&by(&world.owner), "report", note("too noisy")).await.unwrap();
    let reason = preview().await.unwrap().reason.expect("it is paused");
    assert!(reason.starts_with("local paused it at ") && reason.ends_with(": too noisy"), "{reason}");
}

#[tokio::test]
async fn whoever_wonders_about_seconds_is_told_of_jitter() {
    let world = World::new().await;
    let body = r#"{"name":"tick","task":"t","every":"1s","zone":"UTC","jitter":"900ms"}"#;
    let words = "every 1s, UTC, each run delayed by less than 900ms (jitter)";
    assert_eq!(world.create(body).await.explanation, words);
    assert_eq!(
        world.owner.list_schedules(&by(&world.owner), Default::default()).await.unwrap().schedules[0].explanation,
        words
    );
    let preview = world.owner.preview_schedule(&by(&world.owner), "tick", PreviewQuery::default()).await.unwrap();
    assert_eq!(preview.explanation, words);
    let planned = preview.occurrences.iter().find(|time| time.start_at > time.at).expect("one is delayed");
    let note = planned.note.as_deref().unwrap_or_default();
    assert!(note.starts_with("starts ") && note.ends_with("ms later (jitter)"), "{note}");
    eventually("it fires", || async { world.verdicts("tick").await.len() >= 2 }).await;
    let list = world.owner.occurrences(&by(&world.owner), "tick", OccurrenceQuery::default()).await.unwrap();
    let fired = list.occurrences.iter().find(|time| time.start_at > time.at).expect("one was delayed");
    assert!(fired.explanation.contains("; jitter delayed it by "), "{}", fired.explanation);
}

#[tokio::test]
async fn a_task_that_schedules_need_is_not_deleted() {
    let world = World::new().await;
    for number in 0..12 {
        world.create(&format!(r#"{{"name":"s{number:02}","task":"t","daily":"09:00"}}"#)).await;
    }
    let error = world.owner.delete_task(&by(&world.owner), "t", Precondition::None).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TaskInUse);
    assert_eq!(error.detail, "schedules refer to t: s00, s01, s02, s03, s04, s05, s06, s07, s08, s09");
    for number in 0..12 {
        world.owner.delete_schedule(&by(&world.owner), &format!("s{number:02}"), Precondition::None).await.unwrap();
    }
    world.owner.delete_task(&by(&world.owner), "t", Precondition::None).await.unwrap();
}

#[tokio::test]
async fn a_task_may_be_defined_with_its_schedule() {
    let world = World::new().await;
    let body = r#"{"name":"probe","inline":{"run":{"probe":{}}},"daily":"09:00"}"#;
    let schedule = world.create(body).await;
    assert_eq!((schedule.task.name, schedule.task.kind.as_str()), (None, "probe"));
    let again = world
        .owner
        .put_schedule(&by(&world.owner), "probe", schedule.definition, Precondition::None, None)
        .await
        .unwrap();
    assert!(matches!(again, Put::Replaced(same) if same.task.id == schedule.task.id));
}

#[tokio::test]
async fn what_the_clocks_left_out_is_told_beside_the_run_that_stands_for_it() {
    let world = World::new().await;
    let create = |name: &str, gap: &str| {
        format!(r#"{{"name":"{name}","task":"t","cron":"0,30 2,3 28 3 *","zone":"Europe/Berlin","gap":"{gap}"}}"#)
    };
    world.create(&create("shifts", "shift")).await;
    world.create(&create("skips", "skip")).await;
    let gap_ends = Timestamp::parse("2027-03-28T01:00:00Z").unwrap();
    world.pass((gap_ends + Span::from_secs(1)).since(world.owner.now()));
    for (name, verdict, merged) in [("shifts", "merged", 2), ("skips", "skipped_gap", 0)] {
        eventually("it runs", || async { world.verdicts(name).await == ["fired"] }).await;
        // An edit does not change the past.
        let body = create(name, "shift").replace("28 3", "29 3");
        world.owner.put_schedule(&by(&world.owner), name, request(&body), Precondition::None, None).await.unwrap();
        let row = world
            .front
            .occurrences(&by(&world.front), name, OccurrenceQuery::default())
            .await
            .unwrap()
            .occurrences
            .remove(0);
        let told: Vec<(&str, &str)> = row.left_out.iter().map(|time| (&*time.local, &*time.verdict)).collect();
        assert_eq!(told, [("2027-03-28T02:00:00", verdict), ("2027-03-28T02:30:00", verdict)], "{row:?}");
        assert_eq!(row.merged, merged);
        assert!(row.explanation.contains("; 02:00:00, 02:30:00 "), "{}", row.explanation);
    }
}
