//! Waiting for jobs and following them, at another server than they run on.

use futures_util::StreamExt;
use punctual_core::Span;
use punctual_core::task::Probe;

use super::{Cluster, finished, probe, sleeper, submit};
use crate::harness::PATIENCE;

#[tokio::test]
async fn a_job_of_one_server_is_awaited_at_another() {
    let cluster = Cluster::new();
    let [first, second] = cluster.pair().await;
    let _worker = cluster.worker(&first);
    let id = submit(&first.client(), &probe(Probe { output: Some("hi".to_owned()), ..Probe::default() })).await;
    let job = finished(&second.client(), id).await;
    assert_eq!((job.state.as_str(), job.output.expect("an output").get()), ("succeeded", "\"hi\""));
    // Long enough that the wait has begun before the end.
    let id = submit(&second.client(), &sleeper(Span::from_millis(700))).await;
    let job = finished(&first.client(), id).await;
    let finished_at = job.finished_at.expect("it has finished");
    let late = first.client().server().await.expect("the server").now.since(finished_at);
    assert!(late < Span::from_secs(5), "told {late} after the end");
}

#[tokio::test]
async fn changes_are_followed_from_any_server() {
    let cluster = Cluster::new();
    let servers = cluster.pair().await;
    let _worker = cluster.worker(&servers[0]);
    let clients = [servers[0].client(), servers[1].client()];
    for (here, there) in [(&clients[0], &clients[1]), (&clients[1], &clients[0])] {
        let mut changes = Box::pin(there.changes().await.expect("a stream"));
        let id = submit(here, &probe(Probe::default())).await;
        let mut states = Vec::new();
        while states.last().map(String::as_str) != Some("succeeded") {
            let change = tokio::time::timeout(PATIENCE, changes.next()).await.expect("in time");
            let change = change.expect("the stream goes on").expect("a change");
            if change.id == id {
                states.push(change.state);
            }
        }
        assert!(states.contains(&"running".to_owned()), "{states:?}");

        let id = submit(here, &sleeper(Span::from_millis(500))).await;
        let changes = there.job_changes(id).await.expect("a stream");
        let states: Vec<String> = changes.map(|change| change.expect("a change").state).collect().await;
        assert_eq!(states.last().map(String::as_str), Some("succeeded"), "it ends with the job");
    }
}
