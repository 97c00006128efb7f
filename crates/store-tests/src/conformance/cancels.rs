use punctual_core::attempt::Ending;
use punctual_core::shard::write::{CancelMark, JobWrite, Requeue, Rerun, Settle, StaleOutcome, Write};
use punctual_core::{AttemptNo, JobKey, JobState, ShardId};
use punctual_store::{JobRecord, NewJob, Store};

use crate::fixture::*;

async fn asked(store: &dyn Store, job: &NewJob) -> bool {
    match store.job(job.id).await.unwrap().unwrap() {
        JobRecord::Hot { job, .. } => job.cancel_requested,
        finished @ JobRecord::Finished { .. } => panic!("{finished:?}"),
    }
}

async fn running_and_asked(store: &dyn Store) -> (Owner<'_>, NewJob) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.done(vec![start(original(&job), 1)]).await;
    assert!(!asked(store, &job).await);
    owner.done(vec![Write::Job(JobWrite::RequestCancel { key: original(&job) })]).await;
    (owner, job)
}

pub(super) async fn a_cancel_request_is_seen_by_people_and_the_next_owner(store: &dyn Store) {
    let (_, job) = running_and_asked(store).await;
    assert!(asked(store, &job).await);
    let listed = hot_page(store, Default::default(), first_page(Default::default(), 9)).await;
    assert!(listed.rows[0].cancel_requested);
    let open = store.open_starts(ShardId(0)).await.unwrap();
    assert_eq!(open.running[0].0.cancel, CancelMark::Recorded);
}

pub(super) async fn a_cancel_request_goes_with_the_settled_job(store: &dyn Store) {
    let (mut owner, job) = running_and_asked(store).await;
    let ended = settled(original(&job), 1, JobState::Cancelled, Ending::Cancelled);
    owner.done(vec![Write::Job(JobWrite::Settle(Settle { cancel: CancelMark::Recorded, ..ended }))]).await;
    owner
        .done(vec![Write::Job(JobWrite::Rerun(Rerun { id: job.id, due_at: at(10), counters: counters(2, 0, 0) }))])
        .await;
    assert!(!asked(store, &job).await);
}

pub(super) async fn a_cancel_request_goes_with_a_requeue_that_says_so(store: &dyn Store) {
    let (mut owner, job) = running_and_asked(store).await;
    owner.done(vec![Write::Job(JobWrite::Requeue(retried(original(&job), 1, at(20))))]).await;
    assert!(asked(store, &job).await);
    let again = retried(JobKey { due_at: at(20), id: job.id }, 2, at(30));
    owner.done(vec![Write::Job(JobWrite::Requeue(Requeue { cancel: CancelMark::Recorded, ..again }))]).await;
    assert!(!asked(store, &job).await);
}

pub(super) async fn asking_twice_to_cancel_is_asking_once(store: &dyn Store) {
    let (mut owner, job) = running_and_asked(store).await;
    owner.done(vec![Write::Job(JobWrite::RequestCancel { key: original(&job) })]).await;
    assert!(asked(store, &job).await);
}

pub(super) async fn a_job_that_is_not_there_cannot_be_asked_to_end(store: &dyn Store) {
    let (mut owner, job) = running_and_asked(store).await;
    owner.refused(vec![Write::Job(JobWrite::RequestCancel { key: JobKey { due_at: at(11), id: job.id } })]).await;
    owner.refused(vec![Write::Job(JobWrite::RequestCancel { key: JobKey::original(job_id(2, 10, 0)) })]).await;
}

pub(super) async fn a_late_outcome_is_kept_and_changes_nothing(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.done(vec![succeed(original(&job), 1)]).await;
    let before = store.job(job.id).await.unwrap();
    let stale = StaleOutcome {
        id: job.id,
        attempt: AttemptNo(1),
        worker: worker(2),
        at: at(300),
        outcome: "failed: too late".to_owned(),
    };
    // Workers repeat what was not acknowledged.
    owner.done(vec![Write::Job(JobWrite::Stale(stale.clone())), Write::Job(JobWrite::Stale(stale))]).await;
    assert_eq!(store.job(job.id).await.unwrap(), before);
}
