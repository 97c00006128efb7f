//! Deleting jobs at the very moment they start.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::{StreamExt, stream};
use punctual_api::{BulkRequest, ErrorKind, JobRequest};
use punctual_client::{Client, ClientError};
use punctual_core::task::{Probe, Run, TaskSpec};
use punctual_core::{JobId, Span};

use crate::harness::{Home, eventually};

const ROUNDS: usize = 20;
const JOBS_PER_ROUND: usize = 500;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_delete_was_granted_never_starts_ten_thousand_times() {
    let home = Home::new();
    let witness = home.file("witness");
    let server = home.server();
    let client = server.client();
    let _worker = home.worker(&server, &["--slots", "200"]);
    let mut deleted = HashSet::new();
    for _ in 0..ROUNDS {
        deleted.extend(race(&client, &witness).await);
    }
    let jobs = ROUNDS * JOBS_PER_ROUND;
    eventually("every other job has run", || async { begun(&witness).len() + deleted.len() >= jobs }).await;
    let begun = begun(&witness);
    let both: Vec<_> = begun.intersection(&deleted).collect();
    assert!(both.is_empty(), "deleted and yet started: {both:?}");
    assert_eq!(begun.len() + deleted.len(), jobs);
    assert!(deleted.len() > jobs / 50 && begun.len() > jobs / 50, "no race: {} deleted", deleted.len());
}

/// Submits jobs that are due one after the other, and deletes each at about its time.
async fn race(client: &Client, witness: &Path) -> Vec<JobId> {
    let now = client.server().await.expect("the server answers").now;
    let probe = Probe { witness: Some(witness.to_str().expect("UTF-8").to_owned()), ..Probe::default() };
    let spec = TaskSpec::new(Run::Probe(probe));
    let job = |place: usize| JobRequest {
        inline: Some(spec.clone()),
        run_at: Some(now + Span::from_millis(100) + Span::from_micros(place as i64 * 1000)),
        ..JobRequest::default()
    };
    let request = BulkRequest { jobs: (0..JOBS_PER_ROUND).map(job).collect() };
    let ids = client.submit_bulk(&request).await.expect("the jobs are accepted").ids;
    let deletes = stream::iter(ids).map(|id| async move { delete_in_time(client, id).await.then_some(id) });
    deletes.buffer_unordered(64).filter_map(std::future::ready).collect().await
}

async fn delete_in_time(client: &Client, id: JobId) -> bool {
    // A few milliseconds before its due time, and not always the same.
    let margin_us = (id.as_u128() % 16_000) as i64;
    let wait_us = id.due_at().as_micros() - margin_us - now_us();
    tokio::time::sleep(Duration::from_micros(wait_us.max(0) as u64)).await;
    match client.delete_job(id).await {
        Ok(answer) => {
            assert_eq!(answer.state, "deleted");
            true
        }
        Err(ClientError::Problem(problem)) => {
            let refusals = [ErrorKind::JobAlreadyStarted, ErrorKind::JobAlreadyFinished];
            assert!(refusals.iter().any(|kind| kind.code() == problem.code), "{problem:?}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "the race is with the real clock")]
fn now_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros() as i64
}

fn begun(witness: &Path) -> HashSet<JobId> {
    let text = std::fs::read_to_string(witness).unwrap_or_default();
    let begins = text.lines().filter(|line| line.contains(" begin "));
    begins.filter_map(|line| line.split(' ').next()).map(|id| id.parse().expect("a job id")).collect()
}
