//! How a worker ends, and what survives it.

mod far_side;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use far_side::*;
use punctual_core::attempt::Outcome;
use punctual_proto::worker as wire;
use punctual_worker::{JobContext, Worker};
use tokio::sync::Notify;

/// Its handler `gated` ends when the gate is opened.
fn gated_worker(server: &FarServer) -> (Worker, Arc<Notify>) {
    let gate = Arc::new(Notify::new());
    let opened = gate.clone();
    let worker = Worker::connect(server.url()).slots(8).handler("gated", move |_: JobContext| {
        let gate = opened.clone();
        async move {
            gate.notified().await;
            Ok(Some("done".into()))
        }
    });
    (worker, gate)
}

#[tokio::test]
async fn a_worker_that_leaves_takes_nothing_new_and_finishes_what_it_has() {
    let mut server = FarServer::start().await;
    let (worker, gate) = gated_worker(&server);
    let status = worker.status();
    let running = run(worker);
    let mut stream = server.welcome().await;
    stream.assign(handler_task("gated"), &[job(1)]);
    eventually("the attempt to begin", || status.running() == 1).await;
    let left = running.tell_to_leave();
    assert_eq!(stream.message().await.unwrap().credit, Some(0));

    stream.assign(handler_task("gated"), &[job(2)]);
    let refused = stream.outcome().await;
    assert_eq!(refused.id, job(2));
    assert_eq!(refused.outcome, Outcome::NotStarted { reason: "the worker is about to leave".into() });

    gate.notify_one();
    let finished = stream.outcome().await;
    assert_eq!(finished.id, job(1));
    assert!(!left.is_finished(), "it waits for the acknowledgement");
    stream.ack(&[job(1), job(2)]);
    assert!(stream.message().await.is_none(), "the stream is closed in order");
    drop(stream);
    within("the worker to leave", left).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_idle_worker_that_leaves_gives_back_what_was_on_its_way() {
    let mut server = FarServer::start().await;
    let (worker, _gate) = gated_worker(&server);
    let status = worker.status();
    let running = run(worker);
    let mut stream = server.welcome().await;
    eventually("the worker to be connected", || status.connected() == 1).await;
    let left = running.tell_to_leave();
    assert_eq!(stream.message().await.expect("it says so before it goes").credit, Some(0));
    stream.assign(handler_task("gated"), &[job(1)]);
    let refused = stream.outcome().await;
    assert_eq!(refused.id, job(1));
    assert_eq!(refused.outcome, Outcome::NotStarted { reason: "the worker is about to leave".into() });
    stream.ack(&[job(1)]);
    assert!(stream.message().await.is_none(), "the stream is closed in order");
    drop(stream);
    within("the worker to leave", left).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_worker_that_leaves_does_not_wait_longer_than_its_limit() {
    let mut server = FarServer::start().await;
    let (worker, _gate) = gated_worker(&server);
    let status = worker.status();
    let running = run(worker.drain_timeout(Duration::from_millis(50)));
    let stream = server.welcome().await;
    stream.assign(handler_task("gated"), &[job(1)]);
    eventually("the attempt to begin", || status.running() == 1).await;
    let left = running.tell_to_leave();
    within("the worker to leave", left).await.unwrap().unwrap();
}

fn spool_files(dir: &Path) -> usize {
    std::fs::read_dir(dir).map_or(0, Iterator::count)
}

#[tokio::test]
async fn outcomes_that_no_server_took_survive_the_worker() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = FarServer::start().await;
    let (worker, gate) = gated_worker(&server);
    let running = run(worker.spool_dir(dir.path()));
    let mut stream = server.welcome().await;
    stream.assign(handler_task("gated"), &[job(1), job(2)]);
    gate.notify_one();
    let sent = stream.outcome().await;
    assert_eq!(spool_files(dir.path()), 0, "no disk is touched while a server listens");
    let addr = server.kill().await;
    gate.notify_one();
    // It has a server to tell and none to be reached: the disk is enough to leave.
    running.leave().await;
    assert_eq!(spool_files(dir.path()), 1);

    let mut server = FarServer::start_at(addr).await;
    let (worker, _gate) = gated_worker(&server);
    let _running = run(worker.spool_dir(dir.path()));
    let mut stream = server.welcome().await;
    assert_eq!(sorted(stream.hello.held.clone()), refs(&[job(1), job(2)]));
    let mut outcomes = stream.outcomes().await;
    outcomes.sort_by_key(|report| report.id);
    assert_eq!(outcomes.iter().map(|report| report.id).collect::<Vec<_>>(), [job(1), job(2)]);
    assert!(outcomes.contains(&sent));
    stream.ack(&[job(1)]);
    stream.ack(&[job(2)]);
    eventually("the spool to be empty", || spool_files(dir.path()) == 0).await;
}

#[tokio::test]
async fn outcomes_that_cannot_be_spooled_keep_a_worker_from_leaving() {
    let dir = tempfile::tempdir().unwrap();
    let spool = dir.path().join("spool");
    let mut server = FarServer::start().await;
    let (worker, gate) = gated_worker(&server);
    let status = worker.status();
    let running = run(worker.spool_dir(&spool));
    let stream = server.welcome().await;
    stream.assign(handler_task("gated"), &[job(1)]);
    eventually("the attempt to begin", || status.running() == 1).await;
    std::fs::remove_dir(&spool).unwrap();
    let addr = server.kill().await;
    gate.notify_one();
    let left = running.tell_to_leave();

    let mut server = FarServer::start_at(addr).await;
    let mut stream = server.welcome().await;
    assert_eq!(stream.outcome().await.id, job(1));
    stream.ack(&[job(1)]);
    within("the worker to leave", left).await.unwrap().unwrap();
}

#[tokio::test]
async fn outcomes_are_spooled_as_soon_as_that_is_possible() {
    let dir = tempfile::tempdir().unwrap();
    let spool = dir.path().join("spool");
    let mut server = FarServer::start().await;
    let (worker, gate) = gated_worker(&server);
    let status = worker.status();
    let running = run(worker.spool_dir(&spool));
    let stream = server.welcome().await;
    stream.assign(handler_task("gated"), &[job(1)]);
    eventually("the attempt to begin", || status.running() == 1).await;
    std::fs::remove_dir(&spool).unwrap();
    server.kill().await;
    gate.notify_one();
    eventually("the attempt to end", || status.running() == 0).await;
    std::fs::create_dir(&spool).unwrap();
    running.leave().await;
    assert_eq!(spool_files(&spool), 1);
}

#[tokio::test]
async fn the_spool_is_emptied_when_the_server_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = FarServer::start().await;
    let (worker, gate) = gated_worker(&server);
    let _running = run(worker.spool_dir(dir.path()));
    let stream = server.welcome().await;
    stream.assign(handler_task("gated"), &[job(1)]);
    drop(stream);
    // Not welcomed: the worker is not sure of a server yet.
    let stream = server.accept().await;
    assert_eq!(stream.hello.held, refs(&[job(1)]));
    gate.notify_one();
    eventually("the outcome to be spooled", || spool_files(dir.path()) == 1).await;

    let mut stream = stream;
    stream.send(welcome_message(60_000, 0));
    assert_eq!(stream.outcome().await.id, job(1));
    stream.ack(&[job(1)]);
    eventually("the spool to be empty", || spool_files(dir.path()) == 0).await;
}

#[tokio::test]
async fn two_workers_share_a_spool_folder_without_taking_each_others_outcomes() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = FarServer::start().await;
    let (worker, gate) = gated_worker(&server);
    let _first = run(worker.spool_dir(dir.path()));
    let stream = server.welcome().await;
    stream.assign(handler_task("gated"), &[job(1)]);
    drop(stream);
    let _not_welcomed = server.accept().await;
    gate.notify_one();
    eventually("the outcome to be spooled", || spool_files(dir.path()) == 1).await;

    let mut other = FarServer::start().await;
    let (worker, _gate) = gated_worker(&other);
    let _second = run(worker.spool_dir(dir.path()));
    assert_eq!(other.accept().await.hello.held, Vec::<wire::AttemptRef>::new());
    assert_eq!(spool_files(dir.path()), 1);
}
