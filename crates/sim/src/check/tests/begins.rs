//! Histories in which something begins that should not, as a simulation records them.

use punctual_core::attempt::{Ending, Failure, Outcome, Ran};
use punctual_core::shard::event::Command;
use punctual_core::task::{DeliveryMode, OnLost};
use punctual_core::{AttemptNo, JobState};
use punctual_promises::StartRecord;

use crate::check::history_builder::{HistoryBuilder, failed, secs, worker};
use crate::history::Fact;

#[test]
fn a_plain_success_is_good() {
    HistoryBuilder::new(|_| {}).succeed(1).acked(1).holds();
}

#[test]
fn two_begins_of_one_attempt_are_found() {
    HistoryBuilder::new(|_| {}).start(1).begin(1).begin(1).breaks("an attempt begins at most once");
    HistoryBuilder::new(|_| {}).succeed(1).begin(1).breaks("an attempt begins at most once");
    HistoryBuilder::new(|_| {})
        .fail_and_retry(1, secs(1))
        .start(2)
        .begin(2)
        .begin(1)
        .breaks("an attempt begins at most once");
}

#[test]
fn a_begin_without_a_durable_start_is_found() {
    let builder = HistoryBuilder::new(|_| {});
    let id = builder.id;
    let (attempt, worker, start) = (AttemptNo(1), worker(), StartRecord::Missing);
    builder.fact(Fact::Begin { id, attempt, worker, start }).breaks("nothing begins before its start is durable");
}

#[test]
fn an_early_begin_is_found() {
    // The clock is at 5 s when it begins.
    let retried = |wait| HistoryBuilder::new(|_| {}).fail_and_retry(1, wait).start(2).begin(2);
    retried(secs(1)).holds();
    retried(secs(60)).breaks("nothing begins early");
    let moved = HistoryBuilder::new(|_| {});
    let later = moved.now() + secs(60);
    moved.ask(Command::RunNow).requeue(None, later).start(1).begin(1).breaks("nothing begins early");
    let builder = HistoryBuilder::new(|_| {});
    let now = builder.now();
    builder.requeue(None, now).start(1).begin(1).breaks("nothing begins early");
}

#[test]
fn a_second_begin_in_a_strict_mode_is_found() {
    let lost = |delivery, on_lost| {
        let builder = HistoryBuilder::new(|spec| {
            spec.delivery = delivery;
            spec.on_lost = on_lost;
        });
        let due_at = builder.now() + secs(3);
        builder.start(1).begin(1).requeue(Some((1, Ending::WorkerLost)), due_at).start(2).begin(2)
    };
    lost(DeliveryMode::AtMostOnce, OnLost::Rerun).breaks("strict modes begin once");
    lost(DeliveryMode::ExactlyOnce, OnLost::Hold).breaks("strict modes begin once");
    lost(DeliveryMode::ExactlyOnce, OnLost::Fail).breaks("strict modes begin once");
    // One slot, and the lost one may still hold it.
    lost(DeliveryMode::ExactlyOnce, OnLost::Rerun).breaks("no worker gets more than it granted");
}

#[test]
fn a_failure_before_anything_ran_excuses_exactly_once_only() {
    let proven = |delivery| {
        let builder = HistoryBuilder::new(|spec| spec.delivery = delivery).start(1).begin(1);
        let failure = Failure { ran: Ran::No, ..Failure::new("exit code 1") };
        let builder = builder.end(1, Outcome::Failed(failure));
        let due_at = builder.now() + secs(1);
        builder.requeue(Some((1, Ending::Failed)), due_at).start(2).begin(2)
    };
    proven(DeliveryMode::ExactlyOnce).holds();
    proven(DeliveryMode::AtMostOnce).breaks("strict modes begin once");
}

#[test]
fn a_rerun_is_a_new_beginning() {
    let builder = HistoryBuilder::new(|spec| spec.delivery = DeliveryMode::AtMostOnce).succeed(1);
    builder.ask(Command::Rerun).rerun().succeed(2).holds();
}

#[test]
fn a_begin_of_what_was_taken_back_is_found() {
    let taken_back = || {
        let builder = HistoryBuilder::new(|_| {}).start(1);
        let due_at = builder.now() + secs(1);
        builder.requeue(Some((1, Ending::NotStarted)), due_at)
    };
    taken_back().start(2).begin(2).holds();
    taken_back().begin(1).breaks("what is taken back never began");
    let cancelled =
        HistoryBuilder::new(|_| {}).start(1).begin(1).settle(JobState::Cancelled, Some((1, Ending::NotStarted)));
    cancelled.breaks("what is taken back never began");
}

#[test]
fn a_number_that_is_used_again_is_found() {
    HistoryBuilder::new(|_| {}).fail_and_retry(1, secs(1)).start(1).breaks("attempt numbers grow");
    HistoryBuilder::new(|_| {}).fail_and_retry(2, secs(1)).start(1).breaks("attempt numbers grow");
    HistoryBuilder::new(|_| {}).start(1).start(1).breaks("attempt numbers grow");
    HistoryBuilder::new(|_| {}).start(1).begin(1).end(1, failed()).holds();
}
