//! Every route of the document and every call of the protocols against every credential that there is, all of them real: made by
//! the server, and ended by it. What is in neither list, the document or the protocol files, is not served.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use punctual_client::Client;
use punctual_pki::{ClientTls, JoinToken, LeafKey, OwnCertificate, Trust};
use reqwest::Method;
use serde_json::Value;
use tonic::Code;
use tonic::client::Grpc;
use tonic::transport::Channel;

use super::{Refused, Stage};
use crate::enrolment::guest::{channel, join, own};
use crate::harness::eventually;

/// A route of the served document.
pub(super) struct Route {
    pub(super) id: String,
    pub(super) method: Method,
    pub(super) path: String,
}

pub(super) async fn routes(stage: &Stage) -> Vec<Route> {
    let answer = http(stage, None).get(format!("{}/openapi.json", stage.server.url)).bearer_auth(&stage.token);
    let document: Value = answer.send().await.expect("an answer").json().await.expect("the document");
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("there are paths") {
        for (method, operation) in methods.as_object().expect("a path has methods") {
            let id = operation["operationId"].as_str().expect("an id").to_owned();
            let method = method.to_uppercase().parse().expect("a method");
            routes.push(Route { id, method, path: filled(path) });
        }
    }
    assert!(routes.len() > 80, "{}", routes.len());
    routes
}

/// With values for what stands in braces.
fn filled(path: &str) -> String {
    let id = "01m7et433kee4803yssgvaf2fh";
    let kind =
        ["artifact", "backfill", "run"].into_iter().find(|kind| path.contains(&format!("/{kind}s"))).unwrap_or("job");
    path.replace("/v1/worker-tokens/{id}", &format!("/v1/worker-tokens/jointoken_{id}"))
        .replace("/v1/worker-enrolments/{id}", &format!("/v1/worker-enrolments/enrolment_{id}"))
        .replace("{id}", &format!("{kind}_{id}"))
        .replace("{job}", &format!("job_{id}"))
        .replace("{attempt}", "1")
        .replace("{name}", "nothing")
        .replace("{key}", "nothing")
        .replace("{user}", "nobody")
        .replace("{session}", "0000000000000001")
        .replace("{code}", "forbidden")
}

/// Routes that need no credential, or have one of their own, which nobody here has.
pub(super) const OPEN: [&str; 15] = [
    "live",
    "ready",
    "get_problem",
    "login",
    "begin_browser_login",
    "finish_browser_login",
    "exchange_login",
    "begin_device_login",
    "poll_device_login",
    "download_artifact",
    "upload_artifact",
    "get_agent_work",
    "beat_agent",
    "append_agent_log",
    "end_agent_attempt",
];

pub(super) fn http(stage: &Stage, own: Option<&OwnCertificate>) -> reqwest::Client {
    let tls = ClientTls::new(&stage.trust, own.cloned(), &[b"http/1.1"]).expect("a configuration");
    reqwest::Client::builder()
        .no_proxy()
        .tls_backend_preconfigured(tls.config().as_ref().clone())
        .timeout(Duration::from_secs(30))
        .build()
        .expect("a client")
}

pub(super) async fn send(stage: &Stage, http: &reqwest::Client, route: &Route, bearer: Option<&str>) -> (u16, String) {
    let mut request = http.request(route.method.clone(), format!("{}{}", stage.server.url, route.path));
    if let Some(bearer) = bearer {
        request = request.bearer_auth(bearer);
    }
    if [Method::POST, Method::PUT, Method::PATCH].contains(&route.method) {
        request = request.header("content-type", "application/json").body("{}");
    }
    let response = request.send().await.expect("an answer");
    let status = response.status().as_u16();
    if status < 400 {
        // It may be a stream without an end.
        return (status, String::new());
    }
    let body: Value = response.json().await.unwrap_or_default();
    (status, body["code"].as_str().unwrap_or_default().to_owned())
}

/// A worker that joined, and one that joined and was revoked.
struct Workers {
    authority: Trust,
    good: OwnCertificate,
    revoked: OwnCertificate,
}

impl Workers {
    async fn join(stage: &Stage) -> Self {
        let admin = stage.client(None);
        let request = punctual_api::WorkerTokenRequest {
            queues: vec!["q".to_owned()],
            kinds: vec!["probe".to_owned()],
            uses: Some(2),
            ..Default::default()
        };
        let token: JoinToken =
            admin.create_worker_token(&request).await.expect("a token").token.parse().expect("it is one");
        let joined = async || {
            let key = LeafKey::generate().expect("a key");
            let issued = join(&stage.server.url, &token, &key).await.expect("it joins");
            (own(&issued, &key), issued.enrolment)
        };
        let ((good, _), (revoked, enrolment)) = (joined().await, joined().await);
        admin.revoke_worker(enrolment.parse().expect("an id")).await.expect("it is revoked");
        Self { authority: Trust::Pinned(token.authority()), good, revoked }
    }

    async fn channel(&self, stage: &Stage, own: Option<&OwnCertificate>) -> Channel {
        let tls = ClientTls::new(&self.authority, own.cloned(), &[b"h2"]).expect("a configuration");
        channel(&stage.server.url, tls).await.expect("the handshake goes well")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_is_closed_to_every_credential_that_does_not_count() {
    let stage = Stage::new(&[]);
    let (refused, workers) = (Refused::make(&stage).await, Workers::join(&stage).await);
    let routes = routes(&stage).await;
    let ids: BTreeSet<&str> = routes.iter().map(|route| route.id.as_str()).collect();
    assert!(OPEN.iter().all(|open| ids.contains(open)), "{OPEN:?} of {ids:?}");
    let plain = http(&stage, None);
    let (as_worker, as_revoked) = (http(&stage, Some(&workers.good)), http(&stage, Some(&workers.revoked)));
    let named = |name: &str| refused.all.iter().find(|(what, _, _)| *what == name).expect("it is in the list");
    let bearers = [
        named("an expired key"),
        named("a revoked key"),
        named("a session that ended"),
        named("a session of a deleted user"),
        named("a key of another cluster"),
        named("a word"),
        named("a key with another secret"),
    ];
    for route in &routes {
        let at = |what: &str| format!("{} ({} {}) with {what}", route.id, route.method, route.path);
        if OPEN.contains(&route.id.as_str()) {
            // With a credential of somebody else it is as closed as with none, and says nothing.
            let (status, code) = send(&stage, &plain, route, None).await;
            assert!(status < 500 && !(code.is_empty() && status >= 400), "{}: {status} {code}", at("nothing"));
            let is_said = ["live", "ready", "get_problem"].contains(&route.id.as_str());
            assert!(is_said || status >= 400, "{}: {status}", at("nothing"));
            continue;
        }
        let (status, code) = send(&stage, &plain, route, None).await;
        assert_eq!((status, code.as_str()), (401, "unauthenticated"), "{}", at("nothing"));
        for (what, bearer, expected) in bearers {
            let (status, code) = send(&stage, &plain, route, Some(bearer)).await;
            assert_eq!((status, code.as_str()), (401, *expected), "{}", at(what));
        }
        // A worker has the worker protocol and nothing else.
        let (status, code) = send(&stage, &as_worker, route, None).await;
        let is_for_anybody = [
            "whoami",
            "get_openapi",
            "list_sessions",
            "end_session",
            "set_password",
            "list_namespaces",
            "get_namespace",
        ];
        match is_for_anybody.contains(&route.id.as_str()) {
            true => assert!(status != 401 && status < 500, "{}: {status} {code}", at("a worker's certificate")),
            false => assert_eq!((status, code.as_str()), (403, "forbidden"), "{}", at("a worker's certificate")),
        }
        let (status, code) = send(&stage, &as_revoked, route, None).await;
        assert_eq!((status, code.as_str()), (403, "worker_revoked"), "{}", at("a revoked worker's certificate"));
    }
}

/// The services and methods of the protocol files, and whether the messages of each come as a stream.
pub(super) fn calls() -> Vec<(String, String)> {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../proto/proto"));
    let files = ["punctual/worker/v1/worker.proto", "punctual/peer/v1/peer.proto"];
    let set = protox::compile(files, [root]).expect("the protocol compiles");
    let mut calls = Vec::new();
    for file in &set.file {
        for service in &file.service {
            let path = |method: &str| format!("/{}.{}/{method}", file.package(), service.name());
            calls.extend(service.method.iter().map(|method| (service.name().to_owned(), path(method.name()))));
        }
    }
    assert!(calls.len() >= 15, "{calls:?}");
    calls
}

/// Sends one empty message and closes its half. Answers the code of the refusal, or `Ok` if a stream or an answer began.
async fn call(channel: Channel, path: &str, bearer: Option<&str>) -> Code {
    let bearer = bearer.map(|bearer| format!("Bearer {bearer}"));
    let headers: Vec<_> = bearer.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
    calling(channel, path, &headers).await
}

/// The same with any headers.
pub(super) async fn calling(channel: Channel, path: &str, headers: &[(&'static str, &str)]) -> Code {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.expect("the connection is open");
    let mut request = tonic::Request::new(tokio_stream::once(Bytes::new()));
    for (name, value) in headers {
        request.metadata_mut().insert(*name, value.parse().expect("ASCII"));
    }
    let path = path.parse().expect("a path");
    match grpc.streaming(request, path, RawCodec).await {
        Ok(response) => match response.into_inner().message().await {
            Ok(_) => Code::Ok,
            Err(status) => status.code(),
        },
        Err(status) => status.code(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_closed_to_every_credential_that_does_not_count() {
    let stage = Stage::new(&[]);
    let (refused, workers) = (Refused::make(&stage).await, Workers::join(&stage).await);
    let (plain, as_worker, as_revoked) = (
        workers.channel(&stage, None).await,
        workers.channel(&stage, Some(&workers.good)).await,
        workers.channel(&stage, Some(&workers.revoked)).await,
    );
    let closed = [Code::Unauthenticated, Code::PermissionDenied];
    for (service, path) in calls() {
        let bearers: Vec<Option<&str>> =
            std::iter::once(None).chain(refused.all.iter().map(|(_, text, _)| Some(text.as_str()))).collect();
        for bearer in bearers {
            let code = call(plain.clone(), &path, bearer).await;
            match (service.as_str(), path.ends_with("/Join")) {
                // Its credential is in the message, and there is none in an empty one.
                (_, true) => assert_ne!(code, Code::Ok, "{path} with {bearer:?}"),
                ("Worker" | "Enrolment" | "Peer", _) => {
                    assert!(closed.contains(&code), "{path} with {bearer:?}: {code:?}");
                }
                _ => panic!("{service} is not known to this test: say who may call it"),
            }
        }
        // Servers prove that they know the cluster's secret. No other credential will do.
        for good in [&stage.token, &refused.good] {
            let code = call(plain.clone(), &path, Some(good)).await;
            assert!(service != "Peer" || closed.contains(&code), "{path} with a good key: {code:?}");
        }
        let code = call(as_revoked.clone(), &path, None).await;
        assert_ne!(code, Code::Ok, "{path} with a revoked worker's certificate");
        if service == "Peer" {
            let code = call(as_worker.clone(), &path, None).await;
            assert!(closed.contains(&code), "{path} by a worker: {code:?}");
        }
    }
    // What is in no protocol file is not there.
    for path in [
        "/punctual.worker.v1.Worker/Nothing",
        "/punctual.peer.v1.Peer/Nothing",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    ] {
        let code = call(as_worker.clone(), path, None).await;
        assert_ne!(code, Code::Ok, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_end_when_their_key_is_revoked_while_they_are_open() {
    let stage = Stage::new(&[]);
    let admin = stage.client(None);
    let request =
        punctual_api::KeyRequest { name: "streams".to_owned(), role: Some("admin".to_owned()), ..Default::default() };
    let key = admin.create_key(&request).await.expect("a key").secret.0;
    let job = admin
        .submit(&serde_json::json!({ "inline": { "run": { "probe": {} } }, "run_at": "2199-01-01T00:00:00Z" }))
        .await
        .expect("a job")
        .id;
    let http = Arc::new(http(&stage, None));
    let paths = ["/v1/events".to_owned(), format!("/v1/jobs/{job}/events"), format!("/v1/jobs/{job}/logs")];
    let mut open = Vec::new();
    for path in paths {
        let request =
            http.get(format!("{}{path}", stage.server.url)).bearer_auth(&key).header("accept", "text/event-stream");
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status().as_u16(), 200, "{path}");
        open.push((path, response));
    }
    let revoked = Instant::now();
    admin.revoke_key("streams").await.expect("it is revoked");
    for (path, mut response) in open {
        let ended = async { while let Ok(Some(_)) = response.chunk().await {} };
        tokio::time::timeout(Duration::from_secs(10), ended).await.unwrap_or_else(|_| panic!("{path} goes on"));
    }
    assert!(revoked.elapsed() < Duration::from_secs(5), "{:?}", revoked.elapsed());
    let client: Client = stage.client(Some(&key));
    eventually("the key is refused", || async { client.whoami().await.is_err() }).await;
}

/// Messages as the bytes that they are.
#[derive(Debug, Clone, Default)]
struct RawCodec;

impl tonic::codec::Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl tonic::codec::Encoder for RawCodec {
    type Item = Bytes;
    type Error = tonic::Status;

    fn encode(&mut self, message: Bytes, to: &mut tonic::codec::EncodeBuf<'_>) -> Result<(), tonic::Status> {
        bytes::BufMut::put(to, message);
        Ok(())
    }
}

impl tonic::codec::Decoder for RawCodec {
    type Item = Bytes;
    type Error = tonic::Status;

    fn decode(&mut self, from: &mut tonic::codec::DecodeBuf<'_>) -> Result<Option<Bytes>, tonic::Status> {
        use bytes::Buf as _;
        let len = from.remaining();
        Ok(Some(from.copy_to_bytes(len)))
    }
}
