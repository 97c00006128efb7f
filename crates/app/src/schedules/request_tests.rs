use punctual_core::Timestamp;

use super::*;

fn known() -> Known {
    let dates = |count: i32| {
        let first = jiff::civil::date(2000, 1, 1);
        (0..count).map(|day| first.checked_add(jiff::Span::new().days(day)).expect("a date")).collect()
    };
    let calendar =
        |name: &str, count| (name.to_owned(), Arc::new(Calendar { name: name.to_owned(), dates: dates(count) }));
    [calendar("holidays", 10), calendar("long", 6000), calendar("longer", 6000)].into()
}

/// All checks, as a creation makes them.
fn whole(json: &str) -> Result<ScheduleSpec> {
    let request: ScheduleRequest = serde_json::from_str(json).expect("the form is good");
    check(&request)?;
    let spec = spec(&request, None)?;
    check_name(&request, &plan(&request, &spec, &known())?, "nightly")?;
    Ok(spec)
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (json, place, detail) in [
        (r#"{"cron":"0 9 * * *"}"#, "", "the schedule names no task"),
        (
            r#"{"task":"a","inline":{"run":{"probe":{}}},"cron":"0 9 * * *"}"#,
            "",
            "the schedule has both a task and an inline definition",
        ),
        (r#"{"task":"a b","cron":"0 9 * * *"}"#, "/task", "must be 1 to 128 letters"),
        (r#"{"task":"a","name":"a/b","cron":"0 9 * * *"}"#, "/name", "must be 1 to 128 letters"),
        (r#"{"task":"a"}"#, "", "nothing says when it fires"),
        (r#"{"task":"a","rules":[]}"#, "", "nothing says when it fires"),
        (r#"{"task":"a","cron":"0 9 * * *","every":"1h"}"#, "", "more than one rule"),
        (r#"{"task":"a","cron":"0 9 * * *","rules":[{"every":"1h"}]}"#, "", "`rules` and another rule"),
        (r#"{"task":"a","rules":[{"every":"1h"},{}]}"#, "/rules/1", "nothing says when it fires"),
        (r#"{"task":"a","cron":"0 9 * *"}"#, "/cron", "column"),
        (r#"{"task":"a","cron":"0 25 * * *"}"#, "/cron", "hour field, column 3"),
        (r#"{"task":"a","cron":"0 0 30 2 *"}"#, "/cron", "column"),
        (r#"{"task":"a","rules":[{"every":"1h"},{"cron":"x"}]}"#, "/rules/1/cron", "column"),
        (r#"{"task":"a","cron":"0 9 * * *","anchor":"2026-01-01T00:00:00Z"}"#, "/anchor", "goes only with `every`"),
        (r#"{"task":"a","every":"10ms"}"#, "/every", "an interval of 10ms is out of range"),
        (r#"{"task":"a","rules":[{"daily":"09:00"},{"every":"0s"}]}"#, "/rules/1/every", "rule 2"),
        (r#"{"task":"a","daily":"25:00"}"#, "/daily", "`25:00` is no time of day, such as 09:30"),
        (r#"{"task":"a","daily":"09:00","zone":"Europe/Berln"}"#, "/zone", "`Europe/Berln` is not a known time zone"),
        (
            r#"{"task":"a","daily":"09:00","start_at":"2027-01-01T00:00:00Z","end_at":"2026-01-01T00:00:00Z"}"#,
            "/end_at",
            "is not after start_at",
        ),
        (r#"{"task":"a","daily":"09:00","jitter":"0s"}"#, "/jitter", "out of range; use 1ms to 24h"),
        (r#"{"task":"a","daily":"09:00","jitter":"25h"}"#, "/jitter", "out of range; use 1ms to 24h"),
        (r#"{"task":"a","daily":"09:00","max_runs":0}"#, "/max_runs", "must be 1 to 4294967295"),
        (r#"{"task":"a","daily":"09:00","pause_after_failures":0}"#, "/pause_after_failures", "must be 1 to 1000"),
        (r#"{"task":"a","daily":"09:00","pause_after_failures":1001}"#, "/pause_after_failures", "must be 1 to 1000"),
        (r#"{"task":"a","daily":"09:00","late_after":"10ms"}"#, "/late_after", "must be at least 1s"),
        (r#"{"task":"a","daily":"09:00","missed_after":"999ms"}"#, "/missed_after", "must be 1s to 1h"),
        (r#"{"task":"a","daily":"09:00","missed_after":"61m"}"#, "/missed_after", "must be 1s to 1h"),
        (r#"{"task":"a","daily":"09:00","catch_up":{"max":0}}"#, "/catch_up/max", "must be 1 to 10000"),
        (r#"{"task":"a","daily":"09:00","catch_up":{"max":10001}}"#, "/catch_up/max", "must be 1 to 10000"),
        (r#"{"task":"a","daily":"09:00","catch_up":{"per_minute":0}}"#, "/catch_up/per_minute", "must be 1 to 60000"),
        (r#"{"task":"a","daily":"09:00","catch_up":{"window":"0s"}}"#, "/catch_up/window", "must be more than 0"),
        (r#"{"task":"a","daily":"09:00","catch_up":{"window":"367d"}}"#, "/catch_up/window", "at most 366 days"),
        (r#"{"task":"a","daily":"09:00","catch_up":{"mode":"none","max":3}}"#, "/catch_up/max", "has no effect"),
        (r#"{"task":"a","daily":"09:00","catch_up":{"mode":"none","window":"1d"}}"#, "/catch_up/window", "no effect"),
        (r#"{"task":"a","daily":"09:00","catch_up":{"max":3}}"#, "/catch_up/max", "the last one alone runs"),
        (r#"{"task":"a","daily":"09:00","catch_up":{"per_minute":3}}"#, "/catch_up/per_minute", "has no effect"),
        (
            r#"{"task":"a","daily":"09:00","calendars":{"include":["holidays","nowhere"]}}"#,
            "/calendars/include/1",
            "there is no calendar `nowhere`",
        ),
        (r#"{"task":"a","daily":"09:00","calendars":{"exclude":["a b"]}}"#, "/calendars/exclude/0", "must be 1 to 128"),
        (
            r#"{"task":"a","daily":"09:00","calendars":{"exclude":["long","longer"]}}"#,
            "/calendars",
            "the calendars hold 12000 dates; 10000 are the most",
        ),
    ] {
        let error = whole(json).expect_err(json);
        let [only] = &error.errors[..] else { panic!("{json}: {error:?}") };
        assert_eq!(only.pointer, place, "{json}: {error}");
        assert!(only.detail.contains(detail), "{json}: {error}");
    }
}

#[test]
fn too_many_rules_are_refused() {
    let rules = vec![r#"{"every":"1h"}"#; 33].join(",");
    let error = whole(&format!(r#"{{"task":"a","rules":[{rules}]}}"#)).unwrap_err();
    assert_eq!(error.errors[0].pointer, "/rules");
}

#[test]
fn a_name_that_looks_like_an_id_is_refused() {
    let id = ScheduleId::new(Timestamp::EPOCH, punctual_core::ShardId(1), 7);
    assert!(name("/name", &id.to_string()).is_err());
    assert!(name("/name", "bulk").is_err() && name("/name", "preview").is_err());
    assert!(name("/name", "schedule_of_the_week").is_ok());
}

#[test]
fn the_zone_of_the_body_counts_before_that_of_the_request() {
    let request = |zone: &str| serde_json::from_str(&format!(r#"{{"task":"a","daily":"09:00"{zone}}}"#)).unwrap();
    let zone = |json: &str, header| spec(&request(json), header).unwrap().when.zone;
    assert_eq!(zone("", None), "UTC");
    assert_eq!(zone("", Some("Asia/Tokyo")), "Asia/Tokyo");
    assert_eq!(zone(r#","zone":"europe/berlin""#, Some("Asia/Tokyo")), "Europe/Berlin");
}

#[test]
fn a_definition_reads_back_as_what_it_was() {
    let json = r#"{"task":"a","rules":[{"cron":"0 9 * * MON-FRI"},{"every":"1h"}],"zone":"Europe/Berlin","gap":"skip",
        "fold":"both","jitter":"60s","calendars":{"exclude":["holidays"],"on_closed_day":"next_business_day"},
        "overlap":"queue_one","catch_up":{"mode":"all","max":7},"max_runs":9,"pause_after_failures":3,
        "late_after":"60s","missed_after":"5s","start_at":"2026-01-01T00:00:00Z","end_at":"2027-01-01T00:00:00Z"}"#;
    let stored = whole(json).unwrap();
    let edit = punctual_core::schedule::ScheduleEdit {
        task: punctual_core::TaskId::new(Timestamp::EPOCH, 1),
        spec: "".into(),
        calendars: Vec::new(),
        priority: None,
        input: None,
    };
    let shown = crate::schedules::definition::write(&stored, &edit, None);
    assert_eq!(spec(&shown, None).unwrap(), stored);
}
