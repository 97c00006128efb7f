//! A command that waits goes on when the server is away for a moment.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{ChildStderr, Command};

use crate::harness::{Home, PATIENCE, PUNCTUAL, eventually};

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
