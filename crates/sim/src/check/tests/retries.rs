//! Histories with wrong retries, as a simulation records them.

use punctual_core::attempt::{Ending, FailureClass};
use punctual_core::retry::FailureClasses;
use punctual_core::task::DeliveryMode;
use punctual_core::{JobState, Span};

use crate::check::history_builder::{HistoryBuilder, failed, failed_by, of_class, secs};

fn fails(max: u16, times: u32) -> HistoryBuilder {
    let builder = HistoryBuilder::new(|spec| spec.retry.max = max);
    (1..=times).fold(builder, |builder, attempt| builder.fail_and_retry(attempt, secs(8)).pass(secs(8)))
}

#[test]
fn a_retry_too_many_is_found() {
    fails(2, 3).holds();
    fails(2, 4).breaks("retries are counted");
    fails(0, 2).breaks("retries are counted");
}

#[test]
fn a_rerun_gives_all_retries_again() {
    let spent = fails(1, 1).start(2).begin(2).end(2, failed()).settle(JobState::Failed, Some((2, Ending::Failed)));
    spent.rerun().fail_and_retry(3, secs(8)).holds();
}

#[test]
fn a_loss_too_many_is_found() {
    let lost = |delivery, times: u32| {
        let builder = HistoryBuilder::new(|spec| {
            spec.node_retry.max = 1;
            spec.delivery = delivery;
        });
        (1..=times).fold(builder, |builder, attempt| {
            let due_at = builder.now() + secs(8);
            builder.start(attempt).requeue(Some((attempt, Ending::WorkerLost)), due_at)
        })
    };
    lost(DeliveryMode::AtLeastOnce, 2).holds();
    lost(DeliveryMode::AtLeastOnce, 3).breaks("losses are counted");
    lost(DeliveryMode::ExactlyOnce, 3).breaks("losses are counted");
}

#[test]
fn a_job_that_is_given_back_for_ever_is_found() {
    let given_back = |times: u32| {
        let builder = HistoryBuilder::new(|spec| spec.start_retry.max = 2);
        (1..=times).fold(builder, |builder, attempt| {
            let due_at = builder.now() + secs(8);
            builder.start(attempt).requeue(Some((attempt, Ending::NotStarted)), due_at).pass(secs(8))
        })
    };
    given_back(3).holds();
    given_back(4).breaks("give-backs are counted");
    let too_soon = given_back(1).start(2).with_details(of_class(FailureClass::Environment));
    too_soon.settle(JobState::Failed, Some((2, Ending::NotStarted))).breaks("give-backs are counted");
}

#[test]
fn a_retry_of_what_is_excepted_is_found() {
    let promise = "what is excepted is final";
    let excepting = |class| HistoryBuilder::new(|spec| spec.retry.except = FailureClasses::from(vec![class]));
    let retried = |except, class| {
        let builder = excepting(except).start(1).begin(1).end(1, failed_by(class)).with_details(of_class(class));
        let due_at = builder.now() + secs(8);
        builder.requeue(Some((1, Ending::Failed)), due_at)
    };
    retried(FailureClass::Limit, FailureClass::Network).holds();
    retried(FailureClass::Limit, FailureClass::Limit).breaks(promise);
    let overdue = |except| {
        let builder =
            excepting(except).start(1).begin(1).pass(secs(3600)).with_details(of_class(FailureClass::Timeout));
        let due_at = builder.now() + secs(8);
        builder.requeue(Some((1, Ending::TimedOut)), due_at)
    };
    overdue(FailureClass::Timeout).breaks(promise);
    let builder = excepting(FailureClass::Task).start(1);
    let due_at = builder.now() + secs(8);
    builder.requeue(Some((1, Ending::WorkerLost)), due_at).holds();
    let builder = excepting(FailureClass::Task).start(1).begin(1).end(1, failed());
    builder.settle(JobState::Failed, Some((1, Ending::Failed))).holds();
}

#[test]
fn a_wait_cut_short_is_found() {
    let twice = |first, second| HistoryBuilder::new(|_| {}).fail_and_retry(1, first).fail_and_retry(2, second);
    twice(secs(1), secs(2)).holds();
    twice(secs(0), secs(2)).breaks("waits are kept");
    twice(secs(1), secs(1)).breaks("waits are kept");
    twice(secs(1), Span::from_millis(1900)).breaks("waits are kept");
}
