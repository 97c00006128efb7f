//! Histories of whole runs that break a promise, as a simulation records them.

use std::sync::Arc;

use punctual_core::attempt::Ending;
use punctual_core::shard::write::{CancelMark, JobWrite, Requeue, Write};
use punctual_core::task::Delivery;
use punctual_core::{Counters, JobId, JobKey, JobState, ShardId};

use crate::check::test_history::{Tale, secs, worker};
use crate::history::{Fact, RequestNo};
use crate::plan::START;

#[test]
fn an_acknowledged_job_that_is_not_there_is_found() {
    let invariant = "no acknowledged job is lost";
    Tale::new(|_| {}).gone().breaks(invariant);
    Tale::new(|_| {}).still_hot(START + secs(2)).breaks(invariant);
    let lost = || {
        let strict = Tale::new(|spec| spec.delivery = Delivery::ExactlyOnce);
        strict.start(1).begin(1).settle(JobState::Lost, Some((1, Ending::WorkerLost)))
    };
    lost().finished(JobState::Lost, None).breaks(invariant);
    lost().finished(JobState::Lost, Some("the worker was silent")).holds();
    lost().finished(JobState::Failed, None).breaks(invariant);
    Tale::unacknowledged(|_| {}).gone().holds();
    Tale::new(|_| {}).still_hot(START + secs(999)).holds();
}

#[test]
fn what_the_onlookers_saw_is_found() {
    let invariant = "what is due starts, and what runs has a worker";
    let tale = Tale::new(|_| {});
    let id = tale.id;
    tale.tell(Fact::Neglected { id, late: secs(15) }).breaks(invariant);
    let orphaned = Fact::Orphaned { id, worker: worker(), gone: secs(61) };
    Tale::new(|_| {}).tell(orphaned).breaks(invariant);
}

#[test]
fn a_broken_store_or_core_is_found() {
    Tale::new(|_| {}).tell(Fact::Broken { text: "panic: no".to_owned() }).breaks("nothing is broken");
}

#[test]
fn a_write_under_an_old_epoch_is_found() {
    let invariant = "old epochs write nothing";
    let write = |tale: Tale, epoch| {
        let key = JobKey::original(tale.id);
        let due_at = tale.now() + secs(1);
        let requeue =
            Requeue { key, due_at, counters: Counters::NEW, give_backs: None, attempt: None, cancel: CancelMark::None };
        tale.write_under(epoch, Write::Job(JobWrite::Requeue(requeue)))
    };
    write(Tale::new(|_| {}).lease(1).lease(2), 1).breaks(invariant);
    write(Tale::new(|_| {}).lease(7), 6).breaks(invariant);
    let tale = Tale::new(|_| {}).ask(punctual_core::shard::event::Command::RunNow).lease(1).lease(2);
    write(tale, 2).holds();
}

#[test]
fn a_worker_with_too_much_to_do_is_found() {
    let invariant = "no worker gets more than it granted";
    Tale::new(|_| {}).start(1).begin(1).start(2).begin(2).breaks(invariant);
    let over = Fact::OverCredit { worker: worker(), running: 3, credit: 2 };
    Tale::new(|_| {}).tell(over).breaks(invariant);
}

#[test]
fn a_request_that_made_jobs_twice_or_in_part_is_found() {
    let invariant = "one request makes one set of jobs";
    let again = |tale: Tale, jobs: Vec<JobId>| {
        let task = Arc::new(
            crate::plan::Plan::draw(&mut crate::rng::Rng::new(1), crate::Options::default()).tasks[0].as_ref().clone(),
        );
        tale.tell(Fact::Submit { request: RequestNo(1), jobs, task })
    };
    let other = JobId::new(START, ShardId(0), 2);
    let tale = Tale::new(|_| {}).still_hot(START + secs(999));
    let id = tale.id;
    again(tale, vec![id, other]).breaks(invariant);
    let twice = again(Tale::new(|_| {}).still_hot(START + secs(999)), vec![id]);
    twice.breaks(invariant);
}

#[test]
fn a_job_from_nowhere_is_found() {
    let kept = || Tale::new(|_| {}).still_hot(START + secs(999));
    kept().tell(Fact::JobCount(1)).holds();
    kept().tell(Fact::JobCount(2)).breaks("jobs are conserved");
    kept().tell(Fact::JobCount(0)).breaks("jobs are conserved");
}
