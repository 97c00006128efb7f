//! What users asked for, and what the system confirmed to them.

use super::{EDGE_US, ScheduleFacts, shown};
use crate::schedules::record::{Confirmation, Row};

/// A change that could not be made at once is tried again for so long; what it took back is on record before it.
const TRIED_FOR_US: i64 = 90_000_000;

impl ScheduleFacts<'_> {
    fn changes(&self, kind: &'static str) -> impl Iterator<Item = i64> + Clone {
        self.schedule.changes.iter().filter(move |change| change.kind == kind).map(|change| change.at_us)
    }

    /// From each pause to the next time that it was resumed.
    fn pauses(&self) -> impl Iterator<Item = (i64, i64)> {
        let resumed = move |from_us: i64| self.changes("resumed").find(|at_us| *at_us >= from_us).unwrap_or(i64::MAX);
        self.changes("paused").map(move |from_us| (from_us, resumed(from_us)))
    }

    fn was_edited(&self, from_us: i64, to_us: i64) -> bool {
        self.changes("edited").any(|at_us| (from_us..=to_us).contains(&at_us))
    }
}

pub(super) fn orders_are_kept(facts: &ScheduleFacts<'_>) -> Vec<String> {
    let rows = facts.schedule.rows.iter().filter(|row| !row.has("manual"));
    rows.filter_map(|row| wrong_about(facts, row).map(|wrong| format!("{} {wrong}", shown(row.at_us)))).collect()
}

fn wrong_about(facts: &ScheduleFacts<'_>, row: &Row) -> Option<String> {
    let decided_us = row.decided_us;
    let is_within = |edge_us: i64| {
        facts
            .pauses()
            .any(|(from_us, to_us)| decided_us > from_us + edge_us && decided_us < to_us.saturating_sub(edge_us))
    };
    let is_skipped = row.verdict == "skipped_by_request";
    if is_within(EDGE_US) && !is_skipped && row.verdict != "skipped_paused" {
        return Some(format!("is {} although the schedule was paused", row.verdict));
    }
    if row.verdict == "skipped_paused" && !is_within(-EDGE_US) {
        return Some("was skipped for a pause that there was not".to_owned());
    }
    let asked = facts.schedule.changes.iter().filter_map(|change| Some((change.at_us, change.until_us?)));
    let mut asked = asked.filter(|(_, until_us)| row.at_us <= *until_us);
    if is_skipped {
        let is_taken_back = facts.was_edited(decided_us - EDGE_US, decided_us + TRIED_FOR_US);
        let has_cause = is_taken_back || asked.any(|(at_us, _)| at_us <= decided_us + EDGE_US);
        return (!has_cause).then(|| "was skipped, and nobody asked for it".to_owned());
    }
    // An edit does not take it back.
    let counts = |(at_us, _): &(i64, i64)| row.start_us > at_us + EDGE_US;
    asked.find(counts).map(|_| format!("is {} although it was to be skipped", row.verdict))
}

pub(super) fn confirmations_are_kept(
    facts_by_schedule: &[ScheduleFacts<'_>],
    confirmations: &[Confirmation],
) -> Vec<(String, String)> {
    let wrong = confirmations.iter().filter_map(|confirmation| {
        let name = match confirmation {
            Confirmation::Run { schedule, .. } | Confirmation::Skipped { schedule, .. } => schedule,
        };
        let wrong = match facts_by_schedule.iter().find(|facts| facts.schedule.name == *name) {
            None => Some("was confirmed and does not exist".to_owned()),
            Some(facts) => broken(facts, confirmation),
        };
        wrong.map(|wrong| (name.clone(), wrong))
    });
    wrong.collect()
}

fn broken(facts: &ScheduleFacts<'_>, confirmation: &Confirmation) -> Option<String> {
    match confirmation {
        Confirmation::Run { job, .. } => {
            let is_there = facts.job(job).is_some_and(|found| found.kind == "manual");
            (!is_there).then(|| format!("{job} was confirmed and does not exist"))
        }
        Confirmation::Skipped { times_us, .. } => {
            let last_us = times_us.last()?;
            let granted =
                facts.schedule.changes.iter().find(|change| change.until_us.is_some_and(|until| until == *last_us));
            if granted.is_none() {
                return Some(format!("a skip up to {} is not on record", shown(*last_us)));
            }
            let mut confirmed = facts.schedule.rows.iter().filter(|row| times_us.contains(&row.at_us));
            let ran = confirmed.find(|row| row.verdict != "skipped_by_request");
            ran.map(|row| format!("{} is {}, and its skip was confirmed", shown(row.at_us), row.verdict))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::schedules::check::record_builder::RecordBuilder;
    use crate::schedules::record::{Change, Confirmation, Record};

    const KEPT: &str = "orders are kept";

    fn verdict(record: &mut Record, place: usize, verdict: &str) {
        let row = &mut record.schedules[0].rows[place];
        (row.verdict, row.job) = (verdict.to_owned(), None);
    }

    fn ordered(record: &mut Record, place: usize, kind: &str, until: Option<usize>) {
        let rows = &record.schedules[0].rows;
        let (at_us, until_us) = (rows[place].at_us - 1_000_000, until.map(|place| rows[place].at_us));
        record.schedules[0].changes.push(Change { at_us, kind: kind.to_owned(), until_us });
    }

    #[test]
    fn pauses_that_are_not_kept_are_found() {
        let paused = |record: &mut Record| {
            ordered(record, 3, "paused", None);
            ordered(record, 5, "resumed", None);
        };
        let skipped =
            |record: &mut Record| [3, 4].into_iter().for_each(|place| verdict(record, place, "skipped_paused"));
        RecordBuilder::new().change(paused).change(skipped).holds_for(KEPT);
        RecordBuilder::new().change(paused).breaks(KEPT);
        RecordBuilder::new().change(skipped).breaks(KEPT);
        RecordBuilder::new()
            .change(paused)
            .change(skipped)
            .change(|record| verdict(record, 5, "skipped_paused"))
            .breaks(KEPT);
    }

    #[test]
    fn skips_that_are_not_kept_are_found() {
        let asked = |record: &mut Record| ordered(record, 3, "skipped", Some(4));
        let skipped =
            |record: &mut Record| [3, 4].into_iter().for_each(|place| verdict(record, place, "skipped_by_request"));
        RecordBuilder::new().change(asked).change(skipped).holds_for(KEPT);
        RecordBuilder::new().change(asked).breaks(KEPT);
        let edited = |record: &mut Record| ordered(record, 4, "edited", None);
        RecordBuilder::new().change(asked).change(edited).breaks(KEPT);
        RecordBuilder::new().change(skipped).breaks(KEPT);
        RecordBuilder::new()
            .change(asked)
            .change(skipped)
            .change(|record| verdict(record, 5, "skipped_by_request"))
            .breaks(KEPT);
    }

    #[test]
    fn confirmations_that_are_not_kept_are_found() {
        let found = "confirmations are kept";
        let run = |job: &str| Confirmation::Run { schedule: "some".to_owned(), job: job.to_owned() };
        let confirmed = |confirmation: Confirmation| move |record: &mut Record| record.confirmations.push(confirmation);
        RecordBuilder::new().manual(3).change(confirmed(run("job_3"))).holds_for(found);
        RecordBuilder::new().change(confirmed(run("job_3"))).breaks(found);
        RecordBuilder::new().change(confirmed(run("job_99"))).breaks(found);
        let skip = |record: &mut Record| {
            let times_us = record.schedules[0].rows[3..5].iter().map(|row| row.at_us).collect();
            record.confirmations.push(Confirmation::Skipped { schedule: "some".to_owned(), times_us });
        };
        let asked = |record: &mut Record| ordered(record, 3, "skipped", Some(4));
        let skipped =
            |record: &mut Record| [3, 4].into_iter().for_each(|place| verdict(record, place, "skipped_by_request"));
        RecordBuilder::new().change(skip).change(asked).change(skipped).holds_for(found);
        RecordBuilder::new().change(skip).change(asked).breaks(found);
        RecordBuilder::new().change(skip).change(skipped).breaks(found);
    }
}
