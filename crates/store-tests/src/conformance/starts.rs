use punctual_core::shard::write::{BatchSeq, JobWrite};
use punctual_core::shard::write::{CancelMark, OpenStart, StartsId, Write};
use punctual_core::{JobKey, ShardId};
use punctual_store::{Applied, FoundRow, OpenStarts, Store};

use crate::fixture::*;

async fn open(store: &dyn Store) -> OpenStarts {
    store.open_starts(ShardId(0)).await.unwrap()
}

fn running(open: &OpenStarts) -> Vec<(JobKey, u32)> {
    open.running.iter().map(|(found, _)| (found.start.key, found.start.attempt.0)).collect()
}

fn name(owner: &Owner<'_>, seq: u64) -> StartsId {
    StartsId { shard: ShardId(0), epoch: owner.epoch(0), seq: BatchSeq(seq) }
}

pub(super) async fn a_start_leaves_the_row_as_it_is(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    let before = store.load(load_all(0)).await.unwrap().rows;
    owner.done(vec![start(original(&job), 1)]).await;
    assert_eq!(store.load(load_all(0)).await.unwrap().rows, before);
    assert_eq!(before.len(), 1);
}

pub(super) async fn a_start_without_its_row_is_void_and_the_rest_applies(store: &dyn Store) {
    let (there, gone, moved) = (new_job(1, 10, 0), new_job(2, 10, 0), new_job(3, 10, 0));
    let mut owner = owner_of(store, &[there.clone(), moved.clone()]).await;
    let elsewhere = JobKey { due_at: at(11), id: moved.id };
    let applied =
        owner.apply(vec![start(original(&gone), 1), start(original(&there), 1), start(elsewhere, 1)]).await.unwrap();
    assert_eq!(applied, Applied::done(vec![gone.id, moved.id].into()));
    assert_eq!(running(&open(store).await), [(original(&there), 1)]);
}

pub(super) async fn a_start_under_another_attempt_number_is_void(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    let applied = owner.apply(vec![start(original(&job), 2)]).await.unwrap();
    assert_eq!(applied, Applied::done(vec![job.id].into()));
}

pub(super) async fn a_batch_of_void_starts_leaves_no_record(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = Owner::new(store, 1).await;
    owner.apply(vec![start(original(&job), 1)]).await.unwrap();
    assert_eq!(open(store).await, OpenStarts::default());
}

pub(super) async fn an_open_start_is_seen_by_the_next_owner(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut first = owner_of(store, std::slice::from_ref(&job)).await;
    first.done(vec![start(original(&job), 1)]).await;
    Owner::new(store, 2).await;
    let FoundRow::Hot(row) = store.find(job.id).await.unwrap() else { panic!("the job is gone") };
    let found = OpenStart {
        starts: name(&first, 1),
        start: plain_start(original(&job), 1),
        server: server(1),
        cancel: CancelMark::None,
    };
    assert_eq!(open(store).await, OpenStarts { running: vec![(found, row)], spent: vec![], ..OpenStarts::default() });
}

pub(super) async fn a_start_is_over_when_its_job_is_settled(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.done(vec![start(original(&job), 1)]).await;
    owner.done(vec![succeed(original(&job), 1)]).await;
    assert_eq!(
        open(store).await,
        OpenStarts { running: vec![], spent: vec![name(&owner, 1)], ..OpenStarts::default() }
    );
}

pub(super) async fn a_start_is_over_when_its_job_waits_again(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.done(vec![start(original(&job), 1)]).await;
    owner.done(vec![Write::Job(JobWrite::Requeue(retried(original(&job), 1, at(60))))]).await;
    assert_eq!(
        open(store).await,
        OpenStarts { running: vec![], spent: vec![name(&owner, 1)], ..OpenStarts::default() }
    );
}

pub(super) async fn a_start_is_over_when_its_job_waits_again_at_the_same_time(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.done(vec![start(original(&job), 1)]).await;
    owner.done(vec![Write::Job(JobWrite::Requeue(retried(original(&job), 1, at(10))))]).await;
    assert_eq!(
        open(store).await,
        OpenStarts { running: vec![], spent: vec![name(&owner, 1)], ..OpenStarts::default() }
    );
}

pub(super) async fn a_record_is_spent_only_when_all_its_jobs_have_ended(store: &dyn Store) {
    let jobs: Vec<_> = (0..3).map(|n| new_job(n, 10, 0)).collect();
    let mut owner = owner_of(store, &jobs).await;
    owner.done(jobs.iter().map(|job| start(original(job), 1)).collect()).await;
    owner.done(vec![succeed(original(&jobs[0]), 1), succeed(original(&jobs[2]), 1)]).await;
    let found = open(store).await;
    assert_eq!((running(&found), found.spent), (vec![(original(&jobs[1]), 1)], vec![]));
    owner.done(vec![succeed(original(&jobs[1]), 1)]).await;
    assert_eq!(open(store).await.spent, [name(&owner, 1)]);
}

pub(super) async fn a_second_attempt_is_open_in_its_own_record(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.done(vec![start(original(&job), 1)]).await;
    owner.done(vec![Write::Job(JobWrite::Requeue(retried(original(&job), 1, at(10))))]).await;
    owner.done(vec![start(original(&job), 2)]).await;
    let found = open(store).await;
    assert_eq!(running(&found), [(original(&job), 2)]);
    assert_eq!(found.running[0].0.starts, name(&owner, 3));
    assert_eq!(found.spent, [name(&owner, 1)]);
}

pub(super) async fn starts_of_two_shards_are_two_records(store: &dyn Store) {
    let (one, two) = (new_job(1, 10, 0), new_job(2, 10, 3));
    let mut owner = owner_of(store, &[one.clone(), two.clone()]).await;
    owner.done(vec![start(original(&one), 1), start(original(&two), 1)]).await;
    for job in [one, two] {
        let found = store.open_starts(job.id.shard()).await.unwrap();
        assert_eq!(running(&found), [(original(&job), 1)]);
        assert_eq!(found.running[0].0.starts.shard, job.id.shard());
    }
    assert_eq!(store.open_starts(ShardId(1)).await.unwrap(), OpenStarts::default());
}

pub(super) async fn a_closed_record_is_gone_and_closing_it_again_is_harmless(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut first = owner_of(store, std::slice::from_ref(&job)).await;
    first.done(vec![start(original(&job), 1)]).await;
    first.done(vec![succeed(original(&job), 1)]).await;
    // A later owner closes what an earlier one left, under its own fence.
    let mut next = Owner::new(store, 2).await;
    let record = Write::Job(JobWrite::CloseStarts(name(&first, 1)));
    next.done(vec![record.clone()]).await;
    assert_eq!(open(store).await, OpenStarts::default());
    next.done(vec![record]).await;
}

pub(super) async fn a_record_of_starts_is_written_once(store: &dyn Store) {
    let (one, two) = (new_job(1, 10, 0), new_job(2, 10, 0));
    let mut owner = owner_of(store, &[one.clone(), two.clone()]).await;
    let first = owner.batch(vec![start(original(&one), 1)]);
    let mut second = first.clone();
    second.writes = vec![succeed(original(&two), 1), start(original(&one), 1)];
    store.apply(first.into()).await.unwrap();
    assert_inconsistent(store.apply(second.into()).await);
    assert!(matches!(store.find(two.id).await.unwrap(), FoundRow::Hot(_)));
}
