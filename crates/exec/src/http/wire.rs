//! One request and its answer, on a new connection or a recently used one.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::idle::Idle;
use super::request::Outgoing;
use crate::dial::{NotConnected, Outbound, Stream};
use crate::root_cause;

/// The maximum size of an answer's head; hyper also limits it to a hundred headers.
const HEAD_BYTES_MAX: usize = 128 << 10;

pub(super) type Sender = SendRequest<Full<Bytes>>;

pub(crate) struct Wire {
    outbound: Arc<Outbound>,
    idle: Arc<Idle>,
}

/// The head of an answer, with the body still to be read.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Incoming,
    sender: Sender,
    origin: String,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum HttpError {
    NotConnected(NotConnected),
    /// Nothing was sent, because HTTP cannot express the request.
    Unfit(&'static str),
    /// The connection broke; the request may have arrived.
    Broken(String),
    /// The answer did not come in time; the request may have arrived.
    Late,
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConnected(reached) => reached.fmt(f),
            Self::Unfit(what) => write!(f, "the request cannot be sent: {what}"),
            Self::Broken(what) => write!(f, "no answer: {what}"),
            Self::Late => f.write_str("no answer in time"),
        }
    }
}

impl Wire {
    pub(crate) fn new(outbound: Arc<Outbound>) -> Self {
        Self { outbound, idle: Arc::default() }
    }

    pub(crate) async fn send(&self, outgoing: &Outgoing, deadline: Instant) -> Result<Reply, HttpError> {
        let origin = outgoing.url.origin().ascii_serialization();
        let mut request = head_and_body(outgoing)?;
        // The other side may close an idle connection at any moment. A request that was not
        // begun comes back, and goes out on a fresh connection.
        if let Some(sender) = self.idle.take(&origin) {
            match exchange(sender, request, origin.clone(), deadline).await {
                Err(Exchange::NotBegun(back)) => request = back,
                Err(Exchange::Failed(unanswered)) => return Err(unanswered),
                Ok(reply) => return Ok(reply),
            }
        }
        let sender = self.open(&outgoing.url, deadline).await?;
        exchange(sender, request, origin, deadline).await.map_err(|failed| match failed {
            // Closed before the first byte.
            Exchange::NotBegun(_) => {
                let closed = std::io::Error::other("the connection was closed at once");
                HttpError::NotConnected(NotConnected::Tcp(closed))
            }
            Exchange::Failed(unanswered) => unanswered,
        })
    }

    async fn open(&self, url: &Url, deadline: Instant) -> Result<Sender, HttpError> {
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(HttpError::Unfit("the url names no host"));
        };
        let stream = self.outbound.connect(&host, port, deadline).await.map_err(HttpError::NotConnected)?;
        let stream: Box<dyn Stream> = if url.scheme() == "https" {
            Box::new(self.outbound.encrypt(stream, &host, deadline).await.map_err(HttpError::NotConnected)?)
        } else {
            Box::new(stream)
        };
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| HttpError::NotConnected(NotConnected::Tcp(std::io::Error::other(error))))?;
        // Ends with the last sender and body, or with the connection. Whoever waits for the
        // answer is told of the error.
        tokio::spawn(connection);
        Ok(sender)
    }

    /// Keeps the connection for the next request to the same host. The answer must have been read to its end.
    pub(crate) fn keep(&self, reply: Reply) {
        self.idle.put(reply.origin, reply.sender);
    }
}

enum Exchange {
    NotBegun(Request<Full<Bytes>>),
    Failed(HttpError),
}

async fn exchange(
    mut sender: Sender,
    request: Request<Full<Bytes>>,
    origin: String,
    deadline: Instant,
) -> Result<Reply, Exchange> {
    match timeout_at(deadline, sender.try_send_request(request)).await {
        Ok(Ok(response)) => {
            let (head, body) = response.into_parts();
            Ok(Reply { status: head.status, headers: head.headers, body, sender, origin })
        }
        Ok(Err(mut error)) => Err(match error.take_message() {
            Some(request) => Exchange::NotBegun(request),
            None => Exchange::Failed(HttpError::Broken(root_cause(error.error()))),
        }),
        Err(_) => Err(Exchange::Failed(HttpError::Late)),
    }
}

fn head_and_body(outgoing: &Outgoing) -> Result<Request<Full<Bytes>>, HttpError> {
    let Outgoing { method, url, headers, body } = outgoing;
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let mut request = Request::builder()
        .method(method.clone())
        .uri(target)
        .body(Full::new(body.clone().unwrap_or_default()))
        .map_err(|_| HttpError::Unfit("the path or query of the url is not valid"))?;
    let host = url.host_str().unwrap_or_default();
    let host = match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    let host = HeaderValue::try_from(host).map_err(|_| HttpError::Unfit("the host of the url is not valid"))?;
    *request.headers_mut() = headers.clone();
    request.headers_mut().insert(HOST, host);
    let takes_body = !matches!(*method, http::Method::GET | http::Method::HEAD);
    if takes_body {
        let length = body.as_ref().map_or(0, Bytes::len);
        request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    Ok(request)
}
