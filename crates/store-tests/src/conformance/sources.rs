use punctual_core::attempt::Ending;
use punctual_core::schedule::{Source, SourceKind, Verdict};
use punctual_core::shard::event::{Load, Sweep};
use punctual_core::shard::write::{Decision, JobWrite, Rerun, Settle, Write};
use punctual_core::{JobId, JobKey, JobState, ShardId, Span};
use punctual_store::{Filter, FoundRow, JobRecord, NewJob, Order, Store};

use crate::fixture::*;
use crate::schedule_fixture::*;

fn source(kind: SourceKind, is_tracked: bool) -> Source {
    Source { schedule: schedule_id(7, 1), at: at(33), kind, is_tracked }
}

/// The source of a job in every kind of read that shows it.
async fn seen(store: &dyn Store, id: JobId) -> Vec<Option<Source>> {
    let mut seen = Vec::new();
    match store.find(id).await.unwrap() {
        FoundRow::Hot(row) => {
            seen.push(row.source.as_deref().copied());
            let hot = store.hot_jobs(vec![row.key]).await.unwrap();
            seen.extend(hot.iter().map(|job| job.source));
            for sweep in [Sweep::All, Sweep::Urgent] {
                let page = store.load(Load { sweep, ..load_all(id.shard().0) }).await.unwrap();
                let mine = page.rows.iter().filter(|row| row.key.id == id);
                seen.extend(mine.map(|row| row.source.as_deref().copied()));
            }
            let running = store.open_starts(id.shard()).await.unwrap().running;
            let mine = running.iter().filter(|(_, row)| row.key.id == id);
            seen.extend(mine.map(|(_, row)| row.source.as_deref().copied()));
            let page = hot_page(store, Filter::default(), first_page(Order::Ascending, 100)).await;
            seen.extend(page.rows.iter().filter(|job| job.key.id == id).map(|job| job.source));
        }
        FoundRow::Finished { .. } => {
            let page = finished_page(store, Filter::default(), first_page(Order::Ascending, 100)).await;
            seen.extend(page.rows.iter().filter(|job| job.id == id).map(|job| job.source));
            for filter in [
                Filter { task: Some(task_id(1)), ..Filter::default() },
                Filter { states: vec![JobState::Failed], ..Filter::default() },
            ] {
                let page = finished_page(store, filter, first_page(Order::Descending, 100)).await;
                seen.extend(page.rows.iter().filter(|job| job.id == id).map(|job| job.source));
            }
        }
        FoundRow::Absent => panic!("{id} is gone"),
    }
    seen.push(match store.job(id).await.unwrap().unwrap() {
        JobRecord::Hot { job, .. } => job.source,
        JobRecord::Finished { job, .. } => job.source,
    });
    seen
}

pub(super) async fn why_a_job_exists_stays_with_it_to_the_end(store: &dyn Store) {
    let sources = [
        None,
        Some(source(SourceKind::Backfill, false)),
        Some(source(SourceKind::Planned, true)),
        Some(source(SourceKind::Manual, true)),
        Some(source(SourceKind::Replayed, false)),
    ];
    let jobs: Vec<_> =
        (1..).zip(sources).map(|(n, source)| NewJob { source, priority: priority(1), ..new_job(n, 10, 1) }).collect();
    let mut owner = owner_of(store, &jobs).await;
    let check = async |when: &str, times: usize| {
        for job in &jobs {
            assert_eq!(seen(store, job.id).await, vec![job.source; times], "{when}");
        }
    };
    let at_time = |job: &NewJob, secs| JobKey { due_at: at(secs), id: job.id };
    check("submitted", 6).await;
    owner.done(jobs.iter().map(|job| start(original(job), 1)).collect()).await;
    check("started", 7).await;
    owner.done(jobs.iter().map(|job| Write::Job(JobWrite::Requeue(retried(original(job), 1, at(20))))).collect()).await;
    check("retried", 6).await;
    let failed = |job: &NewJob, secs, n| settled(at_time(job, secs), n, JobState::Failed, Ending::Failed);
    owner.done(jobs.iter().map(|job| Write::Job(JobWrite::Settle(failed(job, 20, 2)))).collect()).await;
    check("failed", 4).await;
    let rerun =
        |job: &NewJob| Write::Job(JobWrite::Rerun(Rerun { id: job.id, due_at: at(500), counters: counters(3, 0, 0) }));
    owner.done(jobs.iter().map(rerun).collect()).await;
    check("rerun", 6).await;
    let later = |job: &NewJob| Write::Job(JobWrite::Settle(Settle { finished_at: at(501), ..failed(job, 500, 3) }));
    owner.done(jobs.iter().map(later).collect()).await;
    check("failed again", 4).await;
}

/// What a takeover of the shard finds.
async fn tracked_in(store: &dyn Store, shard: u16) -> Vec<(Source, JobId)> {
    store.shard_schedules(ShardId(shard)).await.unwrap().tracked
}

fn source_and_job(decision: &Decision) -> (Source, JobId) {
    let job = decision.job.as_ref().expect("it fires");
    (job.source, job.id)
}

pub(super) async fn a_takeover_finds_the_jobs_that_are_tracked(store: &dyn Store) {
    let schedule = new_schedule(1, "backup", 2);
    let mut owner = owner_of(store, &[new_job(9, 60, 2)]).await;
    let decisions: Vec<_> = (1..6).map(|n| tracked(fired(schedule.id, 600 - 60 * n, n as u64))).collect();
    let untracked = fired(schedule.id, 900, 10);
    let elsewhere = tracked(fired(schedule_id(1, 3), 60, 11));
    let mut writes: Vec<_> = decisions.iter().map(decide).collect();
    writes.extend([add(&schedule), decide(&untracked), decide(&elsewhere)]);
    owner.done(writes).await;
    let expected = |places: &[usize]| {
        let mut jobs: Vec<_> = places.iter().map(|place| source_and_job(&decisions[*place])).collect();
        jobs.sort_by_key(|(_, job)| *job);
        jobs
    };
    assert_eq!(tracked_in(store, 2).await, expected(&[0, 1, 2, 3, 4]));
    assert_eq!(tracked_in(store, 3).await, [source_and_job(&elsewhere)]);
    assert_eq!(tracked_in(store, 1).await, []);
    // One is started, one moves far away, two end; of these one runs again.
    let key = |place: usize| key_of(&decisions[place]);
    owner
        .done(vec![
            start(key(0), 1),
            Write::Job(JobWrite::Requeue(retried(key(1), 1, at(0) + Span::from_secs(90_000)))),
            succeed(key(2), 1),
            Write::Job(JobWrite::Settle(settled(key(3), 1, JobState::Failed, Ending::Failed))),
        ])
        .await;
    assert_eq!(tracked_in(store, 2).await, expected(&[0, 1, 4]));
    let rerun = Rerun { id: key(3).id, due_at: at(700), counters: counters(2, 0, 0) };
    owner.done(vec![Write::Job(JobWrite::Rerun(rerun))]).await;
    let _next = Owner::new(store, 2).await;
    assert_eq!(tracked_in(store, 2).await, expected(&[0, 1, 3, 4]), "its schedule's next owner has to know");
}

pub(super) async fn a_takeover_finds_the_times_that_are_queued(store: &dyn Store) {
    let (one, other) = (new_schedule(1, "one", 2), new_schedule(2, "other", 2));
    let elsewhere = new_schedule(3, "elsewhere", 1);
    let mut owner = owner_of(store, &[]).await;
    let queued = |id, secs| unfired(id, secs, Verdict::Queued);
    let mut first = queued(one.id, 60);
    first.occurrence.reason = Some("a run before it has not ended".to_owned());
    first.occurrence.count = 3;
    let all = [first, queued(one.id, 120), queued(one.id, 180), queued(other.id, 30), queued(elsewhere.id, 60)];
    let mut writes = vec![add(&one), add(&other), add(&elsewhere), decide(&fired(one.id, 10, 1))];
    writes.extend(all.iter().rev().map(decide));
    owner.done(writes).await;
    let found = async |shard| store.shard_schedules(ShardId(shard)).await.unwrap().queued;
    let expected = |places: &[usize]| places.iter().map(|place| all[*place].occurrence.clone()).collect::<Vec<_>>();
    assert_eq!(found(2).await, expected(&[0, 1, 2, 3]));
    assert_eq!(found(1).await, expected(&[4]));
    assert_eq!(found(0).await, []);
    owner.done(vec![release(&fired(one.id, 120, 2))]).await;
    let _next = Owner::new(store, 2).await;
    assert_eq!(found(2).await, expected(&[0, 2, 3]));
}
