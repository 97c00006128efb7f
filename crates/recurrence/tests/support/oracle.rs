//! Decides by the definitions, tick by tick, when a schedule fires.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::{Date, Weekday};
use punctual_recurrence::{FoldPolicy, GapPolicy, Note, OnClosedDay};

use super::generate::Expression;
use super::table::Table;

pub(crate) enum OracleRule {
    Expression(Box<Expression>),
    /// Fires at every instant that is a multiple of this many seconds from the anchor.
    Interval {
        every: i64,
        anchor: i64,
    },
}

pub(crate) struct Oracle {
    pub(crate) rules: Vec<OracleRule>,
    pub(crate) gap: GapPolicy,
    pub(crate) fold: FoldPolicy,
    pub(crate) excluded: BTreeSet<Date>,
    pub(crate) included: Option<BTreeSet<Date>>,
    pub(crate) on_closed_day: OnClosedDay,
}

/// What an occurrence should say. Times of day are readings of the table, dates are dates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) second: i64,
    pub(crate) offset: i32,
    pub(crate) nominal: u32,
    pub(crate) note: Note,
    pub(crate) merged_count: u32,
    pub(crate) moved_from: Option<Date>,
}

/// A tick at which something fires, the reading that is meant after moves, and the date it was planned for.
type Firing = (u32, u32, Date);

impl Oracle {
    pub(crate) fn expected(&self, table: &Table) -> Vec<Expected> {
        let mut fires: Vec<Firing> = Vec::new();
        for rule in &self.rules {
            match rule {
                OracleRule::Expression(expression) => self.add_expression(expression, table, &mut fires),
                OracleRule::Interval { every, anchor } => self.add_interval(*every, *anchor, table, &mut fires),
            }
        }
        fires.sort_unstable();
        fires.dedup();
        fires.chunk_by(|one, other| one.0 == other.0).map(|planned| describe(table, planned[0].0, planned)).collect()
    }

    fn add_expression(&self, expression: &Expression, table: &Table, fires: &mut Vec<Firing>) {
        let per_day = table.ticks_per_day();
        let planned_for: Vec<Vec<Date>> = self.planned_dates(expression, &table.dates);
        let matching_times: Vec<bool> =
            (0..per_day).map(|tick| expression.matches_time(tick * table.tick_seconds as u32)).collect();
        let mut fire = |tick: u32, reading: u32| {
            fires.extend(planned_for[(reading / per_day) as usize].iter().map(|date| (tick, reading, *date)));
        };
        if expression.follows_real_time() {
            for (tick, reading) in table.readings.iter().enumerate() {
                let has_day = !planned_for[(reading / per_day) as usize].is_empty();
                if has_day && matching_times[(reading % per_day) as usize] {
                    fire(tick as u32, *reading);
                }
            }
            return;
        }
        for day in (0..table.dates.len() as u32).filter(|day| !planned_for[*day as usize].is_empty()) {
            for reading in (0..per_day).filter(|time| matching_times[*time as usize]).map(|time| day * per_day + time) {
                match (table.shown_at(reading), self.gap, self.fold) {
                    (Some((first, _)), _, FoldPolicy::First) => fire(first, reading),
                    (Some((_, last)), _, FoldPolicy::Last) => fire(last, reading),
                    (Some((first, last)), _, FoldPolicy::Both) => {
                        fire(first, reading);
                        fire(last, reading);
                    }
                    (None, GapPolicy::Skip, _) => {}
                    (None, GapPolicy::Shift, _) => {
                        if let Some(tick) = table.first_tick_beyond(reading) {
                            fire(tick, reading);
                        }
                    }
                }
            }
        }
    }

    fn add_interval(&self, every: i64, anchor: i64, table: &Table, fires: &mut Vec<Firing>) {
        for (tick, reading) in table.readings.iter().enumerate() {
            let date = table.dates[(reading / table.ticks_per_day()) as usize];
            if (table.second_at(tick as u32) - anchor).rem_euclid(every) == 0 && self.is_open(date) {
                fires.push((tick as u32, *reading, date));
            }
        }
    }

    /// For each date, the dates planned by the expression that fire on it.
    fn planned_dates(&self, expression: &Expression, dates: &[Date]) -> Vec<Vec<Date>> {
        let mut planned_for: BTreeMap<Date, Vec<Date>> = BTreeMap::new();
        let mut planned = dates[0];
        (0..40).for_each(|_| planned = planned.yesterday().expect("in range"));
        for _ in 0..dates.len() + 80 {
            if expression.matches_date(planned)
                && let Some(date) = self.firing_date(planned)
            {
                planned_for.entry(date).or_default().push(planned);
            }
            planned = planned.tomorrow().expect("in range");
        }
        dates.iter().map(|date| planned_for.remove(date).unwrap_or_default()).collect()
    }

    fn is_open(&self, date: Date) -> bool {
        !self.excluded.contains(&date) && self.included.as_ref().is_none_or(|dates| dates.contains(&date))
    }

    fn is_business_day(&self, date: Date) -> bool {
        let is_weekend = matches!(date.weekday(), Weekday::Saturday | Weekday::Sunday);
        self.is_open(date) && (self.included.is_some() || !is_weekend)
    }

    fn firing_date(&self, planned: Date) -> Option<Date> {
        let mut date = planned;
        match self.on_closed_day {
            OnClosedDay::Skip => return Some(date).filter(|date| self.is_open(*date)),
            OnClosedDay::PreviousBusinessDay | OnClosedDay::NextBusinessDay => {}
        }
        for _ in 0..=31 {
            if self.is_business_day(date) {
                return Some(date);
            }
            let is_next = self.on_closed_day == OnClosedDay::NextBusinessDay;
            date = if is_next { date.tomorrow() } else { date.yesterday() }.expect("in range");
        }
        None
    }
}

fn describe(table: &Table, tick: u32, planned: &[Firing]) -> Expected {
    let shown = table.readings[tick as usize];
    let is_on_time = planned.iter().any(|(_, reading, _)| *reading == shown);
    let nominal = if is_on_time { shown } else { planned[0].1 };
    let own_date = table.dates[(nominal / table.ticks_per_day()) as usize];
    let mut dates = planned.iter().filter(|(_, reading, _)| *reading == nominal).map(|(_, _, date)| *date);
    let is_moved = !dates.clone().any(|date| date == own_date);
    let (first, last) = table.shown_at(shown).expect("the wall clock shows it at this tick");
    let note = match nominal == shown {
        false => Note::ShiftedByGap,
        true if first < tick => Note::SecondOfFold,
        true if last > tick => Note::FirstOfFold,
        true => Note::None,
    };
    Expected {
        second: table.second_at(tick),
        offset: table.offsets[tick as usize],
        nominal,
        note,
        merged_count: planned.len() as u32 - 1,
        moved_from: if is_moved { dates.next() } else { None },
    }
}
