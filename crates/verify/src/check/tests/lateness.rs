//! Recorded runs in which attempts begin late.

use crate::check::history_builder::HistoryBuilder;
use crate::history::DeliveryMode::AtLeastOnce;

#[test]
fn a_job_that_begins_late_without_a_reason_is_found() {
    let found = "what is due begins in time";
    let after = |ms| HistoryBuilder::new(AtLeastOnce).submit().wait(ms).runs(1, 10).ends("succeeded");
    after(5000).holds();
    after(5001).breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit_for(1000).wait(6001).runs(1, 10).ends("succeeded").breaks(found);
    let skipped = HistoryBuilder::new(AtLeastOnce).submit().record(1, "worker_lost").ends("quarantined");
    skipped.breaks(found);
}

#[test]
fn a_retry_that_begins_late_is_found() {
    let found = "retries begin in time";
    let after = |ms| HistoryBuilder::new(AtLeastOnce).submit().fails(1, 10).wait(ms).runs(2, 10).ends("succeeded");
    after(6000).holds();
    after(6001).breaks(found);
    let twice = HistoryBuilder::new(AtLeastOnce).submit().fails(1, 10).wait(1000).fails(2, 10);
    twice.wait(7001).runs(3, 10).ends("succeeded").breaks(found);
    let broken = HistoryBuilder::new(AtLeastOnce).submit().fails(1, 10).fault(10_000, 12_000);
    broken.wait(17_001).runs(2, 10).ends("succeeded").breaks(found);
}

#[test]
fn a_fault_excuses_until_it_should_be_over() {
    let found = "what is due begins in time";
    let broken = || HistoryBuilder::new(AtLeastOnce).submit().wait(1000).fault(10_000, 12_000);
    broken().wait(16_999).runs(1, 10).ends("succeeded").holds();
    broken().wait(17_001).runs(1, 10).ends("succeeded").breaks(found);
    // Due long after.
    let later = HistoryBuilder::new(AtLeastOnce).fault(1000, 1000).wait(5000).submit().wait(5001);
    later.runs(1, 10).ends("succeeded").breaks(found);
}
