//! A channel to one peer that proves each question, and lets no answer through that is not the peer's.
//!
//! The proof covers the bytes as they are sent, so what a later version adds to a message is covered too.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use http::HeaderValue;
use http_body_util::{BodyExt, Full};
use punctual_app::{BodyDigest, ClusterKeys, PEER_HEADER, Question};
use punctual_core::ServerId;
use punctual_engine::Clock;
use tonic::body::Body;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tower::Service;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Signs questions to one peer, and knows its answers.
#[derive(Clone)]
pub(crate) struct Asker {
    pub(crate) key: ClusterKeys,
    pub(crate) clock: Clock,
    pub(crate) from: ServerId,
    pub(crate) to: ServerId,
    /// Counts the questions to all peers.
    pub(crate) asked: Arc<AtomicU64>,
}

impl Asker {
    fn question(&self) -> Question {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        Question { from: self.from, to: self.to, asked_at: (self.clock)(), number }
    }

    /// The question of a request, whose proof it has afterwards.
    pub(crate) fn sign<B>(&self, request: &mut http::Request<B>, body: &[u8]) -> Question {
        let question = self.question();
        let proof = self.key.ask(question, request.uri().path(), BodyDigest::of(body));
        let proof = HeaderValue::from_str(&proof).expect("hexadecimal digits are ASCII");
        request.headers_mut().insert(PEER_HEADER, proof);
        question
    }

    fn check<B>(&self, response: &http::Response<B>, asked: Question) -> Result<(), Status> {
        // A call that failed has no answer that could be believed.
        let is_failure = response.headers().get("grpc-status").is_some_and(|status| status != "0");
        let proof = response.headers().get(PEER_HEADER).and_then(|proof| proof.to_str().ok());
        if is_failure || proof.is_some_and(|proof| self.key.answered(proof, asked)) {
            return Ok(());
        }
        Err(Status::new(Code::Unauthenticated, "something else answers at its address"))
    }
}

#[derive(Clone)]
pub(crate) struct SignedChannel {
    channel: Channel,
    asker: Asker,
}

impl SignedChannel {
    pub(crate) fn new(channel: Channel, asker: Asker) -> Self {
        Self { channel, asker }
    }
}

impl Service<http::Request<Body>> for SignedChannel {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.channel.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        // The one that is ready is used, and its copy becomes ready for the next call.
        let next = self.channel.clone();
        let mut channel = std::mem::replace(&mut self.channel, next);
        let asker = self.asker.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            // Every question is one message, and it is in memory already.
            let body = body.collect().await?.to_bytes();
            let mut request = http::Request::from_parts(parts, ());
            let asked = asker.sign(&mut request, &body);
            let response = channel.call(request.map(|()| Body::new(Full::new(body)))).await?;
            asker.check(&response, asked)?;
            Ok(response)
        })
    }
}
