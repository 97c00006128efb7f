use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures_util::future::join;
use punctual_core::attempt::Ending;
use punctual_core::shard::write::{JobWrite, Rerun, Write};
use punctual_core::task::{Handler, Run, Task, TaskSpec};
use punctual_core::{JobId, JobKey, JobState};
use punctual_store::{DueWindow, Filter, JobPages, NewJob, Order, Position, Store, TaskChange};

use crate::fixture::*;

async fn hot(store: &dyn Store, filter: Filter, order: Order) -> Vec<JobId> {
    let page = hot_page(store, filter, first_page(order, 100)).await;
    assert_eq!(page.next, None);
    page.rows.into_iter().map(|job| job.key.id).collect()
}

async fn finished(store: &dyn Store, filter: Filter, order: Order) -> Vec<JobId> {
    let page = finished_page(store, filter, first_page(order, 100)).await;
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

/// Twelve jobs over all shards; every third is of the other task, and every fourth has a tracing id.
async fn twelve(store: &dyn Store) -> (Owner<'_>, Vec<NewJob>) {
    assert_eq!(store.create_task(other_task()).await.unwrap(), TaskChange::Done);
    let jobs: Vec<_> = (0..12)
        .map(|n| NewJob {
            task: task_id(1 + u64::from(n % 3 == 0)),
            tracing_id: (n % 4 == 0).then(|| "order-7".to_owned()),
            ..new_job(n, 10 + n as i64 / 2, (n % 4) as u16)
        })
        .collect();
    let owner = owner_of(store, &jobs).await;
    (owner, jobs)
}

/// Moves some of the twelve to times before, among and after those of the others.
async fn move_some(owner: &mut Owner<'_>, jobs: &[NewJob]) {
    for (n, due) in [(0, 900), (3, 11), (5, 9), (8, 12), (10, 11), (11, 10)] {
        owner.done(vec![Write::Job(JobWrite::Requeue(retried(original(&jobs[n]), 1, at(due))))]).await;
    }
}

fn sorted(jobs: &[NewJob]) -> Vec<JobId> {
    let mut ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
    ids.sort_unstable();
    ids
}

pub(super) async fn hot_jobs_are_listed_over_all_shards_by_their_first_due_time(store: &dyn Store) {
    let (mut owner, jobs) = twelve(store).await;
    move_some(&mut owner, &jobs).await;
    let expected = sorted(&jobs);
    assert_eq!(hot(store, Filter::default(), Order::Ascending).await, expected);
    assert_eq!(hot(store, Filter::default(), Order::Descending).await, reversed(&expected));
}

pub(super) async fn pages_of_hot_jobs_show_every_job_once(store: &dyn Store) {
    let (mut owner, jobs) = twelve(store).await;
    let expected = sorted(&jobs);
    for round in 0..2 {
        for (order, expected) in [(Order::Ascending, expected.clone()), (Order::Descending, reversed(&expected))] {
            for limit in [1, 2, 4, 5, 12] {
                let mut seen = Vec::new();
                let mut after = None;
                loop {
                    let page = hot_page(store, Filter::default(), Position { after, order, limit }).await;
                    assert!(page.rows.len() <= limit);
                    seen.extend(page.rows.iter().map(|job| job.key.id));
                    assert!(seen.len() <= 12, "{order:?} by {limit} does not end");
                    after = page.next;
                    if after.is_none() {
                        break;
                    }
                }
                assert_eq!(seen, expected, "{order:?} by {limit}, round {round}");
            }
        }
        if round == 0 {
            move_some(&mut owner, &jobs).await;
        }
    }
}

/// A page may begin anywhere: at a job that is gone, or between two.
pub(super) async fn a_page_begins_after_any_id(store: &dyn Store) {
    let (mut owner, jobs) = twelve(store).await;
    move_some(&mut owner, &jobs).await;
    owner.done((0..12).filter(|n| [1, 2, 6].contains(n)).map(|n| succeed(original(&jobs[n]), 1)).collect()).await;
    for due in [9, 10, 11, 12, 13, 15, 99] {
        // Ids that sort among those of their moment: before, between and after them.
        for shard in [0, 1, 3] {
            let after = job_id(5, due, shard);
            for order in [Order::Ascending, Order::Descending] {
                let comes_after = |id: &JobId| match order {
                    Order::Ascending => *id > after,
                    Order::Descending => *id < after,
                };
                let mut expected = sorted(&jobs);
                expected.retain(comes_after);
                if order == Order::Descending {
                    expected.reverse();
                }
                let position = Position { after: Some(after), order, limit: 100 };
                let pages = store.list_jobs(Filter::default(), position).await.unwrap();
                let mut listed: Vec<_> = pages.hot.rows.iter().map(|job| job.key.id).collect();
                listed.extend(pages.finished.rows.iter().map(|job| job.id));
                listed.sort_unstable();
                if order == Order::Descending {
                    listed.reverse();
                }
                assert_eq!(listed, expected, "{order:?} after {after:?}");
            }
        }
    }
}

pub(super) async fn due_jobs_are_listed_by_when_they_are_due_now(store: &dyn Store) {
    let (mut owner, jobs) = twelve(store).await;
    move_some(&mut owner, &jobs).await;
    let everything = DueWindow { namespace: None, from: at(0), before: at(1000), after: None };
    let all = store.list_due(everything, 100).await.unwrap();
    assert_eq!(all.next, None);
    let keys: Vec<_> = all.rows.iter().map(|job| job.key).collect();
    assert!(keys.is_sorted() && keys.len() == 12, "{keys:?}");
    assert_eq!(keys.last(), Some(&JobKey { due_at: at(900), id: jobs[0].id }));
    for (window, limit) in [
        (everything, 1),
        (everything, 5),
        (DueWindow { from: at(11), before: at(12), ..everything }, 2),
        (DueWindow { from: at(12), before: at(12), ..everything }, 2),
    ] {
        let mut expected = keys.clone();
        expected.retain(|key| key.due_at >= window.from && key.due_at < window.before);
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let page = store.list_due(DueWindow { after, ..window }, limit).await.unwrap();
            seen.extend(page.rows.iter().map(|job| job.key));
            assert!(page.rows.len() <= limit && seen.len() <= 12, "{window:?} by {limit} does not end");
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, expected, "{window:?} by {limit}");
    }
}

/// Jobs end, wait again and are made eligible again all the while. Their ids stay.
pub(super) async fn a_walk_meets_every_job_once_while_jobs_move(store: &dyn Store) {
    let jobs: Vec<_> = (0..40).map(|n| new_job(n, 10 + n as i64, (n % 4) as u16)).collect();
    let mut owner = owner_of(store, &jobs).await;
    let expected = sorted(&jobs);
    let is_over = AtomicBool::new(false);
    let churn = async {
        let mut keys: Vec<_> = jobs.iter().map(original).collect();
        for n in (1..).step_by(2) {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            // Half of them end and are made eligible again, the others are tried again; each time at other times.
            let due = |place: usize| at(5 + ((7 * place as i64 + 13 * i64::from(n)) % 60));
            let ends = |place: &usize| (place + n as usize / 2).is_multiple_of(2);
            let (ending, trying): (Vec<usize>, Vec<usize>) = (0..keys.len()).partition(ends);
            owner.done(ending.iter().map(|place| succeed(keys[*place], n)).collect()).await;
            let again = trying.iter().map(|&place| Write::Job(JobWrite::Requeue(retried(keys[place], n, due(place)))));
            owner.done(again.collect()).await;
            let again = ending.iter().map(|&place| {
                Write::Job(JobWrite::Rerun(Rerun {
                    id: keys[place].id,
                    due_at: due(place),
                    counters: counters(n + 1, 0, 0),
                }))
            });
            owner.done(again.collect()).await;
            for (place, key) in keys.iter_mut().enumerate() {
                key.due_at = due(place);
            }
            let again =
                (0..keys.len()).map(|place| Write::Job(JobWrite::Requeue(retried(keys[place], n + 1, due(place + 1)))));
            owner.done(again.collect()).await;
            for (place, key) in keys.iter_mut().enumerate() {
                key.due_at = due(place + 1);
            }
            others_go_on().await;
        }
    };
    let walks = async {
        for walk in 0..60 {
            let order = if walk % 2 == 0 { Order::Ascending } else { Order::Descending };
            let limit = 1 + walk % 9;
            let mut seen = Vec::new();
            let mut after = None;
            loop {
                others_go_on().await;
                let position = Position { after, order, limit };
                let JobPages { hot, finished } = store.list_jobs(Filter::default(), position).await.unwrap();
                let mut page: Vec<_> = hot.rows.iter().map(|job| job.key.id).collect();
                page.extend(finished.rows.iter().map(|job| job.id));
                // Neither table was read beyond its end.
                let comes_first =
                    |one: JobId, other: JobId| if order == Order::Ascending { one.min(other) } else { one.max(other) };
                after = hot.next.into_iter().chain(finished.next).reduce(comes_first);
                page.retain(|id| after.is_none_or(|end| comes_first(*id, end) == *id));
                page.sort_unstable();
                if order == Order::Descending {
                    page.reverse();
                }
                seen.extend(page);
                if after.is_none() {
                    break;
                }
            }
            if order == Order::Descending {
                seen.reverse();
            }
            assert_eq!(seen, expected, "walk {walk}, {order:?} by {limit}");
        }
        is_over.store(true, Ordering::Relaxed);
    };
    join(churn, walks).await;
}

/// Lets those go on that are polled in turn.
async fn others_go_on() {
    let mut is_polled = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut is_polled, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
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
        (with(|filter| filter.tracing_id = Some("order-7".to_owned())), |job| job.tracing_id.is_some()),
        (with(|filter| filter.tracing_id = Some("order".to_owned())), |_| false),
        (
            with(|filter| {
                filter.tracing_id = Some("order-7".to_owned());
                filter.task = Some(task_id(2));
                filter.scheduled_before = Some(at(16));
            }),
            |job| job.tracing_id.is_some() && job.task == task_id(2) && job.id.due_at() < at(16),
        ),
        (with(|filter| filter.scheduled_from = Some(at(12))), |job| job.id.due_at() >= at(12)),
        (with(|filter| filter.scheduled_before = Some(at(12))), |job| job.id.due_at() < at(12)),
        (
            with(|filter| {
                filter.queue = Some("default".to_owned());
                filter.scheduled_from = Some(at(11));
                filter.scheduled_before = Some(at(14));
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
    owner.done(vec![Write::Job(JobWrite::Requeue(retried(original(&jobs[0]), 1, at(900))))]).await;
    owner
        .done(vec![start(original(&jobs[1]), 1), Write::Job(JobWrite::RequestCancel { key: original(&jobs[1]) })])
        .await;
    owner.done(vec![succeed(original(&jobs[2]), 1)]).await;
    let mut listed = hot_page(store, Filter::default(), first_page(Order::Ascending, 100)).await.rows;
    let keys: Vec<_> = listed.iter().map(|job| job.key).collect();
    assert_eq!(store.hot_jobs(keys).await.unwrap(), listed);
    listed.retain(|job| job.key == moved || job.key == original(&jobs[1]));
    let wanted =
        vec![moved, original(&jobs[0]), original(&jobs[2]), JobKey::original(job_id(99, 10, 0)), listed[1].key];
    assert_eq!(store.hot_jobs(wanted).await.unwrap(), listed, "those that are there, in the order asked for");
}

pub(super) async fn hot_jobs_are_filtered(store: &dyn Store) {
    let (mut owner, jobs) = twelve(store).await;
    move_some(&mut owner, &jobs).await;
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
        Write::Job(JobWrite::Settle(settled(original(job), 1, state, ending)))
    });
    owner.done(ends.rev().collect()).await;
    jobs
}

pub(super) async fn finished_jobs_are_listed_by_first_due_time_in_both_orders(store: &dyn Store) {
    let (mut owner, jobs) = twelve(store).await;
    owner.done(vec![Write::Job(JobWrite::Requeue(retried(original(&jobs[0]), 1, at(900))))]).await;
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
                    let page = finished_page(store, filter.clone(), position).await;
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

pub(super) async fn finished_jobs_are_read_by_id_as_they_are_listed(store: &dyn Store) {
    let (mut owner, jobs) = twelve(store).await;
    owner.done(vec![Write::Job(JobWrite::Requeue(retried(original(&jobs[0]), 1, at(900))))]).await;
    owner.done(vec![succeed(JobKey { due_at: at(900), id: jobs[0].id }, 2), succeed(original(&jobs[4]), 1)]).await;
    let listed = finished_page(store, Filter::default(), first_page(Order::Ascending, 100)).await.rows;
    let mut read = store.finished_jobs(vec![jobs[4].id, jobs[1].id, jobs[0].id, job_id(99, 10, 0)]).await.unwrap();
    read.sort_by_key(|job| job.id);
    assert_eq!(read, listed);
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
