//! False servers, and tokens of other clusters. Nothing runs and no token leaves the worker.

use std::io::{BufRead, BufReader, Read};
use std::process::{ChildStderr, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use punctual_core::{JoinTokenId, Span, Timestamp};
use punctual_pki::{
    Authority, CertificateName, ClusterName, JoinToken, LeafKey, LeafRequest, ServerTls, ServerTlsParts,
};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tonic::Status;

use super::guest::{join, read_token};
use super::{Stage, joining, write_private};
use crate::harness::{Home, Process, eventually};

/// A false server with an authority of its own, and how many bytes it was sent after the handshake.
#[expect(clippy::disallowed_methods, reason = "certificates are judged by the real clock")]
async fn impostor() -> (String, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is later");
    let now = Timestamp::from_micros(now.as_micros() as i64).expect("a time");
    let cluster = ClusterName::new("impostor").expect("a name");
    let authority = Authority::make(cluster.clone(), 1, now).expect("an authority");
    let name = CertificateName::server(cluster.clone(), "srv").expect("a name");
    let request = LeafRequest { name, hosts: vec!["127.0.0.1".to_owned()], lifetime: Span::from_secs(3600) };
    let issued = authority.issue_with_key(request, now).expect("a certificate");
    let authorities = vec![authority.certificate().clone()];
    let tls = ServerTls::new(ServerTlsParts { cluster, issued, from_files: None, authorities }).expect("TLS");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    let (calls, heard) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (all_calls, all_heard) = (Arc::clone(&calls), Arc::clone(&heard));
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(tls.config());
        loop {
            let Ok((stream, _)) = listener.accept().await else { return };
            all_calls.fetch_add(1, Ordering::SeqCst);
            if let Ok(mut stream) = acceptor.accept(stream).await {
                let mut bytes = Vec::new();
                let _ = stream.read_to_end(&mut bytes).await;
                all_heard.fetch_add(bytes.len(), Ordering::SeqCst);
            }
        }
    });
    (url, calls, heard)
}

/// Waits for a line of a worker's log.
fn line_with(log: ChildStderr, text: &str) -> String {
    let mut all = String::new();
    for line in BufReader::new(log.take(1 << 20)).lines() {
        let line = line.expect("text");
        all.push_str(&line);
        if line.contains(text) {
            return line;
        }
    }
    panic!("the worker ended without `{text}`: {all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_false_server_gets_no_token_and_gives_no_work() {
    let (url, calls, heard) = impostor().await;
    let home = Home::new();
    let authority = "sha256:0101010101010101010101010101010101010101010101010101010101010101".parse().expect("one");
    let token = JoinToken::new(JoinTokenId::new(Timestamp::EPOCH, 1), [7; 32], authority);
    let file = home.file("join.token");
    write_private(&file, token.reveal().as_bytes());
    let mut child = joining(&home, &url, "w1", &file, &[]).stderr(Stdio::piped()).spawn().expect("the worker starts");
    let log = child.stderr.take().expect("it is piped");
    let worker = Process::from(child);
    let line = tokio::task::spawn_blocking(move || line_with(log, "cannot join")).await.expect("a line");
    assert!(!line.contains(&token.reveal()) && !line.contains(&"07".repeat(32)), "{line}");
    eventually("it tried again", || async { calls.load(Ordering::SeqCst) >= 2 }).await;
    assert_eq!(heard.load(Ordering::SeqCst), 0, "nothing was sent after the handshake");
    drop(worker);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_joined_takes_nothing_from_a_false_server_on_its_servers_port() {
    let stage = Stage::new();
    let token = stage.token("join.token", &["--queues", "q", "--kinds", "probe"]);
    let worker = stage.worker("w1", &token, &[]);
    let client = stage.client();
    eventually("the worker connects", || async { client.stats().await.is_ok_and(|stats| stats.workers == 1) }).await;
    worker.stop();
    // As after the death of the server, when anybody can take its port.
    let (url, calls, heard) = impostor().await;
    let _worker: Process = joining(&stage.home, &url, "w1", &token, &[]).spawn().expect("the worker starts").into();
    eventually("it called", || async { calls.load(Ordering::SeqCst) >= 2 }).await;
    assert_eq!(heard.load(Ordering::SeqCst), 0, "nothing was sent after the handshake");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_another_cluster_is_refused_by_both_sides() {
    let (ours, theirs) = (Stage::new(), Stage::new());
    let token = read_token(&theirs.token("join.token", &["--queues", "q", "--kinds", "probe"]));
    let own = read_token(&ours.token("own.token", &["--queues", "q", "--kinds", "probe"]));
    assert_ne!(token.authority(), own.authority());
    // The worker does not send it.
    let file = ours.home.file("foreign.token");
    write_private(&file, token.reveal().as_bytes());
    let mut child =
        joining(&ours.home, &ours.server.url, "w1", &file, &[]).stderr(Stdio::piped()).spawn().expect("it starts");
    let log = child.stderr.take().expect("it is piped");
    let _worker = Process::from(child);
    tokio::task::spawn_blocking(move || line_with(log, "cannot join")).await.expect("a line");
    // A server that is sent one anyway refuses it.
    let key = LeafKey::generate().expect("a key");
    let code =
        |status: Status| status.metadata().get("punctual-code").expect("a code").to_str().expect("text").to_owned();
    let disguised = JoinToken::new(token.id(), [7; 32], own.authority());
    let refused = join(&ours.server.url, &disguised, &key).await.expect_err("there is no such token");
    assert_eq!(code(refused), "invalid_join_token");
    assert_eq!(ours.client().enrolments(&Default::default()).await.expect("they are listed").enrolments, []);
}
