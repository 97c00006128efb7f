//! Workers that are connected to a few servers only: every server's jobs run.

use std::collections::{BTreeMap, BTreeSet};

use punctual_api::{JobRequest, WorkerView};
use punctual_client::Client;
use punctual_core::task::{Probe, Run, TaskSpec};
use punctual_core::{JobId, Span};

use super::{Cluster, balanced, finished, probe, submit};
use crate::harness::{Process, Server, eventually};

const SERVERS: usize = 4;

async fn servers(cluster: &Cluster) -> Vec<Server> {
    let servers: Vec<Server> = (0..SERVERS).map(|_| cluster.server(&[])).collect();
    balanced(&servers[0].client(), SERVERS).await;
    servers
}

/// A worker that connects to so many servers.
fn worker(cluster: &Cluster, server: &Server, name: &str, count: &str, flags: &[&str]) -> Process {
    let own = ["--name", name, "--worker-servers", count, "--slots", "4"];
    cluster.home.worker_with_spool(server, &format!("spool-{name}"), &[&own, flags].concat())
}

async fn connected(client: &Client) -> BTreeMap<String, WorkerView> {
    let workers = client.workers().await.map(|list| list.workers).unwrap_or_default().into_iter();
    workers.filter(|worker| !worker.servers.is_empty()).map(|worker| (worker.name.clone(), worker)).collect()
}

fn labelled(label: &str, sleep: Span) -> JobRequest {
    let labels = BTreeMap::from([(label.to_owned(), "yes".to_owned())]);
    let spec = TaskSpec { labels, ..TaskSpec::new(Run::Probe(Probe { sleep, ..Probe::default() })) };
    JobRequest { inline: Some(spec), ..JobRequest::default() }
}

/// A job in a shard of each of these servers: a new job stays where it was taken.
async fn one_each(servers: &[Server], request: &JobRequest) -> Vec<JobId> {
    let mut ids = Vec::new();
    for server in servers {
        ids.push(submit(&server.client(), request).await);
    }
    ids
}

#[tokio::test]
async fn every_server_finds_the_only_worker_that_fits() {
    let cluster = Cluster::new();
    let servers = servers(&cluster).await;
    let client = servers[0].client();
    let _gpu = worker(&cluster, &servers[0], "gpu", "1", &["--labels", "gpu=yes"]);
    let _others: Vec<Process> =
        (0..3).map(|number| worker(&cluster, &servers[0], &format!("w{number}"), "2", &[])).collect();
    eventually("every worker is connected to as many servers as it should be", || async {
        let workers = connected(&client).await;
        workers.len() == 4
            && workers.iter().all(|(name, worker)| worker.servers.len() == if name == "gpu" { 1 } else { 2 })
    })
    .await;
    for id in one_each(&servers, &labelled("gpu", Span::ZERO)).await {
        let job = finished(&client, id).await;
        assert_eq!((job.state.as_str(), job.attempts.len()), ("succeeded", 1), "{job:?}");
    }
    // A connection that is not needed any more may be closed already.
    assert!(connected(&client).await["gpu"].servers.len() > 1, "other servers have asked for it");
    let mut ran = BTreeSet::new();
    for _ in 0..5 {
        for id in one_each(&servers, &probe(Probe::default())).await {
            let job = finished(&client, id).await;
            ran.insert(job.attempts[0].worker);
        }
    }
    assert!(ran.len() > 1, "{ran:?}");
}

#[tokio::test]
async fn an_explanation_says_that_workers_elsewhere_were_asked_for() {
    let cluster = Cluster::new();
    let servers = servers(&cluster).await;
    let client = servers[0].client();
    let _worker = worker(&cluster, &servers[0], "w", "1", &[]);
    let id = submit(&servers[1].client(), &labelled("rare", Span::ZERO)).await;
    let asked = format!("asked {} servers for workers with label rare=yes since ", SERVERS - 1);
    eventually("the servers are asked", || async {
        client
            .job(id)
            .await
            .is_ok_and(|job| job.explanation.contains("has rare=yes") && job.explanation.contains(&asked))
    })
    .await;
    let _rare = worker(&cluster, &servers[0], "rare", "1", &["--labels", "rare=yes"]);
    assert_eq!(finished(&client, id).await.state, "succeeded");
}

#[tokio::test]
async fn an_attempt_goes_on_when_its_owner_dies_and_the_next_one_does_not_know_its_worker() {
    let cluster = Cluster::new();
    let mut servers = servers(&cluster).await;
    let client = servers[0].client();
    let _worker = worker(&cluster, &servers[0], "w", "1", &[]);
    eventually("it is connected", || async { connected(&client).await.len() == 1 }).await;
    let ids = one_each(&servers, &probe(Probe { sleep: Span::from_secs(12), ..Probe::default() })).await;
    for id in &ids {
        eventually("it runs", || async { client.job(*id).await.is_ok_and(|job| job.state == "running") }).await;
    }
    servers.remove(3).kill();
    balanced(&client, SERVERS - 1).await;
    for id in ids {
        let job = finished(&client, id).await;
        assert_eq!((job.state.as_str(), job.attempts.len()), ("succeeded", 1), "{job:?}");
    }
    // Whoever has its shards now, their jobs find the worker.
    for id in one_each(&servers, &probe(Probe::default())).await {
        assert_eq!(finished(&client, id).await.state, "succeeded");
    }
}
