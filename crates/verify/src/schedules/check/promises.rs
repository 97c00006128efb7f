//! What people asked for, and were promised.

use super::{EDGE_US, Story, shown};
use crate::schedules::record::{Promise, Row};

/// A change that could not be made at once is tried again for so long; what it took back is on record before it.
const TRIED_FOR_US: i64 = 90_000_000;

impl Story<'_> {
    fn changes(&self, kind: &'static str) -> impl Iterator<Item = i64> + Clone {
        self.told.changes.iter().filter(move |change| change.kind == kind).map(|change| change.at_us)
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

pub(super) fn orders_are_kept(story: &Story<'_>) -> Vec<String> {
    let rows = story.told.rows.iter().filter(|row| !row.has("manual"));
    rows.filter_map(|row| wrong_about(story, row).map(|wrong| format!("{} {wrong}", shown(row.at_us)))).collect()
}

fn wrong_about(story: &Story<'_>, row: &Row) -> Option<String> {
    let decided_us = row.decided_us;
    let is_within = |edge_us: i64| {
        story
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
    let asked = story.told.changes.iter().filter_map(|change| Some((change.at_us, change.until_us?)));
    let mut asked = asked.filter(|(_, until_us)| row.at_us <= *until_us);
    if is_skipped {
        let is_taken_back = story.was_edited(decided_us - EDGE_US, decided_us + TRIED_FOR_US);
        let has_cause = is_taken_back || asked.any(|(at_us, _)| at_us <= decided_us + EDGE_US);
        return (!has_cause).then(|| "was skipped, and nobody asked for it".to_owned());
    }
    // An edit does not take it back.
    let counts = |(at_us, _): &(i64, i64)| row.start_us > at_us + EDGE_US;
    asked.find(counts).map(|_| format!("is {} although it was to be skipped", row.verdict))
}

pub(super) fn promises_are_kept(stories: &[Story<'_>], promises: &[Promise]) -> Vec<(String, String)> {
    let wrong = promises.iter().filter_map(|promise| {
        let name = match promise {
            Promise::Run { schedule, .. } | Promise::Skipped { schedule, .. } => schedule,
        };
        let wrong = match stories.iter().find(|story| story.told.name == *name) {
            None => Some("was promised something and does not exist".to_owned()),
            Some(story) => broken(story, promise),
        };
        wrong.map(|wrong| (name.clone(), wrong))
    });
    wrong.collect()
}

fn broken(story: &Story<'_>, promise: &Promise) -> Option<String> {
    match promise {
        Promise::Run { job, .. } => {
            let is_there = story.job(job).is_some_and(|found| found.kind == "manual");
            (!is_there).then(|| format!("{job} was promised and does not exist"))
        }
        Promise::Skipped { times_us, .. } => {
            let last_us = times_us.last()?;
            let granted =
                story.told.changes.iter().find(|change| change.until_us.is_some_and(|until| until == *last_us));
            if granted.is_none() {
                return Some(format!("a skip up to {} is not on record", shown(*last_us)));
            }
            let mut promised = story.told.rows.iter().filter(|row| times_us.contains(&row.at_us));
            let ran = promised.find(|row| row.verdict != "skipped_by_request");
            ran.map(|row| format!("{} is {}, and was promised to be skipped", shown(row.at_us), row.verdict))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::schedules::check::tale::Tale;
    use crate::schedules::record::{Change, Promise, Record};

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
        Tale::new().change(paused).change(skipped).holds_for(KEPT);
        Tale::new().change(paused).breaks(KEPT);
        Tale::new().change(skipped).breaks(KEPT);
        Tale::new().change(paused).change(skipped).change(|record| verdict(record, 5, "skipped_paused")).breaks(KEPT);
    }

    #[test]
    fn skips_that_are_not_kept_are_found() {
        let asked = |record: &mut Record| ordered(record, 3, "skipped", Some(4));
        let skipped =
            |record: &mut Record| [3, 4].into_iter().for_each(|place| verdict(record, place, "skipped_by_request"));
        Tale::new().change(asked).change(skipped).holds_for(KEPT);
        Tale::new().change(asked).breaks(KEPT);
        let edited = |record: &mut Record| ordered(record, 4, "edited", None);
        Tale::new().change(asked).change(edited).breaks(KEPT);
        Tale::new().change(skipped).breaks(KEPT);
        Tale::new()
            .change(asked)
            .change(skipped)
            .change(|record| verdict(record, 5, "skipped_by_request"))
            .breaks(KEPT);
    }

    #[test]
    fn promises_that_are_broken_are_found() {
        let found = "promises are kept";
        let run = |job: &str| Promise::Run { schedule: "some".to_owned(), job: job.to_owned() };
        let promised = |promise: Promise| move |record: &mut Record| record.promises.push(promise);
        Tale::new().manual(3).change(promised(run("job_3"))).holds_for(found);
        Tale::new().change(promised(run("job_3"))).breaks(found);
        Tale::new().change(promised(run("job_99"))).breaks(found);
        let skip = |record: &mut Record| {
            let times_us = record.schedules[0].rows[3..5].iter().map(|row| row.at_us).collect();
            record.promises.push(Promise::Skipped { schedule: "some".to_owned(), times_us });
        };
        let asked = |record: &mut Record| ordered(record, 3, "skipped", Some(4));
        let skipped =
            |record: &mut Record| [3, 4].into_iter().for_each(|place| verdict(record, place, "skipped_by_request"));
        Tale::new().change(skip).change(asked).change(skipped).holds_for(found);
        Tale::new().change(skip).change(asked).breaks(found);
        Tale::new().change(skip).change(skipped).breaks(found);
    }
}
