//! Every kind of clock change, with expectations written by hand from the zones' history.

use jiff::Timestamp;
use jiff::tz::TimeZoneDatabase;
use punctual_recurrence::{FoldPolicy, GapPolicy, Note, Occurrence, Rule, Schedule, ScheduleSpec};

struct Case {
    zone: &'static str,
    rules: &'static [&'static str],
    gap: GapPolicy,
    fold: FoldPolicy,
}

/// With the default policies.
fn case(zone: &'static str, rules: &'static [&'static str]) -> Case {
    Case { zone, rules, gap: GapPolicy::Shift, fold: FoldPolicy::First }
}

/// As `wall clock+offset`, then what is special.
fn shown(occurrence: &Occurrence) -> String {
    let wall_clock = occurrence.offset.to_datetime(occurrence.at);
    let note = match occurrence.note {
        Note::None => String::new(),
        Note::ShiftedByGap => format!(" for {}", occurrence.nominal),
        Note::FirstOfFold => " first".into(),
        Note::SecondOfFold => " second".into(),
    };
    let merged = if occurrence.merged_count == 0 { String::new() } else { format!(" +{}", occurrence.merged_count) };
    format!(
        "{wall_clock}{}{note}{merged}",
        occurrence.at.display_with_offset(occurrence.offset).to_string().split_off(19)
    )
}

impl Case {
    fn gap(self, gap: GapPolicy) -> Self {
        Self { gap, ..self }
    }

    fn fold(self, fold: FoldPolicy) -> Self {
        Self { fold, ..self }
    }

    fn check(self, from: &str, to: &str, expected: &[&str]) {
        let rules: Vec<Rule> = self.rules.iter().map(|rule| rule.parse().expect("a valid rule")).collect();
        let mut spec = ScheduleSpec::new(rules[0].clone(), self.zone);
        spec.rules = rules;
        spec.gap = self.gap;
        spec.fold = self.fold;
        let schedule = Schedule::with_database(spec, "key", &TimeZoneDatabase::bundled()).expect("a valid schedule");
        let instant = |local: &str| {
            let local: jiff::civil::DateTime = local.parse().expect("a local time");
            schedule.zone().to_ambiguous_timestamp(local).compatible().expect("in range")
        };
        let (from, to): (Timestamp, Timestamp) = (instant(from), instant(to));
        let found: Vec<String> = schedule.between(from, to).map(|occurrence| shown(&occurrence)).collect();
        assert_eq!(found, expected, "{} {:?}", self.zone, self.rules);
    }
}

#[test]
fn a_fixed_time_in_a_gap_fires_right_after_it() {
    // Berlin, 2026-03-29: 02:00 becomes 03:00.
    case("Europe/Berlin", &["30 2 * * *"]).check(
        "2026-03-28",
        "2026-03-31",
        &[
            "2026-03-28T02:30:00+01:00",
            "2026-03-29T03:00:00+02:00 for 2026-03-29T02:30:00",
            "2026-03-30T02:30:00+02:00",
        ],
    );
    case("Europe/Berlin", &["30 2 * * *"]).gap(GapPolicy::Skip).check(
        "2026-03-28",
        "2026-03-31",
        &["2026-03-28T02:30:00+01:00", "2026-03-30T02:30:00+02:00"],
    );
}

#[test]
fn times_shifted_to_one_instant_fire_once() {
    // A range and a list of hours are fixed times. 03:00 is on time, so it stands for the 02:00 shifted onto it.
    case("Europe/Berlin", &["0 1-4 * * *"]).check(
        "2026-03-29",
        "2026-03-30",
        &["2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00 +1", "2026-03-29T04:00:00+02:00"],
    );
    // Nothing is on time, so the earlier one stands for both.
    case("Europe/Berlin", &["0,30 2 * * *"]).check(
        "2026-03-29",
        "2026-03-30",
        &["2026-03-29T03:00:00+02:00 for 2026-03-29T02:00:00 +1"],
    );
    // Two rules that mean the same time mean one occurrence; a third time of another rule is merged.
    case("Europe/Berlin", &["30 2 * * *", "30 2 * * SUN", "45 2 * * *"]).check(
        "2026-03-29",
        "2026-03-30",
        &["2026-03-29T03:00:00+02:00 for 2026-03-29T02:30:00 +1"],
    );
}

#[test]
fn wildcard_rules_and_intervals_follow_real_time_through_a_gap() {
    let every_half_hour = [
        "2026-03-29T01:00:00+01:00",
        "2026-03-29T01:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-29T03:30:00+02:00",
    ];
    case("Europe/Berlin", &["*/30 * * * *"]).check("2026-03-29T01:00", "2026-03-29T04:00", &every_half_hour);
    case("Europe/Berlin", &["0,30 * * * *"]).check("2026-03-29T01:00", "2026-03-29T04:00", &every_half_hour);
    case("Europe/Berlin", &["?/30 * * * *"]).check("2026-03-29T01:00", "2026-03-29T04:00", &every_half_hour);
    case("Europe/Berlin", &["@every 30m"]).check("2026-03-29T01:00", "2026-03-29T04:00", &every_half_hour);
    // Its minute field begins with `*`: the hour does not exist, so nothing fires and nothing is made up.
    case("Europe/Berlin", &["*/30 2 * * *"]).check("2026-03-29", "2026-03-30", &[]);
}

#[test]
fn a_fixed_time_in_a_fold_fires_as_the_policy_says() {
    // Berlin, 2026-10-25: 03:00 becomes 02:00.
    let (first, second) = ("2026-10-25T02:30:00+02:00 first", "2026-10-25T02:30:00+01:00 second");
    for (fold, expected) in
        [(FoldPolicy::First, vec![first]), (FoldPolicy::Last, vec![second]), (FoldPolicy::Both, vec![first, second])]
    {
        case("Europe/Berlin", &["30 2 * * *"]).fold(fold).check("2026-10-25", "2026-10-26", &expected);
    }
    // Both passes in order of real time, not of the wall clock.
    case("Europe/Berlin", &["0,30 2 * * *"]).fold(FoldPolicy::Both).check(
        "2026-10-25",
        "2026-10-26",
        &["2026-10-25T02:00:00+02:00 first", first, "2026-10-25T02:00:00+01:00 second", second],
    );
    // 03:00 exists once: it is the first instant after the repeated hour.
    case("Europe/Berlin", &["0 3 * * *"]).check("2026-10-25", "2026-10-26", &["2026-10-25T03:00:00+01:00"]);
}

#[test]
fn wildcard_rules_and_intervals_follow_real_time_through_a_fold() {
    let hourly = [
        "2026-10-25T01:30:00+02:00",
        "2026-10-25T02:30:00+02:00 first",
        "2026-10-25T02:30:00+01:00 second",
        "2026-10-25T03:30:00+01:00",
    ];
    case("Europe/Berlin", &["30 * * * *"]).check("2026-10-25T01:00", "2026-10-25T04:00", &hourly);
    case("Europe/Berlin", &["*/40 2 * * *"]).check(
        "2026-10-25",
        "2026-10-26",
        &[
            "2026-10-25T02:00:00+02:00 first",
            "2026-10-25T02:40:00+02:00 first",
            "2026-10-25T02:00:00+01:00 second",
            "2026-10-25T02:40:00+01:00 second",
        ],
    );
}

#[test]
fn seconds_and_hashed_slots_obey_the_policies_too() {
    // A `*` among the seconds does not make a rule follow real time; minute and hour are fixed.
    case("Europe/Berlin", &["*/20 30 2 * * *"]).check(
        "2026-03-29",
        "2026-03-30",
        &["2026-03-29T03:00:00+02:00 for 2026-03-29T02:30:00 +2"],
    );
    case("Europe/Berlin", &["59 59 2 * * *"]).fold(FoldPolicy::Last).check(
        "2026-10-25",
        "2026-10-26",
        &["2026-10-25T02:59:59+01:00 second"],
    );
    case("Europe/Berlin", &["H(30-30) 2 * * *"]).check(
        "2026-03-29",
        "2026-03-30",
        &["2026-03-29T03:00:00+02:00 for 2026-03-29T02:30:00"],
    );
}

#[test]
fn midnight_can_be_missing() {
    // São Paulo began summer time at midnight: on 2018-11-04, 00:00 became 01:00.
    case("America/Sao_Paulo", &["0 0 * * *"]).check(
        "2018-11-03",
        "2018-11-06",
        &[
            "2018-11-03T00:00:00-03:00",
            "2018-11-04T01:00:00-02:00 for 2018-11-04T00:00:00",
            "2018-11-05T00:00:00-02:00",
        ],
    );
    // It ended at midnight too: 2019-02-17T00:00 became 23:00 of the day before, so 23:30 came twice and 00:00 once.
    case("America/Sao_Paulo", &["30 23 * * *", "0 0 * * *"]).check(
        "2019-02-16T12:00",
        "2019-02-17T12:00",
        &["2019-02-16T23:30:00-02:00 first", "2019-02-17T00:00:00-03:00"],
    );
    // Beirut, 2024-03-31, and Cairo, 2024-04-26: 00:00 became 01:00.
    case("Asia/Beirut", &["0 0 * * *"]).check(
        "2024-03-30T12:00",
        "2024-04-01T12:00",
        &["2024-03-31T01:00:00+03:00 for 2024-03-31T00:00:00", "2024-04-01T00:00:00+03:00"],
    );
    case("Africa/Cairo", &["15 0 * * FRI"]).check(
        "2024-04-25",
        "2024-04-27",
        &["2024-04-26T01:00:00+03:00 for 2024-04-26T00:15:00"],
    );
    // Cairo's last day of summer time, 2024-10-31, had 23:00 to midnight twice.
    case("Africa/Cairo", &["30 23 31 10 *"]).fold(FoldPolicy::Both).check(
        "2024-10-31",
        "2024-11-02",
        &["2024-10-31T23:30:00+03:00 first", "2024-10-31T23:30:00+02:00 second"],
    );
}

#[test]
fn changes_need_not_be_an_hour() {
    // Lord Howe changes by 30 minutes: 2024-10-06 02:00 became 02:30, 2025-04-06 02:00 became 01:30.
    case("Australia/Lord_Howe", &["15,45 2 * * *"]).check(
        "2024-10-06",
        "2024-10-07",
        &["2024-10-06T02:30:00+11:00 for 2024-10-06T02:15:00", "2024-10-06T02:45:00+11:00"],
    );
    case("Australia/Lord_Howe", &["15,45 1 * * *"]).fold(FoldPolicy::Both).check(
        "2025-04-06",
        "2025-04-07",
        &["2025-04-06T01:15:00+11:00", "2025-04-06T01:45:00+11:00 first", "2025-04-06T01:45:00+10:30 second"],
    );
    // Troll changes by two hours: 2026-03-29 01:00 becomes 03:00, 2026-10-25 03:00 becomes 01:00.
    case("Antarctica/Troll", &["30 1,2 * * *"]).check(
        "2026-03-29",
        "2026-03-30",
        &["2026-03-29T03:00:00+02:00 for 2026-03-29T01:30:00 +1"],
    );
    case("Antarctica/Troll", &["30 1,2 * * *"]).fold(FoldPolicy::Both).check(
        "2026-10-25",
        "2026-10-26",
        &[
            "2026-10-25T01:30:00+02:00 first",
            "2026-10-25T02:30:00+02:00 first",
            "2026-10-25T01:30:00+00:00 second",
            "2026-10-25T02:30:00+00:00 second",
        ],
    );
}

#[test]
fn a_whole_day_can_be_missing() {
    // Samoa crossed the date line: 2011-12-29 was followed by 2011-12-31.
    let before = "2011-12-29T09:00:00-10:00";
    let after = "2011-12-31T09:00:00+14:00";
    case("Pacific/Apia", &["0 9 * * *"]).check(
        "2011-12-29",
        "2012-01-01",
        &[before, "2011-12-31T00:00:00+14:00 for 2011-12-30T09:00:00", after],
    );
    case("Pacific/Apia", &["0 9 * * *"]).gap(GapPolicy::Skip).check("2011-12-29", "2012-01-01", &[before, after]);
    // All 24 hours of the missing day are merged into the midnight that is on time.
    case("Pacific/Apia", &["0 0-23 * * *"]).check(
        "2011-12-29T22:30",
        "2011-12-31T01:30",
        &["2011-12-29T23:00:00-10:00", "2011-12-31T00:00:00+14:00 +24", "2011-12-31T01:00:00+14:00"],
    );
    // In seconds there are 86,400.
    case("Pacific/Apia", &["0-59 0-59 0-23 30 * *"]).check(
        "2011-12-30T00:00",
        "2012-01-01",
        &["2011-12-31T00:00:00+14:00 for 2011-12-30T00:00:00 +86399"],
    );
    // In real time no hour is missing.
    case("Pacific/Apia", &["0 * * * *"]).check(
        "2011-12-29T22:30",
        "2011-12-31T01:30",
        &["2011-12-29T23:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T01:00:00+14:00"],
    );
}

#[test]
fn a_year_can_have_four_changes() {
    // Morocco paused summer time during Ramadan. In 2016 it went forward on 03-27 and 07-10 (02:00 to 03:00) and back
    // on 06-05 and 10-30 (03:00 to 02:00).
    let changes = [
        ("2016-03-27", "2016-03-28", "2016-03-27T03:00:00+01:00 for 2016-03-27T02:30:00"),
        ("2016-06-05", "2016-06-06", "2016-06-05T02:30:00+01:00 first"),
        ("2016-07-10", "2016-07-11", "2016-07-10T03:00:00+01:00 for 2016-07-10T02:30:00"),
        ("2016-10-30", "2016-10-31", "2016-10-30T02:30:00+01:00 first"),
    ];
    for (from, to, expected) in changes {
        case("Africa/Casablanca", &["30 2 * * *"]).check(from, to, &[expected]);
    }
}

#[test]
fn a_change_of_offset_that_is_no_summer_time_is_treated_the_same() {
    // North Korea left UTC+9 on 2015-08-15 (00:00 became 23:30) and returned on 2018-05-04 (23:30 became midnight).
    case("Asia/Pyongyang", &["45 23 * * *"]).check(
        "2015-08-14",
        "2015-08-15T12:00",
        &["2015-08-14T23:45:00+09:00 first"],
    );
    case("Asia/Pyongyang", &["45 23 * * *"]).check(
        "2018-05-04",
        "2018-05-05T12:00",
        &["2018-05-05T00:00:00+09:00 for 2018-05-04T23:45:00"],
    );
    // Venezuela, 2016-05-01: 02:30 became 03:00.
    case("America/Caracas", &["45 2 * * *"]).check(
        "2016-05-01",
        "2016-05-02",
        &["2016-05-01T03:00:00-04:00 for 2016-05-01T02:45:00"],
    );
    // Volgograd took a new name and offset on 2018-10-28: 02:00 became 03:00.
    case("Europe/Volgograd", &["30 2 * * *"]).check(
        "2018-10-28",
        "2018-10-29",
        &["2018-10-28T03:00:00+04:00 for 2018-10-28T02:30:00"],
    );
}

#[test]
fn merged_times_can_be_named() {
    let mut spec = ScheduleSpec::new("0,20,40 2 * * *".parse().expect("a valid rule"), "Europe/Berlin");
    spec.rules.push("0 3 * * *".parse().expect("a valid rule"));
    let schedule = Schedule::with_database(spec, "key", &TimeZoneDatabase::bundled()).expect("a valid schedule");
    let found = schedule.after("2026-03-28T12:00:00Z".parse().expect("an instant")).next().expect("it fires daily");
    assert_eq!(shown(&found), "2026-03-29T03:00:00+02:00 +3");
    let merged: Vec<String> = schedule.merged_into(&found, 100).iter().map(ToString::to_string).collect();
    assert_eq!(merged, ["2026-03-29T02:00:00", "2026-03-29T02:20:00", "2026-03-29T02:40:00"]);
    assert_eq!(schedule.merged_into(&found, 2).len(), 2);
}
