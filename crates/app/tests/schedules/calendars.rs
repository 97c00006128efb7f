//! Calendars, and schedules that obey them.

use punctual_api::{CalendarQuery, CalendarRequest, ErrorKind, ScheduleStanding};
use punctual_app::Precondition;

use crate::world::{World, by, eventually};

fn dates(dates: &[&str]) -> CalendarRequest {
    CalendarRequest { dates: dates.iter().map(|date| (*date).to_owned()).collect() }
}

#[tokio::test]
async fn a_calendar_is_kept_in_order_and_without_repetitions() {
    let world = World::new().await;
    let request = dates(&["2026-12-25", "2026-01-01", "2026-12-25"]);
    let calendar = world.owner.put_calendar(&by(&world.owner), "holidays", &request, Precondition::None).await.unwrap();
    assert_eq!(calendar.dates, ["2026-01-01", "2026-12-25"]);
    assert_eq!(world.front.calendar(&by(&world.front), "holidays").await.unwrap(), calendar);
    let file = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20261226\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";
    let replaced = world
        .owner
        .put_icalendar(&by(&world.owner), "holidays", file.into(), &CalendarQuery::default(), Precondition::None)
        .await
        .unwrap();
    assert_eq!(replaced.dates, ["2026-12-26"]);
    assert!(replaced.revision > calendar.revision);
    let list = world.owner.list_calendars(&by(&world.owner)).await.unwrap().calendars;
    assert_eq!((list.len(), list[0].date_count, list[0].first.as_deref()), (1, 1, Some("2026-12-26")));
    let bad = world
        .owner
        .put_calendar(&by(&world.owner), "holidays", &dates(&["2026-12-25", "25.12.2026"]), Precondition::None)
        .await
        .unwrap_err();
    assert_eq!(bad.detail, "/dates/1: `25.12.2026` is not a date, such as 2026-12-25");
    let weekly = file.replace("END:VEVENT", "RRULE:FREQ=WEEKLY\r\nEND:VEVENT");
    let query = CalendarQuery::default();
    let bad = world
        .owner
        .put_icalendar(&by(&world.owner), "holidays", weekly.clone().into(), &query, Precondition::None)
        .await
        .unwrap_err();
    assert!(bad.detail.starts_with("line 4: the rule `FREQ=WEEKLY` is not supported"), "{bad}");
    let query = CalendarQuery { skip_unsupported: Some("true".to_owned()), zone: Some("europe/berlin".to_owned()) };
    let skipped = world
        .owner
        .put_icalendar(&by(&world.owner), "weekly", weekly.into(), &query, Precondition::None)
        .await
        .unwrap();
    assert_eq!((skipped.dates.len(), skipped.file.unwrap().skipped.unwrap().count), (0, 1));
    let query = CalendarQuery { zone: Some("localtime".to_owned()), ..CalendarQuery::default() };
    let bad = world
        .owner
        .put_icalendar(&by(&world.owner), "weekly", file.into(), &query, Precondition::None)
        .await
        .unwrap_err();
    assert_eq!(bad.errors[0].pointer, "zone");
    let many = CalendarRequest { dates: vec!["2026-12-25".to_owned(); 10_001] };
    let bad = world.owner.put_calendar(&by(&world.owner), "holidays", &many, Precondition::None).await.unwrap_err();
    assert_eq!(bad.errors[0].pointer, "/dates");
    assert_eq!(world.owner.calendar(&by(&world.owner), "holidays").await.unwrap().dates, ["2026-12-26"]);
}

#[tokio::test]
async fn a_calendar_that_schedules_need_is_not_deleted() {
    let world = World::new().await;
    world.owner.put_calendar(&by(&world.owner), "holidays", &dates(&["2026-11-16"]), Precondition::None).await.unwrap();
    let body = r#"{"name":"report","task":"t","daily":"09:00","calendars":{"exclude":["holidays"]}}"#;
    let schedule = world.create(body).await;
    assert_eq!(&schedule.next[0].local[..10], "2026-11-17", "it is closed today");
    let error = world.owner.delete_calendar(&by(&world.owner), "holidays", Precondition::None).await.unwrap_err();
    assert_eq!((error.kind, error.detail.as_str()), (ErrorKind::CalendarInUse, "schedules refer to holidays: report"));
    // Its dates may change, and the schedule with them.
    world.owner.put_calendar(&by(&world.owner), "holidays", &dates(&["2026-11-17"]), Precondition::None).await.unwrap();
    world.engine.replan().await.unwrap();
    eventually("the schedule follows", || async {
        let schedule = world.owner.schedule(&by(&world.owner), "report").await.unwrap();
        schedule.state == ScheduleStanding::Active && schedule.next[0].local.starts_with("2026-11-16")
    })
    .await;
    world.owner.delete_schedule(&by(&world.owner), "report", Precondition::None).await.unwrap();
    world.owner.delete_calendar(&by(&world.owner), "holidays", Precondition::None).await.unwrap();
    assert_eq!(
        world.owner.delete_calendar(&by(&world.owner), "holidays", Precondition::None).await.unwrap_err().kind,
        ErrorKind::CalendarNotFound
    );
    assert_eq!(
        world.owner.calendar(&by(&world.owner), "holidays").await.unwrap_err().kind,
        ErrorKind::CalendarNotFound
    );
}

/// So many days from 2001-01-01 on.
fn many(count: i64) -> CalendarRequest {
    let first = jiff::civil::date(2001, 1, 1);
    CalendarRequest { dates: (0..count).map(|day| (first + jiff::Span::new().days(day)).to_string()).collect() }
}

#[tokio::test]
async fn a_calendar_does_not_outgrow_the_schedules_that_need_it() {
    let world = World::new().await;
    let app = &world.owner;
    app.put_calendar(&by(app), "own", &many(100), Precondition::None).await.unwrap();
    app.put_calendar(&by(app), "shared", &many(6000), Precondition::None).await.unwrap();
    for (name, exclude) in [("alone", r#"["own"]"#), ("both", r#"["own","shared"]"#)] {
        let calendars = format!(r#"{{"exclude":{exclude}}}"#);
        world.create(&format!(r#"{{"name":"{name}","task":"t","daily":"09:00","calendars":{calendars}}}"#)).await;
    }
    app.put_calendar(&by(app), "own", &many(4000), Precondition::None).await.unwrap();
    let error = app.put_calendar(&by(app), "own", &many(4001), Precondition::None).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
    assert_eq!(error.detail, "the calendars of the schedule both would have 10001 dates, and may have 10000");
    assert_eq!(app.calendar(&by(app), "own").await.unwrap().dates.len(), 4000, "it stays as it was");
    let error = app.put_calendar(&by(app), "shared", &many(6001), Precondition::None).await.unwrap_err();
    assert!(error.detail.contains("the schedule both"), "{error}");
    // Fewer are always welcome, and so is what no schedule needs.
    app.put_calendar(&by(app), "own", &many(3999), Precondition::None).await.unwrap();
    app.put_calendar(&by(app), "nobodys", &many(10_000), Precondition::None).await.unwrap();
    // One that opens and closes the same dates counts them twice, as when it is created.
    let twice =
        r#"{"name":"twice","task":"t","daily":"09:00","calendars":{"exclude":["nobodys"],"include":["nobodys"]}}"#;
    app.put_calendar(&by(app), "nobodys", &many(5000), Precondition::None).await.unwrap();
    world.create(twice).await;
    let error = app.put_calendar(&by(app), "nobodys", &many(5001), Precondition::None).await.unwrap_err();
    assert!(error.detail.contains("the schedule twice would have 10002"), "{error}");
}
