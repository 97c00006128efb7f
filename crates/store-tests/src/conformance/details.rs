use punctual_core::attempt::{AttemptRecord, Details, Ending};
use punctual_core::shard::write::{JobWrite, Requeue, Rerun, ResolveLost, Settle, Write};
use punctual_core::{AttemptNo, JobKey, JobState};
use punctual_store::{JobRecord, NewJob, Store};

use crate::fixture::*;

async fn attempts(store: &dyn Store, job: &NewJob) -> Vec<AttemptRecord> {
    match store.job(job.id).await.unwrap().unwrap() {
        JobRecord::Hot { attempts, .. } | JobRecord::Finished { attempts, .. } => attempts,
    }
}

fn settled_with(key: JobKey, ran: AttemptRecord, state: JobState) -> Write {
    Write::Job(JobWrite::Settle(Settle {
        attempt: Some(ran.clone()),
        ..settled(key, ran.attempt.0, state, ran.ending)
    }))
}

pub(super) async fn what_is_known_of_the_attempt_that_ended_a_job_is_kept(store: &dyn Store) {
    let jobs = [new_job(1, 10, 0), new_job(2, 10, 0)];
    let mut owner = owner_of(store, &jobs).await;
    for (job, known) in jobs.iter().zip([details(), Details::default()]) {
        let ran = with_details(ran(1, Ending::Failed), known);
        owner.done(vec![settled_with(original(job), ran.clone(), JobState::Failed)]).await;
        assert_eq!(attempts(store, job).await, [ran]);
    }
}

/// What most jobs come to may be stored in a shorter way, which knows of no details.
pub(super) async fn jobs_that_end_together_keep_each_their_own_details(store: &dyn Store) {
    let jobs: Vec<_> = (0..4).map(|n| new_job(n, 10, 0)).collect();
    let mut owner = owner_of(store, &jobs).await;
    let success = |n: usize| match n % 2 {
        0 => ran(1, Ending::Succeeded),
        _ => with_details(ran(1, Ending::Succeeded), Details { exit_code: Some(n as i32), ..Details::default() }),
    };
    let settle = |(n, job): (usize, &NewJob)| settled_with(original(job), success(n), JobState::Succeeded);
    owner.done(jobs.iter().enumerate().map(settle).collect()).await;
    for (n, job) in jobs.iter().enumerate() {
        assert_eq!(attempts(store, job).await, [success(n)]);
    }
}

pub(super) async fn what_is_known_of_an_attempt_is_kept_through_retries_and_reruns(store: &dyn Store) {
    let job = new_job(1, 10, 0);
    let mut owner = owner_of(store, std::slice::from_ref(&job)).await;
    let known = |n: u32| with_details(ran(n, Ending::Failed), Details { cpu_us: Some(n.into()), ..details() });
    let expected = [known(1), due(20, ran(2, Ending::Failed)), due(30, known(3))];
    owner
        .done(vec![Write::Job(JobWrite::Requeue(Requeue {
            attempt: Some(known(1)),
            ..retried(original(&job), 1, at(20))
        }))])
        .await;
    owner.done(vec![Write::Job(JobWrite::Requeue(retried(JobKey { due_at: at(20), id: job.id }, 2, at(30))))]).await;
    assert_eq!(attempts(store, &job).await, expected[..2]);
    owner.done(vec![settled_with(JobKey { due_at: at(30), id: job.id }, known(3), JobState::Failed)]).await;
    assert_eq!(attempts(store, &job).await, expected);
    owner
        .done(vec![Write::Job(JobWrite::Rerun(Rerun { id: job.id, due_at: at(40), counters: counters(4, 0, 0) }))])
        .await;
    assert_eq!(attempts(store, &job).await, expected);
    owner.done(vec![succeed(JobKey { due_at: at(40), id: job.id }, 4)]).await;
    assert_eq!(attempts(store, &job).await[..3], expected);
}

pub(super) async fn a_late_result_brings_its_details_or_none(store: &dyn Store) {
    let jobs = [new_job(1, 10, 0), new_job(2, 10, 0)];
    let mut owner = owner_of(store, &jobs).await;
    let guess = Details { host: Some("guess".to_owned()), ..Details::default() };
    for (job, known) in jobs.iter().zip([Some(Box::new(details())), None]) {
        let lost = with_details(ran(1, Ending::WorkerLost), guess.clone());
        owner.done(vec![settled_with(original(job), lost, JobState::Lost)]).await;
        let late = ResolveLost {
            id: job.id,
            attempt: AttemptNo(1),
            state: JobState::Failed,
            finished_at: at(900),
            reason: Some("killed".to_owned()),
            output: None,
            details: known.clone(),
            notice: None,
        };
        owner.done(vec![Write::Job(JobWrite::ResolveLost(late))]).await;
        let reason = Some("killed".to_owned());
        let last = AttemptRecord { finished_at: at(900), reason, details: known, ..ran(1, Ending::Failed) };
        assert_eq!(attempts(store, job).await, [last]);
    }
}
