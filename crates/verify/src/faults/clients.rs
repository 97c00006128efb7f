//! Faults of clients.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use punctual_api::{Job, ListQuery};
use punctual_client::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::Injecting;
use super::arena::Arena;
use super::measure::Measure;

const REQUESTS: usize = 400;
const EVERY: Duration = Duration::from_millis(20);
/// Half of the clients hang up at some point of this.
const LEAVE_WITHIN: Duration = Duration::from_micros(1200);
/// A job that its owner is not told of is found by a sweep, up to 10 s later.
const LATE: Duration = Duration::from_secs(1);
const TRACE: &str = "leaver-";

/// 400 clients submit jobs that are due at once, and every second one disconnects before its answer.
pub(super) fn leave(arena: &mut Arena) -> Injecting<'_> {
    Box::pin(async {
        let servers: Vec<SocketAddr> =
            arena.cluster.servers.iter().map(|server| server.advertised()).collect::<anyhow::Result<_>>()?;
        arena.begin("the clients", "half of them leave");
        for number in 0..REQUESTS {
            let server = servers[number % servers.len()];
            let stays = number % 2 == 1;
            let patience = LEAVE_WITHIN * (number as u32 * 7 % 97) / 97;
            send(server, number, (!stays).then_some(patience)).await?;
            tokio::time::sleep(EVERY).await;
        }
        arena.healed(Duration::from_secs(1));
        let client = arena.cluster.servers[0].client()?;
        let jobs = finished(&client).await?;
        let left: Vec<Duration> = lateness(&jobs, |number| number % 2 == 0);
        let stayed: Vec<Duration> = lateness(&jobs, |number| number % 2 == 1);
        anyhow::ensure!(stayed.len() == REQUESTS / 2, "{} of {} answered jobs are there", stayed.len(), REQUESTS / 2);
        anyhow::ensure!(!left.is_empty(), "every client left before its job was stored");
        let worst = |all: &[Duration]| all.iter().max().copied().unwrap_or_default();
        arena.note(format!("{} jobs of clients that left, {} of clients that stayed", left.len(), stayed.len()));
        let [left, stayed] = [worst(&left), worst(&stayed)];
        arena.measure(Measure::Took { what: "latest start for a client that left", took: left, limit: LATE });
        arena.measure(Measure::Took { what: "latest start for one that stayed", took: stayed, limit: LATE });
        Ok(())
    })
}

/// A whole request over a connection of its own; with `leave_after`, the connection is reset then.
async fn send(server: SocketAddr, number: usize, leave_after: Option<Duration>) -> anyhow::Result<()> {
    let body = format!(r#"{{"inline":{{"run":{{"probe":{{}}}}}},"tracing_id":"{TRACE}{number}"}}"#);
    let request = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Idempotency-Key: {TRACE}{number}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    match leave_after {
        Some(patience) => {
            let _ = tokio::time::timeout(patience, stream.read_to_end(&mut answer)).await;
            stream.set_zero_linger()?;
        }
        None => {
            stream.read_to_end(&mut answer).await?;
            anyhow::ensure!(answer.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&answer));
        }
    }
    Ok(())
}

/// The jobs of all these clients, when each has ended, by their numbers.
async fn finished(client: &Client) -> anyhow::Result<BTreeMap<usize, Job>> {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let mut jobs = BTreeMap::new();
        let mut query =
            ListQuery { kind: Some("probe".to_owned()), limit: Some("1000".to_owned()), ..ListQuery::default() };
        loop {
            let page = client.jobs(&query).await?;
            for summary in page.jobs {
                let number = summary.tracing_id.as_deref().and_then(|id| id.strip_prefix(TRACE)?.parse().ok());
                if let Some(number) = number {
                    jobs.insert(number, client.job(summary.id).await?);
                }
            }
            query.cursor = page.next_cursor;
            if query.cursor.is_none() {
                break;
            }
        }
        if jobs.values().all(|job| job.finished_at.is_some()) {
            return Ok(jobs);
        }
        anyhow::ensure!(Instant::now() < until, "some jobs did not end");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn lateness(jobs: &BTreeMap<usize, Job>, of: impl Fn(usize) -> bool) -> Vec<Duration> {
    let started = |job: &Job| job.attempts.first().map(|attempt| attempt.started_at);
    let late = |job: &Job| started(job).map(|at| at.since(job.submitted_at).to_std());
    jobs.iter().filter(|(number, _)| of(**number)).filter_map(|(_, job)| late(job)).collect()
}
