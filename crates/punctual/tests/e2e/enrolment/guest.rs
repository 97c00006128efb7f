//! A worker that joined and says more than it may.

use hyper_util::rt::TokioIo;
use punctual_core::Timestamp;
use punctual_pki::{CertificateDer, ClientTls, Credentials, JoinToken, LeafKey, OwnCertificate, Trust};
use punctual_proto::convert::id_bytes;
use punctual_proto::identity::WorkerSecret;
use punctual_proto::worker as wire;
use punctual_proto::worker::enrolment_client::EnrolmentClient;
use punctual_proto::worker::worker_client::WorkerClient;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

use super::Stage;
use crate::harness::eventually;

/// A channel over TLS.
pub(crate) async fn channel(url: &str, tls: ClientTls) -> Result<Channel, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(url.to_owned()).expect("a URL");
    let connector = tower::service_fn(move |uri: http::Uri| {
        let tls = tls.clone();
        async move {
            let host = uri.host().expect("a host").to_owned();
            let stream = TcpStream::connect((host.as_str(), uri.port_u16().expect("a port"))).await?;
            let name = tls.server_name(&host).map_err(std::io::Error::other)?;
            Ok::<_, std::io::Error>(TokioIo::new(TlsConnector::from(tls.config()).connect(name, stream).await?))
        }
    });
    endpoint.connect_with_connector(connector).await
}

pub(super) fn read_token(file: &std::path::Path) -> JoinToken {
    std::fs::read_to_string(file).expect("the token").trim().parse().expect("it is one")
}

/// Asks for a certificate.
pub(crate) async fn join(url: &str, token: &JoinToken, key: &LeafKey) -> Result<wire::Certificate, Status> {
    let pinned = ClientTls::new(&Trust::Pinned(token.authority()), None, &[b"h2"]).expect("a configuration");
    let mut client = EnrolmentClient::new(channel(url, pinned).await.expect("the server is of the cluster"));
    let request = wire::JoinRequest {
        token: token.reveal(),
        public_key: key.public_key().into(),
        name: "guest".into(),
        queues: Vec::new(),
    };
    client.join(request).await.map(tonic::Response::into_inner)
}

/// The certificate, ready to be shown.
pub(crate) fn own(issued: &wire::Certificate, key: &LeafKey) -> OwnCertificate {
    let chain = issued.chain.iter().map(|der| CertificateDer::from(der.to_vec())).collect();
    let now = Timestamp::saturating_from_micros(issued.expires_at) - punctual_core::Span::from_secs(3600);
    OwnCertificate::new(Credentials::new(chain, key.secret().to_private_key(), now).expect("it fits the key"))
}

pub(super) async fn guest(
    stage: &Stage,
    token: &JoinToken,
) -> (WorkerClient<Channel>, OwnCertificate, wire::Certificate) {
    let key = LeafKey::generate().expect("a key");
    let issued = join(&stage.server.url, token, &key).await.expect("it joins");
    let own = own(&issued, &key);
    let tls = ClientTls::new(&Trust::Pinned(token.authority()), Some(own.clone()), &[b"h2"]).expect("a configuration");
    let client = WorkerClient::new(channel(&stage.server.url, tls).await.expect("it is let in"));
    (client, own, issued)
}

/// Says hello, and answers what the server says to it.
pub(super) async fn introduce(
    client: &mut WorkerClient<Channel>,
    lie: impl FnOnce(&mut wire::Hello),
) -> Result<(mpsc::Sender<wire::WorkerMessage>, tonic::Streaming<wire::ServerMessage>), Status> {
    let (said, messages) = mpsc::channel(1);
    let mut heard = client.work(ReceiverStream::new(messages)).await?.into_inner();
    let greeting = heard.message().await?.and_then(|message| message.greeting).expect("a greeting");
    let secret = WorkerSecret::new(rand_bytes());
    let mut hello = wire::Hello {
        worker_id: id_bytes(secret.worker_id(Timestamp::EPOCH).to_bytes()),
        secret: secret.to_bytes().to_vec().into(),
        name: "guest".to_owned(),
        version: "0".to_owned(),
        queues: vec!["q".to_owned()],
        capabilities: vec!["probe".to_owned()],
        credit: 8,
        acquired: greeting.acquired,
        ..Default::default()
    };
    lie(&mut hello);
    said.send(wire::WorkerMessage { hello: Some(hello), ..Default::default() }).await.expect("the stream is open");
    heard.message().await?.and_then(|message| message.welcome).expect("a welcome");
    Ok((said, heard))
}

fn rand_bytes() -> [u8; 32] {
    let mut random = [0; 32];
    getrandom::fill(&mut random).expect("the system has random bytes");
    random
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_gets_nothing_that_its_enrolment_does_not_permit() {
    let stage = Stage::new();
    let token = read_token(&stage.token("join.token", &["--queues", "q", "--kinds", "probe,handler:a"]));
    let (mut client, own, _) = guest(&stage, &token).await;
    let rest = stage.client();
    for lie in [
        Box::new(|hello: &mut wire::Hello| hello.queues = vec!["vault".to_owned()])
            as Box<dyn FnOnce(&mut wire::Hello)>,
        Box::new(|hello| hello.capabilities = vec!["command".to_owned(), "handler:b".to_owned()]),
    ] {
        let refused = introduce(&mut client, lie).await.expect_err("it is out of its scope");
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    }
    let lie = |hello: &mut wire::Hello| {
        hello.queues.push("vault".to_owned());
        hello.capabilities.extend(["command".to_owned(), "handler:a".to_owned(), "handler:b".to_owned()]);
        hello.labels.insert("gpu".to_owned(), "true".to_owned());
        hello.commands_as = "root".to_owned();
    };
    let (_said, _heard) = introduce(&mut client, lie).await.expect("a part of it is permitted");
    let workers = rest.workers().await.expect("workers are listed").workers;
    assert_eq!(workers[0].queues, ["q"]);
    assert_eq!(workers[0].capabilities, ["probe", "handler:a"]);
    assert!(workers[0].labels.is_empty() && workers[0].commands_as.is_none());

    // Its certificate opens nothing else, also on this machine, where its user may do everything.
    let as_worker = super::client(&stage.server.url, &stage.authority_file(), Some(own));
    for refused in [
        as_worker.workers().await.map(drop),
        as_worker.stats().await.map(drop),
        as_worker.worker_tokens().await.map(drop),
        as_worker.create_worker_token(&Default::default()).await.map(drop),
    ] {
        let refused = refused.expect_err("a worker has no right to it");
        assert_eq!(refused.kind().map(|kind| kind.code()), Some("forbidden"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_asked_for_again_and_a_replayed_token_is_not() {
    let stage = Stage::new();
    let token = read_token(&stage.token("join.token", &["--queues", "q", "--kinds", "probe"]));
    let (key, other) = (LeafKey::generate().expect("a key"), LeafKey::generate().expect("a key"));
    let first = join(&stage.server.url, &token, &key).await.expect("it joins");
    let again = join(&stage.server.url, &token, &key).await.expect("it asks again");
    assert_eq!(first.enrolment, again.enrolment);
    let code =
        |status: Status| status.metadata().get("punctual-code").expect("a code").to_str().expect("text").to_owned();
    let replayed = join(&stage.server.url, &token, &other).await.expect_err("it has no uses left");
    assert_eq!(code(replayed), "join_token_used_up");
    let guessed = JoinToken::new(token.id(), [0; 32], token.authority());
    let guessed = join(&stage.server.url, &guessed, &other).await.expect_err("it is not the secret");
    assert_eq!(code(guessed), "invalid_join_token", "who does not know the secret learns nothing about the token");
    assert_eq!(stage.client().enrolments(&Default::default()).await.expect("they are listed").enrolments.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_and_the_next_connections_of_a_revoked_worker_are_refused() {
    let stage = Stage::new();
    let token = read_token(&stage.token("join.token", &["--queues", "q", "--kinds", "probe"]));
    let (mut client, own, issued) = guest(&stage, &token).await;
    let (_said, mut heard) = introduce(&mut client, |_| {}).await.expect("it is let in");
    let rest = stage.client();
    rest.revoke_worker(issued.enrolment.parse().expect("an id")).await.expect("it is revoked");
    let ended = async { while let Ok(Some(_)) = heard.message().await {} };
    tokio::time::timeout(std::time::Duration::from_secs(5), ended).await.expect("its stream is cut");
    let refused = introduce(&mut client, |_| {}).await.expect_err("its certificate does not count");
    assert!(refused.message().contains("revoked"), "{refused}");
    let tls = ClientTls::new(&Trust::Pinned(token.authority()), Some(own), &[b"h2"]).expect("a configuration");
    let fresh = channel(&stage.server.url, tls.clone()).await.expect("TLS knows nothing of it");
    let beats = tokio_stream::once(wire::HeartbeatRequest::default());
    let refused = WorkerClient::new(fresh.clone()).heartbeat(beats).await.expect_err("it is nobody");
    assert!(refused.message().contains("revoked"), "{refused}");
    let key = LeafKey::generate().expect("a key");
    let request = wire::RenewRequest { public_key: key.public_key().into() };
    let refused = EnrolmentClient::new(fresh).renew(request).await.expect_err("it gets no other certificate");
    assert!(refused.message().contains("revoked"), "{refused}");
    eventually("no worker is connected", || async { rest.stats().await.is_ok_and(|stats| stats.workers == 0) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_renewed_for_another_key() {
    let stage = Stage::new();
    let token = read_token(&stage.token("join.token", &["--queues", "q", "--kinds", "probe"]));
    let (_, own_certificate, issued) = guest(&stage, &token).await;
    let tls = ClientTls::new(&Trust::Pinned(token.authority()), Some(own_certificate), &[b"h2"]).expect("TLS");
    let key = LeafKey::generate().expect("a key");
    let request = wire::RenewRequest { public_key: key.public_key().into() };
    let mut client = EnrolmentClient::new(channel(&stage.server.url, tls).await.expect("a channel"));
    let renewed = client.renew(request.clone()).await.expect("it is renewed").into_inner();
    assert_eq!(renewed.enrolment, issued.enrolment);
    assert!(renewed.expires_at >= issued.expires_at && renewed.chain != issued.chain);
    own(&renewed, &key);
    let nobody = ClientTls::new(&Trust::Pinned(token.authority()), None, &[b"h2"]).expect("TLS");
    let mut client = EnrolmentClient::new(channel(&stage.server.url, nobody).await.expect("a channel"));
    assert!(client.renew(request).await.is_err(), "without a certificate there is nothing to renew");
}
