//! Sends heartbeats from a thread, a runtime and a connection of their own.
//!
//! Executors may keep every other thread busy, and a server must still not consider the worker dead. So the only thing
//! that the heartbeat shares with them is the lock of the held attempts, which no executor holds.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures_util::stream::unfold;
use punctual_proto::convert::id_bytes;
use punctual_proto::worker as wire;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tonic::Status;

use crate::builder::Identity;
use crate::dial::trouble;
use crate::error::WorkerError;
use crate::held::{LinkNo, LinkStage};
use crate::link::{Phase, RemoteServer, leaving};
use crate::servers::ServerList;

/// How long to wait before a broken heartbeat stream is reopened.
const REOPEN_AFTER: Duration = Duration::from_secs(1);

/// Sends heartbeats until the worker leaves.
pub(crate) fn spawn(
    servers: ServerList,
    worker: Identity,
    phase: watch::Receiver<Phase>,
) -> Result<thread::JoinHandle<()>, WorkerError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(WorkerError::Thread)?;
    let beat = wire::HeartbeatRequest {
        worker_id: id_bytes(worker.id.to_bytes()),
        secret: worker.secret.to_bytes().to_vec().into(),
    };
    let beat = async move {
        tokio::select! {
            () = follow(servers, beat) => {}
            () = leaving(&phase) => {}
        }
    };
    thread::Builder::new()
        .name("punctual-heartbeat".to_owned())
        .spawn(move || runtime.block_on(beat))
        .map_err(WorkerError::Thread)
}

/// Sends heartbeats to every server on the list, as the list changes.
async fn follow(mut servers: ServerList, said: wire::HeartbeatRequest) {
    let mut hearts = JoinSet::new();
    let mut beating: HashMap<LinkNo, AbortHandle> = HashMap::new();
    loop {
        let list = servers.borrow_and_update().clone();
        beating.retain(|link, heart| {
            let stays = list.iter().any(|server| server.link == *link);
            if !stays {
                heart.abort();
            }
            stays
        });
        for server in list.iter() {
            beating.entry(server.link).or_insert_with(|| hearts.spawn(beat(server.clone(), said.clone())));
        }
        while hearts.try_join_next().is_some() {}
        if servers.changed().await.is_err() {
            // The worker leaves, and the hearts beat until it has.
            std::future::pending::<()>().await;
        }
    }
}

/// Sends heartbeats to one server, reopening the stream whenever it breaks.
async fn beat(server: Arc<RemoteServer>, said: wire::HeartbeatRequest) {
    loop {
        if let Err(status) = beat_until_broken(&server, said.clone()).await {
            tracing::debug!(server = %server.url, %status, "heartbeats do not arrive");
        }
        let wait = REOPEN_AFTER.min(*server.heartbeat.borrow());
        tokio::time::sleep(wait).await;
    }
}

async fn beat_until_broken(server: &Arc<RemoteServer>, said: wire::HeartbeatRequest) -> Result<(), Status> {
    let channel = server.connect_beside().await.map_err(|error| Status::unavailable(trouble(&error)))?;
    let mut client = server.client(channel);
    // Which stream of work was up when the last beat was sent.
    let (told, session) = watch::channel(None);
    let beats = unfold((server.clone(), told, said), |(server, told, said)| async move {
        next_beat(&server).await;
        told.send_replace(server.held.up(server.link));
        Some((said.clone(), (server, told, said)))
    });
    let mut complaints = client.heartbeat(beats).await?.into_inner();
    while complaints.message().await?.is_some() {
        let session = *session.borrow();
        // A stream that came up while the answer was under way may be known by now.
        if session.is_some() && server.held.up(server.link) == session {
            server.forgotten.notify_one();
        }
    }
    Ok(())
}

async fn next_beat(server: &RemoteServer) {
    let mut every = server.heartbeat.subscribe();
    loop {
        let wait = *every.borrow_and_update();
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            // The server asked for another period: it counts from now.
            Ok(()) = every.changed() => continue,
        }
        // Another link's heart beats for the same server.
        if server.held.stage(server.link) != LinkStage::Alias {
            return;
        }
    }
}
