//! A worker that connects to some of the servers.

mod far_side;

use std::sync::Arc;

use far_side::*;
use punctual_proto::convert::id_bytes;
use punctual_proto::worker as wire;
use punctual_worker::{JobContext, Worker};
use tokio::sync::Notify;

/// Servers that are announced and that nobody reaches.
fn unreachable(count: u16) -> impl Iterator<Item = wire::Peer> {
    (1..=count).map(|port| {
        let server = punctual_core::ServerId::new(punctual_core::Timestamp::EPOCH, 1_000_000 + u64::from(port));
        wire::Peer { server_id: id_bytes(server.to_bytes()), address: format!("http://127.0.0.1:{port}") }
    })
}

fn gated(server: &FarServer) -> (Worker, Arc<Notify>) {
    let gate = Arc::new(Notify::new());
    let opened = gate.clone();
    let worker = Worker::connect(server.url()).slots(8).servers_max(1).handler("gated", move |job: JobContext| {
        let gate = opened.clone();
        async move {
            job.log("begun");
            gate.notified().await;
            Ok(None)
        }
    });
    (worker, gate)
}

#[tokio::test]
async fn a_worker_connects_to_a_server_that_it_is_invited_to() {
    let (mut a, mut b) = (FarServer::start().await, FarServer::start().await);
    // With so many others it hardly ever chooses `b` by itself.
    a.peers = unreachable(60).chain([a.peer(), b.peer()]).collect();
    let _worker = run(gated(&a).0);
    let from_a = a.welcome().await;
    let invitation = wire::Invitation { server_id: id_bytes(b.id.to_bytes()), for_ms: 30_000 };
    from_a.send(wire::ServerMessage { invitations: vec![invitation], ..Default::default() });
    assert_eq!(b.welcome().await.hello.worker_id, from_a.hello.worker_id);
}

#[tokio::test]
async fn a_server_that_is_not_needed_is_left_when_nothing_of_it_runs() {
    let (mut a, mut b) = (FarServer::start().await, FarServer::start().await);
    let peers: Vec<wire::Peer> = unreachable(1).chain([b.peer()]).collect();
    (a.peers, b.peers) = (peers.clone(), peers);
    let (worker, gate) = gated(&a);
    let status = worker.status();
    let _worker = run(worker);
    let mut from_a = a.welcome().await;
    from_a.assign(handler_task("gated"), &[job(1)]);
    from_a.printed("begun").await;
    let _from_b = b.welcome().await;
    // Its share is halved for `b` first. No credit is sent until the server has confirmed the one before.
    loop {
        let told = from_a.credit().await;
        let credit = Some(wire::CreditKept { told, bound: told.max(1) });
        from_a.send(wire::ServerMessage { credit, ..Default::default() });
        if told == 0 {
            break;
        }
    }
    assert_eq!(status.connected(), 2, "its attempt runs");
    gate.notify_one();
    from_a.outcome().await;
    from_a.ack(&[job(1)]);
    from_a.confirm(0);
    while from_a.message().await.is_some() {}
    eventually("one server is left", || status.connected() == 1).await;
}
