use punctual_core::attempt::Ending;
use punctual_core::shard::write::Write;
use punctual_core::task::{Handler, Run, Task, TaskSpec};
use punctual_core::{JobId, JobKey, JobState};
use punctual_store::{Filter, NewJob, Order, Position, Store, TaskChange};

use crate::fixture::*;

async fn hot(store: &dyn Store, filter: Filter, order: Order) -> Vec<JobId> {
    let page = store.list_hot(filter, first_page(order, 100)).await.unwrap();
    assert_eq!(page.next, None);
    page.rows.into_iter().map(|job| job.key.id).collect()
}

async fn finished(store: &dyn Store, filter: Filter, order: Order) -> Vec<JobId> {
    let page = store.list_finished(filter, first_page(order, 100)).await.unwrap();
    assert_eq!(page.next, None);
    page.rows.into_iter().map(|job| job.id).collect()
}

fn reversed(ids: &[JobId]) -> Vec<JobId> {
    ids.iter().rev().copied().collect()
}

/// A second task: another kind, in another queue.
fn other_task() -> Task {
    let run = Run::Handler(Handler { name: "resize".to_owned() });
    Task { spec: TaskSpec { queue: "slow".to_owned(), ..TaskSpec::new(run) }, ..named_task(2, "resize") }
}

/// Twelve jobs over all shards; every third is of the other task.
async fn twelve(store: &dyn Store) -> (Owner<'_>, Vec<NewJob>) {
    assert_eq!(store.create_task(other_task()).await.unwrap(), TaskChange::Done);
    let jobs: Vec<_> = (0..12)
        .map(|n| NewJob { task: task_id(1 + u64::from(n % 3 == 0)), ..new_job(n, 10 + n as i64 / 2, (n % 4) as u16) })
        .collect();
    let owner = owner_of(store, &jobs).await;
    (owner, jobs)
}

pub(super) async fn hot_jobs_are_listed_over_all_shards_in_both_orders(store: &dyn Store) {
    let (mut owner, jobs) = twelve(store).await;
    owner.done(vec![Write::Requeue(retried(original(&jobs[0]), 1, at(900)))]).await;
    let mut expected: Vec<_> = jobs[1..].iter().map(|job| job.id).collect();
    expected.sort_unstable();
    expected.push(jobs[0].id);
    assert_eq!(hot(store, Filter::default(), Order::Ascending).await, expected);
    assert_eq!(hot(store, Filter::default(), Order::Descending).await, reversed(&expected));
}

pub(super) async fn pages_of_hot_jobs_show_every_job_once(store: &dyn Store) {
    let (_, jobs) = twelve(store).await;
    let mut expected: Vec<_> = jobs.iter().map(|job| job.id).collect();
    expected.sort_unstable();
    for (order, expected) in [(Order::Ascending, expected.clone()), (Order::Descending, reversed(&expected))] {
        for limit in [1, 4, 5, 12] {
            let mut seen = Vec::new();
            let mut after = None;
            loop {
                let page = store.list_hot(Filter::default(), Position { after, order, limit }).await.unwrap();
                assert!(page.rows.len() <= limit);
                seen.extend(page.rows.iter().map(|job| job.key.id));
                assert!(seen.len() <= 12, "{order:?} by {limit} does not end");
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(seen, expected, "{order:?} by {limit}");
        }
    }
}

fn with(change: impl FnOnce(&mut Filter)) -> Filter {
    let mut filter = Filter::default();
    change(&mut filter);
    filter
}

type Fits = fn(&NewJob) -> bool;

/// Filters that hold for waiting and for finished jobs alike.
fn filters() -> Vec<(Filter, Fits)> {
    vec![
        (with(|filter| filter.task = Some(task_id(2))), |job| job.task == task_id(2)),
        (with(|filter| filter.task = Some(task_id(77))), |_| false),
        (with(|filter| filter.kind = Some("probe".to_owned())), |job| job.task == task_id(1)),
        (with(|filter| filter.kind = Some("http".to_owned())), |_| false),
        (with(|filter| filter.queue = Some("slow".to_owned())), |job| job.task == task_id(2)),
        (with(|filter| filter.due_from = Some(at(12))), |job| job.id.due_at() >= at(12)),
        (with(|filter| filter.due_before = Some(at(12))), |job| job.id.due_at() < at(12)),
        (
            with(|filter| {
                filter.queue = Some("default".to_owned());
                filter.due_from = Some(at(11));
                filter.due_before = Some(at(14));
            }),
            |job| job.task == task_id(1) && job.id.due_at() >= at(11) && job.id.due_at() < at(14),
        ),
    ]
}

fn matching(jobs: &[NewJob], fits: Fits) -> Vec<JobId> {
    let mut ids: Vec<_> = jobs.iter().filter(|job| fits(job)).map(|job| job.id).collect();
    ids.sort_unstable();
    ids
}

pub(super) async fn hot_jobs_are_read_by_key_as_they_are_listed(store: &dyn Store) {
    let (mut owner, jobs) = twelve(store).await;
    let moved = JobKey { due_at: at(900), id: jobs[0].id };
    owner.done(vec![Write::Requeue(retried(original(&jobs[0]), 1, at(900)))]).await;
    owner.done(vec![start(original(&jobs[1]), 1), Write::RequestCancel { key: original(&jobs[1]) }]).await;
    owner.done(vec![succeed(original(&jobs[2]), 1)]).await;
    let mut listed = store.list_hot(Filter::default(), first_page(Order::Ascending, 100)).await.unwrap().rows;
    let keys: Vec<_> = listed.iter().map(|job| job.key).collect();
    assert_eq!(store.hot_jobs(keys).await.unwrap(), listed);
    listed.retain(|job| job.key == moved || job.key == original(&jobs[1]));
    listed.reverse();
    let wanted =
        vec![moved, original(&jobs[0]), original(&jobs[2]), JobKey::original(job_id(99, 10, 0)), listed[1].key];
    assert_eq!(store.hot_jobs(wanted).await.unwrap(), listed, "those that are there, in the order asked for");
}

pub(super) async fn hot_jobs_are_filtered(store: &dyn Store) {
    let (_, jobs) = twelve(store).await;
    for (filter, fits) in filters() {
        let expected = matching(&jobs, fits);
        assert_eq!(hot(store, filter.clone(), Order::Ascending).await, expected, "{filter:?}");
        assert_eq!(hot(store, filter.clone(), Order::Descending).await, reversed(&expected), "{filter:?}");
    }
    let failed = with(|filter| filter.states = vec![JobState::Failed]);
    assert_eq!(hot(store, failed, Order::Ascending).await.len(), 12, "states are of history");
}

/// The state that the case gives to job number `n`.
fn end_of(n: usize) -> (JobState, Ending) {
    match n % 4 {
        0 => (JobState::Failed, Ending::Failed),
        1 => (JobState::Lost, Ending::WorkerLost),
        _ => (JobState::Succeeded, Ending::Succeeded),
    }
}

async fn twelve_finished(store: &dyn Store) -> Vec<NewJob> {
    let (mut owner, jobs) = twelve(store).await;
    let ends = jobs.iter().enumerate().map(|(n, job)| {
        let (state, ending) = end_of(n);
        Write::Settle(settled(original(job), 1, state, ending))
    });
    owner.done(ends.rev().collect()).await;
    jobs
}

pub(super) async fn finished_jobs_are_listed_by_first_due_time_in_both_orders(store: &dyn Store) {
    let (mut owner, jobs) = twelve(store).await;
    owner.done(vec![Write::Requeue(retried(original(&jobs[0]), 1, at(900)))]).await;
    owner.done(jobs[1..].iter().map(|job| succeed(original(job), 1)).collect()).await;
    owner.done(vec![succeed(JobKey { due_at: at(900), id: jobs[0].id }, 2)]).await;
    let expected = matching(&jobs, |_| true);
    assert_eq!(finished(store, Filter::default(), Order::Ascending).await, expected);
    assert_eq!(finished(store, Filter::default(), Order::Descending).await, reversed(&expected));
    assert_eq!(hot(store, Filter::default(), Order::Ascending).await, []);
}

pub(super) async fn pages_of_finished_jobs_show_every_job_once(store: &dyn Store) {
    let jobs = twelve_finished(store).await;
    let unsuccessful = vec![JobState::Failed, JobState::Lost, JobState::Deleted];
    for (filter, count) in [
        (Filter::default(), 12),
        (with(|filter| filter.task = Some(task_id(1))), 8),
        (with(|filter| filter.states = unsuccessful), 6),
    ] {
        for order in [Order::Ascending, Order::Descending] {
            for limit in [1, 4, 12] {
                let mut seen = Vec::new();
                let mut after = None;
                loop {
                    let position = Position { after, order, limit };
                    let page = store.list_finished(filter.clone(), position).await.unwrap();
                    assert!(page.rows.len() <= limit);
                    seen.extend(page.rows.iter().map(|job| job.id));
                    assert!(seen.len() <= 12, "{filter:?} {order:?} by {limit} does not end");
                    after = page.next;
                    if after.is_none() {
                        break;
                    }
                }
                let sorted = match order {
                    Order::Ascending => seen.is_sorted(),
                    Order::Descending => reversed(&seen).is_sorted(),
                };
                assert!(sorted, "{filter:?} {order:?} by {limit}");
                seen.dedup();
                assert_eq!(seen.len(), count, "{filter:?} {order:?} by {limit}");
                assert!(seen.iter().all(|id| jobs.iter().any(|job| job.id == *id)));
            }
        }
    }
}

/// A list of all jobs is read from both tables, so a page of one may end at a row of the other.
pub(super) async fn finished_jobs_go_on_after_a_hot_job_that_was_moved(store: &dyn Store) {
    let jobs = twelve_finished(store).await;
    for first_due in [9, 11, 13, 15, 99] {
        for due in [9, 11, 13, 15, 99] {
            // Ids that sort among those of their moment: before, between and after them.
            for shard in [0, 1, 3] {
                let after = JobKey { due_at: at(due), id: job_id(5, first_due, shard) };
                for order in [Order::Ascending, Order::Descending] {
                    let comes_after = |job: &&NewJob| match order {
                        Order::Ascending => original(job) > after,
                        Order::Descending => original(job) < after,
                    };
                    let mut expected: Vec<_> = jobs.iter().filter(comes_after).map(|job| job.id).collect();
                    expected.sort_unstable();
                    if order == Order::Descending {
                        expected.reverse();
                    }
                    let position = Position { after: Some(after), order, limit: 100 };
                    let page = store.list_finished(Filter::default(), position).await.unwrap();
                    let listed: Vec<_> = page.rows.into_iter().map(|job| job.id).collect();
                    assert_eq!(listed, expected, "{order:?} after {after:?}");
                }
            }
        }
    }
}

pub(super) async fn finished_jobs_are_filtered(store: &dyn Store) {
    let jobs = twelve_finished(store).await;
    for (filter, fits) in filters() {
        for states in
            [vec![], vec![JobState::Succeeded], vec![JobState::Lost, JobState::Failed], JobState::ALL.to_vec()]
        {
            let mut expected = matching(&jobs, fits);
            let state = |id: &JobId| end_of(jobs.iter().position(|job| job.id == *id).expect("one of ours")).0;
            expected.retain(|id| states.is_empty() || states.contains(&state(id)));
            let filter = Filter { states, ..filter.clone() };
            assert_eq!(finished(store, filter.clone(), Order::Ascending).await, expected, "{filter:?}");
            assert_eq!(finished(store, filter.clone(), Order::Descending).await, reversed(&expected), "{filter:?}");
        }
    }
}

pub(super) async fn filters_follow_the_task_as_it_is_now(store: &dyn Store) {
    let (_, jobs) = twelve(store).await;
    let spec = TaskSpec { queue: "quick".to_owned(), ..other_task().spec };
    store.update_task(Task { revision: 2, spec, ..other_task() }).await.unwrap();
    let quick = with(|filter| filter.queue = Some("quick".to_owned()));
    assert_eq!(hot(store, quick, Order::Ascending).await, matching(&jobs, |job| job.task == task_id(2)));
}
