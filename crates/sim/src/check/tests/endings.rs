//! Histories in which attempts end wrongly, as a simulation records them.

use punctual_core::JobState;
use punctual_core::attempt::Ending;

use crate::check::history_builder::{HistoryBuilder, failed, secs, succeeded};

const SUCCESS: Option<(u32, Ending)> = Some((1, Ending::Succeeded));

#[test]
fn two_ends_of_one_attempt_are_found() {
    let ended = || HistoryBuilder::new(|_| {}).succeed(1);
    ended().settle(JobState::Succeeded, SUCCESS).breaks("an attempt ends once");
    ended().settle(JobState::Failed, Some((1, Ending::Failed))).breaks("an attempt ends once");
    let builder = ended();
    let due_at = builder.now() + secs(1);
    builder.requeue(Some((1, Ending::WorkerLost)), due_at).breaks("an attempt ends once");
}

#[test]
fn an_ending_that_nobody_reported_is_found() {
    let running = || HistoryBuilder::new(|_| {}).start(1).begin(1);
    running().settle(JobState::Succeeded, SUCCESS).breaks("endings are true");
    running().end(1, failed()).settle(JobState::Succeeded, SUCCESS).breaks("endings are true");
    running().settle(JobState::Succeeded, SUCCESS).end(1, succeeded()).breaks("endings are true");
    let builder = HistoryBuilder::new(|_| {}).fail_and_retry(1, secs(1)).start(2).begin(2);
    builder.settle(JobState::Succeeded, Some((2, Ending::Succeeded))).breaks("endings are true");
    running()
        .settle(JobState::Lost, Some((1, Ending::WorkerLost)))
        .resolve(1, JobState::Succeeded)
        .breaks("endings are true");
}
