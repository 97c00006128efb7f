use punctual_core::shard::write::{JobWrite, StaleOutcome, Write};
use punctual_core::{AttemptNo, Span};
use punctual_store::{LateOutcome, SeenWorker, Store};

use crate::fixture::*;

const DAYS_10: i64 = 864_000;

fn seen(number: u64, first: i64, last: i64) -> SeenWorker {
    SeenWorker {
        id: worker(number),
        name: format!("worker {number}"),
        host: Some("host-7".to_owned()),
        version: "1.2.3".to_owned(),
        first_seen_at: at(first),
        last_seen_at: at(last),
        left_at: None,
    }
}

pub(super) async fn a_worker_is_known_as_it_was_last_seen(store: &dyn Store) {
    store.keep_workers(vec![]).await.unwrap();
    store.keep_workers(vec![SeenWorker { host: None, ..seen(2, 5, 5) }, seen(1, 3, 3)]).await.unwrap();
    let left = SeenWorker { name: "renamed".to_owned(), left_at: Some(at(20)), ..seen(1, 20, 20) };
    store.keep_workers(vec![left.clone()]).await.unwrap();
    // Another server tells late what it saw before.
    store.keep_workers(vec![seen(1, 2, 10)]).await.unwrap();
    let left = SeenWorker { first_seen_at: at(2), ..left };
    assert_eq!(store.workers_by_id(vec![worker(1), worker(3)]).await.unwrap(), std::slice::from_ref(&left));
    store.keep_workers(vec![seen(1, 30, 30), seen(1, 25, 25)]).await.unwrap();
    let back = SeenWorker { first_seen_at: at(2), left_at: Some(at(20)), ..seen(1, 30, 30) };
    assert_eq!(
        store.workers_by_id(vec![worker(1)]).await.unwrap(),
        std::slice::from_ref(&back),
        "one that has left stays so"
    );
    let other = SeenWorker { host: None, ..seen(2, 5, 5) };
    assert_eq!(store.workers_since(at(0), 10).await.unwrap(), [back.clone(), other], "the latest first");
    assert_eq!(store.workers_since(at(0), 1).await.unwrap(), std::slice::from_ref(&back));
    assert_eq!(store.workers_since(at(30), 10).await.unwrap(), [back]);
    assert_eq!(store.workers_since(at(31), 10).await.unwrap(), []);
}

pub(super) async fn workers_go_some_days_after_they_were_last_seen(store: &dyn Store) {
    store.keep_workers(vec![seen(1, 0, 0), seen(2, 0, DAYS_10)]).await.unwrap();
    let day = Span::from_secs(86_400);
    store.prune(at(0) + day, at(DAYS_10), 10).await.unwrap();
    assert_eq!(store.workers_since(at(-1), 10).await.unwrap().len(), 2, "attempts may still refer to it");
    store.prune(at(DAYS_10), at(DAYS_10), 10).await.unwrap();
    assert_eq!(store.workers_since(at(-1), 10).await.unwrap(), [seen(2, 0, DAYS_10)]);
}

pub(super) async fn outcomes_that_came_too_late_can_be_read(store: &dyn Store) {
    let (job, other) = (new_job(1, 10, 0), new_job(2, 10, 0));
    let mut owner = owner_of(store, &[job.clone(), other.clone()]).await;
    let stale = |attempt, by, secs, outcome: &str| {
        let (attempt, at, outcome) = (punctual_core::AttemptNo(attempt), at(secs), outcome.to_owned());
        StaleOutcome { id: job.id, attempt, worker: worker(by), at, outcome }
    };
    assert_eq!(store.late_outcomes(job.id, 10).await.unwrap(), []);
    let (second, first, again) =
        (stale(2, 1, 30, "succeeded"), stale(1, 2, 40, "failed: exit code 1"), stale(2, 1, 50, "cancelled"));
    owner.done(vec![Write::Job(JobWrite::Stale(second)), Write::Job(JobWrite::Stale(first))]).await;
    owner.done(vec![Write::Job(JobWrite::Stale(again))]).await;
    let late = |attempt, by, secs, outcome: &str| LateOutcome {
        attempt: punctual_core::AttemptNo(attempt),
        worker: worker(by),
        at: at(secs),
        outcome: outcome.to_owned(),
    };
    let expected = [late(1, 2, 40, "failed: exit code 1"), late(2, 1, 30, "succeeded")];
    assert_eq!(store.late_outcomes(job.id, 10).await.unwrap(), expected, "the first of each attempt and worker");
    assert_eq!(store.late_outcomes(job.id, 1).await.unwrap(), expected[..1]);
    assert_eq!(store.late_outcomes(other.id, 10).await.unwrap(), []);
}

pub(super) async fn of_one_attempt_few_late_outcomes_are_kept(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    let late = |by, attempt| {
        let (worker, outcome) = (worker(by), "succeeded".to_owned());
        Write::Job(JobWrite::Stale(StaleOutcome {
            id: job.id,
            attempt: AttemptNo(attempt),
            worker,
            at: at(20),
            outcome,
        }))
    };
    for by in 1..=20 {
        owner.done(vec![late(by, 1)]).await;
    }
    owner.done(vec![late(1, 2)]).await;
    let kept = store.late_outcomes(job.id, 100).await.unwrap();
    let of = |attempt| kept.iter().filter(|late| late.attempt == AttemptNo(attempt)).count();
    assert_eq!((of(1), of(2)), (8, 1));
}
