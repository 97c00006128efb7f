//! The address that a server advertises leads to it and to nobody else.

use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use punctual_api::Node;
use punctual_client::ClientError;
use punctual_core::task::Probe;
use serde_json::Value;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use super::{Cluster, finished, probe, submit};
use crate::checked::plain_http;
use crate::harness::{PUNCTUAL, eventually};

impl Cluster {
    /// A server that is expected to end by itself.
    fn refused(&self, flags: &[&str]) -> (Output, Value) {
        let output = Command::new(PUNCTUAL)
            .args(["server", "-o", "json", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(self.home.file("other"))
            .arg("--root-key")
            .arg(self.home.file("data/root.key"))
            .args(flags)
            .env("PUNCTUAL_DATABASE", &self.database)
            .current_dir(self.home.path())
            .output()
            .expect("the server ends");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let said = stderr.lines().rev().find_map(|line| serde_json::from_str(line).ok());
        let said = said.unwrap_or_else(|| panic!("it does not say why: {stderr}"));
        (output, said)
    }
}

#[tokio::test]
async fn a_second_server_with_the_address_of_another_is_refused_and_all_jobs_run() {
    let cluster = Cluster::new();
    let server = cluster.server(&[]);
    let client = server.client();
    let _worker = cluster.worker(&server);
    let (output, said) = cluster.refused(&["--advertise", &server.url]);
    assert_eq!(output.status.code(), Some(6), "{said}");
    let id = client.server().await.expect("it answers").id.to_string();
    let text = said.to_string();
    assert!(text.contains(&id) && text.contains(&server.url) && text.contains("--advertise"), "{text}");
    assert_eq!(client.servers().await.expect("the servers").servers.len(), 1, "it never joined");
    for _ in 0..20 {
        let job = submit(&client, &probe(Probe::default())).await;
        assert_eq!(finished(&client, job).await.state, "succeeded");
    }
    client.ready().await.expect("it is ready");
}

#[tokio::test]
async fn a_server_that_was_killed_starts_again_at_its_address_at_once() {
    let cluster = Cluster::new();
    let database = [("PUNCTUAL_DATABASE", cluster.database.as_str())];
    let start = |listen: &str, flags: &[&str]| {
        cluster.home.server_with(listen, &[&["--lease-ttl", "30s"], flags].concat(), &database)
    };
    let server = start("127.0.0.1:0", &[]);
    let (address, url) = (server.address(), server.url.clone());
    server.kill();
    // Its row is as good as new, and nobody is there.
    let begun = Instant::now();
    let again = start(&address, &["--advertise", &url]);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    again.client().ready().await.expect("it is ready");
}

#[tokio::test]
async fn a_server_that_nobody_reaches_at_its_address_is_refused() {
    let cluster = Cluster::new();
    let server = cluster.server(&[]);
    let (output, said) = cluster.refused(&["--advertise", "http://127.0.0.1:1"]);
    let text = said.to_string();
    assert_eq!(output.status.code(), Some(6), "{text}");
    assert!(
        text.contains("nobody answers at the address http://127.0.0.1:1") && text.contains("--advertise"),
        "{text}"
    );
    // A server that stands still answers nobody. Its address is not free for another one.
    server.process.signal("-STOP");
    let (output, said) = cluster.refused(&["--advertise", &server.url]);
    server.process.signal("-CONT");
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert_eq!(server.client().servers().await.expect("the servers").servers.len(), 1, "neither joined");
}

/// An address that leads to one server at a time, as that of a balancer may.
struct Forwarder {
    address: String,
    target: Arc<Mutex<String>>,
}

impl Forwarder {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let target = Arc::new(Mutex::new(String::new()));
        let current = Arc::clone(&target);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let target = current.lock().expect("no panic holds it").clone();
                tokio::spawn(async move {
                    if let Ok(mut far) = TcpStream::connect(target).await {
                        let _ = copy_bidirectional(&mut near, &mut far).await;
                    }
                });
            }
        });
        Self { address, target }
    }

    /// Leads to a port that nobody has yet, for a server to listen on.
    fn lead_to_a_free_port(&self) -> String {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = free.local_addr().expect("it is bound").to_string();
        self.target.lock().expect("no panic holds it").clone_from(&address);
        address
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_address_leads_to_another_later_says_so_and_owns_no_shards() {
    let cluster = Cluster::new();
    let database = [("PUNCTUAL_DATABASE", cluster.database.as_str())];
    let forwarder = Forwarder::start().await;
    let advertised = format!("http://{}", forwarder.address);
    let start = || {
        let listen = forwarder.lead_to_a_free_port();
        tokio::task::block_in_place(|| cluster.home.server_with(&listen, &["--advertise", &advertised], &database))
    };
    let first = start();
    first.client().ready().await.expect("it is ready");
    let second = start();
    for server in [&first, &second] {
        eventually("it is not ready", || async { server.client().ready().await.is_err() }).await;
        let answer = plain_http().get(format!("{}/readyz", server.url)).send().await.expect("an answer");
        assert_eq!(answer.status(), 503);
        let problem: Value = answer.json().await.expect("a problem");
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(&format!("has the same address {advertised}")), "{problem}");
    }
    // Workers reach the second alone: its shards are those whose jobs run.
    eventually("the second owns all shards", || async {
        let [first, second] = [&first, &second].map(|server| server.client());
        let (first, second) = (first.server().await, second.server().await);
        let owned = |node: &Result<Node, ClientError>| node.as_ref().map_or(0, |node| node.shards_owned);
        owned(&first) == 0 && second.as_ref().is_ok_and(|node| node.shards_owned == node.shards_total)
    })
    .await;
    second.process.stop();
    eventually("it is ready again", || async { first.client().ready().await.is_ok() }).await;
}

#[tokio::test]
async fn another_number_of_shards_than_the_stored_one_is_refused() {
    let cluster = Cluster::new();
    let _server = cluster.server(&["--shards", "8"]);
    let (output, said) = cluster.refused(&["--shards", "16"]);
    let text = said.to_string();
    assert_eq!(output.status.code(), Some(6), "{text}");
    assert!(text.contains("has 8 shards") && text.contains("asks for 16"), "{text}");
    let other = cluster.server(&[]);
    assert_eq!(other.client().server().await.expect("it answers").shards_total, 8);
    cluster.server(&["--shards", "8"]).client().ready().await.expect("the same number is fine");
}
