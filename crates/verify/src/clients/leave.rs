//! Clients that disconnect before their answer, beside clients that stay.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use punctual_core::Timestamp;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::calls::{Caller, Order};
use crate::history::Answer;
use crate::witness::Work;

/// How the keys of their jobs begin.
pub(crate) const LEFT: &str = "left-";
pub(crate) const STAYED: &str = "stayed-";

const TASK: &str = "at-least-once";
const EVERY: Duration = Duration::from_millis(20);
/// They hang up at some point of this, or of twice the time that an answer takes on a slower machine: while the server
/// looks who connects, reads the request, stores it or answers. None waits for its answer. Whoever leaves in the first
/// third has asked for nothing.
const LEAVE_WITHIN: Duration = Duration::from_millis(3);
const STEPS: u32 = 97;
/// How many of the latest answers tell how long one takes.
const LATEST: usize = 31;
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// `each` clients leave and as many stay, in turns. Their jobs are due at once.
pub(crate) async fn half_leave(caller: &Caller, servers: &[SocketAddr], each: usize) -> anyhow::Result<()> {
    let mut answered_in = Vec::new();
    for number in 0..each {
        let server = servers[number % servers.len()];
        let within = LEAVE_WITHIN.max(2 * median(&answered_in));
        let patience = within * (number as u32 * 7 % STEPS) / STEPS;
        for (kind, leave_after) in [(LEFT, Some(patience)), (STAYED, None)] {
            let order = Order {
                key: format!("{kind}{number}"),
                task: TASK,
                run_at: None,
                work: Work { sleep_ms: 1, fail_first: 0 },
            };
            let sent = Instant::now();
            let answer = caller.recorded(&order, send(server, &order, leave_after)).await;
            if leave_after.is_none() {
                answered_in.push(sent.elapsed());
            }
            anyhow::ensure!(leave_after.is_some() || matches!(answer, Answer::Ok { .. }), "{answer:?}");
            tokio::time::sleep(EVERY).await;
        }
    }
    Ok(())
}

fn median(times: &[Duration]) -> Duration {
    let mut latest = times[times.len().saturating_sub(LATEST)..].to_vec();
    latest.sort_unstable();
    latest.get(latest.len() / 2).copied().unwrap_or_default()
}

/// A whole request over a connection of its own; with `leave_after`, the connection is reset then.
async fn send(server: SocketAddr, order: &Order, leave_after: Option<Duration>) -> anyhow::Result<Answer> {
    let body = serde_json::to_string(&order.request())?;
    let request = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Idempotency-Key: {}\r\nContent-Length: {}\r\n\r\n{body}",
        order.key,
        body.len()
    );
    let mut stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    stream.write_all(request.as_bytes()).await?;
    if let Some(patience) = leave_after {
        // The runtime's timer counts in milliseconds. A loop would keep a processor that the server may be waiting for.
        tokio::task::spawn_blocking(move || std::thread::sleep(patience)).await?;
        stream.set_zero_linger()?;
        return Ok(Answer::Unknown { why: "the client left".to_owned() });
    }
    let mut answer = Vec::new();
    tokio::time::timeout(ANSWER_WITHIN, stream.read_to_end(&mut answer)).await??;
    submitted(&String::from_utf8_lossy(&answer))
}

#[derive(Deserialize)]
struct Submitted {
    id: String,
    scheduled_at: Timestamp,
}

fn submitted(answer: &str) -> anyhow::Result<Answer> {
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    anyhow::ensure!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let Submitted { id, scheduled_at } = serde_json::from_str(body)?;
    Ok(Answer::Ok { job: id, due_us: Some(scheduled_at.as_micros()), state: None, pending: false })
}
