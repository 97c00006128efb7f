use bytes::Bytes;
use punctual_core::job::Input;
use punctual_core::shard::event::{Load, Sweep};
use punctual_core::shard::write::{JobWrite, Rerun, Write};
use punctual_core::{JobId, JobKey};
use punctual_store::{FoundRow, JobRecord, NewJob, Store, TaskChange};

use crate::fixture::*;

async fn ids(store: &dyn Store, load: Load) -> Vec<JobId> {
    store.load(load).await.unwrap().rows.into_iter().map(|row| row.key.id).collect()
}

pub(super) async fn a_load_is_in_order_of_due_time_and_ends_at_its_limit_of_time(store: &dyn Store) {
    with_task(store).await;
    let jobs = [new_job(5, 30, 0), new_job(9, 10, 0), new_job(1, 20, 0), new_job(2, 20, 0), new_job(0, 31, 0)];
    submit(store, jobs.to_vec()).await.unwrap();
    let load = Load { until: at(30), ..load_all(0) };
    assert_eq!(ids(store, load.clone()).await, [jobs[1].id, jobs[2].id, jobs[3].id, jobs[0].id]);
    assert_eq!(ids(store, Load { limit: 2, ..load.clone() }).await, [jobs[1].id, jobs[2].id]);
    assert_eq!(ids(store, Load { until: at(9), ..load.clone() }).await, []);
}

pub(super) async fn loads_that_go_on_after_a_key_see_every_row_once(store: &dyn Store) {
    with_task(store).await;
    // Many at one moment: the cursor must tell them apart by id.
    let jobs: Vec<_> = (0..50).map(|n| new_job(n * 7919 % 50, 10 + (n as i64 / 20), 0)).collect();
    let mut expected: Vec<_> = jobs.iter().map(|job| job.id).collect();
    expected.sort_unstable();
    submit(store, jobs).await.unwrap();
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = store.load(Load { after, limit: 7, ..load_all(0) }).await.unwrap();
        seen.extend(page.rows.iter().map(|row| row.key.id));
        assert!(seen.len() <= 50, "the cursor does not move");
        match page.stopped_at {
            Some(last) => after = Some(last),
            None => break,
        }
    }
    assert_eq!(seen, expected);
}

pub(super) async fn a_load_shows_one_shard(store: &dyn Store) {
    with_task(store).await;
    let jobs: Vec<_> = (0..SHARDS).map(|shard| new_job(1, 10, shard)).collect();
    submit(store, jobs.clone()).await.unwrap();
    for job in jobs {
        assert_eq!(ids(store, load_all(job.id.shard().0)).await, [job.id]);
    }
}

pub(super) async fn the_urgent_lane_shows_only_what_is_above_normal(store: &dyn Store) {
    with_task(store).await;
    let of = |n, due, value| NewJob { priority: priority(value), ..new_job(n, due, 0) };
    let jobs = [of(1, 10, 0), of(2, 11, 1), of(3, 12, -1), of(4, 9, 100), of(5, 40, 5)];
    submit(store, jobs.to_vec()).await.unwrap();
    let load = Load { sweep: Sweep::Urgent, until: at(30), ..load_all(0) };
    assert_eq!(ids(store, load.clone()).await, [jobs[3].id, jobs[1].id]);
    assert_eq!(ids(store, Load { after: Some(original(&jobs[3])), ..load.clone() }).await, [jobs[1].id]);
    // A retry keeps its priority, and a job that came back from history too.
    let mut owner = Owner::new(store, 1).await;
    owner
        .done(vec![
            Write::Job(JobWrite::Requeue(retried(original(&jobs[1]), 1, at(5)))),
            succeed(original(&jobs[3]), 1),
        ])
        .await;
    assert_eq!(ids(store, load.clone()).await, [jobs[1].id]);
    owner
        .done(vec![Write::Job(JobWrite::Rerun(Rerun { id: jobs[3].id, due_at: at(20), counters: counters(2, 0, 0) }))])
        .await;
    assert_eq!(ids(store, load.clone()).await, [jobs[1].id, jobs[3].id]);
}

pub(super) async fn the_floor_lane_shows_everything(store: &dyn Store) {
    with_task(store).await;
    let jobs = [new_job(1, 10, 0), NewJob { priority: priority(9), ..new_job(2, 11, 0) }];
    submit(store, jobs.to_vec()).await.unwrap();
    assert_eq!(ids(store, Load { sweep: Sweep::Floor, ..load_all(0) }).await, [jobs[0].id, jobs[1].id]);
}

pub(super) async fn a_load_passes_the_jobs_of_tasks_that_it_is_told_to_skip(store: &dyn Store) {
    with_task(store).await;
    assert_eq!(store.create_task(named_task(2, "other")).await.unwrap(), TaskChange::Done);
    let of = |n: u64, task| NewJob { task: task_id(task), ..new_job(n, n as i64, 0) };
    let jobs: Vec<NewJob> = (1..=45).map(|n| of(n, if n % 30 == 0 { 2 } else { 1 })).collect();
    submit(store, jobs.clone()).await.unwrap();
    let load = |after: Option<&NewJob>, limit| Load {
        after: after.map(original),
        limit,
        skip: vec![task_id(1), task_id(9)],
        ..load_all(0)
    };
    let seen = async |load: Load| {
        let page = store.load(load).await.unwrap();
        let rows: Vec<JobId> = page.rows.iter().map(|row| row.key.id).collect();
        (rows, page.stopped_at.map(|key| key.id))
    };
    assert_eq!(seen(load(None, 2)).await, (vec![jobs[29].id], Some(jobs[39].id)), "it looks at 40 rows");
    assert_eq!(seen(load(Some(&jobs[39]), 2)).await, (vec![], None));
    assert_eq!(seen(load(None, 1)).await, (vec![], Some(jobs[19].id)));
    assert_eq!(seen(load(Some(&jobs[19]), 1)).await, (vec![jobs[29].id], Some(jobs[29].id)), "one is enough");
    assert_eq!(seen(load(None, 3)).await, (vec![jobs[29].id], None));
}

fn long_input(len: usize) -> Option<Bytes> {
    Some((0..len).map(|n| n as u8).collect())
}

pub(super) async fn long_inputs_stay_in_the_store(store: &dyn Store) {
    with_task(store).await;
    let lens = [0, Input::INLINE_MAX, Input::INLINE_MAX + 1, 300_000];
    let jobs: Vec<_> =
        lens.iter().zip(1..).map(|(&len, n)| NewJob { input: long_input(len), ..new_job(n, n as i64, 0) }).collect();
    submit(store, jobs.clone()).await.unwrap();
    let rows = store.load(load_all(0)).await.unwrap().rows;
    let inputs: Vec<_> = rows.iter().map(|row| row.input.clone()).collect();
    assert_eq!(inputs[0], Input::Inline(Bytes::new()), "an empty input is not none");
    assert_eq!(inputs[1], Input::Inline(jobs[1].input.clone().unwrap()));
    assert_eq!(inputs[2], Input::Stored { len: Input::INLINE_MAX as u32 + 1 });
    assert_eq!(inputs[3], Input::Stored { len: 300_000 });
    match store.job(jobs[3].id).await.unwrap().unwrap() {
        JobRecord::Hot { input, .. } => assert_eq!(input, jobs[3].input),
        finished @ JobRecord::Finished { .. } => panic!("{finished:?}"),
    }
}

pub(super) async fn inputs_come_in_the_order_asked_for(store: &dyn Store) {
    with_task(store).await;
    let with = NewJob { input: Some(text("in")), ..new_job(1, 10, 0) };
    let without = new_job(2, 10, 1);
    let absent = new_job(3, 10, 1);
    submit(store, vec![with.clone(), without.clone()]).await.unwrap();
    let keys = vec![original(&absent), original(&with), original(&without), original(&with)];
    assert_eq!(store.inputs(keys).await.unwrap(), [None, Some(text("in")), None, Some(text("in"))]);
}

pub(super) async fn a_moved_job_keeps_its_long_input_to_the_end(store: &dyn Store) {
    let job = NewJob { input: long_input(50_000), ..new_job(1, 10, 0) };
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    owner.done(vec![Write::Job(JobWrite::Requeue(retried(original(&job), 1, at(60))))]).await;
    let key = JobKey { due_at: at(60), id: job.id };
    assert_eq!(store.inputs(vec![original(&job), key]).await.unwrap(), [None, job.input.clone()]);
    owner.done(vec![succeed(key, 2)]).await;
    owner
        .done(vec![Write::Job(JobWrite::Rerun(Rerun { id: job.id, due_at: at(70), counters: counters(3, 0, 0) }))])
        .await;
    owner.done(vec![succeed(JobKey { due_at: at(70), id: job.id }, 3)]).await;
    match store.job(job.id).await.unwrap().unwrap() {
        JobRecord::Finished { input, .. } => assert_eq!(input, job.input),
        hot @ JobRecord::Hot { .. } => panic!("{hot:?}"),
    }
}

pub(super) async fn a_job_nobody_knows_is_absent(store: &dyn Store) {
    let id = job_id(1, 10, 0);
    assert_eq!(store.find(id).await.unwrap(), FoundRow::Absent);
    assert_eq!(store.job(id).await.unwrap(), None);
}
