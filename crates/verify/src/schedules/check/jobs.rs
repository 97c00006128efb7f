//! The jobs that schedules made, and what their witnesses saw.

use std::collections::BTreeSet;

use super::ScheduleFacts;
use crate::schedules::record::Record;

pub(super) fn every_job_has_ended(facts: &ScheduleFacts<'_>) -> Vec<String> {
    let open = facts.jobs.iter().filter(|job| !job.has_ended());
    open.map(|job| format!("{} is {}", job.id, job.state)).collect()
}

pub(super) fn nothing_begins_early_or_too_often(facts: &ScheduleFacts<'_>) -> Vec<String> {
    let mut begun = BTreeSet::new();
    let mut wrong = Vec::new();
    for execution in &facts.executions {
        let job = execution.job;
        if execution.began_real_us < job.due_us {
            wrong.push(format!("{} began {} us early", job.id, job.due_us - execution.began_real_us));
        }
        if !begun.insert((&job.id, execution.attempt)) || execution.attempt > job.attempts {
            wrong.push(format!("{} began once more than is on record", job.id));
        }
    }
    wrong
}

pub(super) fn every_job_has_a_schedule(record: &Record) -> Vec<(String, String)> {
    let known: BTreeSet<_> = record.schedules.iter().map(|schedule| &schedule.id).collect();
    let strange = record.jobs.iter().filter(|job| !known.contains(&job.schedule));
    strange.map(|job| (job.schedule.clone(), format!("{} is of a schedule that nobody made", job.id))).collect()
}

#[cfg(test)]
mod tests {
    use crate::schedules::check::record_builder::RecordBuilder;

    #[test]
    fn a_second_job_for_a_time_is_found() {
        let second = |record: &mut crate::schedules::record::Record| {
            let mut job = record.jobs[3].clone();
            job.id = "another".to_owned();
            record.jobs.push(job);
        };
        RecordBuilder::new().change(second).breaks("a time makes one job");
    }

    #[test]
    fn lines_and_jobs_that_differ_are_found() {
        let found = "lines and jobs agree";
        RecordBuilder::new().change(|record| drop(record.jobs.remove(3))).breaks(found);
        RecordBuilder::new().change(|record| record.schedules[0].rows[3].job = None).breaks(found);
        RecordBuilder::new().change(|record| drop(record.schedules[0].rows.remove(3))).breaks(found);
        RecordBuilder::new().change(|record| record.jobs[3].at_us += 1).breaks(found);
        RecordBuilder::new().change(|record| record.jobs[3].kind = "replayed".to_owned()).breaks(found);
        RecordBuilder::new().change(|record| record.schedules[0].rows[3].verdict = "missed".to_owned()).breaks(found);
        RecordBuilder::new()
            .change(|record| record.jobs[3].schedule = "schedule_9".to_owned())
            .breaks("every job has a schedule");
    }

    #[test]
    fn a_job_that_goes_on_for_ever_is_found() {
        RecordBuilder::new().change(|record| record.jobs[3].finished_us = None).breaks("every job has ended");
    }

    #[test]
    fn a_run_before_its_time_or_one_too_many_is_found() {
        let found = "nothing begins early or too often";
        RecordBuilder::new().change(|record| record.jobs[3].due_us += 1_000_000).breaks(found);
        let again = |record: &mut crate::schedules::record::Record| {
            let line = record.witness[6].clone();
            record.witness.insert(7, line);
        };
        RecordBuilder::new().change(again).breaks(found);
        RecordBuilder::new().change(|record| record.witness[6].attempt = 2).breaks(found);
    }
}
