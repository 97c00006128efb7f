use punctual_core::attempt::Ending;
use punctual_core::shard::write::{StaleOutcome, Write};
use punctual_core::{AttemptNo, JobKey, JobState};
use punctual_store::{
    FoundRow, IdempotencyKey, IdempotentAnswer, LogChunk, LogPiece, NewJob, Store, Submission, Submitted,
};

use crate::fixture::*;

async fn is_there(store: &dyn Store, job: &NewJob) -> bool {
    store.find(job.id).await.unwrap() != FoundRow::Absent
}

pub(super) async fn old_finished_jobs_go_with_all_that_belongs_to_them(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    let second = JobKey { due_at: at(20), id: job.id };
    let log = LogChunk { job: job.id, attempt: AttemptNo(1), offset: 0, bytes: text("log") };
    let stale =
        StaleOutcome { id: job.id, attempt: AttemptNo(1), worker: worker(1), at: at(30), outcome: "late".to_owned() };
    owner.done(vec![Write::Requeue(retried(original(&job), 1, at(20)))]).await;
    owner.done(vec![succeed(second, 2), Write::Stale(stale)]).await;
    store.append_logs(vec![log]).await.unwrap();
    assert_eq!(store.prune(at(102), at(102), 10).await.unwrap(), 0, "it finished at that very moment");
    assert_eq!(store.prune(at(103), at(103), 10).await.unwrap(), 1);
    assert_eq!(store.job(job.id).await.unwrap(), None);
    assert_eq!(store.read_log(job.id, AttemptNo(1), 0, 100).await.unwrap(), LogPiece::default());
    // Its attempts are gone too: the same id can live the same life again.
    submit(store, vec![job.clone()]).await.unwrap();
    owner.done(vec![Write::Requeue(retried(original(&job), 1, at(20)))]).await;
    owner.done(vec![succeed(second, 2)]).await;
}

pub(super) async fn jobs_that_wait_or_finished_later_stay(store: &dyn Store) {
    let (waiting, young, old) = (new_job(1, 10, 0), new_job(2, 10, 0), new_job(3, 10, 0));
    let mut owner = owner_of(store, &[waiting.clone(), young.clone(), old.clone()]).await;
    owner.done(vec![ended(original(&young), JobState::Failed, at(500)), succeed(original(&old), 1)]).await;
    assert_eq!(store.prune(at(400), at(400), 10).await.unwrap(), 1);
    assert!(is_there(store, &waiting).await && is_there(store, &young).await);
    assert!(!is_there(store, &old).await);
}

pub(super) async fn a_job_that_ended_long_before_it_was_due_goes_too(store: &dyn Store) {
    let (early, later) = (new_job(1, 1_000_000, 0), new_job(2, 1_000_000, 0));
    let mut owner = owner_of(store, &[early.clone(), later.clone()]).await;
    owner
        .done(vec![
            ended(original(&early), JobState::Deleted, at(1)),
            ended(original(&later), JobState::Deleted, at(500)),
        ])
        .await;
    assert_eq!(store.prune(at(400), at(400), 10).await.unwrap(), 1);
    assert!(!is_there(store, &early).await);
    assert!(is_there(store, &later).await);
}

pub(super) async fn pruning_stops_at_its_limit_and_goes_on(store: &dyn Store) {
    let jobs: Vec<_> = (0..10).map(|n| new_job(n, if n < 6 { 10 } else { 90_000 }, (n % 4) as u16)).collect();
    let mut owner = owner_of(store, &jobs).await;
    let settle = |job| Write::Settle(settled(original(job), 1, JobState::Failed, Ending::Failed));
    owner.done(jobs.iter().map(settle).collect()).await;
    let mut counts = Vec::new();
    for _ in 0..4 {
        counts.push(store.prune(at(400), at(400), 4).await.unwrap());
    }
    assert_eq!(counts, [4, 4, 2, 0]);
    for job in &jobs {
        assert!(!is_there(store, job).await);
    }
}

pub(super) async fn expired_keys_go(store: &dyn Store) {
    with_task(store).await;
    let keyed = |now_secs, n| Submission {
        jobs: vec![new_job(n, 10, 0)],
        idempotency: Some(IdempotentAnswer {
            key: IdempotencyKey("k".to_owned()),
            fingerprint: [1; 32],
            answer: text("answer"),
            now: at(now_secs),
            expires_at: at(100),
        }),
    };
    store.submit(keyed(0, 1)).await.unwrap();
    store.prune(at(0), at(99), 10).await.unwrap();
    assert_eq!(store.submit(keyed(1, 2)).await.unwrap(), Submitted::Replayed { answer: text("answer") });
    // Only because the key is really gone is a request with an older clock new.
    store.prune(at(0), at(100), 10).await.unwrap();
    assert_eq!(store.submit(keyed(1, 3)).await.unwrap(), Submitted::Done);
}
