//! No step runs long, and no schedule gets stuck.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;
use punctual_recurrence::{Calendar, GapPolicy, OnClosedDay, Rule, Schedule, ScheduleSpec};

fn spec(zone: &str, rule: &str) -> ScheduleSpec {
    ScheduleSpec::new(rule.parse().expect("a valid rule"), zone)
}

/// The slowest of some steps, each the quickest of three tries: a busy machine can interrupt any one of them.
fn slowest_step(spec: &ScheduleSpec, from: &str, steps: usize) -> (usize, Duration) {
    let schedule = Schedule::with_database(spec.clone(), "key", &TimeZoneDatabase::bundled()).expect("valid");
    let from: Timestamp = from.parse().expect("an instant");
    let run = || {
        let mut occurrences = schedule.after(from);
        let step = |_| {
            let started = Instant::now();
            let found = occurrences.next().is_some();
            (found, started.elapsed())
        };
        (0..steps).map(step).collect::<Vec<_>>()
    };
    let runs = [run(), run(), run()];
    let quickest = (0..steps).map(|step| runs.iter().map(|run| run[step].1).min().unwrap_or_default());
    (runs[0].iter().filter(|(found, _)| *found).count(), quickest.max().unwrap_or_default())
}

fn check(spec: &ScheduleSpec, from: &str, expected: usize) {
    // A few milliseconds in a release build. The limit is wide, for machines with other work; how many segments a step
    // visits is tested exactly beside the search.
    let (found, slowest) = slowest_step(spec, from, 50);
    assert_eq!(found, expected, "{:?}", spec.rules[0]);
    assert!(slowest < Duration::from_millis(250), "{:?} took {slowest:?}", spec.rules[0]);
}

#[test]
fn the_rarest_dates_are_found_at_once() {
    for zone in ["UTC", "Europe/Berlin", "Africa/Casablanca"] {
        check(&spec(zone, "0 0 29 2 *"), "1890-01-01T00:00:00Z", 50);
        // 29 February on a Sunday: every 28 years, or 40 over a century.
        check(&spec(zone, "0 0 29 2 */7"), "1890-01-01T00:00:00Z", 50);
        check(&spec(zone, "59 59 23 31 12 *"), "0001-01-01T00:00:00Z", 50);
    }
}

#[test]
fn a_rule_that_only_exists_in_skipped_gaps_ends() {
    // Berlin skips 02:30 on the last Sunday of March, each year, as far as its rules reach.
    let mut skipped = spec("Europe/Berlin", "30 2 * 3 SUNL");
    skipped.gap = GapPolicy::Skip;
    check(&skipped, "1996-01-01T00:00:00Z", 0);
    check(&spec("Europe/Berlin", "*/30 2 * 3 SUNL"), "1996-01-01T00:00:00Z", 0);
    let mut crowded = skipped.clone();
    crowded.rules = vec![skipped.rules[0].clone(); 32];
    check(&crowded, "1996-01-01T00:00:00Z", 0);
    // What fires is still found among what never does.
    crowded.rules[7] = "0 0 29 2 */7".parse().expect("a valid rule");
    check(&crowded, "1996-01-01T00:00:00Z", 50);
}

#[test]
fn calendars_do_not_make_it_stuck() {
    let mut dates = std::collections::BTreeSet::new();
    let mut date = jiff::civil::date(2026, 1, 1);
    while dates.len() < 10_000 {
        dates.insert(date);
        date = date.tomorrow().expect("in range");
    }
    for on_closed_day in [OnClosedDay::Skip, OnClosedDay::NextBusinessDay, OnClosedDay::PreviousBusinessDay] {
        for rule in ["* * * * * *", "@every 1s", "0 0 29 2 *"] {
            let mut closed = spec("Europe/Berlin", rule);
            closed.calendars.exclude = vec![Calendar { name: "closed".into(), dates: dates.clone() }.into()];
            closed.calendars.on_closed_day = on_closed_day;
            check(&closed, "2026-01-01T12:00:00Z", 50);
            let mut open = spec("Europe/Berlin", rule);
            open.calendars.include = vec![Calendar { name: "open".into(), dates: [date].into() }.into()];
            open.calendars.on_closed_day = on_closed_day;
            let is_daily = rule != "0 0 29 2 *";
            check(&open, "2026-01-01T12:00:00Z", if is_daily { 50 } else { 0 });
        }
    }
}

#[test]
fn the_ends_of_time_are_ends() {
    for zone in ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "America/New_York"] {
        for rule in ["* * * * *", "0 0 * * *", "@every 1h", "0 0 29 2 */7"] {
            let schedule =
                Schedule::with_database(spec(zone, rule), "key", &TimeZoneDatabase::bundled()).expect("valid");
            assert!(schedule.after(Timestamp::MIN).next().is_some(), "{zone} {rule}");
            assert_eq!(schedule.after(Timestamp::MAX).next(), None, "{zone} {rule}");
            let near_end: Timestamp = "9999-12-25T00:00:00Z".parse().expect("an instant");
            assert!(schedule.after(near_end).count() < 10_000, "{zone} {rule}");
        }
        let once = ScheduleSpec::new(Rule::Once("9000-01-01T00:00:00.5Z".parse().expect("an instant")), zone);
        let schedule = Schedule::with_database(once, "key", &TimeZoneDatabase::bundled()).expect("valid");
        let found: Vec<String> = schedule.after(Timestamp::MIN).map(|next| next.at.to_string()).collect();
        assert_eq!(found, ["9000-01-01T00:00:00.5Z"]);
    }
}
