//! The connection to one server, which is re-established for as long as the worker runs.
//!
//! One task reads a stream to its end and only then opens the next, so no message of an old stream can arrive after the
//! hello of the new one. A worker has a link to every server; see `servers`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual_core::host;
use punctual_core::id::WorkerId;
use punctual_proto::identity::WorkerSecret;
use punctual_proto::worker::worker_client::WorkerClient;
use tokio::sync::{Notify, watch};
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::attempts::AttemptRules;
use crate::backoff::Backoff;
use crate::credentials::{Bearer, Client, Credentials, PlainHttp};
use crate::error::WorkerError;
use crate::held::{HeldAttempts, LinkNo};
use crate::spool::Spool;
use crate::tasks::Tasks;

/// The heartbeat interval until a server sets another.
pub(crate) const HEARTBEAT_DEFAULT: Duration = Duration::from_secs(5);
pub(crate) const LOG_BYTES_MAX_DEFAULT: usize = 1 << 20;

/// How often idle connections are checked, to notice a server that vanished without closing them.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
const WINDOW_BYTES: u32 = 4 << 20;

/// What a worker tells every server about itself.
pub(crate) struct Profile {
    pub(crate) id: WorkerId,
    /// The secret that proves the id.
    pub(crate) secret: WorkerSecret,
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) queues: Vec<String>,
    pub(crate) capabilities: Vec<String>,
    pub(crate) labels: std::collections::HashMap<String, String>,
    /// The user that runs commands outside the sandbox; empty if the worker runs none.
    pub(crate) commands_as: String,
}

/// A server that this worker connects to, shared by its stream and its heartbeat.
pub(crate) struct RemoteServer {
    pub(crate) link: LinkNo,
    pub(crate) url: String,
    endpoint: Endpoint,
    /// The endpoint of the heartbeat's connection.
    beat_endpoint: Endpoint,
    pub(crate) held: Arc<HeldAttempts>,
    credentials: Arc<Credentials>,
    /// Signals that the server does not know this worker any more.
    pub(crate) forgotten: Notify,
    pub(crate) heartbeat: watch::Sender<Duration>,
}

impl RemoteServer {
    pub(crate) fn new(
        link: LinkNo,
        url: String,
        held: Arc<HeldAttempts>,
        credentials: Arc<Credentials>,
    ) -> Result<Self, WorkerError> {
        let endpoint = match Endpoint::from_shared(url.clone()) {
            Ok(endpoint) if matches!(endpoint.uri().scheme_str(), Some("http" | "https")) => endpoint,
            _ => return Err(WorkerError::BadServer(url)),
        };
        let is_plain = endpoint.uri().scheme_str() == Some("http");
        let is_elsewhere = is_plain && !endpoint.uri().host().is_some_and(host::is_loopback);
        if credentials.plain_http == PlainHttp::LoopbackOnly && is_elsewhere {
            return Err(WorkerError::PlainHttp(url));
        }
        let beat_endpoint =
            endpoint.http2_keep_alive_interval(PING_EVERY).keep_alive_timeout(PING_TIMEOUT).keep_alive_while_idle(true);
        let endpoint =
            beat_endpoint.clone().initial_stream_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
        let heartbeat = watch::Sender::new(HEARTBEAT_DEFAULT);
        Ok(Self { link, url, endpoint, beat_endpoint, held, credentials, forgotten: Notify::new(), heartbeat })
    }

    pub(crate) fn client(&self, channel: Channel) -> Client {
        WorkerClient::with_interceptor(channel, Bearer::new((self.credentials.token)(&self.url)))
    }

    /// Opens the connection of the stream.
    pub(crate) async fn connect(&self) -> Result<Channel, tonic::transport::Error> {
        let dialer = self.credentials.dialer();
        self.endpoint.connect_with_connector(service_fn(move |uri| dialer.clone().dial(uri))).await
    }

    /// Opens a connection beside the stream.
    pub(crate) async fn connect_beside(&self) -> Result<Channel, tonic::transport::Error> {
        let dialer = self.credentials.dialer();
        self.beat_endpoint.connect_with_connector(service_fn(move |uri| dialer.clone().dial(uri))).await
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

pub(crate) struct ServerLink {
    pub(crate) server: Arc<RemoteServer>,
    pub(crate) profile: Arc<Profile>,
    pub(crate) tasks: Tasks,
    pub(crate) spool: Option<Arc<Spool>>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) rules: AttemptRules,
    pub(crate) log_bytes_max: usize,
}

/// Why a stream ended.
pub(crate) enum SessionEnd {
    /// The server never answered on the stream.
    NotOpened(String),
    /// The server answered, and does not let this worker in.
    Refused(String),
    /// Another link leads to the same server.
    Alias,
    /// Closed by the server, because it stops or wants another hello.
    Closed,
    Broken(String),
    Left,
}

/// A stream that ended sooner than this does not reset the backoff.
const LASTING: Duration = Duration::from_secs(1);

/// How often a link whose server another link serves checks whether it is needed.
const ALIAS_LOOK_EVERY: Duration = Duration::from_secs(2);

impl ServerLink {
    pub(crate) async fn keep_connected(mut self, mut backoff: Backoff) {
        let mut said_unreachable = false;
        loop {
            let begun = Instant::now();
            let end = self.session().await;
            let server = &self.server.url;
            match end {
                SessionEnd::Left => return,
                SessionEnd::Alias => {
                    tracing::debug!(%server, "another link leads to the same server");
                    tokio::select! {
                        () = self.needed() => {}
                        () = leaving(&self.phase) => return,
                    }
                }
                SessionEnd::Closed => {
                    tracing::info!(%server, "the server closed the stream; reconnecting");
                    said_unreachable = false;
                }
                SessionEnd::Broken(reason) => {
                    tracing::warn!(%server, %reason, "lost the connection; reconnecting");
                    said_unreachable = false;
                }
                SessionEnd::NotOpened(reason) if !said_unreachable => {
                    tracing::warn!("cannot reach {server}: {reason}. Retrying");
                    said_unreachable = true;
                }
                SessionEnd::Refused(reason) if !said_unreachable => {
                    tracing::warn!("{server} refused this worker: {reason}. Retrying");
                    said_unreachable = true;
                }
                SessionEnd::NotOpened(reason) | SessionEnd::Refused(reason) => {
                    tracing::debug!(%server, %reason, "still cannot reach the server");
                }
            }
            if !said_unreachable && begun.elapsed() > LASTING {
                backoff.reset();
            }
            let wait = backoff.wait();
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = leaving(&self.phase) => return,
            }
        }
    }

    /// Resolves when no other link leads to the same server any more.
    async fn needed(&self) {
        while self.server.held.is_served_by_another(self.server.link) {
            tokio::time::sleep(ALIAS_LOOK_EVERY).await;
        }
    }
}
