//! Workers whose namespaces change while they work.

use punctual_api::JobRequest;
use punctual_client::Client;
use punctual_core::Span;
use punctual_core::task::{Probe, Run, TaskSpec};

use super::Stage;
use crate::cluster::{finished, submit};
use crate::harness::eventually;

fn probe(sleep: Span) -> JobRequest {
    let mut spec = TaskSpec::new(Run::Probe(Probe { sleep, ..Probe::default() }));
    spec.queue = "q".to_owned();
    JobRequest { inline: Some(spec), ..JobRequest::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_serves_other_namespaces_within_seconds_and_what_it_runs_goes_on() {
    let stage = Stage::new();
    assert!(stage.command(&["namespace", "create", "team-a"]).status.success());
    let token = stage.token("join.token", &["--queues", "q", "--kinds", "probe"]);
    let _worker = stage.worker("w1", &token, &[]);
    let client = stage.client();
    let team: Client = stage.client().in_namespace(Some("team-a"));
    let running = submit(&client, &probe(Span::from_secs(12))).await;
    eventually("it runs", || async { client.job(running).await.is_ok_and(|job| job.state == "running") }).await;
    let waiting = submit(&team, &probe(Span::ZERO)).await;
    assert_eq!(team.job(waiting).await.expect("it is there").state, "scheduled", "nobody serves the namespace");

    let list = client.enrolments(&Default::default()).await.expect("they are listed").enrolments;
    let (id, token) = (list[0].id.to_string(), list[0].token.to_string());
    let refused = stage.command(&["worker", "edit", &id, "--namespaces", "team-b"]);
    assert!(!refused.status.success(), "there is no such namespace");
    let edited = stage.command(&["worker", "edit", &id, "--namespaces", "team-a"]);
    assert!(edited.status.success(), "{}", String::from_utf8_lossy(&edited.stderr));
    assert_eq!(finished(&team, waiting).await.state, "succeeded");
    let of_default = submit(&client, &probe(Span::ZERO)).await;
    let ended = finished(&client, running).await;
    assert_eq!((ended.state.as_str(), ended.attempt_count), ("succeeded", 1), "it went on");
    assert_eq!(client.job(of_default).await.expect("it is there").state, "scheduled", "nobody serves that any more");

    // All that joined with the token, at once.
    let edited = stage.command(&["worker", "token", "edit", &token, "--namespaces", "default,team-a"]);
    assert!(edited.status.success(), "{}", String::from_utf8_lossy(&edited.stderr));
    assert_eq!(finished(&client, of_default).await.state, "succeeded");
    let list = client.enrolments(&Default::default()).await.expect("they are listed").enrolments;
    assert_eq!(list[0].namespaces, ["default", "team-a"]);
}
