//! Accepts connections, with limits on what a client may cost.

use std::convert::Infallible;
use std::future::Future;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use punctual_app::SocketUser;
use tokio::net::TcpListener;
use tower::Service;

use crate::socket_owner;

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

/// Serves until `shutdown` resolves, then lets open requests end.
pub async fn serve(router: Router, listener: TcpListener, shutdown: impl Future<Output = ()>) {
    let builder = builder();
    let graceful = GracefulShutdown::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of file descriptors, most likely: others may be closed meanwhile.
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
            () = &mut shutdown => break,
        };
        let _ = stream.set_nodelay(true);
        let router = router.clone();
        let (builder, watcher) = (builder.clone(), graceful.watcher());
        tokio::spawn(async move {
            // Once for all requests of the connection, and at once: a client that is gone by then is nobody.
            let user = socket_owner::user_of(&stream).await;
            let service = TowerToHyperService::new(Connection { router, user });
            // Which protocol it speaks is read without a limit of time, so the first byte has one.
            let first = tokio::time::timeout(HEADERS_WITHIN, stream.peek(&mut [0])).await;
            if !matches!(first, Ok(Ok(1))) {
                return;
            }
            let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
            let connection = watcher.watch(connection);
            if let Err(error) = connection.await {
                tracing::debug!(error = %error, "a connection ended with an error");
            }
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(GOODBYE, graceful.shutdown()).await;
}

/// What is served on one connection: every request is told whose socket it came from.
#[derive(Clone)]
struct Connection {
    router: Router,
    user: SocketUser,
}

impl Service<Request<Incoming>> for Connection {
    type Response = Response;
    type Error = Infallible;
    type Future = <Router as Service<Request<Incoming>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<Incoming>>::poll_ready(&mut self.router, context)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.user);
        self.router.call(request)
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
        .keep_alive_interval(PING_EVERY);
    builder
}
