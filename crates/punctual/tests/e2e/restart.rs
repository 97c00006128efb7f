//! What a stop or a crash of the server means to commands that wait and to whoever stops it.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{ChildStderr, Command};

use crate::harness::{Home, PATIENCE, PUNCTUAL, Server, eventually};

/// Requests that are under way have longer than this when a server stops.
const STOPS_WITHIN: Duration = Duration::from_secs(2);

async fn next_line(stderr: &mut BufReader<ChildStderr>) -> String {
    let mut line = String::new();
    tokio::time::timeout(PATIENCE, stderr.read_line(&mut line)).await.expect("in time").expect("it can be read");
    line
}

#[tokio::test]
async fn waiting_and_following_outlive_a_crash_of_the_server() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    let client = server.client();
    eventually("the worker connects", || async { client.stats().await.is_ok_and(|stats| stats.workers == 1) }).await;
    let (address, url) = (server.address(), server.url.clone());
    let mut waiting = Vec::new();
    for flag in ["--wait", "--follow"] {
        let mut child = Command::new(PUNCTUAL)
            .args(["run", "--probe", r#"{"sleep":"3s","output":"done"}"#, flag, "--server", &url])
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let line = next_line(&mut stderr).await;
        assert!(line.contains("submitted"), "{line}");
        waiting.push((child, stderr));
    }
    server.kill();
    for (_, stderr) in &mut waiting {
        assert_eq!(next_line(stderr).await, "connection lost; the job continues; reconnecting…\n");
    }
    let _server = home.server_at(&address, &[]);
    for (child, mut stderr) in waiting {
        assert_eq!(next_line(&mut stderr).await, "connected again\n");
        let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("in time").expect("it ends");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains("done"), "{:?}: {text}", output.status);
    }
}

/// Connections to a server that are up, as the kernel counts them.
fn connections_to(server: &Server) -> usize {
    let port: u16 = server.address().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel lists connections");
    let own = format!(":{port:04X}");
    let is_up = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next().is_some_and(|local| local.ends_with(&own)) && fields.nth(1) == Some("01")
    };
    table.lines().filter(is_up).count()
}

#[tokio::test]
async fn a_server_with_an_idle_worker_stops_at_once() {
    let home = Home::new();
    let server = home.server();
    let _worker = home.worker(&server, &[]);
    // One for work and one for heartbeats.
    eventually("the worker opens its connections", || async { connections_to(&server) >= 2 }).await;
    let client = server.client();
    eventually("the worker connects", || async { client.stats().await.is_ok_and(|stats| stats.workers == 1) }).await;
    drop(client);
    let begun = Instant::now();
    let pid = Pid::from_raw(server.process.id() as i32).expect("a process has an id");
    kill_process(pid, Signal::TERM).expect("the server can be told to stop");
    tokio::task::spawn_blocking(move || server.process.wait()).await.expect("the server ends");
    let took = begun.elapsed();
    assert!(took < STOPS_WITHIN, "it took {took:?}");
}
