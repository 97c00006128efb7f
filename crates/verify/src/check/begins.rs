//! When and how often something really began.

use std::collections::BTreeSet;

use super::story::{Execution, Story};
use crate::history::Delivery;

pub(super) fn an_attempt_begins_at_most_once(story: &Story<'_>) -> Option<String> {
    let mut begun = BTreeSet::new();
    let twice = story.executions.iter().find(|execution| !begun.insert(execution.attempt))?;
    Some(format!("attempt {} began twice", twice.attempt))
}

pub(super) fn nothing_begins_without_a_record(story: &Story<'_>) -> Option<String> {
    let unknown = story.executions.iter().find(|execution| story.record(execution.attempt).is_none())?;
    Some(format!("attempt {} began and is not on record", unknown.attempt))
}

pub(super) fn what_is_taken_back_never_began(story: &Story<'_>) -> Option<String> {
    story.executions.iter().find_map(|execution| {
        let record = story.record(execution.attempt)?;
        (record.state == "not_started")
            .then(|| format!("attempt {} began and is on record as not started", execution.attempt))
    })
}

/// The handler always knows that it ran, so no failure of it excuses a second begin.
pub(super) fn strict_modes_begin_once(story: &Story<'_>) -> Option<String> {
    let is_strict = story.rules.delivery != Delivery::AtLeastOnce;
    (is_strict && story.executions.len() > 1)
        .then(|| format!("{:?}, and it began {} times", story.rules.delivery, story.executions.len()))
}

/// Of a database that went back in time: attempts that began and whose start is still on record. One whose start was
/// lost has no record of that, and may begin again under its number.
fn begun_and_still_on_record<'s>(story: &'s Story<'_>) -> impl Iterator<Item = &'s Execution> {
    let went_back_us = story.world.went_back.map_or(i64::MIN, |at| at.real_us);
    let is_still_on_record = move |execution: &&Execution| {
        execution.begin.real_us < went_back_us
            && story.record(execution.attempt).is_some_and(|record| record.started_us < went_back_us)
    };
    story.executions.iter().filter(is_still_on_record)
}

pub(super) fn what_is_still_on_record_is_not_taken_back(story: &Story<'_>) -> Option<String> {
    begun_and_still_on_record(story).find_map(|execution| {
        let record = story.record(execution.attempt)?;
        (record.state == "not_started")
            .then(|| format!("attempt {} began and is on record as not started", execution.attempt))
    })
}

pub(super) fn strict_modes_do_not_go_on(story: &Story<'_>) -> Option<String> {
    if story.rules.delivery == Delivery::AtLeastOnce {
        return None;
    }
    let first = begun_and_still_on_record(story).map(|execution| execution.attempt).min()?;
    let next = story.executions.iter().map(|execution| execution.attempt).find(|attempt| *attempt > first)?;
    Some(format!("{:?}, and attempt {next} began after attempt {first}", story.rules.delivery))
}

/// But for `at_least_once` and a worker that was given up while it was only out of reach.
pub(super) fn attempts_do_not_overlap(story: &Story<'_>) -> Option<String> {
    let executions = &story.executions;
    for (place, earlier) in executions.iter().enumerate() {
        for later in &executions[place + 1..] {
            if ended_us(story, earlier) <= later.begin.boot_us {
                continue;
            }
            // What was on its way to such a worker may even begin after its successor did.
            let was_out_of_reach = |execution: &Execution| {
                story.record(execution.attempt).is_some_and(|record| record.state == "worker_lost")
                    && story.world.cut_off.contains_key(&execution.pid)
            };
            let is_excused =
                story.rules.delivery == Delivery::AtLeastOnce && (was_out_of_reach(earlier) || was_out_of_reach(later));
            if !is_excused {
                return Some(format!("attempts {} and {} ran at the same time", earlier.attempt, later.attempt));
            }
        }
    }
    None
}

fn ended_us(story: &Story<'_>, execution: &Execution) -> i64 {
    let died = story.world.died.get(&execution.pid).copied();
    execution.end.map(|(at, _)| at).or(died).map_or(i64::MAX, |at| at.boot_us)
}

/// By the clock of this machine, which is the store's. Nothing is tolerated.
pub(super) fn nothing_begins_early(story: &Story<'_>) -> Option<String> {
    let promised = story.acknowledged().map(|(_, due_us)| due_us);
    let due_us = promised.max(story.run_at_us)?;
    let early = story.executions.iter().find(|execution| execution.begin.real_us < due_us)?;
    Some(format!("attempt {} began {} us early", early.attempt, due_us - early.begin.real_us))
}

#[cfg(test)]
mod tests {
    use crate::check::tale::Tale;
    use crate::history::Delivery::{AtLeastOnce, AtMostOnce, ExactlyOnce};

    #[test]
    fn what_was_lost_with_the_database_is_excused_and_a_second_attempt_in_a_strict_mode_is_not() {
        let tale = || Tale::new(ExactlyOnce).submit().begin(1, 10).end(1, 10, "ok");
        tale().database_goes_back().holds();
        // Its start is on record from before.
        tale().record(1, "worker_lost").database_goes_back().ends("lost").holds();
        let taken_back = || tale().record(1, "not_started").database_goes_back();
        taken_back().runs(2, 11).ends("succeeded").breaks("strict modes do not go on");
        taken_back().ends("cancelled").breaks("what is still on record is not taken back");
        // Its start was lost, and made again.
        tale().database_goes_back().runs(1, 11).ends("succeeded").holds();
        tale().database_goes_back().record(1, "not_started").runs(2, 11).ends("succeeded").holds();
        // What is submitted afterwards has every promise.
        let new = || Tale::new(ExactlyOnce).database_goes_back().submit();
        new().runs(1, 10).ends("succeeded").holds();
        new().breaks("no acknowledged job is lost");
        new().begin(1, 10).runs(1, 11).ends("succeeded").breaks("an attempt begins at most once");
    }

    #[test]
    fn a_plain_success_is_good() {
        Tale::new(ExactlyOnce).submit().runs(1, 10).ends("succeeded").holds();
    }

    #[test]
    fn two_begins_of_one_attempt_are_found() {
        let found = "an attempt begins at most once";
        Tale::new(AtLeastOnce).submit().runs(1, 10).begin(1, 10).ends("succeeded").breaks(found);
        Tale::new(AtLeastOnce).submit().runs(1, 10).runs(1, 11).ends("succeeded").breaks(found);
        Tale::new(AtLeastOnce)
            .submit()
            .fails(1, 10)
            .wait(2000)
            .runs(2, 11)
            .begin(1, 11)
            .ends("succeeded")
            .breaks(found);
    }

    #[test]
    fn a_begin_that_is_not_on_record_is_found() {
        let found = "nothing begins without a record";
        Tale::new(AtLeastOnce).submit().begin(1, 10).ends("succeeded").breaks(found);
        Tale::new(AtLeastOnce).submit().runs(1, 10).begin(2, 10).ends("succeeded").breaks(found);
        Tale::new(AtLeastOnce).submit().begin(1, 10).ends("deleted").breaks(found);
    }

    #[test]
    fn a_begin_of_what_was_taken_back_is_found() {
        let found = "what is taken back never began";
        let taken_back = || Tale::new(ExactlyOnce).submit().record(1, "not_started");
        taken_back().runs(2, 10).ends("succeeded").holds();
        taken_back().begin(1, 10).runs(2, 10).ends("succeeded").breaks(found);
        taken_back().runs(2, 10).begin(1, 10).ends("succeeded").breaks(found);
        taken_back().begin(1, 10).ends("cancelled").breaks(found);
    }

    #[test]
    fn a_second_begin_in_a_strict_mode_is_found() {
        let found = "strict modes begin once";
        Tale::new(ExactlyOnce).submit().fails(1, 10).wait(2000).runs(2, 10).ends("succeeded").breaks(found);
        Tale::new(AtMostOnce).submit().fails(1, 10).wait(2000).runs(2, 10).ends("succeeded").breaks(found);
        let lost = |delivery| Tale::new(delivery).submit().begin(1, 10).dies(10).record(1, "worker_lost");
        lost(ExactlyOnce).runs(2, 11).ends("succeeded").breaks(found);
        lost(ExactlyOnce).ends("lost").holds();
        lost(AtLeastOnce).runs(2, 11).ends("succeeded").holds();
    }

    #[test]
    fn attempts_at_the_same_time_are_found() {
        let found = "attempts do not overlap";
        let second = |tale: Tale| tale.record(1, "worker_lost").runs(2, 11).wait(1).end(1, 10, "ok").ends("succeeded");
        // A living worker that nobody was kept from reaching.
        second(Tale::new(AtLeastOnce).submit().begin(1, 10)).breaks(found);
        second(Tale::new(AtLeastOnce).submit().begin(1, 10).cut_off(12)).breaks(found);
        second(Tale::new(ExactlyOnce).submit().begin(1, 10).cut_off(10)).breaks(found);
        second(Tale::new(AtLeastOnce).submit().begin(1, 10).cut_off(10)).holds();
        let late = |tale: Tale| tale.record(1, "worker_lost").begin(2, 11).begin(1, 10).wait(1).end(1, 10, "failed");
        let ends = |tale: Tale| tale.end(2, 11, "ok").record(2, "succeeded").ends("succeeded");
        ends(late(Tale::new(AtLeastOnce).submit().cut_off(10))).holds();
        ends(late(Tale::new(AtLeastOnce).submit())).breaks(found);
        let failed = Tale::new(AtLeastOnce).submit().begin(1, 10).record(1, "failed").wait(2000).runs(2, 10).wait(1);
        failed.end(1, 10, "failed").ends("succeeded").breaks(found);
    }

    #[test]
    fn an_early_begin_is_found() {
        let found = "nothing begins early";
        Tale::new(AtLeastOnce).submit_for(500).wait(499).runs(1, 10).ends("succeeded").breaks(found);
        Tale::new(AtLeastOnce).submit_for(500).runs(1, 10).ends("succeeded").breaks(found);
        Tale::new(AtLeastOnce).submit_for(500).wait(500).runs(1, 10).ends("succeeded").holds();
        // Whatever the server answered, it is the client's wish that counts.
        Tale::new(AtLeastOnce).submit_answered(500, 0).wait(100).runs(1, 10).ends("succeeded").breaks(found);
    }
}
