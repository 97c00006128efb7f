//! Recorded runs in which something begins that should not.

use crate::check::history_builder::HistoryBuilder;
use crate::history::DeliveryMode::{AtLeastOnce, AtMostOnce, ExactlyOnce};

#[test]
fn what_was_lost_with_the_database_is_excused_and_a_second_attempt_in_a_strict_mode_is_not() {
    let builder = || HistoryBuilder::new(ExactlyOnce).submit().begin(1, 10).end(1, 10, "ok");
    builder().database_goes_back().holds();
    // Its start is on record from before.
    builder().record(1, "worker_lost").database_goes_back().ends("lost").holds();
    let taken_back = || builder().record(1, "not_started").database_goes_back();
    taken_back().runs(2, 11).ends("succeeded").breaks("strict modes begin once");
    taken_back().ends("cancelled").breaks("what is taken back never began");
    // Its start was lost, and made again.
    builder().database_goes_back().runs(1, 11).ends("succeeded").holds();
    builder().database_goes_back().record(1, "not_started").runs(2, 11).ends("succeeded").holds();
    // What is submitted afterwards has every promise.
    let new = || HistoryBuilder::new(ExactlyOnce).database_goes_back().submit();
    new().runs(1, 10).ends("succeeded").holds();
    new().breaks("no acknowledged job is lost");
    new().begin(1, 10).runs(1, 11).ends("succeeded").breaks("an attempt begins at most once");
}

#[test]
fn a_plain_success_is_good() {
    HistoryBuilder::new(ExactlyOnce).submit().runs(1, 10).ends("succeeded").holds();
}

#[test]
fn two_begins_of_one_attempt_are_found() {
    let found = "an attempt begins at most once";
    HistoryBuilder::new(AtLeastOnce).submit().runs(1, 10).begin(1, 10).ends("succeeded").breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit().runs(1, 10).runs(1, 11).ends("succeeded").breaks(found);
    HistoryBuilder::new(AtLeastOnce)
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
    let found = "nothing begins before its start is durable";
    HistoryBuilder::new(AtLeastOnce).submit().begin(1, 10).ends("succeeded").breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit().runs(1, 10).begin(2, 10).ends("succeeded").breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit().begin(1, 10).ends("deleted").breaks(found);
}

#[test]
fn a_begin_of_what_was_taken_back_is_found() {
    let found = "what is taken back never began";
    let taken_back = || HistoryBuilder::new(ExactlyOnce).submit().record(1, "not_started");
    taken_back().runs(2, 10).ends("succeeded").holds();
    taken_back().begin(1, 10).runs(2, 10).ends("succeeded").breaks(found);
    taken_back().runs(2, 10).begin(1, 10).ends("succeeded").breaks(found);
    taken_back().begin(1, 10).ends("cancelled").breaks(found);
}

#[test]
fn a_second_begin_in_a_strict_mode_is_found() {
    let found = "strict modes begin once";
    HistoryBuilder::new(ExactlyOnce).submit().fails(1, 10).wait(2000).runs(2, 10).ends("succeeded").breaks(found);
    HistoryBuilder::new(AtMostOnce).submit().fails(1, 10).wait(2000).runs(2, 10).ends("succeeded").breaks(found);
    let lost = |delivery| HistoryBuilder::new(delivery).submit().begin(1, 10).dies(10).record(1, "worker_lost");
    lost(ExactlyOnce).runs(2, 11).ends("succeeded").breaks(found);
    lost(ExactlyOnce).ends("lost").holds();
    lost(AtLeastOnce).runs(2, 11).ends("succeeded").holds();
}

#[test]
fn attempts_at_the_same_time_are_found() {
    let found = "attempts do not overlap";
    let second = |builder: HistoryBuilder| {
        builder.record(1, "worker_lost").runs(2, 11).wait(1).end(1, 10, "ok").ends("succeeded")
    };
    // A living worker that nobody was kept from reaching.
    second(HistoryBuilder::new(AtLeastOnce).submit().begin(1, 10)).breaks(found);
    second(HistoryBuilder::new(AtLeastOnce).submit().begin(1, 10).cut_off(12)).breaks(found);
    second(HistoryBuilder::new(ExactlyOnce).submit().begin(1, 10).cut_off(10)).breaks(found);
    second(HistoryBuilder::new(AtLeastOnce).submit().begin(1, 10).cut_off(10)).holds();
    let late = |builder: HistoryBuilder| {
        builder.record(1, "worker_lost").begin(2, 11).begin(1, 10).wait(1).end(1, 10, "failed")
    };
    let ends = |builder: HistoryBuilder| builder.end(2, 11, "ok").record(2, "succeeded").ends("succeeded");
    ends(late(HistoryBuilder::new(AtLeastOnce).submit().cut_off(10))).holds();
    ends(late(HistoryBuilder::new(AtLeastOnce).submit())).breaks(found);
    let failed =
        HistoryBuilder::new(AtLeastOnce).submit().begin(1, 10).record(1, "failed").wait(2000).runs(2, 10).wait(1);
    failed.end(1, 10, "failed").ends("succeeded").breaks(found);
}

#[test]
fn an_early_begin_is_found() {
    let found = "nothing begins early";
    HistoryBuilder::new(AtLeastOnce).submit_for(500).wait(499).runs(1, 10).ends("succeeded").breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit_for(500).runs(1, 10).ends("succeeded").breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit_for(500).wait(500).runs(1, 10).ends("succeeded").holds();
    // Whatever the server answered, it is the client's wish that counts.
    HistoryBuilder::new(AtLeastOnce).submit_answered(500, 0).wait(100).runs(1, 10).ends("succeeded").breaks(found);
}
