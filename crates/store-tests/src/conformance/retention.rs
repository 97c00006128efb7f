use punctual_core::attempt::Ending;
use punctual_core::shard::write::{JobWrite, Rerun, StaleOutcome, Write};
use punctual_core::task::Task;
use punctual_core::{AttemptNo, JobKey, JobState, NamespaceId, TaskId};
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
    let log = LogChunk { job: job.id, attempt: AttemptNo(1), offset: 0, bytes: text("log"), marks: text("") };
    let stale =
        StaleOutcome { id: job.id, attempt: AttemptNo(1), worker: worker(1), at: at(30), outcome: "late".to_owned() };
    owner.done(vec![Write::Job(JobWrite::Requeue(retried(original(&job), 1, at(20))))]).await;
    owner.done(vec![succeed(second, 2), Write::Job(JobWrite::Stale(stale))]).await;
    store.append_logs(vec![log]).await.unwrap();
    assert_eq!(store.prune(at(102), at(102), 10).await.unwrap(), 0, "it finished at that very moment");
    assert_eq!(store.prune(at(103), at(103), 10).await.unwrap(), 1);
    assert_eq!(store.job(job.id).await.unwrap(), None);
    assert_eq!(store.read_log(job.id, AttemptNo(1), 0, 100).await.unwrap(), LogPiece::default());
    // Its attempts are gone too: the same id can live the same life again.
    submit(store, vec![job.clone()]).await.unwrap();
    owner.done(vec![Write::Job(JobWrite::Requeue(retried(original(&job), 1, at(20))))]).await;
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
    let settle = |job| Write::Job(JobWrite::Settle(settled(original(job), 1, JobState::Failed, Ending::Failed)));
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
            key: IdempotencyKey { namespace: NamespaceId::DEFAULT, key: "k".to_owned() },
            fingerprint: [1; 32],
            answer: text("answer"),
            now: at(now_secs),
            expires_at: at(100),
        }),
        batch: None,
    };
    store.submit(keyed(0, 1)).await.unwrap();
    store.prune(at(0), at(99), 10).await.unwrap();
    assert_eq!(store.submit(keyed(1, 2)).await.unwrap(), Submitted::Replayed { answer: text("answer") });
    // Only because the key is really gone is a request with an older clock new.
    store.prune(at(0), at(100), 10).await.unwrap();
    assert_eq!(store.submit(keyed(1, 3)).await.unwrap(), Submitted::Done);
}

const DAY: i64 = 86_400;

fn job_of(task: u64, due_secs: i64) -> NewJob {
    NewJob { task: task_id(task), ..new_job(task, due_secs, 0) }
}

async fn tasks_left(store: &dyn Store) -> Vec<TaskId> {
    let all = (1..10).map(task_id).collect();
    store.tasks_by_id(all).await.unwrap().into_iter().map(|task| task.id).collect()
}

pub(super) async fn tasks_that_nothing_needs_go_some_days_later(store: &dyn Store) {
    store.intern_tasks(vec![nameless_task(2), nameless_task(3)]).await.unwrap();
    store.create_task(named_task(4, "deleted")).await.unwrap();
    let (one_off, of_deleted) = (job_of(2, 10), job_of(4, 10));
    let mut owner = owner_of(store, &[one_off.clone(), of_deleted.clone()]).await;
    store.delete_task(task_id(4), None).await.unwrap();
    owner.done(vec![succeed(original(&one_off), 1), succeed(original(&of_deleted), 1)]).await;
    let later = |days: i64| at(days * DAY + 1);
    assert_eq!(store.prune(later(1), later(1), 10).await.unwrap(), 2);
    assert_eq!(tasks_left(store).await, [1, 2, 3, 4].map(task_id), "somebody may be about to use them");
    store.prune(later(2), later(2), 10).await.unwrap();
    assert_eq!(tasks_left(store).await, [task_id(1)], "a task with a name stays");
    // They are forgotten everywhere, and their content can be stored anew.
    assert_inconsistent(submit(store, vec![one_off]).await);
    let (task, digest) = nameless_task(2);
    let again = Task { id: task_id(5), ..task };
    assert_eq!(store.intern_tasks(vec![(again, digest)]).await.unwrap().ids(), [task_id(5)]);
    submit(store, vec![job_of(5, 20)]).await.unwrap();
    assert_eq!(store.load(load_all(0)).await.unwrap().rows[0].task, task_id(5));
}

pub(super) async fn tasks_that_something_needs_stay(store: &dyn Store) {
    store.intern_tasks((2..9).map(nameless_task).collect()).await.unwrap();
    let jobs = [
        job_of(2, 10),       // has waited for days
        job_of(3, 30 * DAY), // waits for its time
        job_of(4, 10),       // is tried again much later
        job_of(5, 10),       // was rerun much later
        job_of(6, 10),       // finished not long ago
        job_of(7, 10),       // is tried again a little later, and has waited since
    ];
    let mut owner = owner_of(store, &jobs).await;
    let retry = |job, due_secs| Write::Job(JobWrite::Requeue(retried(original(job), 1, at(due_secs))));
    owner
        .done(vec![
            retry(&jobs[2], 30 * DAY),
            succeed(original(&jobs[3]), 1),
            ended(original(&jobs[4]), JobState::Failed, at(20 * DAY)),
            retry(&jobs[5], DAY),
        ])
        .await;
    owner
        .done(vec![Write::Job(JobWrite::Rerun(Rerun {
            id: jobs[3].id,
            due_at: at(30 * DAY),
            counters: counters(2, 0, 0),
        }))])
        .await;
    // Its content is asked for again, for a job that is about to follow.
    let (task, digest) = nameless_task(8);
    store.intern_tasks(vec![(Task { id: task_id(9), created_at: at(20 * DAY), ..task }, digest)]).await.unwrap();
    assert_eq!(store.prune(at(20 * DAY), at(20 * DAY), 10).await.unwrap(), 0);
    assert_eq!(tasks_left(store).await, [1, 2, 3, 4, 5, 6, 7, 8].map(task_id));
}
