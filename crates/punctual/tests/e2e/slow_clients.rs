//! Thousands of connections that send little, and keep nobody out.

use punctual_client::Client;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::cluster::{far_ahead, submit};
use crate::harness::{Home, Server, eventually};

/// More than there are places for requests.
const SLOW: usize = 4_200;
/// Connections without a request under way that a server keeps.
const WAITING_MAX: usize = 1_024;

const SLOW_BODY: &str =
    "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
const SLOW_HEADERS: &str = "GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";

/// For this process and the servers that it starts.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("a process may have what it may have");
}

async fn connect(server: &Server, count: usize, head: &str) -> Vec<TcpStream> {
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        let mut stream = TcpStream::connect(server.address()).await.expect("the server takes connections");
        // One that is closed already is what the test is about.
        let _ = stream.write_all(head.as_bytes()).await;
        streams.push(stream);
    }
    streams
}

fn is_open(stream: &TcpStream) -> bool {
    let read = stream.try_read(&mut [0; 1024]);
    matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

async fn serves(client: &Client) {
    client.live().await.expect("a busy server lives");
    client.ready().await.expect("a busy server is ready");
    submit(client, &far_ahead()).await;
    client.jobs(&Default::default()).await.expect("jobs are listed");
}

async fn keep_nobody_out(head: &str) {
    raise_open_files();
    let home = Home::new();
    let server = home.server();
    let client = server.client();
    serves(&client).await;
    let slow = connect(&server, SLOW, head).await;
    serves(&client).await;
    eventually("those that waited longest are closed", || async {
        slow.iter().filter(|stream| is_open(stream)).count() <= WAITING_MAX
    })
    .await;
    let newest = &slow[SLOW - WAITING_MAX / 2..];
    assert!(newest.iter().all(is_open), "the newest may still send the rest");
    serves(&client).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_keep_nobody_out() {
    keep_nobody_out(SLOW_BODY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_headers_keep_nobody_out() {
    keep_nobody_out(SLOW_HEADERS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_keep_nobody_out() {
    keep_nobody_out("").await;
}
