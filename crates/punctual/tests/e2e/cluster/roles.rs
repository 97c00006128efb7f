//! Servers that take requests, and servers that keep time.

use punctual_core::task::Probe;
use serde_json::Value;

use super::{Cluster, balanced, finished, probe, submit};
use crate::checked::plain_http;
use crate::harness::eventually;

#[tokio::test]
async fn the_roles_can_be_split() {
    let cluster = Cluster::new();
    let scheduler = cluster.server(&["--roles", "scheduler"]);
    let api = cluster.server(&["--roles", "api"]);
    let client = api.client();
    balanced(&client, 1).await;
    let list = client.servers().await.expect("the servers");
    let own = list.servers.iter().find(|server| server.answered).expect("one answered");
    assert_eq!((own.roles.as_slice(), own.shards.len()), (&["api".to_owned()][..], 0));
    client.ready().await.expect("it is ready without shards");

    // The scheduler answers probes, and sends everybody else away.
    scheduler.client().live().await.expect("it lives");
    scheduler.client().ready().await.expect("it is ready");
    let refused = plain_http().get(format!("{}/v1/jobs", scheduler.url)).send().await.expect("an answer");
    assert_eq!(refused.status(), 421);
    let problem: Value = refused.json().await.expect("a problem");
    assert_eq!(problem["code"], "not_served_here");
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains("role api")), "{problem}");

    // A worker that knows only the wrong one does not work; the other takes it.
    let lost = cluster.home.worker_with_spool(&api, "lost", &[]);
    let id = submit(&client, &probe(Probe::default())).await;
    let _worker = cluster.home.worker_with_spool(&scheduler, "found", &[]);
    assert_eq!(finished(&client, id).await.state, "succeeded");
    eventually("one worker", || async { client.workers().await.is_ok_and(|list| list.workers.len() == 1) }).await;
    lost.kill();

    // A client of both is sent on to the one that answers.
    let both = punctual_client::Client::new(&format!("{},{}", scheduler.url, api.url)).expect("two addresses");
    assert_eq!(both.job(id).await.expect("the job").state, "succeeded");
}
