//! Recorded runs in which attempts or jobs end wrongly.

use crate::check::history_builder::HistoryBuilder;
use crate::history::DeliveryMode::{AtLeastOnce, AtMostOnce, ExactlyOnce};

#[test]
fn a_job_that_is_gone_or_hangs_is_found() {
    let found = "no acknowledged job is lost";
    HistoryBuilder::new(AtLeastOnce).submit().breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit().runs(1, 10).breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit().ends("scheduled").breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit().begin(1, 10).record(1, "running").ends("running").breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit_unanswered().holds();
    HistoryBuilder::new(AtLeastOnce).submit_unanswered().runs(1, 10).ends("succeeded").holds();
    HistoryBuilder::new(AtLeastOnce).submit_unanswered().ends("scheduled").breaks(found);
}

#[test]
fn a_state_that_nothing_explains_is_found() {
    let found = "no acknowledged job is lost";
    HistoryBuilder::new(AtLeastOnce).submit().ends("succeeded").breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit().ends("deleted").breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit().ends("cancelled").breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit().fails(1, 10).ends("succeeded").breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit().begin(1, 10).dies(10).record(1, "worker_lost").ends("lost").breaks(found);
    HistoryBuilder::new(AtMostOnce).submit().begin(1, 10).dies(10).record(1, "worker_lost").ends("lost").holds();
}

#[test]
fn an_ending_that_the_witness_did_not_see_is_found() {
    let found = "endings are true";
    HistoryBuilder::new(AtLeastOnce).submit().record(1, "succeeded").ends("succeeded").breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit().begin(1, 10).record(1, "succeeded").ends("succeeded").breaks(found);
    let failed = HistoryBuilder::new(AtMostOnce).submit().begin(1, 10).end(1, 10, "failed");
    failed.record(1, "succeeded").ends("succeeded").breaks(found);
    let good = HistoryBuilder::new(AtMostOnce).submit().begin(1, 10).end(1, 10, "ok");
    good.record(1, "failed").ends("failed").breaks(found);
}

#[test]
fn two_outcomes_are_found() {
    let found = "an attempt ends once";
    HistoryBuilder::new(AtLeastOnce).submit().runs(1, 10).record(1, "failed").ends("failed").breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit().runs(1, 10).wait(2000).runs(2, 10).ends("succeeded").breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit().begin(1, 10).record(1, "running").ends("succeeded").breaks(found);
}

#[test]
fn an_attempt_of_a_good_worker_that_was_given_up_is_found() {
    let found = "no worker is given up without cause";
    let given_up = |builder: HistoryBuilder| builder.record(1, "worker_lost").ends("lost");
    let begun = || HistoryBuilder::new(ExactlyOnce).submit().begin(1, 10);
    given_up(begun()).breaks(found);
    given_up(begun().dies(11)).breaks(found);
    given_up(begun().cut_off(11)).breaks(found);
    // Given up before anything happened to it.
    begun().record(1, "worker_lost").wait(1000).dies(10).ends("lost").breaks(found);
    given_up(begun().dies(10)).holds();
    given_up(begun().cut_off(10)).holds();
}
