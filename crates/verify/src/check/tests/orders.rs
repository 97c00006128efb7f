//! Recorded runs in which confirmed commands are not kept.

use crate::check::history_builder::HistoryBuilder;
use crate::history::DeliveryMode::{AtLeastOnce, AtMostOnce, ExactlyOnce};

#[test]
fn a_begin_of_a_deleted_job_is_found_before_and_after() {
    let found = "deleted means never";
    HistoryBuilder::new(ExactlyOnce).submit().delete_granted().ends("deleted").holds();
    HistoryBuilder::new(ExactlyOnce).submit().delete_granted().runs(1, 10).ends("succeeded").breaks(found);
    HistoryBuilder::new(ExactlyOnce).submit().runs(1, 10).delete_granted().ends("succeeded").breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit().delete_granted().begin(1, 10).ends("deleted").breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit().delete_granted().ends("cancelled").breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit().delete_refused().runs(1, 10).ends("succeeded").holds();
    HistoryBuilder::new(AtLeastOnce).submit().delete_unanswered().runs(1, 10).ends("succeeded").holds();
    HistoryBuilder::new(AtLeastOnce).submit().delete_unanswered().ends("deleted").holds();
}

#[test]
fn a_begin_after_a_cancel_is_found() {
    let found = "cancelled means no more";
    let cancelled = || HistoryBuilder::new(AtLeastOnce).submit().cancel_granted();
    cancelled().ends("cancelled").holds();
    cancelled().wait(1).runs(1, 10).ends("succeeded").breaks(found);
    cancelled().wait(1).begin(1, 10).ends("cancelled").breaks(found);
    cancelled().wait(1).begin(1, 10).record(1, "not_started").ends("cancelled").breaks(found);
    let waits_for_a_retry = || HistoryBuilder::new(AtLeastOnce).submit().fails(1, 10).cancel_granted();
    waits_for_a_retry().ends("cancelled").holds();
    waits_for_a_retry().wait(2000).runs(2, 10).ends("cancelled").breaks(found);
}

#[test]
fn a_start_after_a_cancel_request_is_found() {
    let found = "a cancel request is kept";
    let asked = |delivery| HistoryBuilder::new(delivery).submit().begin(1, 10).cancel_pending();
    asked(AtLeastOnce).end(1, 10, "cancelled").record(1, "cancelled").ends("cancelled").holds();
    asked(AtMostOnce).end(1, 10, "ok").record(1, "succeeded").ends("succeeded").holds();
    let retried = asked(AtLeastOnce).end(1, 10, "failed").record(1, "failed").wait(2000);
    retried.runs(2, 10).ends("succeeded").breaks(found);
    let lost = asked(AtLeastOnce).dies(10).record(1, "worker_lost").wait(2000);
    lost.runs(2, 11).ends("succeeded").breaks(found);
    let lost = asked(AtLeastOnce).dies(10).record(1, "worker_lost");
    lost.ends("cancelled").holds();
}
