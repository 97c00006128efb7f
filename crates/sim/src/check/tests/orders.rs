//! Histories in which confirmed commands are not kept, as a simulation records them.

use punctual_core::JobState;
use punctual_core::attempt::Ending;
use punctual_core::shard::event::{Command, Refusal, Reply};
use punctual_core::shard::write::{JobWrite, Write};
use punctual_core::{JobKey, Timestamp};

use crate::check::history_builder::{HistoryBuilder, failed, secs};

const DELETED: Reply = Reply::Done(JobState::Deleted);
const CANCELLED: Reply = Reply::Done(JobState::Cancelled);

#[test]
fn a_begin_of_a_deleted_job_is_found_before_and_after() {
    HistoryBuilder::new(|_| {}).settle(JobState::Deleted, None).order(Command::Delete, DELETED).holds();
    HistoryBuilder::new(|_| {}).order(Command::Delete, DELETED).start(1).begin(1).breaks("deleted means never");
    HistoryBuilder::new(|_| {}).start(1).begin(1).order(Command::Delete, DELETED).breaks("deleted means never");
}

#[test]
fn a_refused_delete_promises_nothing() {
    let refused = Reply::Refused(JobState::Running, Refusal::AlreadyStarted);
    HistoryBuilder::new(|_| {}).start(1).order(Command::Delete, refused).begin(1).holds();
}

#[test]
fn a_begin_after_a_cancel_is_found() {
    let cancelled = || HistoryBuilder::new(|_| {}).settle(JobState::Cancelled, None).order(Command::Cancel, CANCELLED);
    cancelled().holds();
    cancelled().begin(1).breaks("cancelled means no more");
    cancelled().start(1).begin(1).breaks("cancelled means no more");
    cancelled().ask(Command::Rerun).rerun().start(1).begin(1).holds();
}

fn asked() -> HistoryBuilder {
    let builder = HistoryBuilder::new(|_| {}).start(1).begin(1);
    let key = JobKey::original(builder.id);
    builder.write(Write::Job(JobWrite::RequestCancel { key })).order(Command::Cancel, Reply::Asked).end(1, failed())
}

#[test]
fn a_start_after_a_cancel_request_is_found() {
    let retried = |builder: HistoryBuilder| {
        let due_at: Timestamp = builder.now() + secs(2);
        builder.requeue(Some((1, Ending::Failed)), due_at).start(2)
    };
    asked().settle(JobState::Cancelled, Some((1, Ending::Failed))).holds();
    retried(asked()).breaks("a cancel request is kept");
    retried(asked().ask(Command::Rerun)).holds();
}
