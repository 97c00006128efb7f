//! Histories of whole runs that break a promise, as a simulation records them.

use std::sync::Arc;

use punctual_core::attempt::Ending;
use punctual_core::shard::write::{CancelMark, JobWrite, Requeue, Write};
use punctual_core::task::DeliveryMode;
use punctual_core::{Counters, JobId, JobKey, JobState, ShardId};

use crate::check::history_builder::{HistoryBuilder, secs, worker};
use crate::history::{Fact, RequestNo};
use crate::plan::START;

#[test]
fn an_acknowledged_job_that_is_not_there_is_found() {
    let promise = "no acknowledged job is lost";
    HistoryBuilder::new(|_| {}).gone().breaks(promise);
    HistoryBuilder::new(|_| {}).still_hot(START + secs(2)).breaks(promise);
    let lost = || {
        let strict = HistoryBuilder::new(|spec| spec.delivery = DeliveryMode::ExactlyOnce);
        strict.start(1).begin(1).settle(JobState::Lost, Some((1, Ending::WorkerLost)))
    };
    lost().finished(JobState::Lost, None).breaks(promise);
    lost().finished(JobState::Lost, Some("the worker was silent")).holds();
    lost().finished(JobState::Failed, None).breaks(promise);
    HistoryBuilder::unacknowledged(|_| {}).gone().holds();
    HistoryBuilder::new(|_| {}).still_hot(START + secs(999)).holds();
}

#[test]
fn what_the_audit_saw_is_found() {
    let promise = "what is due starts, and what runs has a worker";
    let builder = HistoryBuilder::new(|_| {});
    let id = builder.id;
    builder.fact(Fact::Neglected { id, late: secs(15) }).breaks(promise);
    let orphaned = Fact::Orphaned { id, worker: worker(), gone: secs(61) };
    HistoryBuilder::new(|_| {}).fact(orphaned).breaks(promise);
}

#[test]
fn a_broken_store_or_core_is_found() {
    HistoryBuilder::new(|_| {}).fact(Fact::Broken { text: "panic: no".to_owned() }).breaks("nothing is broken");
}

#[test]
fn a_write_under_an_old_epoch_is_found() {
    let promise = "old epochs write nothing";
    let write = |builder: HistoryBuilder, epoch| {
        let key = JobKey::original(builder.id);
        let due_at = builder.now() + secs(1);
        let requeue =
            Requeue { key, due_at, counters: Counters::NEW, give_backs: None, attempt: None, cancel: CancelMark::None };
        builder.write_under(epoch, Write::Job(JobWrite::Requeue(requeue)))
    };
    write(HistoryBuilder::new(|_| {}).lease(1).lease(2), 1).breaks(promise);
    write(HistoryBuilder::new(|_| {}).lease(7), 6).breaks(promise);
    let builder = HistoryBuilder::new(|_| {}).ask(punctual_core::shard::event::Command::RunNow).lease(1).lease(2);
    write(builder, 2).holds();
}

#[test]
fn a_worker_with_too_much_to_do_is_found() {
    let promise = "no worker gets more than it granted";
    HistoryBuilder::new(|_| {}).start(1).begin(1).start(2).begin(2).breaks(promise);
    let over = Fact::OverCredit { worker: worker(), running: 3, credit: 2 };
    HistoryBuilder::new(|_| {}).fact(over).breaks(promise);
}

#[test]
fn a_request_that_made_jobs_twice_or_in_part_is_found() {
    let promise = "one request makes one set of jobs";
    let again = |builder: HistoryBuilder, jobs: Vec<JobId>| {
        let task = Arc::new(
            crate::plan::Plan::draw(
                &mut crate::rng::Rng::new(1),
                &mut crate::rng::Rng::new(1),
                crate::Options::default(),
            )
            .tasks[0]
                .as_ref()
                .clone(),
        );
        builder.fact(Fact::Submit { request: RequestNo(1), jobs, task })
    };
    let other = JobId::new(START, ShardId(0), 2);
    let builder = HistoryBuilder::new(|_| {}).still_hot(START + secs(999));
    let id = builder.id;
    again(builder, vec![id, other]).breaks(promise);
    let twice = again(HistoryBuilder::new(|_| {}).still_hot(START + secs(999)), vec![id]);
    twice.breaks(promise);
}

#[test]
fn a_job_from_nowhere_is_found() {
    let kept = || HistoryBuilder::new(|_| {}).still_hot(START + secs(999));
    kept().fact(Fact::JobCount(1)).holds();
    kept().fact(Fact::JobCount(2)).breaks("jobs are conserved");
    kept().fact(Fact::JobCount(0)).breaks("jobs are conserved");
}
