use futures_util::future::join_all;
use punctual_core::job::Input;
use punctual_core::{Counters, JobRow, NamespaceId};
use punctual_store::{
    FoundRow, HotJob, IdempotencyKey, IdempotentAnswer, JobRecord, NewJob, SUBMIT_MAX, Store, Submission, Submitted,
};

use crate::fixture::*;

pub(super) async fn a_submitted_job_can_be_found_loaded_and_shown(store: &dyn Store) {
    with_task(store).await;
    let job = NewJob {
        priority: priority(-3),
        tracing_id: Some("00-abc".to_owned()),
        input: Some(text("{}")),
        ..new_job(1, 10, 2)
    };
    assert_eq!(submit(store, vec![job.clone()]).await.unwrap(), Submitted::Done);
    let row = JobRow {
        key: original(&job),
        task: job.task,
        priority: job.priority,
        counters: Counters::NEW,
        submitted_at: job.submitted_at,
        tracing_id: job.tracing_id.clone(),
        source: None,
        node: None,
        member: None,
        give_backs: None,
        input: Input::Inline(text("{}")),
    };
    assert_eq!(store.load(load_all(2)).await.unwrap().rows, std::slice::from_ref(&row));
    assert_eq!(store.find(job.id).await.unwrap(), FoundRow::Hot(row));
    let shown = HotJob {
        namespace: NamespaceId::DEFAULT,
        key: original(&job),
        task: job.task,
        priority: job.priority,
        counters: Counters::NEW,
        submitted_at: job.submitted_at,
        tracing_id: job.tracing_id,
        source: None,
        give_backs: None,
        cancel_requested: false,
    };
    let record = JobRecord::Hot { job: shown, requester: None, input: job.input, attempts: vec![] };
    assert_eq!(store.job(job.id).await.unwrap(), Some(record));
}

pub(super) async fn a_submission_is_all_or_nothing(store: &dyn Store) {
    with_task(store).await;
    let taken = new_job(3, 10, 0);
    submit(store, vec![taken.clone()]).await.unwrap();
    let (one, two) = (new_job(1, 10, 0), new_job(2, 10, 1));
    assert_inconsistent(submit(store, vec![one.clone(), two.clone(), taken]).await);
    for job in [one, two] {
        assert_eq!(store.find(job.id).await.unwrap(), FoundRow::Absent);
    }
}

pub(super) async fn a_job_of_an_unknown_task_is_refused(store: &dyn Store) {
    with_task(store).await;
    let good = new_job(1, 10, 0);
    let bad = NewJob { task: task_id(9), ..new_job(2, 10, 0) };
    assert_inconsistent(submit(store, vec![good.clone(), bad]).await);
    assert_eq!(store.find(good.id).await.unwrap(), FoundRow::Absent);
}

pub(super) async fn a_job_of_a_shard_that_is_not_there_is_refused(store: &dyn Store) {
    with_task(store).await;
    assert_inconsistent(submit(store, vec![new_job(1, 10, SHARDS)]).await);
}

pub(super) async fn the_same_job_is_not_stored_twice(store: &dyn Store) {
    with_task(store).await;
    let job = NewJob { input: Some(text("first")), ..new_job(1, 10, 0) };
    submit(store, vec![job.clone()]).await.unwrap();
    assert_inconsistent(submit(store, vec![NewJob { input: Some(text("second")), ..job.clone() }]).await);
    assert_eq!(store.inputs(vec![original(&job)]).await.unwrap(), [Some(text("first"))]);
}

pub(super) async fn an_empty_submission_is_done(store: &dyn Store) {
    assert_eq!(submit(store, vec![]).await.unwrap(), Submitted::Done);
}

pub(super) async fn a_submission_over_the_maximum_is_refused(store: &dyn Store) {
    with_task(store).await;
    let jobs: Vec<_> = (0..=SUBMIT_MAX as u64).map(|n| new_job(n, 10, 0)).collect();
    assert_inconsistent(submit(store, jobs).await);
    assert_eq!(store.load(load_all(0)).await.unwrap().rows, []);
}

fn keyed(key: &str, fingerprint: u8, answer: &str, now_secs: i64, job: NewJob) -> Submission {
    let idempotency = IdempotentAnswer {
        key: IdempotencyKey { namespace: NamespaceId::DEFAULT, key: key.to_owned() },
        fingerprint: [fingerprint; 32],
        answer: text(answer),
        now: at(now_secs),
        expires_at: at(now_secs + 100),
    };
    Submission { jobs: vec![job], idempotency: Some(idempotency), batch: None }
}

pub(super) async fn a_repeated_request_gets_the_first_answer(store: &dyn Store) {
    with_task(store).await;
    let again = new_job(2, 10, 0);
    assert_eq!(store.submit(keyed("k", 1, "first", 0, new_job(1, 10, 0))).await.unwrap(), Submitted::Done);
    let replayed = store.submit(keyed("k", 1, "second", 99, again.clone())).await.unwrap();
    assert_eq!(replayed, Submitted::Replayed { answer: text("first") });
    assert_eq!(store.find(again.id).await.unwrap(), FoundRow::Absent);
    assert_eq!(store.submit(keyed("other", 1, "third", 0, again)).await.unwrap(), Submitted::Done);
}

pub(super) async fn another_request_under_a_used_key_is_refused(store: &dyn Store) {
    with_task(store).await;
    let other = new_job(2, 10, 0);
    store.submit(keyed("k", 1, "first", 0, new_job(1, 10, 0))).await.unwrap();
    assert_eq!(store.submit(keyed("k", 2, "second", 1, other.clone())).await.unwrap(), Submitted::KeyReused);
    assert_eq!(store.find(other.id).await.unwrap(), FoundRow::Absent);
}

pub(super) async fn a_used_key_is_recognized_before_anything_is_submitted(store: &dyn Store) {
    with_task(store).await;
    let look = async |fingerprint: u8, now_secs: i64| {
        let key = IdempotencyKey { namespace: NamespaceId::DEFAULT, key: "k".to_owned() };
        store.idempotent_answer(key, [fingerprint; 32], at(now_secs)).await.unwrap()
    };
    assert_eq!(look(1, 0).await, None);
    store.submit(keyed("k", 1, "first", 0, new_job(1, 10, 0))).await.unwrap();
    // Whatever became of the task, the answer stays.
    store.delete_task(task_id(1), None).await.unwrap();
    assert_eq!(look(1, 99).await, Some(Submitted::Replayed { answer: text("first") }));
    assert_eq!(look(2, 99).await, Some(Submitted::KeyReused));
    assert_eq!(look(1, 100).await, None, "it has expired");
}

pub(super) async fn an_expired_key_is_free_again(store: &dyn Store) {
    with_task(store).await;
    store.submit(keyed("k", 1, "first", 0, new_job(1, 10, 0))).await.unwrap();
    assert_eq!(store.submit(keyed("k", 2, "second", 100, new_job(2, 10, 0))).await.unwrap(), Submitted::Done);
    let replayed = store.submit(keyed("k", 2, "third", 199, new_job(3, 10, 0))).await.unwrap();
    assert_eq!(replayed, Submitted::Replayed { answer: text("second") });
}

pub(super) async fn a_refused_submission_does_not_use_up_its_key(store: &dyn Store) {
    with_task(store).await;
    let bad = NewJob { task: task_id(9), ..new_job(1, 10, 0) };
    assert_inconsistent(store.submit(keyed("k", 1, "first", 0, bad)).await);
    let taken = new_job(2, 10, 0);
    submit(store, vec![taken.clone()]).await.unwrap();
    assert_inconsistent(store.submit(keyed("k", 1, "first", 0, taken)).await);
    assert_eq!(store.submit(keyed("k", 2, "second", 1, new_job(3, 10, 0))).await.unwrap(), Submitted::Done);
}

pub(super) async fn submissions_made_at_once_are_all_stored(store: &dyn Store) {
    with_task(store).await;
    let jobs: Vec<_> = (0..200).map(|n| new_job(n, 10, (n % 4) as u16)).collect();
    // Every tenth is refused, and its neighbours in the same commit must not notice.
    let submissions = jobs.iter().enumerate().map(|(n, job)| {
        let task = if n % 10 == 9 { task_id(9) } else { job.task };
        submit(store, vec![NewJob { task, ..job.clone() }])
    });
    let answers = join_all(submissions).await;
    for (n, (answer, job)) in answers.into_iter().zip(jobs).enumerate() {
        assert_eq!(answer.is_ok(), n % 10 != 9);
        assert_eq!(store.find(job.id).await.unwrap() != FoundRow::Absent, answer.is_ok());
    }
}
