//! Certificates that the cluster's own authority issued and that still must not count: expired ones, those of workers shown as
//! a server, and those of another cluster. Whoever shows them learns nothing and runs nothing.
//!
//! The tests have the authority's key from the server's database and root key, as nobody outside has it.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use punctual_app::RootKeys;
use punctual_core::{JobId, ShardId, Span, Timestamp, hex};
use punctual_pki::rustls::ServerConfig;
use punctual_pki::rustls::crypto::ring::default_provider;
use punctual_pki::{
    Authority, CertificateDer, CertificateName, ClientTls, ClusterName, Credentials, IssuedLeaf, LeafKey, LeafRequest,
    OwnCertificate, SecretKey, Trust,
};
use punctual_proto::worker::worker_client::WorkerClient;
use punctual_store::{CLUSTER_SECRET, RootKeyId, SealedKey};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::guest::{channel, guest, introduce, read_token};
use super::{Stage, client, joining};
use crate::harness::{Home, PUNCTUAL, Process, eventually};
use crate::tls::renewal::now;

const HOUR: Span = Span::from_secs(3600);

/// The authority of a cluster, with its key.
fn authority_of(home: &Home) -> Authority {
    let database = rusqlite::Connection::open(home.file("data/punctual.db")).expect("the database");
    let read = |row: &rusqlite::Row<'_>| {
        Ok(SealedKey { label: row.get(0)?, root_key: RootKeyId(row.get(1)?), sealed: row.get(2)? })
    };
    let sql = "SELECT label, root_key, sealed FROM sealed_key WHERE label = ?1";
    let sealed = database.query_row(sql, [CLUSTER_SECRET], read).expect("the cluster's secret");
    let root_keys = std::fs::read_to_string(home.file("data/root.key")).expect("the root key");
    let secret = RootKeys::read(&root_keys).expect("a root key").open(&sealed).expect("it opens");
    let derive = |label: &[u8]| -> [u8; 32] {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &*secret);
        let tag = ring::hmac::sign(&key, &[b"derive", label].concat());
        tag.as_ref().try_into().expect("32 bytes")
    };
    let sql = "SELECT certificate, sealed_key FROM authority WHERE generation = 1";
    let row = database.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
    let (certificate, sealed): (Vec<u8>, Vec<u8>) = row.expect("the authority");
    let (nonce, sealed) = sealed.split_first_chunk::<24>().expect("a nonce");
    let cipher = XChaCha20Poly1305::new(&Key::from(derive(b"authority key")));
    let payload = Payload { msg: sealed, aad: b"authority 1" };
    let key = SecretKey::from_pkcs8(cipher.decrypt(&XNonce::from(*nonce), payload).expect("it opens"));
    let cluster = ClusterName::new(hex::encode(&derive(b"cluster name")[..8])).expect("a name");
    Authority::open(cluster, 1, CertificateDer::from(certificate), &key).expect("the authority")
}

/// The same key under another name, as nobody has it.
fn of_another_cluster(home: &Home) -> Authority {
    let own = authority_of(home);
    let cluster = ClusterName::new("another").expect("a name");
    Authority::open(cluster, 1, own.certificate().clone(), &own.secret()).expect("the authority")
}

fn server_request(cluster: &ClusterName) -> LeafRequest {
    let name = CertificateName::server(cluster.clone(), "srv").expect("a name");
    LeafRequest { name, hosts: vec!["127.0.0.1".to_owned()], lifetime: HOUR }
}

/// A server's certificate that was issued then, with its key.
fn server_certificate(authority: &Authority, at: Timestamp) -> (IssuedLeaf, LeafKey) {
    issued(authority, server_request(authority.cluster()), at)
}

fn issued(authority: &Authority, request: LeafRequest, at: Timestamp) -> (IssuedLeaf, LeafKey) {
    let key = LeafKey::generate().expect("a key");
    (authority.issue(request, &key.public_key(), at).expect("a certificate"), key)
}

fn long_ago() -> Timestamp {
    now() - Span::from_secs(7200)
}

/// What a false server may show, and whether agents can tell: they know authorities and hosts, and no cluster.
fn false_certificates(home: &Home) -> Vec<(&'static str, bool, (IssuedLeaf, LeafKey))> {
    let own = authority_of(home);
    let strange = Authority::make(own.cluster().clone(), 1, now()).expect("an authority");
    let name = CertificateName::worker(own.cluster().clone(), "w", "e".to_owned()).expect("a name");
    let worker = LeafRequest { name, hosts: Vec::new(), lifetime: HOUR };
    vec![
        ("of its own authority", true, server_certificate(&strange, now())),
        ("an expired one of the cluster's", true, server_certificate(&own, long_ago())),
        ("a worker's", true, issued(&own, worker, now())),
        ("of another cluster", false, server_certificate(&of_another_cluster(home), now())),
    ]
}

/// Whoever took a server's port.
struct FalseServer {
    url: String,
    calls: Arc<AtomicUsize>,
    /// Bytes that it was sent after the handshake.
    heard: Arc<AtomicUsize>,
}

impl FalseServer {
    async fn start((leaf, key): &(IssuedLeaf, LeafKey)) -> Self {
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
        let mut config =
            builder.with_single_cert(leaf.chain.clone(), key.secret().to_private_key()).expect("a certificate");
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("https://{}", listener.local_addr().expect("an address"));
        let (calls, heard) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (all_calls, all_heard) = (Arc::clone(&calls), Arc::clone(&heard));
        tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (acceptor, calls, heard) = (acceptor.clone(), Arc::clone(&all_calls), Arc::clone(&all_heard));
                tokio::spawn(async move {
                    if let Ok(mut stream) = acceptor.accept(stream).await {
                        let mut bytes = [0; 1024];
                        while let Ok(1..) = stream.read(&mut bytes).await.inspect(|read| {
                            heard.fetch_add(*read, Ordering::SeqCst);
                        }) {}
                    }
                    // After what came of it.
                    calls.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { url, calls, heard }
    }

    fn heard(&self) -> usize {
        self.heard.load(Ordering::SeqCst)
    }

    async fn was_called(&self, times: usize) {
        eventually("it is called", || async { self.calls.load(Ordering::SeqCst) >= times || self.heard() > 0 }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_joined_tells_a_false_server_nothing_whatever_its_certificate() {
    let stage = Stage::new();
    let token = stage.token("join.token", &["--queues", "q", "--kinds", "probe"]);
    let worker = stage.worker("w1", &token, &[]);
    let client = stage.client();
    eventually("the worker connects", || async { client.stats().await.is_ok_and(|stats| stats.workers == 1) }).await;
    worker.stop();
    // As after the death of the server, when anybody can take its port.
    for (what, _, certificate) in false_certificates(&stage.home) {
        let server = FalseServer::start(&certificate).await;
        let _worker: Process =
            joining(&stage.home, &server.url, "w1", &token, &[]).spawn().expect("the worker starts").into();
        server.was_called(2).await;
        assert_eq!(server.heard(), 0, "{what}");
    }
    // With the certificate of a server it would have heard something.
    let server = FalseServer::start(&server_certificate(&authority_of(&stage.home), now())).await;
    let _worker: Process =
        joining(&stage.home, &server.url, "w1", &token, &[]).spawn().expect("the worker starts").into();
    eventually("the worker speaks", || async { server.heard() > 0 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_tells_a_false_server_nothing_whatever_its_certificate() {
    let stage = Stage::new();
    let authorities = std::fs::read_to_string(stage.authority_file()).expect("ca.pem");
    let agent = |url: &str| {
        let mut command = Command::new(PUNCTUAL);
        command.arg("agent").current_dir(stage.home.path()).stdin(Stdio::null()).stderr(Stdio::piped());
        command.env_clear().envs([
            ("PUNCTUAL_AGENT_SERVER", url.to_owned()),
            ("PUNCTUAL_AGENT_TOKEN", "t0ken".to_owned()),
            ("PUNCTUAL_AGENT_JOB", JobId::new(Timestamp::EPOCH, ShardId(0), 1).to_string()),
            ("PUNCTUAL_AGENT_ATTEMPT", "1".to_owned()),
            ("PUNCTUAL_AGENT_DOWNLOAD_URL", format!("{url}/file")),
            ("PUNCTUAL_AGENT_FILE_SIZE", "1".to_owned()),
            ("PUNCTUAL_AGENT_FILE_SHA256", "00".repeat(32)),
            ("PUNCTUAL_HOST_ID", "host-1".to_owned()),
            ("PUNCTUAL_AGENT_CA_PEM", authorities.clone()),
        ]);
        Process::from(command.spawn().expect("the agent starts"))
    };
    for (what, can_tell, certificate) in false_certificates(&stage.home) {
        let server = FalseServer::start(&certificate).await;
        let _agent = agent(&server.url);
        server.was_called(2).await;
        assert_eq!(server.heard() == 0, can_tell, "{what}");
    }
    let server = FalseServer::start(&server_certificate(&authority_of(&stage.home), now())).await;
    let _agent = agent(&server.url);
    eventually("the agent speaks", || async { server.heard() > 0 }).await;
}

fn own((leaf, key): (IssuedLeaf, LeafKey), at: Timestamp) -> OwnCertificate {
    OwnCertificate::new(Credentials::new(leaf.chain, key.secret().to_private_key(), at).expect("it fits the key"))
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_certificates_of_the_clusters_authority_do_not_count_for_workers_and_servers() {
    let stage = Stage::new();
    let token = read_token(&stage.token("join.token", &["--queues", "q", "--kinds", "probe"]));
    let (_, _, certificate) = guest(&stage, &token).await;
    let authority = authority_of(&stage.home);
    let first = CertificateDer::from(certificate.chain[0].to_vec());
    let name = CertificateName::read(&first, authority.cluster()).expect("a worker's");
    for (at, counts) in [(now(), true), (long_ago(), false)] {
        let request = LeafRequest { name: name.clone(), hosts: Vec::new(), lifetime: HOUR };
        let shown = own(issued(&authority, request, at), at);
        let tls = ClientTls::new(&Trust::Pinned(token.authority()), Some(shown), &[b"h2"]).expect("a configuration");
        let let_in = match channel(&stage.server.url, tls).await {
            Ok(channel) => introduce(&mut WorkerClient::new(channel), |_| {}).await.is_ok(),
            Err(_) => false,
        };
        assert_eq!(let_in, counts, "a worker's of {at}");

        let shown = own(server_certificate(&authority, at), at);
        let asking = client(&stage.server.url, &stage.authority_file(), Some(shown));
        let answered = match asking.with_repeat_budget(std::time::Duration::ZERO).server().await {
            Ok(_) => true,
            // Whoever gets a code has been let in, and was answered.
            Err(error) => error.kind().is_some(),
        };
        assert_eq!(answered, counts, "a server's of {at}");
    }
}
