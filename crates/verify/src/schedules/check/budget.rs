//! Missed times that ran after all: how many, how old, how fast.
//!
//! Lines on times that were missed for good tell when a server looked at what was missed. What is newer than the newest
//! of them, and had been missed by then too, is what that server chose to run.

use std::collections::BTreeMap;

use punctual_core::schedule::{CatchUpMode, Overlap};

use super::{ScheduleFacts, shown};
use crate::schedules::record::Row;

fn replayed<'a>(facts: &'a ScheduleFacts<'_>) -> impl Iterator<Item = &'a Row> + Clone {
    facts.schedule.rows.iter().filter(|row| row.has("replayed"))
}

/// When a server looked at what was missed, and what it chose to run of that.
fn choices<'a>(facts: &'a ScheduleFacts<'_>) -> Vec<(i64, Vec<&'a Row>)> {
    let mut newest: BTreeMap<i64, i64> = BTreeMap::new();
    for row in facts.schedule.rows.iter().filter(|row| row.verdict == "missed") {
        let start_us = newest.entry(row.decided_us).or_insert(row.start_us);
        *start_us = row.start_us.max(*start_us);
    }
    let chosen = |(looked_us, newest_us): (i64, i64)| {
        let was_missed = |row: &&Row| row.start_us > newest_us && row.start_us < looked_us - facts.grace_us();
        (looked_us, replayed(facts).filter(was_missed).collect())
    };
    newest.into_iter().map(chosen).collect()
}

pub(super) fn replays_keep_to_their_number(facts: &ScheduleFacts<'_>) -> Vec<String> {
    let (policy, mut wrong) = (facts.schedule.policy, Vec::new());
    let max = policy.budget();
    if policy.mode == CatchUpMode::None {
        return replayed(facts).map(|row| format!("{} ran after it was missed", shown(row.at_us))).collect();
    }
    // Times that wait may have been chosen at different moments, and make way for a later one at the same.
    let mut together: BTreeMap<i64, usize> = BTreeMap::new();
    for row in replayed(facts).filter(|row| row.verdict == "fired") {
        *together.entry(row.decided_us).or_default() += 1;
    }
    let many = choices(facts).into_iter().map(|(looked_us, chosen)| (looked_us, chosen.len())).chain(together);
    for (looked_us, count) in many.filter(|(_, count)| *count > max) {
        wrong.push(format!("{count} missed times ran by the choice of {}, and not {max}", shown(looked_us)));
    }
    // The latest ones run.
    for row in facts.schedule.rows.iter().filter(|row| row.verdict == "missed" && policy.overlap == Overlap::Allow) {
        let older = replayed(facts).find(|other| other.decided_us == row.decided_us && other.start_us < row.start_us);
        wrong.extend(older.map(|older| format!("{} ran and the later {} not", shown(older.at_us), shown(row.at_us))));
    }
    wrong
}

pub(super) fn replays_keep_to_their_window(facts: &ScheduleFacts<'_>) -> Vec<String> {
    let window_us = facts.schedule.policy.window_us;
    // Where runs may meet, the line was written when it was chosen.
    let at_once = replayed(facts).filter(|_| facts.schedule.policy.overlap == Overlap::Allow);
    let at_once = at_once.map(|row| (row.decided_us, row));
    let chosen =
        choices(facts).into_iter().flat_map(|(looked_us, rows)| rows.into_iter().map(move |row| (looked_us, row)));
    let old = at_once.chain(chosen).filter(|(looked_us, row)| row.start_us < looked_us - window_us);
    old.map(|(looked_us, row)| {
        format!("{} ran, too old by {} us", shown(row.at_us), looked_us - window_us - row.start_us)
    })
    .collect()
}

pub(super) fn replays_keep_to_their_pace(facts: &ScheduleFacts<'_>) -> Vec<String> {
    let (policy, grace_us) = (facts.schedule.policy, facts.grace_us());
    let job_of = |row: &Row| row.job.as_deref().and_then(|job| facts.job(job));
    let mut runs: Vec<_> = replayed(facts).filter_map(|row| Some((job_of(row)?, row))).collect();
    runs.sort_by_key(|(job, _)| (job.due_us, job.at_us));
    let mut wrong = Vec::new();
    for pair in runs.windows(2) {
        let [(first, first_row), (second, second_row)] = pair else { continue };
        // What was missed at different times is not held up for each other, nor what different servers chose.
        let is_one_choice = match policy.overlap {
            Overlap::Allow => first_row.decided_us == second_row.decided_us,
            Overlap::Skip | Overlap::QueueOne | Overlap::QueueAll | Overlap::CancelPrevious => {
                first.server.is_some()
                    && first.server == second.server
                    && second_row.start_us + grace_us < first_row.decided_us
            }
        };
        let gap_us = second.due_us - first.due_us;
        if is_one_choice && gap_us < policy.pause_us() {
            let pause_us = policy.pause_us();
            wrong.push(format!("{} ran {gap_us} us after the one before, and not {pause_us} us", shown(second.at_us)));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use punctual_core::schedule::{CatchUpMode, Overlap};

    use crate::schedules::check::record_builder::RecordBuilder;

    #[test]
    fn more_replays_than_granted_are_found() {
        let found = "replays keep to their number";
        for overlap in [Overlap::Allow, Overlap::QueueAll] {
            RecordBuilder::with(overlap).catch_up(CatchUpMode::All, 3).missed(2..9, 3).holds();
            RecordBuilder::with(overlap).catch_up(CatchUpMode::All, 3).missed(2..9, 4).breaks(found);
            RecordBuilder::with(overlap).catch_up(CatchUpMode::Last, 3).missed(2..9, 1).holds();
            RecordBuilder::with(overlap).catch_up(CatchUpMode::Last, 3).missed(2..9, 2).breaks(found);
            RecordBuilder::with(overlap).catch_up(CatchUpMode::None, 3).missed(2..9, 0).holds();
            RecordBuilder::with(overlap).catch_up(CatchUpMode::None, 3).missed(2..9, 1).breaks(found);
        }
    }

    #[test]
    fn replays_that_made_way_together_did_not_run() {
        let superseded = |record: &mut crate::schedules::record::Record| {
            let rows = &mut record.schedules[0].rows;
            let decided_us = rows[4].decided_us;
            for row in &mut rows[2..5] {
                (row.verdict, row.job, row.decided_us) = ("skipped_overlap".to_owned(), None, decided_us);
            }
        };
        let builder = || RecordBuilder::with(Overlap::CancelPrevious).catch_up(CatchUpMode::All, 2).missed(2..5, 3);
        builder().change(superseded).holds_for("replays keep to their number");
        let together = |record: &mut crate::schedules::record::Record| {
            let decided_us = record.schedules[0].rows[4].decided_us;
            record.schedules[0].rows[2..5].iter_mut().for_each(|row| row.decided_us = decided_us);
        };
        builder().change(together).breaks("replays keep to their number");
    }

    #[test]
    fn an_older_replay_while_a_later_time_is_missed_is_found() {
        let builder = RecordBuilder::with(Overlap::Allow).catch_up(CatchUpMode::All, 3).missed(2..9, 3);
        // The oldest of all changes places with the first that ran.
        let swapped = builder.change(|record| {
            let rows = &mut record.schedules[0].rows;
            let (verdict, marks) = (rows[2].verdict.clone(), rows[2].marks.clone());
            (rows[2].verdict, rows[2].marks) = (rows[6].verdict.clone(), rows[6].marks.clone());
            (rows[6].verdict, rows[6].marks) = (verdict, marks);
        });
        swapped.breaks("replays keep to their number");
    }

    #[test]
    fn a_replay_that_is_too_old_is_found() {
        for overlap in [Overlap::Allow, Overlap::QueueAll] {
            let builder = || RecordBuilder::with(overlap).catch_up(CatchUpMode::All, 3).missed(2..9, 3);
            let within = |window_us: i64| {
                move |record: &mut crate::schedules::record::Record| {
                    record.schedules[0].policy.window_us = window_us;
                }
            };
            builder().change(within(56_000_000)).holds();
            builder().change(within(54_000_000)).breaks("replays keep to their window");
        }
    }

    #[test]
    fn replays_that_follow_too_soon_are_found() {
        for overlap in [Overlap::Allow, Overlap::QueueAll] {
            let builder = || RecordBuilder::with(overlap).catch_up(CatchUpMode::All, 3).missed(2..9, 3);
            let soon = |record: &mut crate::schedules::record::Record| {
                let place = record.jobs.iter().position(|job| job.kind == "replayed").unwrap();
                record.jobs[place + 1].due_us -= 1;
            };
            builder().change(soon).breaks("replays keep to their pace");
        }
        let other_server = |record: &mut crate::schedules::record::Record| {
            let place = record.jobs.iter().position(|job| job.kind == "replayed").unwrap();
            record.jobs[place + 1].due_us -= 1;
            record.jobs[place].server = Some("another".to_owned());
        };
        RecordBuilder::with(Overlap::QueueAll)
            .catch_up(CatchUpMode::All, 3)
            .missed(2..9, 3)
            .change(other_server)
            .holds();
    }
}
