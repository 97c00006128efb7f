//! Lets through questions of servers of this cluster only: each once, unaltered, and while it is fresh.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body::Body;
use http_body_util::{BodyExt, Full, Limited};
use punctual_app::{App, BodyDigest, ClusterKeys, PEER_HEADER, Question, StaleQuestion, Throttle, Transport};
use punctual_core::ServerId;
use punctual_pki::CertificateKind;
use punctual_proto::MESSAGE_BYTES_MAX;
use tonic::Status;

/// Of the frame around a message.
const FRAME_BYTES: usize = 5;
/// Peers are near, and have their message in memory before they send it.
const BODY_WITHIN: Duration = Duration::from_secs(10);

static REFUSED: Throttle = Throttle::new(Duration::from_secs(10));

/// The request of a peer, with the [`punctual_app::Question`] that it proves and its body in memory. The body is read only if
/// the proof is valid. The refusal says nothing of what was wrong.
pub async fn checked<B>(app: &App, request: Request<B>) -> Result<Request<Full<Bytes>>, Status>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let transport = request.extensions().get::<Transport>().cloned().unwrap_or_default();
    let is_fresh = |question| app.is_fresh(question);
    let request = Gate { key: app.cluster_keys(), server: app.server_id(), is_fresh: &is_fresh }.pass(request).await?;
    check_certificate(&transport, request.extensions().get())?;
    Ok(request)
}

/// Over TLS the asker also shows the certificate that the cluster's authority issued to it. Without TLS peers are on this
/// machine.
fn check_certificate(transport: &Transport, question: Option<&Question>) -> Result<(), Status> {
    let is_here = transport.address.is_none_or(|address| address.to_canonical().is_loopback());
    let is_shown = match (&transport.certificate, question) {
        (Some(name), Some(question)) => name.kind == CertificateKind::Server && name.id == question.from.to_string(),
        (None, _) => !transport.is_encrypted && is_here,
        (Some(_), None) => false,
    };
    if is_shown { Ok(()) } else { Err(Status::unauthenticated("this is for servers of the same cluster")) }
}

/// What a question is judged by.
struct Gate<'a> {
    key: &'a ClusterKeys,
    /// Who is asked.
    server: ServerId,
    is_fresh: &'a (dyn Fn(Question) -> Result<(), StaleQuestion> + Sync),
}

impl Gate<'_> {
    async fn pass<B>(&self, request: Request<B>) -> Result<Request<Full<Bytes>>, Status>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let refused = || Status::unauthenticated("this is for servers of the same cluster");
        let mut proofs = request.headers().get_all(PEER_HEADER).iter();
        let proof = proofs.next().and_then(|proof| proof.to_str().ok()).filter(|_| proofs.next().is_none());
        let asked = proof.and_then(|proof| self.key.asked(proof, self.server, request.uri().path()));
        let (question, digest) = asked.ok_or_else(refused)?;
        let (mut parts, body) = request.into_parts();
        let whole = Limited::new(body, MESSAGE_BYTES_MAX + FRAME_BYTES).collect();
        let body = match tokio::time::timeout(BODY_WITHIN, whole).await {
            Ok(Ok(whole)) => whole.to_bytes(),
            Ok(Err(_)) => return Err(Status::invalid_argument("the message is too large, or broke off")),
            Err(_) => return Err(Status::deadline_exceeded("the message did not arrive")),
        };
        if BodyDigest::of(&body) != digest {
            return Err(refused());
        }
        // Last, so that nobody takes the place of a question with an altered one.
        if let Err(stale) = (self.is_fresh)(question) {
            if let Some(left_out) = REFUSED.pass() {
                let reason = match stale {
                    StaleQuestion::Old => "its time is not now",
                    StaleQuestion::Repeated => "it was asked before",
                    StaleQuestion::TooManyPeers => "too many servers ask",
                };
                tracing::warn!(peer = %question.from, left_out, "a peer's question was refused: {reason}");
            }
            return Err(refused());
        }
        parts.extensions.insert(question);
        Ok(Request::from_parts(parts, Full::new(body)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use punctual_app::Replays;
    use punctual_core::{Span, Timestamp};
    use punctual_pki::{CertificateName, ClusterName};
    use punctual_store::ClusterSecret;
    use tonic::Code;

    use super::*;
    use crate::signed::Asker;

    const METHOD: &str = "/punctual.peer.v1.Peer/Ask";

    fn now() -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000).unwrap()
    }

    fn server(number: u64) -> ServerId {
        ServerId::new(Timestamp::EPOCH, number)
    }

    fn key(secret: u8) -> ClusterKeys {
        ClusterKeys::new(ClusterSecret([secret; 32]))
    }

    /// A recorded request to server 2.
    #[derive(Clone)]
    struct Recorded {
        method: &'static str,
        proofs: Vec<String>,
        body: Bytes,
    }

    impl Recorded {
        fn of(key: ClusterKeys, at: Timestamp, body: &'static [u8]) -> Self {
            let asker =
                Asker { key, clock: Arc::new(move || at), from: server(1), to: server(2), asked: Arc::default() };
            let mut request = Request::builder().uri(METHOD).body(()).unwrap();
            asker.sign(&mut request, body);
            let proof = request.headers()[PEER_HEADER].to_str().unwrap().to_owned();
            Self { method: METHOD, proofs: vec![proof], body: Bytes::from_static(body) }
        }

        async fn sent(&self, replays: &Replays, to: u64) -> Result<Bytes, Code> {
            let mut request = Request::builder().uri(self.method);
            for proof in &self.proofs {
                request = request.header(PEER_HEADER, proof);
            }
            let request = request.body(Full::new(self.body.clone())).unwrap();
            let is_fresh = |question| replays.check(question, now());
            let gate = Gate { key: &key(7), server: server(to), is_fresh: &is_fresh };
            let passed = gate.pass(request).await.map_err(|status| status.code())?;
            assert!(passed.extensions().get::<Question>().is_some());
            Ok(passed.into_body().collect().await.unwrap().to_bytes())
        }
    }

    #[test]
    fn over_tls_a_peer_shows_its_own_certificate() {
        let cluster = ClusterName::new("c1").unwrap();
        let question = Question { from: server(1), to: server(2), asked_at: now(), number: 1 };
        let id = |number| server(number).to_string();
        let over = |certificate: Option<CertificateName>, is_encrypted, address: &str| {
            let (address, certificate) = (Some(address.parse().unwrap()), certificate.map(Arc::new));
            let transport = Transport { certificate, is_encrypted, address, ..Transport::default() };
            check_certificate(&transport, Some(&question)).is_ok()
        };
        let own = CertificateName::server(cluster.clone(), id(1)).unwrap();
        assert!(over(Some(own), true, "10.0.0.1"));
        assert!(!over(Some(CertificateName::server(cluster.clone(), id(3)).unwrap()), true, "10.0.0.1"), "another's");
        assert!(!over(Some(CertificateName::worker(cluster, id(1), None).unwrap()), true, "10.0.0.1"), "a worker's");
        assert!(!over(None, true, "10.0.0.1") && !over(None, true, "127.0.0.1"), "none");
        assert!(over(None, false, "127.0.0.1") && !over(None, false, "10.0.0.1"), "without TLS only on this machine");
    }

    const REFUSED: Result<Bytes, Code> = Err(Code::Unauthenticated);

    #[tokio::test]
    async fn a_recorded_question_is_not_answered_again() {
        let replays = Replays::default();
        let recorded = Recorded::of(key(7), now(), b"delete job 1");
        assert_eq!(recorded.sent(&replays, 2).await, Ok(Bytes::from_static(b"delete job 1")));
        assert_eq!(recorded.sent(&replays, 2).await, REFUSED);
    }

    #[tokio::test]
    async fn an_altered_question_is_refused_and_the_true_one_is_answered_after_it() {
        let replays = Replays::default();
        let recorded = Recorded::of(key(7), now(), b"delete job 1");
        let other = Recorded::of(key(7), now() + Span::from_micros(1), b"delete job 2");
        let (first, second) = (recorded.proofs[0].clone(), other.proofs[0].clone());
        for altered in [
            Recorded { body: Bytes::from_static(b"delete job 2"), ..recorded.clone() },
            Recorded { body: Bytes::new(), ..recorded.clone() },
            Recorded { method: "/punctual.peer.v1.Peer/Leaving", ..recorded.clone() },
            Recorded { proofs: vec![], ..recorded.clone() },
            Recorded { proofs: vec![second.clone()], ..recorded.clone() },
            Recorded { proofs: vec![first, second], ..recorded.clone() },
        ] {
            assert_eq!(altered.sent(&replays, 2).await, REFUSED, "{:?} {:?}", altered.method, altered.body);
        }
        assert_eq!(recorded.sent(&replays, 3).await, REFUSED, "another server was asked");
        assert!(recorded.sent(&replays, 2).await.is_ok());
    }

    #[tokio::test]
    async fn an_old_question_and_one_of_another_cluster_are_refused() {
        let replays = Replays::default();
        for away in [-3600, -31, 31, 3600] {
            let at = Timestamp::from_micros(now().as_micros() + away * 1_000_000).unwrap();
            assert_eq!(Recorded::of(key(7), at, b"x").sent(&replays, 2).await, REFUSED, "{away}");
        }
        assert_eq!(Recorded::of(key(8), now(), b"x").sent(&replays, 2).await, REFUSED);
    }

    #[tokio::test]
    async fn a_message_has_its_limit_and_a_question_of_nobody_is_not_read() {
        let replays = Replays::default();
        let large: &'static [u8] = vec![0; MESSAGE_BYTES_MAX + FRAME_BYTES + 1].leak();
        assert_eq!(Recorded::of(key(7), now(), large).sent(&replays, 2).await, Err(Code::InvalidArgument));
        assert_eq!(Recorded::of(key(8), now(), large).sent(&replays, 2).await, REFUSED);
    }
}
