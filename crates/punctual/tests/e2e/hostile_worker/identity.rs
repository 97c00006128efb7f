//! Lies about who it is.

use punctual_proto::convert::id_bytes;
use punctual_proto::worker as wire;
use tonic::Code;

use super::liar::{Liar, client, denied, new_secret, secret_bytes};
use super::{Stage, on_both_stores};

on_both_stores! {
    the_id_of_a_live_worker_opens_no_second_stream,
    the_id_of_a_worker_opens_no_stream_after_a_restart_of_the_server_either,
}

/// In the three delivery modes alike: it is refused before anything is decided.
async fn the_id_of_a_live_worker_opens_no_second_stream(stage: Stage) {
    let worker = stage.worker().await;
    let victim = stage.victim().await;
    let id = stage.job(victim).await.attempts[0].worker.expect("the worker is known");
    for secret in [secret_bytes(&new_secret()), bytes::Bytes::new(), bytes::Bytes::from_static(&[0; 33])] {
        let mut impostor = Liar::greeted(&stage.server, new_secret()).await;
        let hello = wire::Hello { worker_id: id_bytes(id.to_bytes()), secret, ..impostor.hello() };
        denied(impostor.introduce(hello).await, Code::PermissionDenied);
    }
    stage.is_untouched(victim).await;
    drop(worker);
}

/// The server remembers no worker, and its own has not come back yet.
async fn the_id_of_a_worker_opens_no_stream_after_a_restart_of_the_server_either(stage: Stage) {
    let worker = stage.worker().await;
    let victim = stage.victim().await;
    let id = stage.job(victim).await.attempts[0].worker.expect("the worker is known");
    stop(worker.id(), "STOP");
    let stage = stage.restarted();
    let mut impostor = Liar::greeted(&stage.server, new_secret()).await;
    let hello = wire::Hello { worker_id: id_bytes(id.to_bytes()), ..impostor.hello() };
    denied(impostor.introduce(hello).await, Code::PermissionDenied);
    stop(worker.id(), "CONT");
    stage.is_untouched(victim).await;
}

/// Sends a signal to a process of this test.
fn stop(process: u32, signal: &str) {
    let sent = std::process::Command::new("kill").args(["-s", signal, &process.to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_connects_again_replaces_its_stream_at_once() {
    let stage = Stage::embedded();
    let mut first = Liar::welcomed(&stage.server).await;
    let mut second = Liar::greeted(&stage.server, first.secret.clone()).await;
    let hello = wire::Hello { worker_id: id_bytes(first.id.to_bytes()), ..second.hello() };
    second.introduce(hello).await.expect("it is the same worker");
    first.cut_off().await;
    let job = stage.submit(super::HOSTILE, Default::default()).await;
    assert_eq!(second.assigned().await.job, job);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_beats_for_another_worker() {
    let stage = Stage::embedded();
    let liar = Liar::welcomed(&stage.server).await;
    for secret in [secret_bytes(&new_secret()), bytes::Bytes::new()] {
        let beat = wire::HeartbeatRequest { worker_id: id_bytes(liar.id.to_bytes()), secret };
        let answers = client(&stage.server).await.heartbeat(tokio_stream::once(beat)).await;
        let answer = answers.expect("a stream opens").into_inner().message().await;
        denied(answer, Code::PermissionDenied);
    }
    let own = wire::HeartbeatRequest { worker_id: id_bytes(liar.id.to_bytes()), secret: secret_bytes(&liar.secret) };
    let beats = tokio_stream::iter([own.clone(), own]);
    let answer =
        client(&stage.server).await.heartbeat(beats).await.expect("a stream opens").into_inner().message().await;
    assert_eq!(answer.expect("its own are heard"), None, "it is connected");
}
