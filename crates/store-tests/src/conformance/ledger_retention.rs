use punctual_core::schedule::{ChangeKind, ScheduleChange, ScheduleEdit, ScheduleRow, Verdict};
use punctual_core::shard::write::{ScheduleWrite, Write};
use punctual_core::{ShardId, TaskId};
use punctual_store::{FoundRow, Store, TaskChange};

use crate::fixture::*;
use crate::schedule_fixture::*;

const DAY: i64 = 86_400;

pub(super) async fn old_verdicts_go_and_queued_ones_stay(store: &dyn Store) {
    let (row, gone) = (new_schedule(1, "backup", 1), new_schedule(2, "gone", 2));
    let mut owner = owner_of(store, &[]).await;
    let queued = unfired(row.id, 60, Verdict::Queued);
    let fired = fired(row.id, 120, 1);
    let last = unfired(row.id, 300, Verdict::Missed);
    owner
        .done(vec![
            add(&row),
            add(&gone),
            decide(&queued),
            decide(&fired),
            decide(&unfired(row.id, 180, Verdict::SkippedOverlap)),
            decide(&last),
            decide(&unfired(gone.id, 60, Verdict::Missed)),
            watermark(1, 300),
        ])
        .await;
    owner.done(vec![drop_it(gone.id, 61)]).await;
    assert_eq!(store.prune(at(300), at(300), 10).await.unwrap(), 0, "it counts jobs");
    assert_eq!(ledger(store, row.id).await, [queued.occurrence.clone(), last.occurrence.clone()]);
    assert_eq!(ledger(store, gone.id).await, []);
    assert!(matches!(store.find(job_of(&fired)).await.unwrap(), FoundRow::Hot(_)), "jobs are judged by their own end");
    assert_eq!(store.schedule(row.id).await.unwrap(), Some(row.clone()), "a schedule does not grow old");
    assert_eq!(store.shard_schedules(ShardId(1)).await.unwrap().watermark, at(300));
    // Once it is decided, it goes as well.
    owner.done(vec![release(&unfired(row.id, 60, Verdict::SkippedByRequest))]).await;
    store.prune(at(300), at(300), 10).await.unwrap();
    assert_eq!(ledger(store, row.id).await, [last.occurrence]);
}

pub(super) async fn old_changes_go(store: &dyn Store) {
    let (row, gone) = (new_schedule(1, "backup", 1), new_schedule(2, "gone", 2));
    let mut owner = owner_of(store, &[]).await;
    let set = |kind, secs| {
        Write::Schedule(ScheduleWrite::Set { id: row.id, state: row.state.clone(), change: Some(change(kind, secs)) })
    };
    owner.done(vec![add(&row), add(&gone)]).await;
    owner.done(vec![drop_it(gone.id, 50), set(ChangeKind::Paused, 60), set(ChangeKind::Resumed, 100)]).await;
    owner.done(vec![edit_to(&row, edit(3), 120)]).await;
    store.prune(at(100), at(100), 10).await.unwrap();
    let edited = ScheduleChange { former_spec: Some(spec(1)), ..change(ChangeKind::Edited, 120) };
    assert_eq!(store.schedule_changes(row.id, 10).await.unwrap(), [edited, change(ChangeKind::Resumed, 100)]);
    assert_eq!(store.schedule_changes(gone.id, 10).await.unwrap(), []);
    // A number that was given up is not in the way of the next.
    owner.done(vec![set(ChangeKind::Paused, 130)]).await;
    store.prune(at(130), at(130), 10).await.unwrap();
    assert_eq!(store.schedule_changes(row.id, 10).await.unwrap(), [change(ChangeKind::Paused, 130)]);
}

pub(super) async fn tasks_that_a_schedule_refers_to_stay(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    store.intern_tasks(vec![nameless_task(2), nameless_task(3)]).await.unwrap();
    assert_eq!(store.create_task(named_task(4, "named")).await.unwrap(), TaskChange::Done);
    let of = |n, task| ScheduleRow {
        edit: ScheduleEdit { task: task_id(task), ..edit(1) },
        ..new_schedule(n, &format!("schedule {n}"), 1)
    };
    let (nameless, edited, deleted) = (of(1, 2), of(2, 3), of(3, 4));
    owner.done(vec![add(&nameless), add(&edited), add(&deleted)]).await;
    assert_eq!(store.delete_task(task_id(4), None).await.unwrap(), TaskChange::Done);
    let known = async || {
        let all: Vec<TaskId> = (2..5).map(task_id).collect();
        let mut known: Vec<_> = store.tasks_by_id(all).await.unwrap().into_iter().map(|task| task.id).collect();
        known.sort_unstable();
        known
    };
    let prune = async || {
        store.prune(at(10 * DAY), at(10 * DAY), 10).await.unwrap();
    };
    prune().await;
    assert_eq!(known().await, [2, 3, 4].map(task_id));
    // A schedule that is edited needs its new task, and no longer the old one.
    owner.done(vec![edit_to(&edited, ScheduleEdit { task: task_id(2), ..edit(1) }, 20)]).await;
    owner.done(vec![drop_it(nameless.id, 21), drop_it(deleted.id, 21)]).await;
    prune().await;
    assert_eq!(known().await, [task_id(2)]);
    owner.done(vec![drop_it(edited.id, 22)]).await;
    prune().await;
    assert_eq!(known().await, []);
}

pub(super) async fn a_task_of_a_job_that_fired_stays_with_it(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    store.intern_tasks(vec![nameless_task(2)]).await.unwrap();
    let row = ScheduleRow { edit: ScheduleEdit { task: task_id(2), ..edit(1) }, ..new_schedule(1, "backup", 1) };
    let mut decision = fired(row.id, 20 * DAY, 1);
    decision.job.as_mut().unwrap().task = task_id(2);
    owner.done(vec![add(&row), decide(&decision)]).await;
    owner.done(vec![drop_it(row.id, 20 * DAY)]).await;
    // It is due much later than its task was stored, and the task is remembered to be used until then.
    store.prune(at(10 * DAY), at(10 * DAY), 10).await.unwrap();
    assert_eq!(store.tasks_by_id(vec![task_id(2)]).await.unwrap().len(), 1);
    owner.done(vec![succeed(key_of(&decision), 1)]).await;
    store.prune(at(21 * DAY), at(21 * DAY), 10).await.unwrap();
    assert_eq!(store.tasks_by_id(vec![task_id(2)]).await.unwrap().len(), 1, "it was used a day ago");
    store.prune(at(30 * DAY), at(30 * DAY), 10).await.unwrap();
    assert_eq!(store.tasks_by_id(vec![task_id(2)]).await.unwrap(), []);
}
