//! Queues that are paused on one of several servers.

use std::time::Duration;

use punctual_api::{JobRequest, QueueView};
use punctual_client::{Client, Waited};
use punctual_core::task::{Probe, Run, TaskSpec};
use punctual_core::{JobId, Timestamp};

use super::{Cluster, balanced, finished, submit};
use crate::harness::{Server, eventually};

/// A job of the queue `mail` that ends at once.
fn mail() -> JobRequest {
    let spec = TaskSpec { queue: "mail".to_owned(), ..TaskSpec::new(Run::Probe(Probe::default())) };
    JobRequest { inline: Some(spec), ..JobRequest::default() }
}

async fn submit_some(clients: &[Client], count: usize) -> Vec<JobId> {
    let mut ids = Vec::new();
    for n in 0..count {
        ids.push(submit(&clients[n % clients.len()], &mail()).await);
    }
    ids
}

/// Pauses until all servers have confirmed it.
async fn pause(client: &Client) -> QueueView {
    loop {
        let paused = client.pause_queue("mail", Some("the provider is down")).await.expect("it is paused");
        if paused.unconfirmed_servers.is_empty() {
            return paused;
        }
    }
}

/// None of them starts, now or a while later.
async fn none_starts(client: &Client, ids: &[JobId]) {
    let first = client.wait_finished(ids[0], Some(Duration::from_secs(2))).await.expect("the job is there");
    assert!(matches!(first, Waited::Pending(_)), "it ran");
    for id in ids {
        let job = client.job(*id).await.expect("the job is there");
        assert_eq!((job.state.as_str(), job.attempt_count), ("scheduled", 0), "{job:#?}");
    }
}

#[tokio::test]
async fn a_pause_at_one_server_holds_at_all_and_outlives_takeovers_and_restarts() {
    let cluster = Cluster::new();
    let servers = cluster.pair().await;
    let _worker = cluster.home.worker(&servers[0], &["--queues", "default,mail", "--slots", "40"]);
    let clients = [servers[0].client(), servers[1].client()];
    let first = submit_some(&clients, 4).await;
    for id in &first {
        finished(&clients[0], *id).await;
    }
    let paused = pause(&clients[1]).await;
    assert_eq!((paused.state.as_str(), paused.note.as_deref()), ("paused", Some("the provider is down")));
    // Both servers own some of their shards.
    let ids = submit_some(&clients, 20).await;
    none_starts(&clients[0], &ids).await;
    let reason = "queue mail is paused since ";
    for client in &clients {
        let job = client.job(ids[0]).await.expect("the job");
        assert!(job.explanation.contains(reason) && job.explanation.contains("the provider is down"), "{job:#?}");
        assert!(job.waiting_for.is_some_and(|reason| reason.starts_with("queue mail is paused")));
        eventually("both servers say the same", || async {
            let queue = client.queue("mail").await.expect("the queue");
            (queue.waiting, queue.running, queue.has_more_waiting) == (20, 0, false) && !queue.uncertain
        })
        .await;
        assert!(client.queue("mail").await.expect("the queue").waiting_since.is_some());
    }
    let [dead, alive] = servers;
    dead.kill();
    balanced(&clients[1], 1).await;
    none_starts(&clients[1], &ids).await;
    alive.kill();
    let started: Server = cluster.server(&[]);
    let client = started.client();
    let _worker = cluster.home.worker(&started, &["--queues", "default,mail"]);
    balanced(&client, 1).await;
    none_starts(&client, &ids).await;
    client.resume_queue("mail", None).await.expect("it is resumed");
    for id in &ids {
        finished(&client, *id).await;
    }
}

#[tokio::test]
async fn nothing_starts_between_a_confirmed_pause_and_its_end() {
    let cluster = Cluster::new();
    let servers = cluster.pair().await;
    let _worker = cluster.home.worker(&servers[0], &["--queues", "default,mail", "--slots", "200"]);
    let clients = [servers[0].client(), servers[1].client()];
    for round in 0..5 {
        // Some have started when the pause comes, and some have not.
        let mut ids = submit_some(&clients, 40).await;
        pause(&clients[round % 2]).await;
        let confirmed_at = now();
        let held = submit_some(&clients, 10).await;
        none_starts(&clients[0], &held).await;
        let resumed_at = now();
        clients[0].resume_queue("mail", None).await.expect("it is resumed");
        ids.extend(held);
        for id in &ids {
            let job = finished(&clients[1], *id).await;
            let started_at = job.attempts[0].started_at;
            let is_within = started_at > confirmed_at && started_at < resumed_at;
            assert!(!is_within, "round {round}: started at {started_at}, paused from {confirmed_at} to {resumed_at}");
        }
    }
}

/// By the clock that all processes of the test share.
#[expect(clippy::disallowed_methods, reason = "servers record starts by the real clock")]
fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is later than 1970");
    Timestamp::saturating_from_micros(i64::try_from(since.as_micros()).expect("it is not that late"))
}

#[tokio::test]
async fn a_drain_at_one_server_refuses_submissions_at_all() {
    let cluster = Cluster::new();
    let servers = cluster.pair().await;
    let clients = [servers[0].client(), servers[1].client()];
    let waiting = submit(&clients[0], &mail()).await;
    let drained = clients[0].drain_queue("mail", None).await.expect("it is drained");
    assert_eq!(drained.unconfirmed_servers, []);
    for client in &clients {
        let refused = client.submit(&mail()).await.expect_err("it accepts no jobs");
        assert_eq!(refused.kind(), Some(punctual_api::ErrorKind::QueueDraining), "{refused}");
    }
    let _worker = cluster.home.worker(&servers[1], &["--queues", "mail"]);
    finished(&clients[1], waiting).await;
    clients[1].resume_queue("mail", None).await.expect("it is resumed");
    submit(&clients[0], &mail()).await;
}
