//! What a person sees before the clocks change.

use jiff::tz::TimeZoneDatabase;
use punctual_recurrence::{ClockChange, Effect, FoldPolicy, GapPolicy, Rule, Schedule, ScheduleSpec};

fn schedule(zone: &str, rules: &[&str]) -> ScheduleSpec {
    let rules: Vec<Rule> = rules.iter().map(|rule| rule.parse().expect("a valid rule")).collect();
    let mut spec = ScheduleSpec::new(rules[0].clone(), zone);
    spec.rules = rules;
    spec
}

fn changes(spec: ScheduleSpec, from: &str) -> Vec<ClockChange> {
    let schedule = Schedule::with_database(spec, "key", &TimeZoneDatabase::bundled()).expect("a valid schedule");
    schedule.coming_changes(from.parse().expect("an instant"), 12)
}

fn shown(change: &ClockChange) -> Vec<String> {
    let mut lines = vec![format!("{} -> {}", change.clock_before, change.clock_after)];
    lines.extend(change.effects.iter().map(|effect| {
        let what = match effect.effect {
            Effect::Moved { to } => format!("moved to {to}"),
            Effect::Merged { into } => format!("merged into {into}"),
            Effect::Skipped => "skipped".to_owned(),
            Effect::FirstOnly { at } => format!("first only, {at}"),
            Effect::LastOnly { at } => format!("last only, {at}"),
            Effect::Repeated { first, second } => format!("repeated, {first} and {second}"),
        };
        format!("rule {}: {} {what}", effect.rule, effect.nominal)
    }));
    lines
}

#[test]
fn a_year_shows_both_changes() {
    let found =
        changes(schedule("Europe/Berlin", &["0,30 2 * * *", "15 * * * *", "0 12 * * *"]), "2026-01-01T00:00:00Z");
    assert_eq!(found.len(), 2);
    assert_eq!(
        shown(&found[0]),
        [
            "2026-03-29T02:00:00 -> 2026-03-29T03:00:00",
            "rule 0: 2026-03-29T02:00:00 moved to 2026-03-29T01:00:00Z",
            "rule 0: 2026-03-29T02:30:00 merged into 2026-03-29T01:00:00Z",
        ]
    );
    assert_eq!(
        shown(&found[1]),
        [
            "2026-10-25T03:00:00 -> 2026-10-25T02:00:00",
            "rule 0: 2026-10-25T02:00:00 first only, 2026-10-25T00:00:00Z",
            "rule 0: 2026-10-25T02:30:00 first only, 2026-10-25T00:30:00Z",
        ]
    );
}

#[test]
fn the_policies_show() {
    let mut spec = schedule("Europe/Berlin", &["30 2 * * *", "*/30 2 * * *"]);
    spec.gap = GapPolicy::Skip;
    spec.fold = FoldPolicy::Last;
    let found = changes(spec, "2026-01-01T00:00:00Z");
    assert_eq!(
        shown(&found[0])[1..],
        [
            "rule 1: 2026-03-29T02:00:00 skipped",
            "rule 0: 2026-03-29T02:30:00 skipped",
            "rule 1: 2026-03-29T02:30:00 skipped",
        ]
    );
    assert_eq!(
        shown(&found[1])[1..],
        [
            "rule 1: 2026-10-25T02:00:00 repeated, 2026-10-25T00:00:00Z and 2026-10-25T01:00:00Z",
            "rule 0: 2026-10-25T02:30:00 last only, 2026-10-25T01:30:00Z",
            "rule 1: 2026-10-25T02:30:00 repeated, 2026-10-25T00:30:00Z and 2026-10-25T01:30:00Z",
        ]
    );
}

#[test]
fn untouched_schedules_have_nothing_to_show() {
    assert_eq!(
        changes(schedule("Europe/Berlin", &["0 9 * * *", "* * * * *", "@every 1h"]), "2026-01-01T00:00:00Z"),
        []
    );
    assert_eq!(changes(schedule("UTC", &["30 2 * * *"]), "2026-01-01T00:00:00Z"), []);
    let mut ended = schedule("Europe/Berlin", &["30 2 * * *"]);
    ended.end_at = Some("2026-03-01T00:00:00Z".parse().expect("an instant"));
    assert_eq!(changes(ended, "2026-01-01T00:00:00Z"), []);
}

#[test]
fn a_long_list_is_cut_and_says_so() {
    let found = changes(schedule("Pacific/Apia", &["0-59 0-59 0-23 * * *"]), "2011-12-01T00:00:00Z");
    assert_eq!((found[0].effects.len(), found[0].more_count), (100, 86_300));
}
