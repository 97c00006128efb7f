//! Commands and reads, at a server that does not own the job.

use std::time::Instant;

use punctual_api::{ErrorKind, ListQuery};
use punctual_client::Client;
use punctual_core::{JobId, Span};

use super::{Cluster, balanced, far_ahead, finished, own_shards, sleeper, submit};
use crate::harness::{PATIENCE, eventually};

/// A job that the server which took it owns, so that the other does not.
async fn job_owned_by(client: &Client) -> JobId {
    let id = submit(client, &far_ahead()).await;
    let list = client.servers().await.expect("the servers");
    assert!(own_shards(&list).contains(&id.shard().0), "new jobs stay where they were taken");
    id
}

#[tokio::test]
async fn commands_reach_the_owner_from_any_server() {
    let cluster = Cluster::new();
    let [owner, other] = cluster.pair().await;
    let (here, there) = (owner.client(), other.client());
    let id = job_owned_by(&here).await;
    assert_eq!(there.delete_job(id).await.expect("deleted").state, "deleted");
    assert_eq!(there.delete_job(id).await.expect("asked twice").state, "deleted");
    assert_eq!(here.job(id).await.expect("the job").state, "deleted");
    let refused = there.retry(id).await.expect_err("a deleted job never runs");
    assert_eq!(refused.kind(), Some(ErrorKind::JobDeleted));

    let _worker = cluster.worker(&owner);
    let id = job_owned_by(&here).await;
    assert_eq!(there.run_now(id).await.expect("moved").state, "scheduled");
    assert_eq!(finished(&there, id).await.state, "succeeded");
    assert_eq!(there.retry(id).await.expect("again").state, "scheduled");
    let job = finished(&here, id).await;
    assert_eq!((job.state.as_str(), job.attempts.len()), ("succeeded", 2));

    let id = submit(&here, &sleeper(Span::from_secs(600))).await;
    eventually("it runs", || async { there.job(id).await.is_ok_and(|job| job.state == "running") }).await;
    let job = there.job(id).await.expect("the job");
    assert!(job.explanation.contains("has run since"), "{}", job.explanation);
    assert!(there.cancel(id).await.expect("asked").pending);
    assert_eq!(finished(&there, id).await.state, "cancelled");
}

#[tokio::test]
async fn what_runs_is_listed_by_every_server() {
    let cluster = Cluster::new();
    let servers = cluster.pair().await;
    let _worker = cluster.worker(&servers[0]);
    let clients = [servers[0].client(), servers[1].client()];
    let mut ids = Vec::new();
    for client in &clients {
        ids.push(submit(client, &sleeper(Span::from_secs(600))).await);
    }
    ids.sort_unstable();
    let query = ListQuery { state: Some("running".to_owned()), ..ListQuery::default() };
    for client in &clients {
        eventually("both run", || async {
            let Ok(list) = client.jobs(&query).await else { return false };
            let mut listed: Vec<JobId> = list.jobs.iter().map(|job| job.id).collect();
            listed.sort_unstable();
            listed == ids && !list.uncertain
        })
        .await;
        let all = client.jobs(&ListQuery::default()).await.expect("a list");
        assert!(all.jobs.iter().all(|job| job.state == "running"), "{all:?}");
        let workers = client.workers().await.expect("the workers").workers;
        assert_eq!(workers.len(), 1, "each once: {workers:?}");
        assert_eq!((workers[0].running, workers[0].state.as_str()), (2, "connected"));
    }
}

#[tokio::test]
async fn a_changed_task_counts_at_every_server() {
    let cluster = Cluster::new();
    let servers = cluster.pair().await;
    let _worker = cluster.worker(&servers[0]);
    let clients = [servers[0].client(), servers[1].client()];
    for (round, changing) in [0, 1, 0].into_iter().enumerate() {
        let probe = punctual_core::task::Probe { output: Some(round.to_string()), ..Default::default() };
        let spec = punctual_core::task::TaskSpec::new(punctual_core::task::Run::Probe(probe));
        clients[changing].apply_task("told", &spec, punctual_client::IfMatch::Any).await.expect("it is changed");
        for client in &clients {
            let request = punctual_api::JobRequest { task: Some("told".to_owned()), ..Default::default() };
            let id = submit(client, &request).await;
            let output = finished(client, id).await.output.expect("an output");
            assert_eq!(output.get(), round.to_string());
        }
    }
}

#[tokio::test]
async fn a_dead_owners_jobs_are_answered_for_by_the_next() {
    let cluster = Cluster::new();
    let [owner, other] = cluster.pair().await;
    let id = job_owned_by(&owner.client()).await;
    let there = other.client();
    owner.kill();
    // Nobody who knows can be asked until the lease is over.
    let job = there.job(id).await.expect("the row is there");
    assert!(job.state == "scheduled" && (!job.uncertain || job.explanation.contains("not known")), "{job:?}");
    let begun = Instant::now();
    let answered = loop {
        let asked = Instant::now();
        match there.clone().with_repeat_budget(std::time::Duration::ZERO).delete_job(id).await {
            Ok(answered) => break answered,
            Err(error) => assert_eq!(error.kind(), Some(ErrorKind::ShardMoving), "{error}"),
        }
        assert!(asked.elapsed().as_secs() < 5, "it is told soon");
        assert!(begun.elapsed() < PATIENCE, "nobody took the shard over");
    };
    assert_eq!(answered.state, "deleted");
    balanced(&there, 1).await;
}
