//! Recorded runs with jobs too many or too few.

use crate::check::history_builder::HistoryBuilder;
use crate::history::DeliveryMode::AtLeastOnce;

fn good() -> HistoryBuilder {
    HistoryBuilder::new(AtLeastOnce).submit().runs(1, 10).ends("succeeded")
}

#[test]
fn two_jobs_of_one_key_are_found() {
    let found = "one request makes one set of jobs";
    good().change(|history| history.calls.extend(history.calls.clone())).holds();
    good()
        .change(|history| {
            let mut again = history.calls[0].clone();
            again.answer =
                crate::history::Answer::Ok { job: "job_2".to_owned(), due_us: Some(0), state: None, pending: false };
            history.calls.push(again);
        })
        .breaks(found);
    let twin = |history: &mut crate::history::History| {
        let mut twin = history.jobs[0].clone();
        twin.id = "job_2".to_owned();
        history.jobs.push(twin);
    };
    good().change(twin).breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit_unanswered().runs(1, 10).ends("succeeded").change(twin).breaks(found);
}

#[test]
fn jobs_from_nowhere_are_found() {
    let found = "jobs are conserved";
    good().change(|history| history.calls.clear()).breaks(found);
    good().change(|history| history.jobs.push(history.jobs[0].clone())).breaks(found);
    good().change(|history| history.jobs[0].key = "another".to_owned()).breaks(found);
    good().change(|history| history.witness[0].job = "job_9".to_owned()).breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit_refused().runs(1, 10).ends("succeeded").breaks(found);
    HistoryBuilder::new(AtLeastOnce).submit_refused().holds();
}

#[test]
fn wrong_counts_are_found() {
    let counted = |submitted, succeeded| {
        let counted = [("submitted".to_owned(), submitted), ("succeeded".to_owned(), succeeded)];
        good().change(move |history| history.counted = Some(counted.into()))
    };
    counted(1, 1).holds();
    counted(2, 1).breaks("jobs are conserved");
    counted(1, 0).breaks("jobs are conserved");
}

#[test]
fn a_story_that_changes_is_found() {
    let found = "what has ended stays as it is";
    let again = |change: fn(&mut crate::history::FinalJob)| {
        good().change(move |history| {
            let mut job = history.jobs[0].clone();
            change(&mut job);
            history.again.push(job);
        })
    };
    again(|_| {}).holds();
    again(|job| job.state = "failed".to_owned()).breaks(found);
    again(|job| job.attempts.clear()).breaks(found);
    again(|job| job.id = "job_9".to_owned()).breaks(found);
}
