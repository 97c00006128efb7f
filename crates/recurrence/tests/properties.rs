//! What holds for every schedule, whatever it says.

use jiff::tz::TimeZoneDatabase;
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use punctual_recurrence::{CronExpr, FoldPolicy, GapPolicy, Rule, Schedule, ScheduleSpec};

const ZONES: &[&str] = &[
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Asia/Kolkata",
    "America/St_Johns",
    "Asia/Tehran",
    "Africa/Cairo",
];

fn field(low: u8, high: u8) -> impl Strategy<Value = String> {
    let term = prop_oneof![
        3 => (low..=high).prop_map(|value| value.to_string()),
        2 => (low..=high, low..=high).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        2 => (1..40_u8).prop_map(|step| format!("*/{step}")),
        1 => (low..=high, 1..40_u8).prop_map(|(from, step)| format!("{from}/{step}")),
        2 => Just("*".to_owned()),
        1 => Just("H".to_owned()),
        1 => (1..10_u16).prop_map(|step| format!("H/{step}")),
        1 => (low..=high, low..=high).prop_map(|(a, b)| format!("H({}-{})", a.min(b), a.max(b))),
        1 => (low..=high, low..=high).prop_map(|(a, b)| format!("{}~{}", a.min(b), a.max(b))),
    ];
    proptest::collection::vec(term, 1..3).prop_map(|terms| terms.join(","))
}

fn day_of_month() -> impl Strategy<Value = String> {
    let special = prop_oneof![
        Just("L".to_owned()),
        Just("LW".to_owned()),
        (1..31_u8).prop_map(|day| format!("{day}W")),
        (0..31_u8).prop_map(|days| format!("L-{days}"))
    ];
    prop_oneof![3 => field(1, 31), 1 => special]
}

fn day_of_week() -> impl Strategy<Value = String> {
    let special = prop_oneof![
        (0..=7_u8).prop_map(|day| format!("{day}L")),
        (0..=7_u8, 1..=5_u8).prop_map(|(day, nth)| format!("{day}#{nth}"))
    ];
    prop_oneof![3 => field(0, 7), 1 => special]
}

fn expression() -> impl Strategy<Value = String> {
    let seconds = proptest::option::weighted(0.2, field(0, 59));
    (seconds, field(0, 59), field(0, 23), day_of_month(), field(1, 12), day_of_week()).prop_map(
        |(second, minute, hour, day, month, weekday)| {
            let second = second.map(|second| second + " ").unwrap_or_default();
            format!("{second}{minute} {hour} {day} {month} {weekday}")
        },
    )
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let policies = (any::<bool>(), 0..3_usize);
    (proptest::collection::vec(expression(), 1..4), 0..ZONES.len(), policies).prop_filter_map(
        "the key chose a date that no year has",
        |(texts, zone, (shift, fold))| {
            let rules: Vec<Rule> = texts.iter().map(|text| text.parse().ok()).collect::<Option<_>>()?;
            let mut spec = ScheduleSpec::new(rules[0].clone(), ZONES[zone]);
            spec.rules = rules;
            spec.gap = if shift { GapPolicy::Shift } else { GapPolicy::Skip };
            spec.fold = [FoldPolicy::First, FoldPolicy::Last, FoldPolicy::Both][fold];
            Schedule::with_database(spec, "key", &TimeZoneDatabase::bundled()).ok()
        },
    )
}

/// To the microsecond, from 1995 to 2060.
fn instant() -> impl Strategy<Value = Timestamp> {
    (788_918_400_000_000..2_840_140_800_000_000_i64).prop_map(|us| Timestamp::from_microsecond(us).expect("in range"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn occurrences_strictly_increase_and_lie_after_the_start(schedule in schedule(), from in instant()) {
        let mut last = from;
        for occurrence in schedule.after(from).take(200) {
            prop_assert!(occurrence.at > last, "{} after {last}", occurrence.at);
            prop_assert_eq!(schedule.zone().to_offset(occurrence.at), occurrence.offset);
            last = occurrence.at;
        }
    }

    #[test]
    fn asking_again_gives_the_same_answer(schedule in schedule(), from in instant()) {
        prop_assert_eq!(schedule.next_n(from, 50), schedule.clone().next_n(from, 50));
    }

    #[test]
    fn any_start_joins_the_same_sequence(schedule in schedule(), from in instant(), skip in 0..100_usize) {
        let all = schedule.next_n(from, 120);
        // From an occurrence, from just before it, and from anywhere between two.
        if let Some(start) = all.get(skip) {
            let rest: Vec<_> = all[skip + 1..].to_vec();
            prop_assert_eq!(&schedule.next_n(start.at, rest.len()), &rest);
            let just_before = start.at - SignedDuration::from_micros(1);
            prop_assert_eq!(schedule.after(just_before).next(), Some(*start));
            if let Some(next) = rest.first() {
                let middle = start.at + start.at.duration_until(next.at) / 2;
                prop_assert_eq!(schedule.after(middle).find(|found| found.at > middle), Some(*next));
            }
        }
    }

    #[test]
    fn a_stretch_is_the_sum_of_its_parts(schedule in schedule(), from in instant(), hours in 1..2000_i64, cut in 0.0..1.0_f64) {
        let to = from + SignedDuration::from_hours(hours);
        let middle = from + SignedDuration::from_secs((hours as f64 * 3600.0 * cut) as i64);
        let whole: Vec<_> = schedule.between(from, to).take(5000).collect();
        let parts: Vec<_> = schedule.between(from, middle).chain(schedule.between(middle, to)).take(5000).collect();
        prop_assert_eq!(whole, parts);
    }

    #[test]
    fn a_key_that_comes_later_chooses_the_same_slots(schedule in schedule(), from in instant(), key in "[a-z0-9]{0,40}") {
        let later = schedule.with_key(key.as_str());
        match Schedule::with_database(schedule.spec().clone(), &key, &TimeZoneDatabase::bundled()) {
            Ok(own) => {
                prop_assert_eq!(later.check_slots(), Ok(()));
                prop_assert_eq!(later.explain(), own.explain());
                let expected = own.next_n(from, 20);
                prop_assert_eq!(&later.next_n(from, 20), &expected);
                prop_assert_eq!(later.into_after(from).take(20).collect::<Vec<_>>(), expected);
            }
            Err(never) => prop_assert_eq!(later.check_slots(), Err(never)),
        }
    }

    #[test]
    fn an_expression_reads_back_from_its_written_form(text in expression()) {
        if let Ok(expr) = CronExpr::parse(&text) {
            let again = CronExpr::parse(&expr.to_string());
            prop_assert_eq!(again.as_ref(), Ok(&expr));
            prop_assert_eq!(expr.resolve("key"), again.expect("just compared").resolve("key"));
            prop_assert!(!expr.explain("key").is_empty());
        }
    }
}
