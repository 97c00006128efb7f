//! Accepts connections, with limits on what a client may cost.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use punctual_app::{SocketUser, Throttle};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tower::ServiceExt;

use crate::connections::{Connection, Connections};
use crate::handshakes::Handshakes;
use crate::network::{Encryption, Link, Network, Wire};
use crate::{not_tls, socket_owner};

/// A client that has not sent its headers by then is cut off. It counts from the answer
/// before, so it is also how long an idle connection is kept for the next request.
const HEADERS_WITHIN: Duration = Duration::from_secs(60);
const HEADERS_MAX: usize = 100;
const HEADER_BYTES_MAX: usize = 16 << 10;
const STREAMS_PER_CONNECTION_MAX: u32 = 256;
/// Large enough that a worker's batches do not wait for the receiver's permission.
const WINDOW_BYTES: u32 = 4 << 20;
/// Finds connections whose other end is gone without a word. A worker is found silent long
/// before; this is about what its connections cost, and pings of thousands cost something too.
const PING_EVERY: Duration = Duration::from_secs(30);
/// Open requests may take so long to end when the server stops.
const GOODBYE: Duration = Duration::from_secs(5);
/// A connection that is closed has so long to send what it has.
const PARTING: Duration = Duration::from_millis(100);
/// What one HTTP/2 stream may keep of an answer beside what is counted in `answers`.
const SEND_BUFFER_BYTES: usize = 64 << 10;

static NOT_ACCEPTED: Throttle = Throttle::new(Duration::from_secs(10));
static NO_HANDSHAKE: Throttle = Throttle::new(Duration::from_secs(10));
static NO_TLS: Throttle = Throttle::new(Duration::from_secs(10));

/// Serves until `shutdown` resolves, then lets open requests end.
pub async fn serve(router: Router, listener: TcpListener, network: Network, shutdown: impl Future<Output = ()>) {
    let builder = builder();
    let door = Arc::new(Door { network, handshakes: Handshakes::default() });
    let connections = Connections::default();
    // Each connection has a sender: when all of them are gone, all connections have ended.
    let (alive, mut all_ended) = mpsc::channel::<Never>(1);
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of file descriptors, most likely: others may be closed meanwhile.
                    if let Some(left_out) = NOT_ACCEPTED.pass() {
                        tracing::warn!(%error, left_out, "a connection was not accepted");
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = &mut shutdown => break,
        };
        let _ = stream.set_nodelay(true);
        let (router, builder, door) = (router.clone(), builder.clone(), Arc::clone(&door));
        let served = Served { router, builder, door, connection: connections.open() };
        let alive = alive.clone();
        tokio::spawn(async move {
            served.serve(stream).await;
            drop(alive);
        });
    }
    drop((listener, alive));
    connections.close_all();
    let _ = tokio::time::timeout(GOODBYE, all_ended.recv()).await;
}

enum Never {}

/// What all connections pass.
struct Door {
    network: Network,
    handshakes: Handshakes,
}

/// One connection.
struct Served {
    router: Router,
    builder: Builder<TokioExecutor>,
    door: Arc<Door>,
    connection: Connection,
}

/// So few that what follows is not copied once more.
const FIRST_BYTES: usize = 32;
/// The first byte of a TLS record that begins a handshake.
const TLS_HANDSHAKE: u8 = 0x16;

impl Served {
    async fn serve(self, stream: TcpStream) {
        let connection = &self.connection;
        let ip =
            |address: std::io::Result<std::net::SocketAddr>| address.ok().map(|address| address.ip().to_canonical());
        let (address, local) = (ip(stream.peer_addr()), ip(stream.local_addr()));
        let Network { tls, proxies, .. } = &self.door.network;
        // Once for all requests of the connection, and at once: a client that is gone by then is nobody. The kernel knows the
        // user of a proxy, and not the one that it speaks for.
        let user = match address {
            Some(address) if proxies.contains(address) => SocketUser::Unknown,
            _ => socket_owner::user_of(&stream).await,
        };
        if matches!(user, SocketUser::Own | SocketUser::Root) {
            connection.has_access();
        }
        // Which protocol it speaks is read without a limit of time, so the first byte has one.
        let mut byte = [0];
        let first = tokio::select! {
            first = tokio::time::timeout(HEADERS_WITHIN, stream.peek(&mut byte)) => first,
            () = connection.unwanted() => return,
        };
        if !matches!(first, Ok(Ok(1))) {
            return;
        }
        let encryption = if tls.is_some() { Encryption::Tls } else { Encryption::Plain };
        let mut wire = Wire { user, address, local, encryption, certificate: None };
        let Some(tls) = tls else {
            if address.is_none_or(|address| !self.door.network.takes_plain_from(address)) {
                if let Some(left_out) = NO_TLS.pass() {
                    tracing::info!(?address, left_out, "a client without TLS is refused");
                }
                return not_tls::refuse_stranger(stream).await;
            }
            return self.answer(stream, wire).await;
        };
        if byte[0] != TLS_HANDSHAKE {
            if let Some(left_out) = NO_TLS.pass() {
                tracing::info!(?address, left_out, "a client without TLS is refused");
            }
            return not_tls::refuse(stream, byte[0]).await;
        }
        let accepted = tokio::select! {
            accepted = self.door.handshakes.accept(stream, tls, address) => accepted,
            () = connection.unwanted() => return,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(reason) => {
                if let Some(left_out) = NO_HANDSHAKE.pass() {
                    tracing::info!(?address, %reason, left_out, "a TLS handshake failed");
                }
                return;
            }
        };
        match tls.client_name(stream.get_ref().1.peer_certificates()) {
            Ok(name) => wire.certificate = name.map(Arc::new),
            Err(error) => return tracing::info!(?address, %error, "a client's certificate is refused"),
        }
        // As above: the handshake may have been all that the client had to say.
        let mut stream = BufReader::with_capacity(FIRST_BYTES, stream);
        let first = tokio::select! {
            first = tokio::time::timeout(HEADERS_WITHIN, stream.fill_buf()) => first,
            () = connection.unwanted() => return,
        };
        if matches!(first, Ok(Ok(bytes)) if !bytes.is_empty()) {
            self.answer(stream, wire).await;
        }
    }

    /// Answers the requests of a connection until its end.
    async fn answer<S>(&self, stream: S, wire: Wire)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let connection = &self.connection;
        // The guard takes it out again when the body of the request has arrived.
        let link = Arc::new(Link { connection: connection.clone(), wire });
        let service = self.router.clone().map_request(move |mut request: http::Request<Incoming>| {
            request.extensions_mut().insert(Arc::clone(&link));
            request
        });
        let service = TowerToHyperService::new(service);
        let mut served = pin!(self.builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
        let ended = tokio::select! {
            ended = &mut served => Some(ended),
            () = connection.unwanted() => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                served.as_mut().graceful_shutdown();
                // A request that only arrives is not waited for: that may take its client's time.
                let idle = async {
                    tokio::time::sleep(PARTING).await;
                    while connection.is_busy() {
                        tokio::time::sleep(PARTING).await;
                    }
                };
                tokio::select! {
                    ended = served => ended,
                    () = idle => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(error = %error, "a connection ended with an error");
        }
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADER_BYTES_MAX.max(64 << 10));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .max_header_list_size(HEADER_BYTES_MAX as u32)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .keep_alive_interval(PING_EVERY);
    builder
}
