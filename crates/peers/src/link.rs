//! The connection to one peer.

use std::future::Future;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use punctual_app::Peer;
use punctual_proto::peer::peer_client::PeerClient;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

use crate::client::{Asker, MESSAGE_BYTES_MAX};
use crate::hints::Hints;

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
    client: PeerClient<Channel>,
    asker: Asker,
    pub(crate) hints: Hints,
    health: Mutex<Health>,
}

struct Health {
    used_at: Instant,
    /// Until when not to try, and how long the pause is.
    pause: Option<(Instant, Duration)>,
}

impl Link {
    pub(crate) fn new(peer: &Peer, asker: Asker) -> Result<Self, String> {
        let endpoint = match Endpoint::from_shared(peer.address.clone()) {
            Ok(endpoint) if endpoint.uri().scheme_str() == Some("http") => endpoint,
            _ => return Err(format!("`{}` is not an address", peer.address)),
        };
        let channel = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PONG_WITHIN)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .connect_lazy();
        let client = PeerClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let hints = Hints::start(client.clone(), asker.clone());
        let health = Mutex::new(Health { used_at: Instant::now(), pause: None });
        Ok(Self { client, asker, hints, health })
    }

    pub(crate) fn used(&self) {
        self.health.lock().expect("no panic while the lock is held").used_at = Instant::now();
    }

    pub(crate) fn is_in_use(&self) -> bool {
        self.health.lock().expect("no panic while the lock is held").used_at.elapsed() < IN_USE
    }

    /// Asks, and takes only an answer that comes from this peer.
    pub(crate) async fn ask<Q, A, F>(
        &self,
        limit: Duration,
        question: Q,
        call: impl FnOnce(PeerClient<Channel>, Request<Q>) -> F,
    ) -> Result<A, String>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        if self.is_paused() {
            return Err("it could not be reached a moment ago".to_owned());
        }
        let (request, asked) = self.asker.sign(question);
        match tokio::time::timeout(limit, call(self.client.clone(), request)).await {
            Ok(Ok(response)) => {
                self.answered();
                self.asker.check(response, asked)
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
