//! Random schedules in a stretch of a zone's time: the crate's answer against the oracle's.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::civil::Date;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};
use punctual_recurrence::{
    Calendar, Calendars, FoldPolicy, GapPolicy, Occurrence, OnClosedDay, Rule, Schedule, ScheduleSpec,
};

use super::generate::{Expression, KEY};
use super::oracle::{Expected, Oracle, OracleRule};
use super::random::Random;
use super::table::Table;

/// What happens near the ends of a stretch depends on what lies outside; the ends are left out of the comparison.
const MARGIN_SECONDS: i64 = 2 * 86_400;

#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) schedules: u64,
    pub(crate) occurrences: u64,
    pub(crate) touched_by_clock_changes: u64,
    pub(crate) merged: u64,
    pub(crate) moved: u64,
    pub(crate) refused_as_never_firing: u64,
}

/// Ticks of a stretch: minutes, or seconds for expressions with a second field.
#[derive(Clone, Copy)]
pub(crate) enum Tick {
    Minute { days: usize },
    Second { days: usize },
}

/// The stretch around a random clock change from 2000 to 2040, or around a random instant where there is none.
pub(crate) fn random_table(random: &mut Random, zone: &TimeZone, tick: Tick) -> Table {
    let from = 946_684_800 + i64::from(random.between(0, 40 * 366 * 24 - 1)) * 3600;
    let from_time = Timestamp::from_second(from).expect("in range");
    let change = zone.following(from_time).next().map(|change| change.timestamp().as_second());
    let center = change.filter(|second| *second < 2_240_524_800 && !random.once_in(5)).unwrap_or(from);
    let (tick_seconds, days) = match tick {
        Tick::Minute { days } => (60, days),
        Tick::Second { days } => (1, days),
    };
    let ticks = days * 86_400 / tick_seconds as usize;
    let start = (center - (days as i64) * 43_200) / 3600 * 3600;
    Table::new(zone, start, ticks, tick_seconds)
}

/// Compares one random schedule; panics with everything needed to repeat it when the answers differ.
pub(crate) fn compare_one(
    random: &mut Random,
    database: &TimeZoneDatabase,
    zone_name: &str,
    table: &Table,
    tally: &mut Tally,
) {
    let (spec, oracle) = random_schedule(random, zone_name, table);
    let Some(spec) = spec else {
        tally.refused_as_never_firing += 1;
        return;
    };
    let context = format!("{spec:?}");
    let schedule = Schedule::with_database(spec, KEY, database).expect("the generator makes valid schedules");
    let from = table.start + MARGIN_SECONDS;
    let to = table.second_at(table.readings.len() as u32) - MARGIN_SECONDS;
    let mut expected = oracle.expected(table).into_iter().filter(|expected| (from..to).contains(&expected.second));
    let time = |second| Timestamp::from_second(second).expect("in range");
    for found in schedule.between(time(from), time(to)) {
        let wanted = expected.next();
        let is_same = wanted.as_ref().is_some_and(|wanted| is_same(&found, wanted, table));
        assert!(is_same, "{context}\nfound {found:?}\nwanted {wanted:?}");
        if found.merged_count > 0 && tally.merged.is_multiple_of(16) {
            let merged = schedule.merged_into(&found, usize::MAX);
            assert_eq!(merged.len(), found.merged_count as usize, "{context}\nfound {found:?}");
            assert!(!merged.contains(&found.adjusted_from.unwrap_or(found.nominal)), "{context}\nfound {found:?}");
        }
        tally.occurrences += 1;
        tally.touched_by_clock_changes += u64::from(found.note != punctual_recurrence::Note::None);
        tally.merged += u64::from(found.merged_count > 0);
        tally.moved += u64::from(found.adjusted_from.is_some());
    }
    let missing = expected.next();
    assert!(missing.is_none(), "{context}\nmissing {missing:?}");
    tally.schedules += 1;
}

fn is_same(found: &Occurrence, wanted: &Expected, table: &Table) -> bool {
    let per_day = table.ticks_per_day();
    let second_of_day = i64::from(wanted.nominal % per_day) * table.tick_seconds;
    let time = jiff::civil::Time::midnight() + SignedDuration::from_secs(second_of_day);
    let nominal = table.dates[(wanted.nominal / per_day) as usize].to_datetime(time);
    found.at.as_second() == wanted.second
        && found.at.subsec_nanosecond() == 0
        && found.offset.seconds() == wanted.offset
        && found.nominal == nominal
        && found.note == wanted.note
        && found.merged_count == wanted.merged_count
        && found.adjusted_from == wanted.moved_from.map(|date| date.to_datetime(time))
        && found.jittered_at == found.at
}

/// The specification is `None` where the crate refused an expression, rightly, since no date matches it.
fn random_schedule(random: &mut Random, zone_name: &str, table: &Table) -> (Option<ScheduleSpec>, Oracle) {
    let mut oracle = Oracle {
        rules: Vec::new(),
        gap: *random.pick(&[GapPolicy::Shift, GapPolicy::Shift, GapPolicy::Skip]),
        fold: *random.pick(&[FoldPolicy::First, FoldPolicy::Last, FoldPolicy::Both]),
        excluded: Default::default(),
        included: None,
        on_closed_day: OnClosedDay::Skip,
    };
    let mut rules = Vec::new();
    for _ in 0..*random.pick(&[1, 1, 1, 2, 3]) {
        if random.once_in(12) {
            let every = i64::from(*random.pick(&[1_u32, 7, 30, 90, 1440])) * 60;
            let anchor = table.start + i64::from(random.between(0, 100)) * 60;
            let time = Timestamp::from_second(anchor).expect("in range");
            rules.push(Rule::Interval { every: SignedDuration::from_secs(every), anchor: Some(time) });
            oracle.rules.push(OracleRule::Interval { every, anchor });
            continue;
        }
        if random.once_in(12) {
            let (hour, minute) = (random.between(0, 5), random.between(0, 59));
            let second = if table.tick_seconds == 1 { random.between(0, 59) } else { 0 };
            rules.push(Rule::Daily { hour: hour as u8, minute: minute as u8, second: second as u8 });
            oracle.rules.push(OracleRule::Expression(Box::new(Expression::daily(hour, minute, second))));
            continue;
        }
        let expression = Expression::random(random, table.tick_seconds == 1);
        match expression.text().parse::<Rule>() {
            Ok(rule) => rules.push(rule),
            Err(error) => {
                assert!(error.problem.contains("no year has such a date"), "{}: {error}", expression.text());
                assert!(never_matches(&expression), "{} was refused", expression.text());
                return (None, oracle);
            }
        }
        oracle.rules.push(OracleRule::Expression(Box::new(expression)));
    }
    if random.once_in(3) {
        add_calendars(random, table, &mut oracle);
    }
    // Two calendars are as good as one with the dates of both.
    let named = |name: &str, dates: BTreeSet<Date>| -> Vec<Arc<Calendar>> {
        let (odd, even) = dates.into_iter().partition(|date| date.day() % 2 == 1);
        [odd, even].into_iter().map(|dates| Calendar { name: name.into(), dates }.into()).collect()
    };
    let mut spec = ScheduleSpec::new(rules[0].clone(), zone_name);
    spec.rules = rules;
    spec.gap = oracle.gap;
    spec.fold = oracle.fold;
    spec.calendars = Calendars {
        exclude: named("closed", oracle.excluded.clone()),
        include: oracle.included.clone().map(|dates| named("open", dates)).unwrap_or_default(),
        on_closed_day: oracle.on_closed_day,
    };
    (Some(spec), oracle)
}

fn add_calendars(random: &mut Random, table: &Table, oracle: &mut Oracle) {
    let rarity = random.between(2, 8);
    oracle.excluded = table.dates.iter().copied().filter(|_| random.once_in(rarity)).collect();
    if random.once_in(4) {
        // Longer than a day may move, or almost.
        let first = random.between(0, table.dates.len() as u32 - 1) as usize;
        oracle.excluded.extend(table.dates.iter().skip(first).take(random.between(25, 80) as usize));
    }
    if random.once_in(3) {
        oracle.included = Some(table.dates.iter().copied().filter(|_| !random.once_in(3)).collect());
    }
    oracle.on_closed_day =
        *random.pick(&[OnClosedDay::Skip, OnClosedDay::PreviousBusinessDay, OnClosedDay::NextBusinessDay]);
}

fn never_matches(expression: &Expression) -> bool {
    let mut date = jiff::civil::date(2000, 1, 1);
    while date.year() < 2400 {
        if expression.matches_date(date) {
            return false;
        }
        date = date.tomorrow().expect("in range");
    }
    true
}
