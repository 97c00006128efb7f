//! Says that the worker lives, from a thread, a runtime and a connection of its own.
//!
//! Executors may keep every other thread busy, and a server must still not take the worker
//! for dead. So the only thing shared with them is the ledger's lock, which no executor holds.

use std::sync::Arc;
use std::thread;

use punctual_core::id::WorkerId;
use punctual_proto::convert::id_bytes;
use punctual_proto::worker as wire;
use punctual_proto::worker::worker_client::WorkerClient;
use tokio::sync::watch;
use tonic::transport::Channel;

use crate::error::WorkerError;
use crate::link::{Phase, Server, leaving};

/// Beats until the worker leaves.
pub(crate) fn spawn(
    servers: Vec<Arc<Server>>,
    worker: WorkerId,
    phase: watch::Receiver<Phase>,
) -> Result<thread::JoinHandle<()>, WorkerError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(WorkerError::Thread)?;
    let beat = async move {
        let hearts = servers.into_iter().map(|server| beat(server, worker));
        tokio::select! {
            _ = futures_util::future::join_all(hearts) => {}
            () = leaving(&phase) => {}
        }
    };
    thread::Builder::new()
        .name("punctual-heartbeat".to_owned())
        .spawn(move || runtime.block_on(beat))
        .map_err(WorkerError::Thread)
}

async fn beat(server: Arc<Server>, worker: WorkerId) {
    let mut every = server.heartbeat.subscribe();
    let mut client = WorkerClient::new(server.endpoint.connect_lazy());
    loop {
        let wait = *every.borrow_and_update();
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            // The server asked for another period: it counts from now.
            Ok(()) = every.changed() => continue,
        }
        let answered = tokio::time::timeout(wait, beat_once(&server, worker, &mut client)).await;
        if answered.is_err() {
            tracing::debug!(server = %server.url, "no answer to a heartbeat");
        }
    }
}

async fn beat_once(server: &Server, worker: WorkerId, client: &mut WorkerClient<Channel>) {
    let session = server.ledger.up();
    let request = wire::HeartbeatRequest { worker_id: id_bytes(worker.to_bytes()) };
    match client.heartbeat(request).await {
        // A stream that came up while the answer was under way may be known by now.
        Ok(answer) if !answer.get_ref().known && session.is_some() && server.ledger.up() == session => {
            server.forgotten.notify_one();
        }
        Ok(_) => {}
        Err(status) => tracing::debug!(server = %server.url, %status, "a heartbeat failed"),
    }
}
