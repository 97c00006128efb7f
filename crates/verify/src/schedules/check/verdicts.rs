//! Whether verdicts can be true.

use punctual_core::schedule::Overlap;

use super::{Execution, ScheduleFacts, shown};
use crate::schedules::record::Row;

pub(super) fn lateness_is_recorded_as_it_was(facts: &ScheduleFacts<'_>) -> Vec<String> {
    let rows = facts.schedule.rows.iter().filter(|row| !row.has("manual"));
    rows.filter_map(|row| wrong_about(facts, row).map(|wrong| format!("{} {wrong}", shown(row.at_us)))).collect()
}

fn wrong_about(facts: &ScheduleFacts<'_>, row: &Row) -> Option<String> {
    let (grace_us, late_us) = (facts.grace_us(), row.late_us());
    // Whoever changes a definition decides about what waits out its jitter.
    if late_us < 0 && row.verdict != "skipped_by_request" {
        return Some(format!("was decided about {} us early", -late_us));
    }
    let was_missed = row.verdict == "missed" || row.has("replayed");
    if was_missed && late_us <= grace_us {
        return Some(format!("is said to be missed after {late_us} us"));
    }
    // Where runs may not meet, a line is written anew when its time has waited.
    if row.verdict != "fired" || facts.schedule.policy.overlap != Overlap::Allow {
        return None;
    }
    if !was_missed && late_us > grace_us {
        return Some(format!("fired after {late_us} us as if it had not been missed"));
    }
    // Marked by its first start, which came after the verdict and before the witness saw it begin.
    let of_job = |execution: &&Execution<'_>| Some(&execution.job.id) == row.job.as_ref();
    let began_us = facts.executions.iter().find(of_job)?.began_real_us;
    let limit_us = facts.schedule.policy.late_after_us.unwrap_or(facts.record.missed_after_us);
    let at_most_us = late_us.max(began_us - row.start_us);
    let is_wrong = if row.has("late") { at_most_us <= limit_us } else { late_us > limit_us };
    is_wrong.then(|| format!("started {late_us} to {at_most_us} us late, and is marked as {:?}", row.marks))
}

/// Only what is broken keeps all servers from being in time.
pub(super) fn nothing_is_missed_without_cause(facts: &ScheduleFacts<'_>) -> Vec<String> {
    let was_missed = |row: &&Row| row.verdict == "missed" || row.has("replayed");
    let has_cause = |row: &&Row| {
        let until_us = row.start_us + facts.grace_us();
        facts.record.broken.iter().any(|(from_us, to_us)| *from_us <= until_us && row.start_us <= *to_us)
    };
    let wrong = facts.schedule.rows.iter().filter(was_missed).filter(|row| !has_cause(row));
    wrong.map(|row| format!("{} was missed, and nothing was broken", shown(row.at_us))).collect()
}

#[cfg(test)]
mod tests {
    use punctual_core::schedule::{CatchUpMode, Overlap};

    use crate::schedules::check::record_builder::RecordBuilder;
    use crate::schedules::record::{Record, Row};

    fn row(change: impl Fn(&mut Row)) -> impl FnOnce(&mut Record) {
        move |record| change(&mut record.schedules[0].rows[3])
    }

    #[test]
    fn lateness_that_is_told_wrongly_is_found() {
        let found = "lateness is recorded as it was";
        RecordBuilder::new().change(row(|row| row.decided_us = row.start_us - 1)).breaks(found);
        RecordBuilder::new().change(row(|row| row.decided_us += 2_999_000)).holds();
        RecordBuilder::new().change(row(|row| row.decided_us += 3_001_000)).breaks(found);
        RecordBuilder::new().change(row(|row| row.marks = vec!["late".to_owned()])).breaks(found);
        let patient = |record: &mut Record| record.schedules[0].policy.missed_after_us = Some(6_000_000);
        let late = |row: &mut Row| {
            row.decided_us += 5_900_000;
            row.marks = vec!["late".to_owned()];
        };
        RecordBuilder::new().change(patient).change(row(late)).holds_for(found);
        RecordBuilder::new().change(row(late)).breaks(found);
        RecordBuilder::new().change(row(|row| row.verdict = "missed".to_owned())).breaks(found);
        let by_request =
            |row: &mut Row| (row.verdict, row.decided_us) = ("skipped_by_request".to_owned(), row.at_us - 1);
        RecordBuilder::new().change(row(by_request)).holds_for(found);
    }

    #[test]
    fn a_time_that_was_missed_while_all_was_well_is_found() {
        let builder = || RecordBuilder::with(Overlap::Allow).catch_up(CatchUpMode::All, 3).missed(2..9, 3);
        builder().holds();
        builder().change(|record| record.broken.clear()).breaks("nothing is missed without cause");
    }
}
