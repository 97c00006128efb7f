use bytes::Bytes;
use punctual_core::attempt::{AttemptRecord, Ending};
use punctual_core::shard::write::{CancelMark, JobWrite, Requeue, Rerun, ResolveLost, Settle, Write};
use punctual_core::{AttemptNo, Counters, JobKey, JobRow, JobState};
use punctual_store::{FinishedJob, FoundRow, HotJob, JobRecord, NewJob, Page, RerunRecord, Store};

use crate::fixture::*;

async fn hot(store: &dyn Store, job: &NewJob) -> JobRow {
    match store.find(job.id).await.unwrap() {
        FoundRow::Hot(row) => row,
        other => panic!("{other:?}"),
    }
}

async fn attempts(store: &dyn Store, job: &NewJob) -> Vec<AttemptRecord> {
    match store.job(job.id).await.unwrap().unwrap() {
        JobRecord::Hot { attempts, .. } | JobRecord::Finished { attempts, .. } => attempts,
    }
}

async fn finished(store: &dyn Store, job: &NewJob) -> (FinishedJob, Option<Bytes>) {
    match store.job(job.id).await.unwrap().unwrap() {
        JobRecord::Finished { job, output, .. } => (job, output),
        hot @ JobRecord::Hot { .. } => panic!("{hot:?}"),
    }
}

pub(super) async fn a_requeued_job_waits_at_its_new_time_with_its_attempt_kept(store: &dyn Store) {
    let job = NewJob { input: Some(text("in")), tracing_id: Some("t".to_owned()), ..new_job(1, 10, 0) };
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    let before = hot(store, &job).await;
    owner.done(vec![Write::Job(JobWrite::Requeue(retried(original(&job), 1, at(60))))]).await;
    let after = JobRow { key: JobKey { due_at: at(60), id: job.id }, counters: counters(2, 1, 0), ..before };
    assert_eq!(hot(store, &job).await, after);
    assert_eq!(store.load(load_all(0)).await.unwrap().rows, [after]);
    assert_eq!(attempts(store, &job).await, [ran(1, Ending::Failed)]);
}

pub(super) async fn a_job_that_was_given_back_keeps_its_budget_until_it_is_run_again_by_request(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    let first = given_back(original(&job), 1, at(60), at(10));
    owner.done(vec![Write::Job(JobWrite::Requeue(first.clone()))]).await;
    assert_eq!(hot(store, &job).await.give_backs, first.give_backs);
    assert_eq!(store.load(load_all(0)).await.unwrap().rows[0].give_backs, first.give_backs);
    let key = JobKey { due_at: at(60), id: job.id };
    let shown = store.hot_jobs(vec![key]).await.unwrap();
    assert_eq!(shown[0].give_backs, first.give_backs);
    assert_eq!(shown[0].due_since(), job.id.due_at());
    owner.done(vec![start(key, 2)]).await;
    assert_eq!(
        store.open_starts(key.shard()).await.unwrap().running[0].1.give_backs,
        first.give_backs,
        "at a takeover"
    );
    owner.done(vec![Write::Job(JobWrite::Settle(settled(key, 2, JobState::Failed, Ending::NotStarted)))]).await;
    let again = Rerun { id: job.id, due_at: at(200), counters: counters(3, 0, 0) };
    owner.done(vec![Write::Job(JobWrite::Rerun(again))]).await;
    assert_eq!(hot(store, &job).await.give_backs, None);
}

pub(super) async fn jobs_that_were_given_back_are_listed_by_the_time_since_which_they_may_be_late(store: &dyn Store) {
    let jobs: Vec<NewJob> = (1..=5).map(|n| new_job(n, 10 * n as i64, (n % 2) as u16)).collect();
    let mut owner = owner_of(store, &jobs).await;
    let late_from = [40, 30, 30, 20];
    for (job, secs) in jobs.iter().zip(late_from) {
        owner.done(vec![Write::Job(JobWrite::Requeue(given_back(original(job), 1, at(1000), at(secs))))]).await;
    }
    // One that has run since waits for its own time.
    let ran_since =
        Requeue { key: JobKey { due_at: at(1000), id: jobs[3].id }, ..retried(original(&jobs[3]), 2, at(2000)) };
    owner.done(vec![Write::Job(JobWrite::Requeue(ran_since))]).await;
    let listed = |page: &Page<HotJob, JobKey>| page.rows.iter().map(|job| job.key.id).collect::<Vec<_>>();
    let all = store.given_back(None, None, at(100), 10).await.unwrap();
    assert_eq!((listed(&all), all.next), (vec![jobs[1].id, jobs[2].id, jobs[0].id], None));
    let until = store.given_back(None, None, at(30), 10).await.unwrap();
    assert_eq!(listed(&until), [jobs[1].id, jobs[2].id]);
    let first = store.given_back(None, None, at(100), 1).await.unwrap();
    assert_eq!((listed(&first), first.next), (vec![jobs[1].id], Some(JobKey { due_at: at(30), id: jobs[1].id })));
    let rest = store.given_back(None, first.next, at(100), 10).await.unwrap();
    assert_eq!(listed(&rest), [jobs[2].id, jobs[0].id]);
}

fn moved(key: JobKey, due_secs: i64) -> Write {
    Write::Job(JobWrite::Requeue(Requeue {
        key,
        due_at: at(due_secs),
        counters: Counters::NEW,
        give_backs: None,
        attempt: None,
        cancel: CancelMark::None,
    }))
}

pub(super) async fn a_requeue_without_an_attempt_only_moves_the_job(store: &dyn Store) {
    let job = new_job(1, 500, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.done(vec![moved(original(&job), 5)]).await;
    assert_eq!(hot(store, &job).await.key.due_at, at(5));
    assert_eq!(attempts(store, &job).await, []);
    owner.void(vec![moved(original(&job), 6)], job.id).await;
    assert_eq!(hot(store, &job).await.key.due_at, at(5));
}

pub(super) async fn a_job_moved_back_to_its_first_time_is_still_found(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.done(vec![moved(original(&job), 5)]).await;
    owner.done(vec![moved(JobKey { due_at: at(5), id: job.id }, 10)]).await;
    assert_eq!(hot(store, &job).await.key, original(&job));
    owner.done(vec![succeed(original(&job), 1)]).await;
}

pub(super) async fn a_requeue_of_another_attempt_is_refused(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.refused(vec![Write::Job(JobWrite::Requeue(retried(original(&job), 2, at(60))))]).await;
    assert_eq!(hot(store, &job).await.key, original(&job));
}

pub(super) async fn a_move_or_an_end_of_a_waiting_job_that_is_not_there_is_void(store: &dyn Store) {
    let (there, gone) = (new_job(1, 10, 0), new_job(2, 10, 0));
    let mut owner = owner_of(store, std::slice::from_ref(&there)).await;
    owner.void(vec![moved(original(&gone), 60), moved(original(&there), 60)], gone.id).await;
    assert_eq!(store.find(gone.id).await.unwrap(), FoundRow::Absent);
    assert_eq!(hot(store, &there).await.key.due_at, at(60), "the rest applies");
    owner.void(vec![unstarted(original(&gone), JobState::Deleted)], gone.id).await;
    assert_eq!(store.find(gone.id).await.unwrap(), FoundRow::Absent);
}

pub(super) async fn an_end_of_a_waiting_job_that_has_been_tried_since_is_void(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.done(vec![Write::Job(JobWrite::Requeue(retried(original(&job), 1, at(10))))]).await;
    owner.void(vec![unstarted(original(&job), JobState::Deleted)], job.id).await;
    assert_eq!(hot(store, &job).await.counters.next_attempt, AttemptNo(2));
}

/// The end of a job that waits for its first attempt.
fn unstarted(key: JobKey, state: JobState) -> Write {
    Write::Job(JobWrite::Settle(Settle {
        key,
        state,
        finished_at: at(5),
        counters: Counters::NEW,
        attempt: None,
        reason: None,
        output: None,
        cancel: CancelMark::None,
        notice: None,
        success_of: None,
        node: None,
        member: None,
    }))
}

pub(super) async fn the_same_attempt_is_not_kept_twice(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    let stuck = Requeue { counters: Counters::NEW, ..retried(original(&job), 1, at(10)) };
    owner.done(vec![Write::Job(JobWrite::Requeue(stuck.clone()))]).await;
    owner.refused(vec![Write::Job(JobWrite::Requeue(Requeue { due_at: at(60), ..stuck }))]).await;
    assert_eq!(hot(store, &job).await.key, original(&job));
    assert_eq!(attempts(store, &job).await.len(), 1);
}

fn rerun(job: &NewJob, due_secs: i64, next: u32) -> Write {
    Write::Job(JobWrite::Rerun(Rerun { id: job.id, due_at: at(due_secs), counters: counters(next, 0, 0) }))
}

pub(super) async fn a_rerun_job_waits_again_with_all_its_attempts(store: &dyn Store) {
    let job = NewJob { input: Some(text("in")), priority: priority(5), ..new_job(1, 10, 0) };
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    let before = hot(store, &job).await;
    owner.done(vec![Write::Job(JobWrite::Requeue(retried(original(&job), 1, at(60))))]).await;
    let second = settled(JobKey { due_at: at(60), id: job.id }, 2, JobState::Failed, Ending::WorkerLost);
    owner.done(vec![Write::Job(JobWrite::Settle(second))]).await;
    assert_eq!(store.reruns(job.id).await.unwrap(), []);
    owner.done(vec![rerun(&job, 200, 3)]).await;
    let record = RerunRecord { at: at(200), from: JobState::Failed, next_attempt: AttemptNo(3) };
    assert_eq!(store.reruns(job.id).await.unwrap(), [record], "and that is on record");
    let after = JobRow { key: JobKey { due_at: at(200), id: job.id }, counters: counters(3, 0, 0), ..before };
    assert_eq!(hot(store, &job).await, after);
    assert_eq!(attempts(store, &job).await, [ran(1, Ending::Failed), due(60, ran(2, Ending::WorkerLost))]);
}

pub(super) async fn a_rerun_of_a_job_that_never_ran_has_no_attempts(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.done(vec![ended(original(&job), JobState::Cancelled, at(1))]).await;
    owner.done(vec![rerun(&job, 10, 1)]).await;
    assert_eq!(hot(store, &job).await.key, original(&job));
    assert_eq!(attempts(store, &job).await, []);
    // At the very same time, once more.
    owner.done(vec![ended(original(&job), JobState::Cancelled, at(12))]).await;
    owner.done(vec![rerun(&job, 10, 1)]).await;
    let record = RerunRecord { at: at(10), from: JobState::Cancelled, next_attempt: AttemptNo(1) };
    assert_eq!(store.reruns(job.id).await.unwrap(), [record; 2]);
    owner.done(vec![ended(original(&job), JobState::Cancelled, at(12))]).await;
    assert_eq!(store.prune(at(100), at(100), 10).await.unwrap(), 1);
    assert_eq!(store.reruns(job.id).await.unwrap(), [], "it goes with the job");
}

pub(super) async fn a_rerun_of_a_job_that_is_not_in_history_is_void(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.void(vec![rerun(&job, 200, 1)], job.id).await;
    let gone = new_job(2, 10, 0);
    owner.void(vec![rerun(&gone, 200, 1), start(original(&job), 1)], gone.id).await;
    assert_eq!(hot(store, &job).await.key, original(&job));
    assert_eq!(store.open_starts(job.id.shard()).await.unwrap().running.len(), 1, "the rest applies");
}

pub(super) async fn a_rerun_job_can_finish_again(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.done(vec![Write::Job(JobWrite::Settle(settled(original(&job), 1, JobState::Failed, Ending::Failed)))]).await;
    owner.done(vec![rerun(&job, 200, 2)]).await;
    owner.done(vec![succeed(JobKey { due_at: at(200), id: job.id }, 2)]).await;
    let (shown, _) = finished(store, &job).await;
    assert_eq!((shown.state, shown.due_at), (JobState::Succeeded, at(200)));
    assert_eq!(attempts(store, &job).await, [ran(1, Ending::Failed), due(200, ran(2, Ending::Succeeded))]);
}

fn late(job: &NewJob, n: u32, state: JobState) -> ResolveLost {
    ResolveLost {
        id: job.id,
        attempt: AttemptNo(n),
        state,
        finished_at: at(900),
        reason: None,
        output: None,
        details: None,
        notice: None,
    }
}

async fn lost(store: &dyn Store) -> (Owner<'_>, NewJob) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    let lost = Settle { output: Some(text("part")), ..settled(original(&job), 1, JobState::Lost, Ending::WorkerLost) };
    owner.done(vec![Write::Job(JobWrite::Settle(lost))]).await;
    (owner, job)
}

pub(super) async fn a_late_result_settles_a_lost_job(store: &dyn Store) {
    let (mut owner, job) = lost(store).await;
    owner
        .done(vec![Write::Job(JobWrite::ResolveLost(ResolveLost {
            output: Some(text("all")),
            ..late(&job, 1, JobState::Succeeded)
        }))])
        .await;
    let (shown, output) = finished(store, &job).await;
    assert_eq!((shown.state, shown.finished_at, shown.reason), (JobState::Succeeded, at(900), None));
    assert_eq!(output, Some(text("all")));
    let last = AttemptRecord { finished_at: at(900), ..ran(1, Ending::Succeeded) };
    assert_eq!(attempts(store, &job).await, [last]);
}

pub(super) async fn a_late_result_of_another_attempt_is_void(store: &dyn Store) {
    let (mut owner, job) = lost(store).await;
    owner.void(vec![Write::Job(JobWrite::ResolveLost(late(&job, 2, JobState::Succeeded)))], job.id).await;
    assert_eq!(finished(store, &job).await.0.state, JobState::Lost);
}

pub(super) async fn only_a_lost_job_is_settled_by_a_late_result(store: &dyn Store) {
    let (failed, waiting) = (new_job(1, 10, 0), new_job(2, 10, 0));
    let mut owner = owner_of(store, &[failed.clone(), waiting.clone()]).await;
    owner
        .done(vec![Write::Job(JobWrite::Settle(settled(original(&failed), 1, JobState::Failed, Ending::Failed)))])
        .await;
    for job in [&failed, &waiting] {
        owner.void(vec![Write::Job(JobWrite::ResolveLost(late(job, 1, JobState::Succeeded)))], job.id).await;
    }
    assert_eq!(finished(store, &failed).await.0.state, JobState::Failed);
}

pub(super) async fn what_retention_removed_is_neither_rerun_nor_resolved(store: &dyn Store) {
    let (mut owner, job) = lost(store).await;
    assert_eq!(store.prune(at(1000), at(1000), 10).await.unwrap(), 1);
    owner.void(vec![rerun(&job, 200, 2)], job.id).await;
    owner.void(vec![Write::Job(JobWrite::ResolveLost(late(&job, 1, JobState::Succeeded)))], job.id).await;
    assert_eq!(store.find(job.id).await.unwrap(), FoundRow::Absent);
}

pub(super) async fn a_late_result_cannot_make_a_job_wait(store: &dyn Store) {
    let (mut owner, job) = lost(store).await;
    for state in [JobState::Scheduled, JobState::Running, JobState::Lost, JobState::Quarantined, JobState::Deleted] {
        owner.refused(vec![Write::Job(JobWrite::ResolveLost(late(&job, 1, state)))]).await;
    }
    assert_eq!(finished(store, &job).await.0.state, JobState::Lost);
}
