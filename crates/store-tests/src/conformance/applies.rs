use futures_util::future::join_all;
use punctual_core::attempt::Ending;
use punctual_core::shard::write::{Batch, BatchSeq, Epoch, JobWrite, Settle, SharedBatch, Void, Write};
use punctual_core::{AttemptNo, Counters, JobKey, JobState, NamespaceId, ShardId};
use punctual_store::{Applied, FinishedJob, FoundRow, JobRecord, NewJob, Store};

use crate::fixture::*;

async fn is_hot(store: &dyn Store, job: &NewJob) -> bool {
    matches!(store.find(job.id).await.unwrap(), FoundRow::Hot(_))
}

pub(super) async fn a_stale_owner_cannot_settle(store: &dyn Store) {
    let job = new_job(1, 10, 1);
    let mut stale = owner_of(store, std::slice::from_ref(&job)).await;
    stale.done(vec![start(original(&job), 1)]).await;
    let mut owner = Owner::new(store, 2).await;
    assert_eq!(stale.apply(vec![succeed(original(&job), 1)]).await.unwrap(), Applied::Fenced(vec![ShardId(1)]));
    assert!(is_hot(store, &job).await);
    owner.done(vec![succeed(original(&job), 1)]).await;
    assert!(!is_hot(store, &job).await);
}

pub(super) async fn a_stale_owner_cannot_start(store: &dyn Store) {
    let job = new_job(1, 10, 1);
    let mut stale = owner_of(store, std::slice::from_ref(&job)).await;
    Owner::new(store, 2).await;
    assert_eq!(stale.apply(vec![start(original(&job), 1)]).await.unwrap(), Applied::Fenced(vec![ShardId(1)]));
    let open = store.open_starts(ShardId(1)).await.unwrap();
    assert_eq!((open.running.len(), open.spent.len()), (0, 0));
}

pub(super) async fn a_fenced_batch_names_the_lost_shards_and_applies_nothing(store: &dyn Store) {
    let jobs: Vec<_> = (0..4).map(|shard| new_job(1, 10, shard)).collect();
    let mut stale = owner_of(store, &jobs).await;
    let ttl = punctual_core::Span::from_secs(10);
    store.take_over(server(2), vec![ShardId(1), ShardId(3)], ttl).await.unwrap();
    let writes = jobs.iter().map(|job| ended(original(job), JobState::Deleted, at(1))).collect();
    assert_eq!(stale.apply(writes).await.unwrap(), Applied::Fenced(vec![ShardId(1), ShardId(3)]));
    for job in &jobs {
        assert!(is_hot(store, job).await);
    }
    stale.done(vec![ended(original(&jobs[0]), JobState::Deleted, at(1))]).await;
}

pub(super) async fn a_shard_that_is_not_there_fences_a_batch(store: &dyn Store) {
    let batch = Batch {
        seq: BatchSeq(1),
        server: server(1),
        fences: vec![(ShardId(SHARDS), Epoch(0))],
        at: at(0),
        writes: vec![],
    };
    assert_eq!(store.apply(SharedBatch::new(batch)).await.unwrap(), Applied::Fenced(vec![ShardId(SHARDS)]));
}

pub(super) async fn a_write_without_its_fence_is_refused(store: &dyn Store) {
    let (fenced, bare) = (new_job(1, 10, 0), new_job(2, 10, 1));
    let mut owner = owner_of(store, &[fenced.clone(), bare.clone()]).await;
    let deleted = |job| ended(original(job), JobState::Deleted, at(1));
    let batch =
        Batch { fences: vec![(ShardId(0), owner.epoch(0))], ..owner.batch(vec![deleted(&fenced), deleted(&bare)]) };
    assert_inconsistent(store.apply(SharedBatch::new(batch)).await);
    assert!(is_hot(store, &fenced).await && is_hot(store, &bare).await);
}

pub(super) async fn a_batch_with_one_bad_write_applies_nothing(store: &dyn Store) {
    let jobs: Vec<_> = (0..3).map(|n| new_job(n, 10, 0)).collect();
    let mut owner = owner_of(store, &jobs).await;
    let key = |n: usize| original(&jobs[n]);
    owner
        .refused(vec![
            start(key(0), 1),
            Write::Job(JobWrite::Requeue(retried(key(1), 1, at(50)))),
            succeed(key(2), 1),
            Write::Job(JobWrite::RequestCancel { key: key(0) }),
            succeed(key(2), 1),
        ])
        .await;
    for job in &jobs {
        assert_eq!(store.load(load_all(0)).await.unwrap().rows.len(), 3);
        match store.job(job.id).await.unwrap().unwrap() {
            JobRecord::Hot { job: shown, attempts, .. } => {
                assert_eq!(shown.key, original(job));
                assert_eq!(shown.counters, Counters::NEW);
                assert!(!shown.cancel_requested && attempts.is_empty());
            }
            finished @ JobRecord::Finished { .. } => panic!("{finished:?}"),
        }
    }
    assert!(store.open_starts(ShardId(0)).await.unwrap().spent.is_empty());
}

pub(super) async fn a_job_cannot_be_settled_twice(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.done(vec![succeed(original(&job), 1)]).await;
    owner
        .refused(vec![Write::Job(JobWrite::Settle(settled(original(&job), 1, JobState::Failed, Ending::Failed)))])
        .await;
    assert!(matches!(store.find(job.id).await.unwrap(), FoundRow::Finished { state: JobState::Succeeded, .. }));
}

pub(super) async fn a_job_cannot_be_settled_under_another_key(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.refused(vec![succeed(JobKey { due_at: at(11), id: job.id }, 1)]).await;
    assert!(is_hot(store, &job).await);
}

pub(super) async fn a_job_cannot_end_in_a_state_that_is_not_final(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    for state in [JobState::Scheduled, JobState::Running] {
        owner.refused(vec![ended(original(&job), state, at(1))]).await;
    }
    assert!(is_hot(store, &job).await);
}

pub(super) async fn an_outcome_of_another_attempt_settles_nothing(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.done(vec![start(original(&job), 1)]).await;
    owner.refused(vec![succeed(original(&job), 2)]).await;
    assert!(is_hot(store, &job).await);
}

pub(super) async fn a_settled_job_is_in_history_with_all_that_is_known(store: &dyn Store) {
    let job = NewJob {
        priority: priority(7),
        tracing_id: Some("trace".to_owned()),
        input: Some(text("in")),
        ..new_job(1, 10, 3)
    };
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    let settle = Settle { output: Some(text("out")), ..settled(original(&job), 1, JobState::Failed, Ending::TimedOut) };
    owner.done(vec![start(original(&job), 1)]).await;
    owner.done(vec![Write::Job(JobWrite::Settle(settle))]).await;
    let found =
        FoundRow::Finished { state: JobState::Failed, attempt: Some(AttemptNo(1)), counters: counters(2, 1, 0) };
    assert_eq!(store.find(job.id).await.unwrap(), found);
    let shown = FinishedJob {
        namespace: NamespaceId::DEFAULT,
        id: job.id,
        task: job.task,
        priority: job.priority,
        counters: counters(2, 1, 0),
        submitted_at: job.submitted_at,
        tracing_id: job.tracing_id,
        source: None,
        state: JobState::Failed,
        finished_at: at(102),
        due_at: at(10),
        reason: Some("attempt 1 timed_out".to_owned()),
    };
    let record = JobRecord::Finished {
        job: shown,
        requester: None,
        input: Some(text("in")),
        output: Some(text("out")),
        attempts: vec![ran(1, Ending::TimedOut)],
    };
    assert_eq!(store.job(job.id).await.unwrap(), Some(record));
    assert_eq!(store.load(load_all(3)).await.unwrap().rows, []);
}

pub(super) async fn a_job_that_ended_without_an_attempt_says_why(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.done(vec![ended(original(&job), JobState::Deleted, at(1))]).await;
    match store.job(job.id).await.unwrap().unwrap() {
        JobRecord::Finished { job, attempts, .. } => {
            assert_eq!(job.state, JobState::Deleted);
            assert_eq!(job.reason.as_deref(), Some("on request"));
            assert!(attempts.is_empty());
        }
        hot @ JobRecord::Hot { .. } => panic!("{hot:?}"),
    }
    let found = store.find(job.id).await.unwrap();
    assert!(matches!(found, FoundRow::Finished { attempt: None, .. }), "{found:?}");
}

pub(super) async fn an_empty_batch_still_checks_its_fences(store: &dyn Store) {
    let mut owner = Owner::new(store, 1).await;
    let mut batch = |epoch| Batch { fences: vec![(ShardId(2), epoch)], ..owner.batch(vec![]) };
    let (current, stale) = (batch(Epoch(1)), batch(Epoch(0)));
    assert_eq!(store.apply(SharedBatch::new(current)).await.unwrap(), Applied::done(Void::default()));
    assert_eq!(store.apply(SharedBatch::new(stale)).await.unwrap(), Applied::Fenced(vec![ShardId(2)]));
}

pub(super) async fn a_refused_batch_does_not_disturb_its_neighbours(store: &dyn Store) {
    let jobs: Vec<_> = (0..60).map(|n| new_job(n, 10, 0)).collect();
    let mut owner = owner_of(store, &jobs).await;
    let absent = JobKey::original(job_id(99, 10, 0));
    let mut batches = Vec::new();
    for (n, job) in jobs.iter().enumerate() {
        let mut writes = vec![succeed(original(job), 1)];
        if n % 3 == 2 {
            writes.push(succeed(absent, 1));
        }
        batches.push(SharedBatch::new(owner.batch(writes)));
    }
    let answers = join_all(batches.into_iter().map(|batch| store.apply(batch))).await;
    for (n, (answer, job)) in answers.into_iter().zip(&jobs).enumerate() {
        assert_eq!(answer.is_ok(), n % 3 != 2);
        assert_eq!(is_hot(store, job).await, n % 3 == 2);
    }
}
