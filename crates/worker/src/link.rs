//! The connection to one server, kept up for as long as the worker runs.
//!
//! One task reads a stream to its end and only then opens the next, so nothing of an old
//! stream can arrive after the new one's hello has said what is held.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::id::WorkerId;
use punctual_proto::worker as wire;
use tokio::sync::{Notify, watch};
use tonic::transport::Endpoint;

use crate::attempts::Rules;
use crate::backoff::Backoff;
use crate::error::WorkerError;
use crate::ledger::Ledger;
use crate::spool::Spool;
use crate::tasks::Tasks;

/// Until a server says otherwise.
pub(crate) const HEARTBEAT_DEFAULT: Duration = Duration::from_secs(5);
pub(crate) const LOG_BYTES_MAX_DEFAULT: usize = 1 << 20;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const WINDOW_BYTES: u32 = 4 << 20;

/// What a worker says about itself to every server.
pub(crate) struct Profile {
    pub(crate) id: WorkerId,
    pub(crate) name: String,
    pub(crate) queues: Vec<String>,
    pub(crate) capabilities: Vec<String>,
    pub(crate) labels: std::collections::HashMap<String, String>,
    /// Of all servers: each is told everything that the worker holds.
    pub(crate) ledgers: Arc<[Arc<Ledger>]>,
}

impl Profile {
    pub(crate) fn held(&self) -> Vec<wire::AttemptRef> {
        self.ledgers.iter().flat_map(|ledger| ledger.held()).collect()
    }
}

/// One server, as its stream and its heartbeat know it.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) endpoint: Endpoint,
    pub(crate) ledger: Arc<Ledger>,
    /// The server does not know this worker any more.
    pub(crate) forgotten: Notify,
    pub(crate) heartbeat: watch::Sender<Duration>,
}

impl Server {
    pub(crate) fn new(url: String, ledger: Arc<Ledger>) -> Result<Self, WorkerError> {
        let endpoint = match Endpoint::from_shared(url.clone()) {
            Ok(endpoint) if endpoint.uri().scheme_str() == Some("http") => endpoint,
            _ => return Err(WorkerError::BadServer(url)),
        };
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(10))
            .keep_alive_timeout(Duration::from_secs(10))
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES);
        let heartbeat = watch::Sender::new(HEARTBEAT_DEFAULT);
        Ok(Self { url, endpoint, ledger, forgotten: Notify::new(), heartbeat })
    }

    pub(crate) fn heartbeat_every(&self, millis: u32) {
        let every = match millis {
            0 => HEARTBEAT_DEFAULT,
            millis => Duration::from_millis(u64::from(millis)),
        };
        self.heartbeat.send_if_modified(|known| std::mem::replace(known, every) != every);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Taking work, or finishing what was taken.
    Working,
    Leaving,
}

pub(crate) async fn leaving(phase: &watch::Receiver<Phase>) {
    // An error means that the worker itself is gone: leave as well.
    let _ = phase.clone().wait_for(|phase| *phase == Phase::Leaving).await;
}

pub(crate) struct Link {
    pub(crate) server: Arc<Server>,
    pub(crate) profile: Arc<Profile>,
    pub(crate) tasks: Tasks,
    pub(crate) spool: Option<Arc<Spool>>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) rules: Rules,
    pub(crate) log_bytes_max: usize,
}

/// Why a stream ended.
pub(crate) enum End {
    /// The server never answered on it.
    NotOpened(String),
    Broken(String),
    Left,
}

impl Link {
    pub(crate) async fn keep_connected(mut self, mut backoff: Backoff) {
        let mut said_unreachable = false;
        loop {
            let end = self.session().await;
            let server = &self.server.url;
            match end {
                End::Left => return,
                End::Broken(reason) => {
                    tracing::warn!(%server, %reason, "lost the connection; reconnecting");
                    backoff.reset();
                    said_unreachable = false;
                }
                End::NotOpened(reason) if !said_unreachable => {
                    tracing::warn!("cannot reach {server}: {reason}; retrying");
                    said_unreachable = true;
                }
                End::NotOpened(reason) => {
                    tracing::debug!(%server, %reason, "still cannot reach the server");
                }
            }
            let wait = backoff.wait();
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = leaving(&self.phase) => return,
                () = self.spool_while_down() => {}
            }
        }
    }

    /// Never ends. Without a server, a disk is the safest place for an outcome.
    pub(crate) async fn spool_while_down(&self) {
        let Some(spool) = &self.spool else {
            return std::future::pending().await;
        };
        loop {
            // What could not be written is tried again here, with every attempt to reach the server.
            spool.keep(&self.server.ledger);
            self.server.ledger.unspooled.notified().await;
        }
    }
}
