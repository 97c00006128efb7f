//! Thousands of connections that send little, and keep nobody out.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use punctual_client::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
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

/// Opens as many connections as its second argument says, says so, and keeps them until its stdin closes.
const HOLD: &str = "
import resource, socket, sys
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
held = [socket.create_connection(('127.0.0.1', int(sys.argv[1]))) for _ in range(int(sys.argv[2]))]
print('up', flush=True)
sys.stdin.read()
";

/// The connection of the server's own user has waited longest, and was closed first.
#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_of_another_user_do_not_cut_off_a_request() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can start a process as another user");
    }
    raise_open_files();
    let home = Home::new();
    let server = home.server();
    let body = serde_json::to_string(&far_ahead()).expect("a job");
    let (first, rest) = body.split_at(1);
    let mut slow = TcpStream::connect(server.address()).await.expect("the server takes connections");
    let head = "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n";
    let head = format!("{head}Content-Length: {}\r\n\r\n{first}", body.len());
    slow.write_all(head.as_bytes()).await.expect("it is sent");
    let port = server.address().rsplit(':').next().expect("a port").to_owned();
    let mut stranger = Command::new("/usr/bin/python3");
    stranger.args(["-c", HOLD, &port, "1400"]).uid(65534).gid(65534).current_dir("/");
    let Ok(mut stranger) = stranger.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
        return eprintln!("skipped: there is no /usr/bin/python3");
    };
    let mut line = String::new();
    BufReader::new(stranger.stdout.take().expect("piped")).read_line(&mut line).expect("it says that it is up");
    serves(&server.client()).await;
    slow.write_all(rest.as_bytes()).await.expect("it is sent");
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    drop(stranger.stdin.take());
    stranger.wait().expect("it ends");
}
