//! The connection to one peer.

use std::future::Future;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use punctual_app::Peer;
use punctual_core::host;
use punctual_proto::peer::peer_client::PeerClient;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Response, Status};

use crate::client::MESSAGE_BYTES_MAX;
use crate::hints::Hints;
use crate::signed::{Asker, SignedChannel};
use crate::tls::PeerTls;

/// Peers are near: one that takes longer is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// A peer whose machine is gone is noticed within the sum of the two.
const PING_EVERY: Duration = Duration::from_secs(3);
const PONG_WITHIN: Duration = Duration::from_secs(3);
const WINDOW_BYTES: u32 = 4 << 20;

/// After a failure to connect, further questions fail at once for this long.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A connection that nobody used for this long is to a peer that is gone.
const IN_USE: Duration = Duration::from_secs(300);

pub(crate) struct Link {
    client: PeerClient<SignedChannel>,
    pub(crate) hints: Hints,
    health: Mutex<Health>,
}

struct Health {
    used_at: Instant,
    /// Until when not to try, and how long the pause is.
    pause: Option<(Instant, Duration)>,
}

impl Link {
    pub(crate) fn new(peer: &Peer, asker: Asker, tls: Option<&PeerTls>) -> Result<Self, String> {
        let endpoint = Endpoint::from_shared(peer.address.clone());
        let endpoint = endpoint.map_err(|_| format!("`{}` is not an address", peer.address))?;
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PONG_WITHIN)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES);
        let is_here = endpoint.uri().host().is_some_and(host::is_loopback);
        let channel = match (endpoint.uri().scheme_str(), tls) {
            (Some("http"), _) if is_here => endpoint.connect_lazy(),
            (Some("http"), _) => return Err(format!("{} is another machine, and has no TLS", peer.address)),
            (Some("https"), Some(tls)) => tls.channel(peer, &endpoint).map_err(|error| error.to_string())?,
            (Some("https"), None) => return Err(format!("{} has TLS, and this server has none", peer.address)),
            _ => return Err(format!("`{}` is not an address", peer.address)),
        };
        let channel = SignedChannel::new(channel, asker);
        let client = PeerClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let hints = Hints::start(client.clone(), peer.id);
        let health = Mutex::new(Health { used_at: Instant::now(), pause: None });
        Ok(Self { client, hints, health })
    }

    pub(crate) fn used(&self) {
        self.health.lock().expect("no panic while the lock is held").used_at = Instant::now();
    }

    pub(crate) fn is_in_use(&self) -> bool {
        self.health.lock().expect("no panic while the lock is held").used_at.elapsed() < IN_USE
    }

    /// Asks. Only an answer that comes from this peer is one.
    pub(crate) async fn ask<Q, A, F>(
        &self,
        limit: Duration,
        question: Q,
        call: impl FnOnce(PeerClient<SignedChannel>, Request<Q>) -> F,
    ) -> Result<A, String>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        if self.is_paused() {
            return Err("it could not be reached a moment ago".to_owned());
        }
        match tokio::time::timeout(limit, call(self.client.clone(), Request::new(question))).await {
            Ok(Ok(response)) => {
                self.answered();
                Ok(response.into_inner())
            }
            Ok(Err(status)) => {
                if matches!(status.code(), Code::Unavailable | Code::ResourceExhausted) {
                    self.failed();
                }
                Err(format!("{}: {}", status.code(), status.message()))
            }
            Err(_) => Err("no answer in time".to_owned()),
        }
    }

    fn is_paused(&self) -> bool {
        let health = self.health.lock().expect("no panic while the lock is held");
        health.pause.is_some_and(|(until, _)| Instant::now() < until)
    }

    fn answered(&self) {
        self.health.lock().expect("no panic while the lock is held").pause = None;
    }

    fn failed(&self) {
        let mut health = self.health.lock().expect("no panic while the lock is held");
        let pause = health.pause.map_or(PAUSE_MIN, |(_, pause)| (pause * 2).min(PAUSE_MAX));
        health.pause = Some((Instant::now() + pause, pause));
    }
}
