//! A worker and several servers.

mod far_side;

use std::sync::Arc;
use std::time::Duration;

use far_side::*;
use futures_util::FutureExt;
use punctual_core::JobId;
use punctual_core::attempt::Outcome;
use punctual_proto::worker as wire;
use punctual_worker::{JobContext, Worker};
use tokio::sync::Notify;

/// Its handler `gated` ends when the gate is opened.
fn gated_worker(servers: &[&FarServer]) -> (Worker, Arc<Notify>) {
    let gate = Arc::new(Notify::new());
    let opened = gate.clone();
    let worker = Worker::connect(servers[0].url()).slots(8).handler("gated", move |job: JobContext| {
        let gate = opened.clone();
        async move {
            job.log("begun");
            gate.notified().await;
            Ok(None)
        }
    });
    (servers[1..].iter().fold(worker, |worker, server| worker.server(server.url())), gate)
}

async fn two_servers() -> (FarServer, FarServer) {
    let (mut a, mut b) = (FarServer::start().await, FarServer::start().await);
    (a.owns, b.owns) = (vec![(0, 1)], vec![(1, 1)]);
    (a, b)
}

fn under_epoch(epoch: u64, jobs: &[JobId]) -> wire::ServerMessage {
    let mut message = assignments(handler_task("gated"), jobs);
    for assignment in &mut message.assignments {
        assignment.epoch = epoch;
    }
    message
}

#[tokio::test]
async fn a_worker_says_nothing_before_it_is_greeted() {
    let mut server = FarServer::start().await;
    let _worker = run(gated_worker(&[&server]).0);
    let (mut inbound, outbound) = server.stream().await;
    assert!(inbound.message().now_or_never().is_none());
    // It repeats the greeting's number: checked in there.
    let stream = server.greet(inbound, outbound).await.expect("a hello");
    assert_eq!(stream.hello.credit, 8);
}

#[tokio::test]
async fn what_a_former_owner_assigns_is_not_begun() {
    let (mut a, mut b) = two_servers().await;
    b.owns = vec![(0, 2)];
    let (worker, _gate) = gated_worker(&[&a, &b]);
    let status = worker.status();
    let _worker = run(worker);
    let mut from_a = a.welcome().await;
    let from_b = b.welcome().await;
    eventually("both streams", || status.connected() == 2).await;
    from_a.send(under_epoch(1, &[job(1), job_of(1, 2)]));
    from_a.printed("begun").await;
    assert_eq!(status.running(), 1);
    drop(from_b);
    assert_eq!(b.welcome().await.hello.held, refs(&[job_of(1, 2)]));
}

#[tokio::test]
async fn an_outcome_goes_to_another_server_when_the_one_that_assigned_it_died() {
    let (mut a, mut b) = two_servers().await;
    let (worker, gate) = gated_worker(&[&a, &b]);
    let status = worker.status();
    let _worker = run(worker);
    let mut from_a = a.welcome().await;
    let mut from_b = b.welcome().await;
    from_a.assign(handler_task("gated"), &[job(1), job(2)]);
    from_a.printed("begun").await;
    eventually("both to begin", || status.running() == 2).await;
    gate.notify_one();
    let first = from_a.outcome().await.id;
    a.kill().await;
    assert_eq!(from_b.outcome().await.id, first, "it was not acknowledged");
    gate.notify_one();
    let second = from_b.outcome().await;
    assert_ne!(second.id, first);
    from_b.ack(&[job(1), job(2)]);
    eventually("all to be acknowledged", || status.unacknowledged() == 0).await;
}

#[tokio::test]
async fn a_shard_that_moves_takes_its_attempts_and_their_logs_along() {
    let (mut a, mut b) = two_servers().await;
    let (worker, gate) = gated_worker(&[&a, &b]);
    let _worker = run(worker);
    let mut from_a = a.welcome().await;
    let from_b = b.welcome().await;
    from_a.assign(handler_task("gated"), &[job(1)]);
    from_a.printed("begun").await;
    // The one server leaves, the other takes its shard and asks for another hello.
    drop(from_a);
    b.owns = vec![(0, 2), (1, 1)];
    drop(from_b);
    let mut from_b = b.welcome().await;
    assert_eq!(from_b.hello.held, refs(&[job(1)]));
    gate.notify_one();
    assert_eq!(from_b.outcome().await.outcome, Outcome::Succeeded { output: None });
    assert_eq!(from_b.log_text(), "begun\n", "the whole log came before the outcome");
}

#[tokio::test]
async fn two_addresses_of_one_server_are_one_link() {
    let mut server = FarServer::start().await;
    let (worker, _gate) = gated_worker(&[&server]);
    let status = worker.status();
    let _worker = run(worker.server(format!("http://localhost:{}", server.addr.port())));
    let mut streams = Vec::new();
    let mut silent = 0;
    while silent == 0 {
        match server.accept_unless_silent().await {
            Some(stream) => {
                stream.send(welcome_message(60_000, 0));
                stream.confirm(stream.hello.credit);
                streams.push(stream);
            }
            None => silent += 1,
        }
    }
    assert_eq!(streams.len(), 1);
    assert_eq!(streams[0].hello.credit, 4, "the other address might have been another server");
    assert_eq!(streams[0].credit().await, 8);
    assert_eq!(status.connected(), 1);
}

#[tokio::test]
async fn the_servers_that_a_server_tells_of_are_served() {
    let (mut a, mut b) = two_servers().await;
    let mut c = FarServer::start().await;
    c.owns = vec![(2, 1)];
    a.peers = vec![a.peer(), b.peer()];
    let (worker, _gate) = gated_worker(&[&a]);
    let _worker = run(worker);
    let mut from_a = a.welcome().await;
    let from_b = b.welcome().await;
    assert_eq!((from_a.hello.credit, from_b.hello.credit), (8, 0));
    assert_eq!(from_a.credit().await, 4, "the slots are divided anew");
    let peers = wire::Peers { peers: vec![a.peer(), b.peer(), c.peer()] };
    from_a.send(wire::ServerMessage { peers: Some(peers), ..Default::default() });
    c.welcome().await;
}

#[tokio::test]
async fn credit_is_granted_to_one_server_when_another_has_confirmed_to_have_less() {
    let (mut a, mut b) = two_servers().await;
    let (worker, _gate) = gated_worker(&[&a, &b]);
    let _worker = run(worker);
    let (mut from_a, mut from_b) = (a.welcome().await, b.welcome().await);
    assert_eq!((from_a.hello.credit, from_b.hello.credit), (4, 4));
    from_b.demand(100);
    assert_eq!(from_a.credit().await, 2);
    let early = tokio::time::timeout(Duration::from_millis(200), from_b.credit()).await;
    assert!(early.is_err(), "the slots were promised twice");
    from_a.confirm(2);
    assert_eq!(from_b.credit().await, 6);
    from_b.confirm(6);
    assert_eq!(from_a.credit().await, 1, "one is kept");
    from_a.confirm(1);
    assert_eq!(from_b.credit().await, 7);
    from_b.confirm(7);
    from_b.demand(0);
    assert!(from_b.credit().await < 7, "and back when that is over");
}

#[tokio::test]
async fn the_slots_of_a_server_that_is_gone_go_to_the_others() {
    let (mut a, mut b) = two_servers().await;
    let (worker, gate) = gated_worker(&[&a, &b]);
    let status = worker.status();
    let _worker = run(worker);
    let (from_a, mut from_b) = (a.welcome().await, b.welcome().await);
    from_a.assign(handler_task("gated"), &[job(1)]);
    eventually("the attempt to begin", || status.running() == 1).await;
    a.kill().await;
    assert_eq!(from_b.credit().await, 7, "one slot is taken by what it left");
    from_b.confirm(7);
    gate.notify_one();
    assert_eq!(from_b.credit().await, 8);
}
