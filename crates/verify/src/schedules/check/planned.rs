//! The ledger as a whole: all definitions are known, and what is on record stays.

use std::collections::BTreeMap;

use super::{ScheduleFacts, shown};

pub(super) fn every_revision_is_known(facts: &ScheduleFacts<'_>) -> Vec<String> {
    let (recorded, known) = (facts.definitions_since().len(), facts.schedule.definitions.len());
    if recorded == known {
        Vec::new()
    } else {
        vec![format!("{known} definitions were given, {recorded} are on record")]
    }
}

pub(super) fn what_is_on_record_stays(facts: &ScheduleFacts<'_>) -> Vec<String> {
    let again: BTreeMap<_, _> = facts.schedule.rows_again.iter().map(|row| (row.at_us, row)).collect();
    let changed = facts.schedule.rows.iter().filter(|row| again.get(&row.at_us) != Some(row));
    changed.map(|row| format!("another server shows {} differently", shown(row.at_us))).collect()
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
            .breaks("nothing waits at the end");
    }
}
