//! Credentials that count elsewhere: those of agents, before and after their end, of servers, and of workers about what other
//! workers run. All are real: made by the server, or with the keys from its database.

use std::time::Duration;

use bytes::Bytes;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use punctual_api::{JobRequest, NamespaceRequest, QuotasEdit, WorkerTokenRequest};
use punctual_app::{BodyDigest, ClusterKeys, PEER_HEADER, Question, RootKeys};
use punctual_core::{ServerId, Span};
use punctual_pki::{
    Authority, CertificateDer, CertificateName, ClientTls, JoinToken, LeafRequest, OwnCertificate, SecretKey, Trust,
};
use punctual_proto::worker as wire;
use punctual_store::{ClusterSecret, RootKeyId, SealedKey};
use reqwest::Method;
use serde_json::json;
use tonic::Code;
use tonic::transport::Channel;

use super::Stage;
use super::every_route::{OPEN, Route, calling, calls, http, routes, send};
use crate::agent_tokens::{path, succeeded};
use crate::artifacts::{binary, declaration, program};
use crate::enrolment::guest::channel;
use crate::enrolment::held::{HeldAttempt, Holder};
use crate::tls::renewal::now;

async fn join_token(stage: &Stage, queue: &str, namespace: &str) -> JoinToken {
    let request = WorkerTokenRequest {
        queues: vec![queue.to_owned()],
        kinds: ["probe", "binary"].map(str::to_owned).to_vec(),
        namespaces: vec![namespace.to_owned()],
        uses: Some(2),
        ..Default::default()
    };
    let token = stage.client(None).create_worker_token(&request).await.expect("a token").token;
    token.parse().expect("it is one")
}

/// A worker with two attempts that agents run. One agent has ended.
struct Agents {
    holder: Holder,
    running: (HeldAttempt, String),
    ended: (HeldAttempt, String),
    artifact: Vec<u8>,
}

impl Agents {
    async fn start(stage: &Stage, token: &JoinToken) -> Self {
        let (admin, plain) = (stage.client(None), http(stage, None));
        let bytes = program(5_000, 1);
        let declared = serde_json::from_value(declaration(&bytes)).expect("a request");
        let artifact = admin.create_artifact(&declared).await.expect("an artifact");
        let url = artifact.upload.as_ref().expect("it is to be uploaded").url.clone();
        assert_eq!(plain.put(url).body(bytes).send().await.expect("an answer").status().as_u16(), 200);
        let mut holder = Holder::join(&stage.server.url, token, "held").await;
        let mut admitted = Vec::new();
        for _ in 0..2 {
            let mut spec = binary(&artifact.id.to_string());
            spec["queue"] = json!("held");
            admin.submit(&json!({ "inline": spec })).await.expect("a job");
            let held = holder.assigned(1).await.remove(0);
            let token = holder.admit(&held, &artifact.id.to_bytes()).await;
            admitted.push((held, token));
        }
        let (ended, running) = (admitted.remove(1), admitted.remove(0));
        let url = format!("{}{}", stage.server.url, path(ended.0.job, 1, "/outcome"));
        let report = plain.post(url).bearer_auth(&ended.1).body(succeeded(ended.0.job, 1)).send().await;
        assert_eq!(report.expect("an answer").status().as_u16(), 204);
        Self { holder, running, ended, artifact: artifact.id.to_bytes().to_vec() }
    }
}

/// What a server knows and shows to other servers.
struct PeerIdentity {
    keys: ClusterKeys,
    certificate: OwnCertificate,
    id: ServerId,
}

impl PeerIdentity {
    /// Made with what is in the database and the root key, as a server makes it.
    fn steal(stage: &Stage) -> Self {
        let database = rusqlite::Connection::open(stage.home.file("data/punctual.db")).expect("the database");
        let read = |row: &rusqlite::Row<'_>| {
            Ok(SealedKey { label: row.get(0)?, root_key: RootKeyId(row.get(1)?), sealed: row.get(2)? })
        };
        let sql = "SELECT label, root_key, sealed FROM sealed_key WHERE label = 'cluster'";
        let sealed = database.query_row(sql, [], read).expect("the cluster's secret");
        let root_keys = std::fs::read_to_string(stage.home.file("data/root.key")).expect("the root key");
        let secret = *RootKeys::read(&root_keys).expect("a root key").open(&sealed).expect("it opens");
        let keys = ClusterKeys::new(ClusterSecret(secret));
        let sql = "SELECT certificate, sealed_key FROM authority WHERE generation = 1";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Vec<u8>>(1)?));
        let (certificate, sealed) = database.query_row(sql, [], read).expect("the authority");
        let derived = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
        let derived = ring::hmac::sign(&derived, b"deriveauthority key");
        let derived: [u8; 32] = derived.as_ref().try_into().expect("32 bytes");
        let (nonce, sealed) = sealed.split_first_chunk::<24>().expect("a nonce");
        let payload = Payload { msg: sealed, aad: b"authority 1" };
        let cipher = XChaCha20Poly1305::new(&Key::from(derived));
        let key = SecretKey::from_pkcs8(cipher.decrypt(&XNonce::from(*nonce), payload).expect("it opens"));
        let cluster = keys.now().cluster().clone();
        let authority = Authority::open(cluster.clone(), 1, CertificateDer::from(certificate), &key).expect("it opens");
        let id = ServerId::new(now(), 4711);
        let name = CertificateName::server(cluster, id.to_string()).expect("a name");
        let request = LeafRequest { name, hosts: vec!["localhost".to_owned()], lifetime: Span::from_secs(3600) };
        let certificate = OwnCertificate::new(authority.issue_with_key(request, now()).expect("a certificate"));
        Self { keys, certificate, id }
    }

    /// A proof of one empty message to a method.
    fn proof(&self, to: ServerId, method: &str, number: u64) -> String {
        let question = Question { from: self.id, to, asked_at: now(), number };
        self.keys.ask(question, method, BodyDigest::of(&[0; 5]))
    }
}

async fn over(stage: &Stage, authority: &Trust, own: Option<&OwnCertificate>) -> Channel {
    let tls = ClientTls::new(authority, own.cloned(), &[b"h2"]).expect("a configuration");
    channel(&stage.server.url, tls).await.expect("the handshake goes well")
}

const CLOSED: [Code; 2] = [Code::Unauthenticated, Code::PermissionDenied];

#[tokio::test(flavor = "multi_thread")]
async fn every_route_is_closed_to_agents_and_to_servers() {
    let stage = Stage::new(&[]);
    let token = join_token(&stage, "held", "default").await;
    let agents = Agents::start(&stage, &token).await;
    let peer = PeerIdentity::steal(&stage);
    let (plain, as_server) = (http(&stage, None), http(&stage, Some(&peer.certificate)));
    let (running, ended) = (agents.running.1.as_str(), agents.ended.1.as_str());
    for route in &routes(&stage).await {
        let at = |what: &str| format!("{} ({} {}) {what}", route.id, route.method, route.path);
        if OPEN.contains(&route.id.as_str()) {
            continue;
        }
        for (what, bearer) in [("by an agent", running), ("by an agent after its end", ended)] {
            let (status, code) = send(&stage, &plain, route, Some(bearer)).await;
            assert_eq!((status, code.as_str()), (401, "invalid_token"), "{}", at(what));
        }
        let (status, code) = send(&stage, &as_server, route, None).await;
        assert_eq!((status, code.as_str()), (403, "forbidden"), "{}", at("by a server"));
    }
    // An agent has the routes of its own attempt, until that ends.
    for (method, rest) in
        [(Method::GET, ""), (Method::POST, "/heartbeat"), (Method::POST, "/logs?offset=0"), (Method::POST, "/outcome")]
    {
        let ask = async |attempt: &HeldAttempt, bearer: Option<&str>| {
            let route =
                Route { id: rest.to_owned(), method: method.clone(), path: path(attempt.job, attempt.attempt.0, rest) };
            send(&stage, &plain, &route, bearer).await
        };
        let (own, other) = (&agents.running.0, &agents.ended.0);
        assert_eq!(ask(own, None).await, (401, "invalid_token".to_owned()), "{rest}");
        assert_eq!(ask(own, Some(&stage.token)).await, (401, "invalid_token".to_owned()), "{rest} by an administrator");
        assert_eq!(ask(own, Some(ended)).await, (403, "wrong_attempt".to_owned()), "{rest}");
        assert_eq!(ask(other, Some(running)).await, (403, "wrong_attempt".to_owned()), "{rest}");
        let late = ask(other, Some(ended)).await;
        assert!(
            late.0 == 409 && late.1 == "attempt_over" || late.1 == "invalid_request",
            "{rest} after its end: {late:?}"
        );
        let (status, code) = ask(own, Some(running)).await;
        assert!(status < 400 || code == "invalid_request", "{rest} by its agent: {status} {code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_closed_to_agents_and_those_of_servers_are_open_to_servers_alone() {
    let stage = Stage::new(&[]);
    let token = join_token(&stage, "held", "default").await;
    let agents = Agents::start(&stage, &token).await;
    let peer = PeerIdentity::steal(&stage);
    let server = stage.client(None).server().await.expect("the server").id;
    let authority = Trust::Pinned(token.authority());
    let plain = over(&stage, &authority, None).await;
    let as_server = over(&stage, &authority, Some(&peer.certificate)).await;
    let as_worker = over(&stage, &authority, Some(&agents.holder.certificate)).await;
    let mut number = 0;
    for (service, path) in calls() {
        let is_join = path.ends_with("/Join");
        let is_closed = |code: Code| CLOSED.contains(&code) || is_join && code != Code::Ok;
        for bearer in [&agents.running.1, &agents.ended.1] {
            let code = calling(plain.clone(), &path, &[("authorization", &format!("Bearer {bearer}"))]).await;
            assert!(is_closed(code), "{path} by an agent: {code:?}");
        }
        let code = calling(as_server.clone(), &path, &[]).await;
        assert!(is_closed(code), "{path} by a server without a proof: {code:?}");
        // A proof is good for one call by the server that made it.
        let mut proof = |method: &str| {
            number += 1;
            peer.proof(server, method, number)
        };
        let (for_another, own, for_worker) = (proof("/punctual.peer.v1.Peer/Nothing"), proof(&path), proof(&path));
        let code = calling(as_server.clone(), &path, &[(PEER_HEADER, &for_another)]).await;
        assert!(is_closed(code), "{path} with the proof of another call: {code:?}");
        for (who, channel) in [("nobody", &plain), ("a worker", &as_worker)] {
            let code = calling(channel.clone(), &path, &[(PEER_HEADER, &for_worker)]).await;
            assert!(
                is_closed(code) || who == "a worker" && service != "Peer",
                "{path} by {who} with a proof: {code:?}"
            );
        }
        let headers = [(PEER_HEADER, own.as_str())];
        let answered = calling(as_server.clone(), &path, &headers);
        // Some answer only when there is news.
        let code = tokio::time::timeout(Duration::from_secs(2), answered).await.unwrap_or(Code::Ok);
        match service.as_str() {
            "Peer" => assert!(!CLOSED.contains(&code), "{path} by a server: {code:?}"),
            _ => assert!(is_closed(code), "{path} by a server: {code:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_learns_nothing_of_attempts_of_other_workers_and_namespaces() {
    let stage = Stage::new(&[]);
    let admin = stage.client(None);
    let request = NamespaceRequest { name: "team-a".to_owned(), description: None, quotas: QuotasEdit::default() };
    admin.create_namespace(&request).await.expect("a namespace");
    let token = join_token(&stage, "held", "default").await;
    let mut agents = Agents::start(&stage, &token).await;
    let another = Holder::join(&stage.server.url, &token, "held").await;
    let tenant = Holder::join(&stage.server.url, &join_token(&stage, "held", "team-a").await, "held").await;
    let held = agents.running.0.clone();
    let guessed = HeldAttempt { token: Bytes::from_static(&[0; 16]), ..held.clone() };
    for (who, worker) in [("another worker", &another), ("a worker of another namespace", &tenant)] {
        // Also with the token of the attempt, which only the worker has that it was given to.
        for held in [&held, &guessed] {
            let refused = worker.try_download(held, &agents.artifact).await.expect_err(who);
            assert_eq!(refused.code(), Code::PermissionDenied, "{who}: {refused}");
            let refused = worker.try_admit(held, &agents.artifact).await.expect_err(who);
            assert_eq!(refused.code(), Code::PermissionDenied, "{who}: {refused}");
        }
    }
    assert_eq!(
        agents.holder.try_download(&guessed, &agents.artifact).await.expect_err("the token is wrong").code(),
        Code::PermissionDenied
    );
    let _: wire::DownloadReply = agents.holder.try_download(&held, &agents.artifact).await.expect("its own");

    // Nobody but a worker of the namespace is given its jobs.
    let in_team = admin.clone().in_namespace(Some("team-a"));
    let probe = json!({ "inline": { "run": { "probe": {} }, "queue": "held" } });
    let job = in_team.submit(&probe).await.expect("a job").id;
    let mut tenant = tenant;
    let theirs = tenant.assigned(1).await.remove(0);
    assert_eq!(theirs.job, job);
    let own =
        admin.submit(&JobRequest { ..serde_json::from_value(probe).expect("a request") }).await.expect("a job").id;
    let mut another = another;
    let (given, to_tenant) = tokio::join!(
        tokio::time::timeout(Duration::from_secs(10), async {
            tokio::select! {
                held = another.assigned(1) => held,
                held = agents.holder.assigned(1) => held,
            }
        }),
        tokio::time::timeout(Duration::from_secs(2), tenant.assigned(1)),
    );
    assert_eq!(given.expect("a worker of its namespace gets it")[0].job, own);
    assert!(to_tenant.is_err(), "a worker of another namespace does not");
}
