//! Times that were skipped because of a run.

use punctual_core::schedule::Overlap;

use super::{SLOW_US, ScheduleFacts, shown};

pub(super) fn what_is_skipped_met_a_run(facts: &ScheduleFacts<'_>) -> Vec<String> {
    let skipped = facts.schedule.rows.iter().filter(|row| row.verdict == "skipped_overlap");
    let wrong = skipped.filter(|row| {
        let is_open = |job: &&&super::ScheduledJob| {
            let ended_us = job.finished_us.unwrap_or(i64::MAX);
            job.submitted_us <= row.decided_us + SLOW_US && ended_us.saturating_add(SLOW_US) >= row.decided_us
        };
        facts.schedule.policy.overlap == Overlap::Allow || facts.jobs.iter().find(is_open).is_none()
    });
    wrong.map(|row| format!("{} was skipped, and no run was in its way", shown(row.at_us))).collect()
}

#[cfg(test)]
mod tests {
    use punctual_core::schedule::Overlap;

    use crate::schedules::check::record_builder::RecordBuilder;
    use crate::schedules::record::Record;

    /// The run at place 3 goes on into the one at place 4.
    fn meet(record: &mut Record) {
        record.witness[7].at = record.witness[8].at.plus_ms(1);
        record.witness.swap(7, 8);
    }

    #[test]
    fn runs_that_meet_are_found_where_they_must_not() {
        let found = "runs of a schedule do not overlap";
        for overlap in [Overlap::Skip, Overlap::QueueOne, Overlap::QueueAll, Overlap::CancelPrevious] {
            RecordBuilder::with(overlap).holds();
            RecordBuilder::with(overlap).change(meet).breaks(found);
        }
        RecordBuilder::with(Overlap::Allow).change(meet).holds();
    }

    #[test]
    fn what_somebody_asked_for_does_not_meet_others_either() {
        let found = "runs of a schedule do not overlap";
        RecordBuilder::with(Overlap::Skip).change(meet).manual(4).breaks(found);
        RecordBuilder::with(Overlap::Skip).change(meet).manual(3).breaks(found);
        RecordBuilder::with(Overlap::Skip).change(meet).change(|record| record.jobs[3].was_lost = true).holds();
    }

    #[test]
    fn a_time_that_was_skipped_for_nothing_is_found() {
        let found = "what is skipped met a run";
        let skip = |record: &mut Record| {
            let row = &mut record.schedules[0].rows[3];
            (row.verdict, row.job) = ("skipped_overlap".to_owned(), None);
            record.jobs.remove(3);
        };
        let busy = |record: &mut Record| record.jobs[2].finished_us = Some(record.schedules[0].rows[3].decided_us);
        RecordBuilder::with(Overlap::Skip).change(skip).change(busy).holds_for(found);
        RecordBuilder::with(Overlap::Allow).change(skip).change(busy).breaks(found);
        RecordBuilder::with(Overlap::Skip).change(skip).breaks(found);
    }
}
