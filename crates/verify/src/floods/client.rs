//! `verify flood`: the clients of a flood, until the process is killed. Says on stdout when all of them are at it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Kind, unread};

#[derive(Debug, Args)]
pub struct FloodArgs {
    kind: Kind,
    #[arg(long)]
    server: SocketAddr,
    #[arg(long)]
    connections: usize,
}

/// Connections are opened no faster, also those that replace closed ones.
const OPEN_EVERY: Duration = Duration::from_millis(1);
const BYTE_EVERY: Duration = Duration::from_secs(3);
const LOWEST_PRIORITY: i32 = 19;

/// For this thread and those that it starts.
pub fn lower_priority() -> anyhow::Result<()> {
    Ok(rustix::process::setpriority_process(None, LOWEST_PRIORITY)?)
}

pub async fn flood(args: FloodArgs) -> anyhow::Result<()> {
    let FloodArgs { kind, server, connections } = args;
    if kind == Kind::UnreadAnswers {
        return unread::flood(server, connections).await;
    }
    let begun = Arc::new(AtomicUsize::new(0));
    let turns = Arc::new(tokio::sync::Mutex::new(()));
    for _ in 0..connections {
        let (begun, turns) = (Arc::clone(&begun), Arc::clone(&turns));
        tokio::spawn(async move {
            let mut is_counted = false;
            loop {
                {
                    let _turn = turns.lock().await;
                    tokio::time::sleep(OPEN_EVERY).await;
                }
                if !std::mem::replace(&mut is_counted, true) {
                    begun.fetch_add(1, Ordering::Relaxed);
                }
                let Ok(stream) = TcpStream::connect(server).await else { continue };
                // Closed by the server: another one takes its place.
                let _ = match kind {
                    Kind::SlowBodies => send_slowly(stream).await,
                    Kind::IdleConnections => keep_idle(stream).await,
                    Kind::Lists | Kind::UnreadAnswers => list_on(stream).await,
                };
            }
        });
    }
    while begun.load(Ordering::Relaxed) < connections {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("ready");
    std::future::pending().await
}

/// Lets this process, and those that it starts, have as many connections as the system allows.
pub fn raise_open_files() -> anyhow::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

async fn send_slowly(mut stream: TcpStream) -> std::io::Result<()> {
    let head =
        "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    stream.write_all(head.as_bytes()).await?;
    let mut answer = [0; 1024];
    loop {
        tokio::select! {
            read = stream.read(&mut answer) => {
                read?;
                return Ok(());
            }
            () = tokio::time::sleep(BYTE_EVERY) => {}
        }
        stream.write_all(b" ").await?;
    }
}

async fn keep_idle(mut stream: TcpStream) -> std::io::Result<()> {
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
    let mut answer = [0; 1024];
    while stream.read(&mut answer).await? > 0 {}
    Ok(())
}

async fn list_on(mut stream: TcpStream) -> std::io::Result<()> {
    let mut answer = Vec::new();
    loop {
        stream.write_all(b"GET /v1/jobs?limit=50 HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
        answer.clear();
        loop {
            if stream.read_buf(&mut answer).await? == 0 {
                return Ok(());
            }
            if is_whole(&answer) {
                break;
            }
        }
    }
}

/// Whether an answer with its length is all there.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    length.is_some_and(|length| answer.len() >= end + 4 + length)
}

#[cfg(test)]
mod tests {
    use super::is_whole;

    #[test]
    fn an_answer_is_whole_with_its_last_byte() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        assert!(is_whole(answer));
        assert!(!is_whole(&answer[..answer.len() - 1]) && !is_whole(b"HTTP/1.1 200 OK\r\n"));
    }
}
