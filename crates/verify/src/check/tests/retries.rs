//! Recorded runs with wrong retries.

use crate::check::history_builder::HistoryBuilder;
use crate::history::DeliveryMode::{AtLeastOnce, AtMostOnce};

fn failing(times: u32) -> HistoryBuilder {
    let mut builder = HistoryBuilder::new(AtLeastOnce).submit();
    for attempt in 1..=times {
        builder = builder.fails(attempt, 10).wait(4_000);
    }
    builder
}

#[test]
fn retries_too_many_or_too_few_are_found() {
    let found = "retries are counted";
    failing(4).ends("failed").holds();
    failing(3).runs(4, 10).ends("succeeded").holds();
    failing(5).ends("failed").breaks(found);
    failing(3).ends("failed").breaks(found);
    HistoryBuilder::new(AtMostOnce).submit().fails(1, 10).wait(2000).record(2, "failed").ends("failed").breaks(found);
}

#[test]
fn numbers_with_gaps_are_found() {
    let found = "attempt numbers grow";
    HistoryBuilder::new(AtLeastOnce).submit().runs(2, 10).ends("succeeded").breaks(found);
    failing(1).runs(3, 10).ends("succeeded").breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit().record(1, "not_started").runs(1, 10).ends("succeeded").breaks(found);
}

#[test]
fn a_job_that_kills_its_workers_is_set_aside() {
    let lost = |times: u32| {
        (1..=times).fold(HistoryBuilder::new(AtLeastOnce).submit(), |builder, attempt| {
            builder.begin(attempt, attempt).dies(attempt).record(attempt, "worker_lost")
        })
    };
    lost(3).ends("quarantined").holds();
    lost(4).ends("quarantined").breaks("losses are counted");
}

#[test]
fn a_retry_that_comes_too_soon_is_found() {
    let found = "waits are kept";
    let second_after =
        |ms| HistoryBuilder::new(AtLeastOnce).submit().fails(1, 10).wait(ms).runs(2, 10).ends("succeeded");
    second_after(800).holds();
    second_after(779).breaks(found);
    second_after(0).breaks(found);
    let third_after = |ms: i64| failing(2).wait(ms - 4_000).runs(3, 10).ends("succeeded");
    third_after(1600).holds();
    third_after(1579).breaks(found);
}
