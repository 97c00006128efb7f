//! Calls of workers and peers that are under way, and how many of them there may be.
//!
//! Most of them last as long as their connection, so this bounds the connections that are busy with them. Each kind of call
//! has places of its own: a worker whose work was taken finds a place for its heartbeats, and workers keep no peer out.

use std::sync::Arc;
use std::time::Duration;

use punctual_app::Throttle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

const WORKERS: &str = "/punctual.worker.";
const PEERS: &str = "/punctual.peer.";

static REFUSED: Throttle = Throttle::new(Duration::from_secs(10));

#[derive(Clone)]
pub(crate) struct Streams {
    max: usize,
    work: Arc<Semaphore>,
    heartbeats: Arc<Semaphore>,
    /// What workers ask for besides, such as the address of a file.
    questions: Arc<Semaphore>,
    peers: Arc<Semaphore>,
}

/// A call under way. Dropped with its answer.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
}

/// Whether a call goes on for as long as its worker does.
pub(crate) fn is_endless(path: &str) -> bool {
    path.starts_with(WORKERS) && (path.ends_with("/Work") || path.ends_with("/Heartbeat"))
}

/// Whether a path is that of a call of workers or peers.
pub(crate) fn is_call(path: &str) -> bool {
    path.starts_with(WORKERS) || is_of_peer(path)
}

pub(crate) fn is_of_peer(path: &str) -> bool {
    path.starts_with(PEERS)
}

impl Streams {
    pub(crate) fn new(max: usize) -> Self {
        let lane = || Arc::new(Semaphore::new(max));
        Self { max, work: lane(), heartbeats: lane(), questions: lane(), peers: lane() }
    }

    /// A place for the call of this path. One that finds none is refused at once, and its worker or peer tries again.
    pub(crate) fn place(&self, path: &str) -> Result<Place, Status> {
        let (lane, what) = match path.rsplit('/').next() {
            _ if is_of_peer(path) => (&self.peers, "calls of peers"),
            Some("Work") => (&self.work, "streams of workers"),
            Some("Heartbeat") => (&self.heartbeats, "streams of heartbeats"),
            _ => (&self.questions, "calls of workers"),
        };
        Arc::clone(lane).try_acquire_owned().map(|permit| Place { _permit: permit }).map_err(|_| {
            let max = self.max;
            if let Some(left_out) = REFUSED.pass() {
                tracing::warn!(max, left_out, "a call was refused: too many {what}; grpc_streams_max is the limit");
            }
            Status::resource_exhausted(format!("too many {what} (limit {max}, the server's grpc_streams_max)"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_call_has_so_many_places_and_gets_them_back() {
        let streams = Streams::new(2);
        for path in [
            "/punctual.worker.v1.Worker/Work",
            "/punctual.worker.v1.Worker/Heartbeat",
            "/punctual.worker.v1.Worker/Download",
            "/punctual.peer.v1.Peer/Watch",
        ] {
            let held = [streams.place(path), streams.place(path)].map(|place| place.expect(path));
            let refused = streams.place(path).expect_err(path);
            assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
            drop(held);
            assert!(streams.place(path).is_ok(), "{path}");
        }
        let work = streams.place("/punctual.worker.v1.Worker/Work").ok();
        let more = streams.place("/punctual.worker.v1.Worker/Work").ok();
        let refused = streams.place("/punctual.worker.v1.Worker/Work").expect_err("there is no place");
        assert_eq!(refused.message(), "too many streams of workers (limit 2, the server's grpc_streams_max)");
        assert!(streams.place("/punctual.worker.v1.Worker/Heartbeat").is_ok(), "heartbeats have places of their own");
        drop((work, more));
    }
}
