use futures_util::future::join_all;
use punctual_core::{JobState, NamespaceId, ShardId};
use punctual_store::{
    BACKFILLS_MAX, BackfillProgress, BackfillRow, BackfillState, BackfillStep, Backfilled, FoundRow, JobRecord, NewJob,
    Stepped, Store,
};

use crate::fixture::*;
use crate::report_fixture::*;
use crate::schedule_fixture::*;

const DAY: i64 = 86_400;

async fn stepped(store: &dyn Store, step: BackfillStep) {
    assert_eq!(store.step_backfill(step).await.unwrap(), Stepped::Done);
}

/// All that can be known of one.
fn far() -> BackfillProgress {
    BackfillProgress {
        state: BackfillState::Aborted,
        reached: Some(at(500)),
        total: u32::MAX,
        made: 1,
        passed_over: 2,
        succeeded: 3,
        failed: 4,
        cancelled: 5,
        ended: Some(by("bob", 600)),
        note: Some("\"enough\"".to_owned()),
    }
}

pub(super) async fn a_backfill_reads_back_as_it_was_added(store: &dyn Store) {
    let row = with_backfill(store, 1).await;
    assert_eq!(store.backfill(row.id).await.unwrap(), Some(row.clone()));
    assert_eq!(store.backfill(backfill_id(2)).await.unwrap(), None);
    let other = BackfillRow {
        schedule: schedule_id(2, 3),
        schedule_name: "ü".to_owned(),
        version: 7,
        progress: far(),
        ..new_backfill(2)
    };
    assert!(store.add_backfill(other.clone()).await.unwrap());
    assert_eq!(store.backfill(other.id).await.unwrap(), Some(other));
    assert_inconsistent(store.add_backfill(BackfillRow { spec: "other".to_owned(), ..row.clone() }).await);
    assert_eq!(store.backfill(row.id).await.unwrap(), Some(row), "the first one stays");
}

pub(super) async fn a_step_makes_its_jobs_and_says_how_far_it_came(store: &dyn Store) {
    let mut owner = owner_of(store, &[]).await;
    let row = with_backfill(store, 1).await;
    let progress = BackfillProgress { reached: Some(at(20)), made: 2, ..RUNNING };
    let mut first = BackfillStep { progress: progress.clone(), ..step_making(1, 0, &[10, 20]) };
    first.made[0].1.input = Some(text("in"));
    first.made[0].1.priority = priority(3);
    stepped(store, first.clone()).await;
    assert_eq!(store.backfill(row.id).await.unwrap(), Some(BackfillRow { version: 1, progress, ..row.clone() }));
    assert_eq!(store.open_runs(row.id, 10).await.unwrap(), [run_of(10, None), run_of(20, None)]);
    for (_, job) in &first.made {
        let Some(JobRecord::Hot { job: shown, input, .. }) = store.job(job.id).await.unwrap() else {
            panic!("it waits")
        };
        assert_eq!((shown.key, shown.task, shown.source), (original(job), job.task, job.source));
        assert_eq!((shown.priority, input), (job.priority, job.input.clone()));
        owner.done(vec![start(original(job), 1)]).await;
    }
    assert_eq!(store.shard_schedules(ShardId(1)).await.unwrap().tracked, [], "the schedule does not wait for them");
    assert_eq!(store.load(load_all(1)).await.unwrap().rows.len(), 2);
    owner.done(vec![succeed(original(&first.made[0].1), 1)]).await;
    // The next one goes on, and tells what ended; the last one ends it.
    let ended = vec![(at(10), JobState::Succeeded)];
    stepped(store, BackfillStep { ended, ..step_making(1, 1, &[30]) }).await;
    let runs = [run_of(10, Some(JobState::Succeeded)), run_of(20, None), run_of(30, None)];
    assert_eq!(store.backfill_runs(row.id, None, 10).await.unwrap(), runs);
    assert_eq!(store.open_runs(row.id, 10).await.unwrap(), runs[1..]);
    stepped(store, BackfillStep { progress: far(), ..step(1, 2) }).await;
    assert_eq!(store.backfill(row.id).await.unwrap(), Some(BackfillRow { version: 3, progress: far(), ..row }));
    assert_eq!(store.running_backfills().await.unwrap(), []);
}

pub(super) async fn a_step_of_another_version_changes_nothing(store: &dyn Store) {
    with_task(store).await;
    let row = with_backfill(store, 1).await;
    stepped(store, step_making(1, 0, &[10])).await;
    let others = [step_making(1, 0, &[20]), step_making(1, 2, &[20]), step_making(2, 0, &[20])];
    for other in others {
        let ended = vec![(at(10), JobState::Failed)];
        let other = BackfillStep { progress: far(), ended, ..other };
        assert_eq!(store.step_backfill(other.clone()).await.unwrap(), Stepped::Conflict, "{other:?}");
        assert_eq!(store.find(other.made[0].1.id).await.unwrap(), FoundRow::Absent);
    }
    assert_eq!(store.backfill(row.id).await.unwrap(), Some(BackfillRow { version: 1, ..row.clone() }));
    assert_eq!(store.backfill_runs(row.id, None, 10).await.unwrap(), [run_of(10, None)]);
    assert_eq!(store.backfill_runs(backfill_id(2), None, 10).await.unwrap(), []);
    stepped(store, step_making(1, 1, &[20])).await;
}

pub(super) async fn a_step_that_does_not_fit_changes_nothing(store: &dyn Store) {
    with_task(store).await;
    let row = with_backfill(store, 1).await;
    with_backfill(store, 2).await;
    stepped(store, step_making(1, 0, &[10, 20])).await;
    let good = BackfillStep { progress: far(), ended: vec![(at(10), JobState::Failed)], ..step_making(1, 1, &[30]) };
    let with = |secs: i64, job: NewJob| BackfillStep {
        made: [good.made.clone(), vec![(at(secs), job)]].concat(),
        ..good.clone()
    };
    let taken = good.made[0].1.clone();
    let unfit = [
        (with(20, backfill_job(9, row.schedule, 20)), "the time has a run"),
        (with(40, NewJob { task: task_id(99), ..backfill_job(9, row.schedule, 40) }), "no such task"),
        (with(40, taken), "the job is there"),
        (
            BackfillStep { ended: vec![(at(10), JobState::Failed), (at(50), JobState::Failed)], ..good.clone() },
            "no run",
        ),
    ];
    let unended = BackfillStep { ended: vec![(at(10), JobState::Running)], ..good.clone() };
    for (step, what) in unfit.into_iter().chain([(unended, "nothing ends so")]) {
        assert_inconsistent(store.step_backfill(step).await);
        let now = store.backfill(row.id).await.unwrap();
        assert_eq!(now, Some(BackfillRow { version: 1, ..row.clone() }), "{what}");
        let runs = store.backfill_runs(row.id, None, 10).await.unwrap();
        assert_eq!(runs, [run_of(10, None), run_of(20, None)], "{what}");
        assert_eq!(store.find(good.made[0].1.id).await.unwrap(), FoundRow::Absent, "{what}");
    }
    // Another backfill may run the same time.
    let same = BackfillStep { made: vec![(at(20), backfill_job(9, row.schedule, 20))], ..step(2, 0) };
    stepped(store, same).await;
    stepped(store, good).await;
}

pub(super) async fn steps_at_once_make_their_jobs_once(store: &dyn Store) {
    with_task(store).await;
    let row = with_backfill(store, 1).await;
    let go = |n: i64| store.step_backfill(step_making(1, 0, &[n, 10 + n]));
    let answers: Vec<Stepped> = join_all((0..8).map(go)).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|answer| **answer == Stepped::Done).count(), 1, "{answers:?}");
    assert_eq!(store.backfill_runs(row.id, None, 100).await.unwrap().len(), 2);
    assert_eq!(store.load(load_all(1)).await.unwrap().rows.len(), 2);
}

pub(super) async fn only_so_many_backfills_run_at_a_time(store: &dyn Store) {
    let ended = BackfillRow { progress: ended_at(9), ..new_backfill(999) };
    assert!(store.add_backfill(ended).await.unwrap(), "one that has ended does not count");
    let few = BACKFILLS_MAX as u64 - 3;
    join_all((0..few).map(|n| with_backfill(store, n))).await;
    // The last places are given to as many as there are, also if many ask at once.
    let answers = join_all((few..few + 8).map(|n| store.add_backfill(new_backfill(n)))).await;
    let answers: Vec<bool> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|added| **added).count(), 3, "{answers:?}");
    assert!(!store.add_backfill(new_backfill(500)).await.unwrap());
    assert_eq!(store.backfill(backfill_id(500)).await.unwrap(), None);
    assert_eq!(store.running_backfills().await.unwrap().len(), BACKFILLS_MAX);
    stepped(store, BackfillStep { progress: ended_at(10), ..step(3, 0) }).await;
    assert!(store.add_backfill(new_backfill(500)).await.unwrap());
    assert!(!store.add_backfill(new_backfill(501)).await.unwrap());
    // One that was aborted and waits for the end of its jobs makes no more of them.
    let aborted = BackfillProgress { state: BackfillState::Running, ..ended_at(10) };
    stepped(store, BackfillStep { progress: aborted, ..step(4, 0) }).await;
    assert_eq!(store.running_backfills().await.unwrap().len(), BACKFILLS_MAX, "it is still looked after");
    assert!(store.add_backfill(new_backfill(501)).await.unwrap());
    assert!(!store.add_backfill(new_backfill(502)).await.unwrap());
    // Those of another namespace do not count.
    let elsewhere = BackfillRow { namespace: punctual_core::NamespaceId(1), ..new_backfill(502) };
    assert!(store.add_backfill(elsewhere).await.unwrap());
}

pub(super) async fn backfills_are_listed_the_latest_first(store: &dyn Store) {
    let mut rows = Vec::new();
    // In no order, and some have ended.
    for n in [3, 1, 4, 2, 6, 5] {
        let schedule = schedule_id(n % 2, 1);
        let progress = if n % 3 == 0 { ended_at(n as i64) } else { RUNNING };
        rows.push(BackfillRow { schedule, progress, ..new_backfill(n) });
        assert!(store.add_backfill(rows[rows.len() - 1].clone()).await.unwrap());
    }
    rows.sort_by_key(|row| row.id);
    let running: Vec<_> = rows.iter().filter(|row| row.progress == RUNNING).cloned().collect();
    assert_eq!(store.running_backfills().await.unwrap(), running, "in order of id");
    rows.reverse();
    for schedule in [None, Some(schedule_id(0, 1)), Some(schedule_id(1, 1)), Some(schedule_id(9, 1))] {
        let fits: Vec<_> =
            rows.iter().filter(|row| schedule.is_none_or(|schedule| row.schedule == schedule)).cloned().collect();
        for limit in [1, 2, 10] {
            let mut seen: Vec<BackfillRow> = Vec::new();
            loop {
                let page = store
                    .list_backfills(NamespaceId::DEFAULT, schedule, seen.last().map(|row| row.id), limit)
                    .await
                    .unwrap();
                assert!(page.len() <= limit);
                seen.extend(page.iter().cloned());
                if page.len() < limit {
                    break;
                }
            }
            assert_eq!(seen, fits, "{schedule:?} by {limit}");
        }
    }
}

pub(super) async fn runs_are_listed_in_order_of_time(store: &dyn Store) {
    with_task(store).await;
    let id = with_backfill(store, 1).await.id;
    stepped(store, step_making(1, 0, &[30, 10])).await;
    stepped(store, BackfillStep { ended: vec![(at(10), JobState::Lost)], ..step_making(1, 1, &[20, 40]) }).await;
    // One may end in the step that makes it, and what was seen may be seen again.
    let ended = vec![(at(50), JobState::Cancelled), (at(10), JobState::Succeeded)];
    stepped(store, BackfillStep { ended, ..step_making(1, 2, &[50]) }).await;
    let runs = [
        run_of(10, Some(JobState::Succeeded)),
        run_of(20, None),
        run_of(30, None),
        run_of(40, None),
        run_of(50, Some(JobState::Cancelled)),
    ];
    let page = async |after: Option<i64>, limit| store.backfill_runs(id, after.map(at), limit).await.unwrap();
    assert_eq!(page(None, 10).await, runs);
    assert_eq!(page(None, 2).await, runs[..2]);
    assert_eq!(page(Some(20), 2).await, runs[2..4]);
    assert_eq!(page(Some(25), 10).await, runs[2..]);
    assert_eq!(page(Some(50), 10).await, []);
    assert_eq!(store.open_runs(id, 10).await.unwrap(), runs[1..4]);
    assert_eq!(store.open_runs(id, 2).await.unwrap(), runs[1..3]);
}

pub(super) async fn backfilled_times_of_a_schedule_are_found(store: &dyn Store) {
    with_task(store).await;
    let schedule = with_backfill(store, 1).await.schedule;
    with_backfill(store, 2).await;
    let elsewhere = BackfillRow { schedule: schedule_id(2, 1), ..new_backfill(3) };
    assert!(store.add_backfill(elsewhere.clone()).await.unwrap());
    stepped(store, BackfillStep { ended: vec![(at(20), JobState::Failed)], ..step_making(1, 0, &[10, 20, 30]) }).await;
    let other = BackfillStep { made: vec![(at(20), backfill_job(9, schedule, 20))], ..step(2, 0) };
    stepped(store, other).await;
    let alien = BackfillStep { made: vec![(at(20), backfill_job(8, elsewhere.schedule, 20))], ..step(3, 0) };
    stepped(store, alien).await;
    let found = |n: u64, secs: i64, state| {
        let run = run_of(secs, state);
        Backfilled { at: run.at, backfill: backfill_id(n), job: run.job, state }
    };
    let all = [
        found(1, 10, None),
        found(1, 20, Some(JobState::Failed)),
        Backfilled { job: job_id(9, 1000, 1), ..found(2, 20, None) },
        found(1, 30, None),
    ];
    let range = async |from, until, limit| store.backfilled(schedule, at(from), at(until), limit).await.unwrap();
    assert_eq!(range(0, 100, 10).await, all);
    assert_eq!(range(10, 30, 10).await, all, "both ends are in it");
    assert_eq!(range(11, 29, 10).await, all[1..3]);
    assert_eq!(range(0, 100, 2).await, all[..2]);
    assert_eq!(range(31, 100, 10).await, []);
    assert_eq!(range(30, 10, 10).await, []);
    let of_other = store.backfilled(elsewhere.schedule, at(0), at(100), 10).await.unwrap();
    assert_eq!(of_other.iter().map(|run| run.backfill).collect::<Vec<_>>(), [elsewhere.id]);
    assert_eq!(store.backfilled(schedule_id(9, 1), at(0), at(100), 10).await.unwrap(), []);
}

pub(super) async fn old_backfills_go_with_their_runs(store: &dyn Store) {
    with_task(store).await;
    for n in 1..=4 {
        with_backfill(store, n).await;
        stepped(store, step_making(n, 0, &[n as i64])).await;
    }
    for (n, progress) in [(1, ended_at(99)), (2, ended_at(100))] {
        stepped(store, BackfillStep { progress, ..step(n, 1) }).await;
    }
    let aborted = BackfillProgress { state: BackfillState::Aborted, ..ended_at(50) };
    stepped(store, BackfillStep { progress: aborted, ..step(3, 1) }).await;
    let schedule = new_backfill(1).schedule;
    let left = async || {
        let mut left = Vec::new();
        for n in 1..=4 {
            let is_there = store.backfill(backfill_id(n)).await.unwrap().is_some();
            let runs = store.backfill_runs(backfill_id(n), None, 10).await.unwrap();
            assert_eq!(runs.len(), usize::from(is_there), "its runs go with it");
            left.extend(is_there.then_some(n));
        }
        assert_eq!(store.backfilled(schedule, at(0), at(1000), 10).await.unwrap().len(), left.len());
        left
    };
    assert_eq!(left().await, [1, 2, 3, 4]);
    assert_eq!(store.prune(at(100), at(100), 10).await.unwrap(), 0, "it counts jobs");
    assert_eq!(left().await, [2, 4]);
    assert_eq!(store.step_backfill(step(1, 2)).await.unwrap(), Stepped::Conflict, "it is gone");
    store.prune(at(5000), at(5000), 10).await.unwrap();
    assert_eq!(left().await, [4], "one that runs does not grow old");
    assert_eq!(store.load(load_all(1)).await.unwrap().rows.len(), 4, "jobs are judged by their own end");
}

pub(super) async fn the_task_of_a_backfill_is_in_use(store: &dyn Store) {
    store.intern_tasks(vec![nameless_task(2)]).await.unwrap();
    with_backfill(store, 1).await;
    let job = NewJob { task: task_id(2), ..new_job(1, 20 * DAY, 1) };
    stepped(store, BackfillStep { made: vec![(at(10), job.clone())], ..step(1, 0) }).await;
    let is_known = async || !store.tasks_by_id(vec![task_id(2)]).await.unwrap().is_empty();
    store.prune(at(10 * DAY), at(10 * DAY), 10).await.unwrap();
    assert!(is_known().await, "its job waits");
    Owner::new(store, 1).await.done(vec![succeed(original(&job), 1)]).await;
    // The job is gone, and its task is remembered to be used until the job was due.
    store.prune(at(21 * DAY), at(21 * DAY), 10).await.unwrap();
    assert_eq!(store.find(job.id).await.unwrap(), FoundRow::Absent);
    assert!(is_known().await, "it was used a day ago");
    store.prune(at(30 * DAY), at(30 * DAY), 10).await.unwrap();
    assert!(!is_known().await);
}
