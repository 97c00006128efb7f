//! Running attempts of a namespace whose shards are owned by two servers.

use std::time::Duration;

use punctual_api::{Job, QuotasEdit};
use punctual_client::{Client, Waited};
use punctual_core::{JobId, Span, Timestamp};

use super::quotas::set;
use super::tenants::tenant;
use super::{Cluster, finished, sleeper, submit};
use crate::harness::{Server, eventually};

fn at_most(attempts: u64) -> QuotasEdit {
    QuotasEdit { running_attempts: Some(Some(attempts)), ..QuotasEdit::default() }
}

/// Nothing runs any more at either server, once the quota counts there. Answers the jobs that wait.
async fn nothing_runs(servers: &[Server; 2], clients: &[Client; 2]) -> Vec<JobId> {
    set(servers, "team-a", at_most(0)).await;
    let mut waiting = Vec::new();
    for client in clients {
        loop {
            let id = submit(client, &sleeper(Span::from_millis(1))).await;
            match client.wait_finished(id, Some(Duration::from_secs(1))).await.expect("the job is there") {
                Waited::Finished(_) => {}
                Waited::Pending(_) => break waiting.push(id),
            }
        }
    }
    waiting
}

async fn submit_some(clients: &[Client; 2], count: usize, span: Span) -> Vec<JobId> {
    let mut ids = Vec::new();
    for n in 0..count {
        ids.push(submit(&clients[n % 2], &sleeper(span)).await);
    }
    ids
}

/// The most attempts that ran at once, by what is on record.
fn most_at_once(jobs: &[Job]) -> i64 {
    let mut changes: Vec<(Timestamp, i64)> = Vec::new();
    for attempt in jobs.iter().flat_map(|job| &job.attempts) {
        changes.push((attempt.started_at, 1));
        changes.push((attempt.finished_at.expect("it has ended"), -1));
    }
    // Of an end and a start at the same microsecond, the end comes first.
    changes.sort_unstable();
    let mut running = 0;
    changes
        .into_iter()
        .map(|(_, change)| {
            running += change;
            running
        })
        .max()
        .unwrap_or_default()
}

async fn all_finished(client: &Client, ids: &[JobId]) -> Vec<Job> {
    let mut jobs = Vec::new();
    for id in ids {
        let job = finished(client, *id).await;
        assert_eq!(job.state, "succeeded", "{job:#?}");
        jobs.push(job);
    }
    jobs
}

#[tokio::test]
async fn no_more_attempts_run_than_the_quota_and_the_jobs_of_both_servers_run() {
    let cluster = Cluster::new();
    let servers = cluster.pair().await;
    let _worker = cluster.home.worker(&servers[0], &["--slots", "40"]);
    let clients = tenant(&servers, "team-a").await;
    for quota in [3, 1] {
        let mut ids = nothing_runs(&servers, &clients).await;
        set(&servers, "team-a", at_most(quota)).await;
        ids.extend(submit_some(&clients, 24, Span::from_millis(300)).await);
        let reached = format!("namespace team-a runs {quota} of {quota} attempts (quota running_attempts)");
        eventually("a job that waits says why", || async {
            let job = clients[0].job(ids[20]).await.expect("the job");
            job.waiting_for.as_deref() == Some(&reached) && job.explanation.contains(&reached)
        })
        .await;
        let jobs = all_finished(&clients[1], &ids).await;
        assert_eq!(most_at_once(&jobs), i64::try_from(quota).unwrap());
    }
    // Others are not held up.
    let begun = submit(&servers[1].client(), &sleeper(Span::from_millis(1))).await;
    finished(&servers[0].client(), begun).await;
}

#[tokio::test]
async fn no_more_attempts_run_than_the_quota_when_a_server_dies() {
    let cluster = Cluster::new();
    let servers = cluster.pair().await;
    let _worker = cluster.home.worker(&servers[1], &["--slots", "40"]);
    let clients = tenant(&servers, "team-a").await;
    let mut ids = nothing_runs(&servers, &clients).await;
    set(&servers, "team-a", at_most(4)).await;
    ids.extend(submit_some(&clients, 40, Span::from_millis(400)).await);
    eventually("jobs of both run", || async {
        let usage = clients[1].namespace("team-a").await.expect("the namespace").usage.expect("its use");
        usage.running_attempts == Some(4)
    })
    .await;
    let [dead, alive] = servers;
    dead.kill();
    let jobs = all_finished(&clients[1], &ids).await;
    assert_eq!(most_at_once(&jobs), 4);
    drop(alive);
}
