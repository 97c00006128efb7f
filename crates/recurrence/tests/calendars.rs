//! Closed dates, open dates, business days, bounds and jitter.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::tz::TimeZoneDatabase;
use jiff::{SignedDuration, Timestamp};
use punctual_recurrence::{Calendar, Calendars, OnClosedDay, Rule, Schedule, ScheduleError, ScheduleSpec};

fn calendar(name: &str, dates: &[&str]) -> Arc<Calendar> {
    let dates = dates.iter().map(|date| date.parse().expect("a date")).collect();
    Arc::new(Calendar { name: name.into(), dates })
}

fn spec(rule: &str) -> ScheduleSpec {
    ScheduleSpec::new(rule.parse().expect("a valid rule"), "UTC")
}

fn schedule(spec: ScheduleSpec) -> Schedule {
    Schedule::with_database(spec, "key", &TimeZoneDatabase::bundled()).expect("a valid schedule")
}

fn instant(text: &str) -> Timestamp {
    text.parse().expect("an instant")
}

/// As `wall clock`, then the date it was planned for and how many are merged.
fn found(spec: ScheduleSpec, from: &str, to: &str) -> Vec<String> {
    let schedule = schedule(spec);
    let occurrences = schedule.between(instant(from), instant(to));
    let shown = occurrences.map(|occurrence| {
        let from = occurrence.adjusted_from.map(|from| format!(" from {}", from.date())).unwrap_or_default();
        let merged = if occurrence.merged_count > 0 { format!(" +{}", occurrence.merged_count) } else { String::new() };
        format!("{}{from}{merged}", occurrence.nominal.strftime("%a %m-%d %H:%M"))
    });
    shown.collect()
}

#[test]
fn an_excluded_date_does_not_fire() {
    let mut spec = spec("0 9 * * *");
    spec.calendars.exclude = vec![calendar("holidays", &["2026-12-25", "2026-12-26"])];
    let expected = ["Thu 12-24 09:00", "Sun 12-27 09:00"];
    assert_eq!(found(spec, "2026-12-24T00:00:00Z", "2026-12-28T00:00:00Z"), expected);
}

#[test]
fn with_inclusion_dates_nothing_else_fires_and_exclusion_wins() {
    let mut spec = spec("0 9 * * *");
    spec.calendars.include = vec![calendar("trading days", &["2026-12-24", "2026-12-28", "2031-01-02"])];
    spec.calendars.exclude = vec![calendar("closed", &["2026-12-28"])];
    let expected = ["Thu 12-24 09:00", "Thu 01-02 09:00"];
    assert_eq!(found(spec, "2026-01-01T00:00:00Z", "9000-01-01T00:00:00Z"), expected);
}

#[test]
fn the_next_business_day_takes_over_and_counts_what_it_took() {
    let mut spec = spec("0 9 * * *");
    spec.calendars.on_closed_day = OnClosedDay::NextBusinessDay;
    spec.calendars.exclude = vec![calendar("holidays", &["2026-12-25"])];
    // Christmas Day is a Friday: it, Saturday and Sunday go to Monday, which has an occurrence of its own.
    let expected = ["Thu 12-24 09:00", "Mon 12-28 09:00 +3", "Tue 12-29 09:00"];
    assert_eq!(found(spec, "2026-12-24T00:00:00Z", "2026-12-30T00:00:00Z"), expected);
}

#[test]
fn a_moved_day_says_where_it_came_from() {
    let mut spec = spec("0 9 1 * *");
    spec.calendars.on_closed_day = OnClosedDay::PreviousBusinessDay;
    // 2026-08-01 is a Saturday, 2026-11-01 a Sunday; 2027-01-01 is excluded.
    spec.calendars.exclude = vec![calendar("holidays", &["2027-01-01"])];
    let expected = [
        "Fri 07-31 09:00 from 2026-08-01",
        "Tue 09-01 09:00",
        "Thu 10-01 09:00",
        "Fri 10-30 09:00 from 2026-11-01",
        "Tue 12-01 09:00",
        "Thu 12-31 09:00 from 2027-01-01",
    ];
    assert_eq!(found(spec, "2026-07-02T00:00:00Z", "2027-01-15T00:00:00Z"), expected);
}

#[test]
fn a_working_saturday_is_a_business_day_when_a_calendar_includes_it() {
    let mut spec = spec("0 9 * * SAT,SUN");
    spec.calendars.on_closed_day = OnClosedDay::NextBusinessDay;
    spec.calendars.include = vec![calendar("working days", &["2026-10-09", "2026-10-10", "2026-10-12"])];
    let expected = ["Sat 10-10 09:00", "Mon 10-12 09:00 from 2026-10-11"];
    assert_eq!(found(spec, "2026-10-10T00:00:00Z", "2026-12-01T00:00:00Z"), expected);
}

#[test]
fn a_day_too_far_from_a_business_day_does_not_fire() {
    let mut spec = spec("0 9 1 1 *");
    spec.calendars.on_closed_day = OnClosedDay::NextBusinessDay;
    // From Friday, 2027-01-01, to Saturday, 2027-02-06: the first business day is 38 days away.
    let mut date = jiff::civil::date(2027, 1, 1);
    let mut dates = BTreeSet::new();
    while date < jiff::civil::date(2027, 2, 8) {
        dates.insert(date);
        date = date.tomorrow().expect("in range");
    }
    spec.calendars.exclude = vec![Calendar { name: "closed".into(), dates }.into()];
    assert_eq!(found(spec, "2026-12-01T00:00:00Z", "2028-01-10T00:00:00Z"), ["Mon 01-03 09:00 from 2028-01-01"]);
}

#[test]
fn an_interval_skips_closed_dates_and_keeps_its_beat() {
    let mut spec = spec("@every 7h");
    spec.calendars.exclude = vec![calendar("closed", &["1970-01-02"])];
    spec.calendars.on_closed_day = OnClosedDay::NextBusinessDay;
    // Multiples of seven hours since 1970, without those on the second day: 28, 35 and 42 hours.
    let expected = ["Thu 01-01 00:00", "Thu 01-01 07:00", "Thu 01-01 14:00", "Thu 01-01 21:00", "Sat 01-03 01:00"];
    assert_eq!(found(spec, "1970-01-01T00:00:00Z", "1970-01-03T05:00:00Z"), expected);
}

#[test]
fn start_is_included_and_end_is_not() {
    let mut spec = spec("0 * * * *");
    spec.start_at = Some(instant("2026-01-01T10:00:00Z"));
    spec.end_at = Some(instant("2026-01-01T12:00:00Z"));
    let expected = ["Thu 01-01 10:00", "Thu 01-01 11:00"];
    assert_eq!(found(spec, "2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z"), expected);
}

#[test]
fn an_interval_is_anchored_at_its_start_and_one_instant_fires_once() {
    let mut spec = spec("@every 90s");
    spec.start_at = Some(instant("2026-01-01T10:00:07.25Z"));
    spec.rules.push(Rule::Once(instant("2026-01-01T10:00:30Z")));
    let times: Vec<String> =
        schedule(spec).next_n(instant("2020-01-01T00:00:00Z"), 3).iter().map(|next| next.at.to_string()).collect();
    assert_eq!(times, ["2026-01-01T10:00:07.25Z", "2026-01-01T10:00:30Z", "2026-01-01T10:01:37.25Z"]);
}

#[test]
fn jitter_is_stable_within_its_window_and_differs_between_occurrences() {
    let window = SignedDuration::from_mins(10);
    let mut spec = spec("0 * * * *");
    spec.jitter = Some(window);
    let first = schedule(spec.clone()).next_n(instant("2026-01-01T00:00:00Z"), 1000);
    assert_eq!(first, schedule(spec).next_n(instant("2026-01-01T00:00:00Z"), 1000));
    let delays: BTreeSet<SignedDuration> = first.iter().map(|next| next.at.duration_until(next.jittered_at)).collect();
    assert!(delays.len() > 990, "{} different delays", delays.len());
    assert!(delays.iter().all(|delay| (SignedDuration::ZERO..window).contains(delay)));
    // Computed apart from this crate. A change here would move every schedule with jitter.
    assert_eq!(first[0].jittered_at.to_string(), "2026-01-01T01:06:23.690714Z");
}

#[test]
fn what_makes_no_schedule_is_refused_with_advice() {
    let check = |change: &dyn Fn(&mut ScheduleSpec), expected: &str| {
        let mut spec = spec("0 9 * * *");
        change(&mut spec);
        let error = Schedule::with_database(spec, "key", &TimeZoneDatabase::bundled()).expect_err(expected);
        assert!(error.to_string().contains(expected), "{error}");
    };
    check(&|spec| spec.rules.clear(), "at least one rule");
    check(&|spec| spec.rules = vec![spec.rules[0].clone(); 33], "33 rules are too many");
    check(&|spec| spec.calendars.exclude = vec![calendar("x", &[]); 33], "33 calendars are too many");
    check(&|spec| spec.calendars.include = vec![calendar("", &[])], "a calendar's name has 0 bytes");
    let dates =
        |count: i32| (0..count).map(|days| jiff::civil::date(2000, 1, 1) + jiff::Span::new().days(days)).collect();
    let crowded = Arc::new(Calendar { name: "crowded".into(), dates: dates(10_001) });
    check(&|spec| spec.calendars.exclude = vec![crowded.clone()], "the calendars hold 10001 dates");
    check(&|spec| spec.zone = "Mars/Olympus".into(), "`Mars/Olympus` is not a known time zone");
    check(&|spec| spec.rules[0] = Rule::Daily { hour: 24, minute: 0, second: 0 }, "use 0 to 23");
    check(&|spec| spec.jitter = Some(SignedDuration::ZERO), "a jitter window");
    check(&|spec| spec.rules[0] = Rule::Interval { every: SignedDuration::ZERO, anchor: None }, "an interval of");
    check(&|spec| (spec.start_at, spec.end_at) = (Some(Timestamp::MAX), Some(Timestamp::MIN)), "set a later end_at");
    check(&|spec| spec.rules[0] = "0 0 H(30-31) 2 *".parse().expect("the key decides"), "a date that no year has");
    let long_key = "k".repeat(1025);
    let error = Schedule::new(spec("0 9 * * *"), &long_key).expect_err("too long");
    assert_eq!(error, ScheduleError::KeyTooLong { len: 1025, max: 1024 });
}

#[test]
fn a_specification_survives_json() {
    let mut spec = spec("0 9 * * MON");
    spec.rules.push(Rule::Daily { hour: 7, minute: 30, second: 0 });
    spec.rules.push("@every 90s".parse().expect("a valid rule"));
    spec.rules.push(Rule::Once(instant("2026-01-01T00:00:00Z")));
    spec.calendars = Calendars { exclude: vec![calendar("holidays", &["2026-12-25"])], ..Calendars::default() };
    spec.jitter = Some(SignedDuration::from_secs(30));
    let json = serde_json::to_string(&spec).expect("it serializes");
    assert!(
        json.contains(
            r#"{"cron":"0 9 * * 1"},{"daily":{"hour":7,"minute":30,"second":0}},{"interval":{"every":"PT1M30S"#
        ),
        "{json}"
    );
    assert_eq!(serde_json::from_str::<ScheduleSpec>(&json).expect("it parses"), spec);
    let wrong = serde_json::from_str::<Rule>(r#"{"cron":"61 * * * *"}"#).expect_err("61 is no minute");
    assert!(wrong.to_string().contains("minute field, column 1: 61 is out of range; use 0 to 59"), "{wrong}");
}
