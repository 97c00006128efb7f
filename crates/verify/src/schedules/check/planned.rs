//! Each planned time has one line in the ledger, and nothing else has.

use std::collections::{BTreeMap, BTreeSet};

use super::{EDGE_US, ScheduleFacts, shown};
use crate::schedules::definition::Time;
use crate::schedules::record::Row;

/// The times that a schedule's definitions plan, each while it counts.
struct Plan {
    /// Those that must have a line.
    due: BTreeSet<i64>,
    /// Those that may have one, with the starts that their definitions give them.
    possible: BTreeMap<i64, Vec<i64>>,
    /// All times of each definition, for lines that stand for many.
    all: Vec<Vec<Time>>,
}

fn plan(facts: &ScheduleFacts<'_>) -> Plan {
    let since = facts.definitions_since();
    let mut plan = Plan { due: BTreeSet::new(), possible: BTreeMap::new(), all: Vec::new() };
    for (number, definition) in facts.schedule.definitions.iter().enumerate() {
        let Some(from_us) = since.get(number).copied() else { break };
        let to_us = since.get(number + 1).copied().unwrap_or(i64::MAX);
        let first_us = from_us - definition.jitter_us - EDGE_US;
        let last_us = to_us.min(definition.end_us).saturating_add(EDGE_US);
        let times = definition.times(&facts.schedule.name, first_us, last_us);
        for time in &times {
            // A definition that is replaced has dealt with all times that had come, jitter or not.
            if time.start_us > from_us - EDGE_US && time.at_us <= to_us.saturating_add(EDGE_US) {
                plan.possible.entry(time.at_us).or_default().push(time.start_us);
            }
            if time.start_us > from_us + EDGE_US && time.at_us < to_us.saturating_sub(EDGE_US) {
                plan.due.insert(time.at_us);
            }
        }
        plan.all.push(times);
    }
    plan
}

/// The times that a line stands for.
fn covered(row: &Row, plan: &Plan) -> Vec<i64> {
    if !row.has("stretch") {
        return vec![row.at_us];
    }
    let definition = plan.all.iter().find(|times| times.iter().any(|time| time.at_us == row.at_us));
    let mut times = definition.cloned().unwrap_or_default();
    // Missed times are counted in the order in which they were to start.
    times.sort_by_key(|time| (time.start_us, time.at_us));
    let from = times.into_iter().skip_while(|time| time.at_us != row.at_us);
    from.take(row.count as usize).map(|time| time.at_us).collect()
}

fn planned_rows<'a>(facts: &'a ScheduleFacts<'_>) -> impl Iterator<Item = &'a Row> {
    facts.schedule.rows.iter().filter(|row| !row.has("manual"))
}

pub(super) fn every_revision_is_known(facts: &ScheduleFacts<'_>) -> Vec<String> {
    let (recorded, known) = (facts.definitions_since().len(), facts.schedule.definitions.len());
    if recorded == known {
        Vec::new()
    } else {
        vec![format!("{known} definitions were given, {recorded} are on record")]
    }
}

pub(super) fn every_time_has_one_line(facts: &ScheduleFacts<'_>) -> Vec<String> {
    let plan = plan(facts);
    let mut lines: BTreeMap<i64, usize> = BTreeMap::new();
    for at_us in planned_rows(facts).flat_map(|row| covered(row, &plan)) {
        *lines.entry(at_us).or_default() += 1;
    }
    let none = plan.due.iter().filter(|at_us| !lines.contains_key(at_us));
    let none = none.map(|at_us| format!("{} was planned and has no line", shown(*at_us)));
    let many = lines.iter().filter(|(_, count)| **count > 1);
    none.chain(many.map(|(at_us, count)| format!("{} has {count} lines", shown(*at_us)))).collect()
}

pub(super) fn nothing_else_has_a_line(facts: &ScheduleFacts<'_>) -> Vec<String> {
    let plan = plan(facts);
    let wrong = planned_rows(facts).filter_map(|row| match plan.possible.get(&row.at_us) {
        None => Some(format!("{} was never planned and is on record as {}", shown(row.at_us), row.verdict)),
        Some(starts) if !starts.contains(&row.start_us) => Some(format!(
            "{} was to start at {} and not at {}",
            shown(row.at_us),
            shown(starts[0]),
            shown(row.start_us)
        )),
        Some(_) if row.count > 1 && !row.has("stretch") => {
            Some(format!("{} stands for {} times and should not", shown(row.at_us), row.count))
        }
        Some(_) => None,
    });
    wrong.collect()
}

pub(super) fn what_is_on_record_stays(facts: &ScheduleFacts<'_>) -> Vec<String> {
    let again: BTreeMap<_, _> = facts.schedule.rows_again.iter().map(|row| (row.at_us, row)).collect();
    let changed = facts.schedule.rows.iter().filter(|row| again.get(&row.at_us) != Some(row));
    changed.map(|row| format!("another server shows {} differently", shown(row.at_us))).collect()
}

pub(super) fn nothing_waits_in_the_end(facts: &ScheduleFacts<'_>) -> Vec<String> {
    let waiting = facts.schedule.rows.iter().filter(|row| row.verdict == "queued");
    waiting.map(|row| format!("{} waits still", shown(row.at_us))).collect()
}

#[cfg(test)]
mod tests {
    use crate::schedules::check::record_builder::RecordBuilder;

    #[test]
    fn a_time_without_a_line_is_found() {
        RecordBuilder::new().holds();
        RecordBuilder::new()
            .change(|record| drop(record.schedules[0].rows.remove(3)))
            .breaks("every planned time has one line");
    }

    #[test]
    fn a_time_with_two_lines_is_found() {
        let twice = |record: &mut crate::schedules::record::Record| {
            let row = record.schedules[0].rows[3].clone();
            record.schedules[0].rows.push(row);
        };
        RecordBuilder::new().change(twice).breaks("every planned time has one line");
    }

    #[test]
    fn a_line_for_many_counts_for_all_of_them_and_no_more() {
        let merge = |count: u32| {
            move |record: &mut crate::schedules::record::Record| {
                let rows = &mut record.schedules[0].rows;
                rows.drain(3..6);
                rows[2].marks = vec!["stretch".to_owned()];
                (rows[2].count, rows[2].job) = (count, None);
                rows[2].verdict = "missed".to_owned();
                rows[2].decided_us += 5_000_000;
            }
        };
        RecordBuilder::new().change(merge(4)).holds_for("every planned time has one line");
        RecordBuilder::new().change(merge(3)).breaks("every planned time has one line");
        RecordBuilder::new().change(merge(5)).breaks("every planned time has one line");
    }

    #[test]
    fn a_line_for_a_time_that_was_not_planned_is_found() {
        let found = "nothing else has a line";
        RecordBuilder::new().change(|record| record.schedules[0].rows[3].at_us += 1).breaks(found);
        RecordBuilder::new().change(|record| record.schedules[0].rows[3].start_us += 1).breaks(found);
        RecordBuilder::new().change(|record| record.schedules[0].rows[3].count = 2).breaks(found);
    }

    #[test]
    fn an_edit_counts_from_its_moment_on() {
        RecordBuilder::new().edited(10).holds();
        // As if the old definition had gone on.
        let found = RecordBuilder::new().edited(10);
        found.change(|record| record.schedules[0].changes[0].at_us += 3_000_000).breaks("nothing else has a line");
        let found = RecordBuilder::new().edited(10);
        found.change(|record| record.schedules[0].changes.clear()).breaks("every revision is known");
    }

    #[test]
    fn a_line_that_changes_or_waits_in_the_end_is_found() {
        RecordBuilder::new()
            .change(|record| record.schedules[0].rows_again[3].decided_us += 1)
            .breaks("what is on record stays");
        RecordBuilder::new()
            .change(|record| record.schedules[0].rows[3].verdict = "queued".to_owned())
            .breaks("nothing waits in the end");
    }
}
