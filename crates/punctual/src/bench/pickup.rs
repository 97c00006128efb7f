//! pickup: an idle system and one job each 20 ms. Open loop: each is sent at its planned
//! instant, whatever became of the others, and its latency counts from that instant to
//! the handler's first instruction.

use std::time::{Duration, Instant};

use punctual_api::JobSubmitted;
use punctual_core::{JobId, Span, Timestamp};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::arena::{Arena, CLOCK};
use super::figure::{Figure, Latencies};
use super::load;
use super::wire::Connection;
use super::{Options, bar};
use crate::clock::now;

const INTERVAL: Duration = Duration::from_millis(20);

/// More than can be under way at once unless the server hangs.
const CONNECTIONS: usize = 32;

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let jobs = options.jobs_or(if options.quick { 150 } else { 1000 });
    let mut arena = Arena::start(options).await?;
    arena.start_worker()?;
    arena.worker_connected().await?;
    let mark = arena.mark().await?;
    let sent = send(&arena, jobs).await?;
    let elapsed = mark.elapsed();
    let mut figure = arena.figure("pickup", &mark, elapsed, jobs).await?;
    // How fast they were sent is a given, not a result.
    figure.per_second = None;

    let ids: Vec<_> = sent.iter().map(|(id, _)| *id).collect();
    let started = load::started_us(&arena, &ids).await?;
    let mut latencies = Latencies::new();
    for (started, (_, planned)) in started.iter().zip(&sent) {
        latencies.record_us((started - planned.as_micros()).max(0).unsigned_abs());
    }
    arena.stop().await?;
    Ok(vec![figure.with_latencies(&latencies)])
}

/// Sends one job at each planned instant; their ids with those instants.
async fn send(arena: &Arena, jobs: u64) -> anyhow::Result<Vec<(JobId, Timestamp)>> {
    let progress = bar("pickup", jobs);
    let mut free = Vec::new();
    for _ in 0..CONNECTIONS {
        free.push(arena.connect(0).await?);
    }
    let body = format!(r#"{{"task":"{CLOCK}"}}"#);
    let mut instants = planned(jobs);
    let mut under_way: JoinSet<anyhow::Result<(Connection, JobId, Timestamp)>> = JoinSet::new();
    let mut sent = Vec::new();
    loop {
        tokio::select! {
            biased;
            Some(at) = instants.recv() => {
                let mut connection = match free.pop() {
                    Some(connection) => connection,
                    None => arena.connect(0).await?,
                };
                let body = body.clone();
                under_way.spawn(async move {
                    let answer = connection.post("/v1/jobs", &body).await?;
                    let submitted: JobSubmitted = serde_json::from_slice(answer)?;
                    Ok((connection, submitted.id, at))
                });
            }
            Some(done) = under_way.join_next() => {
                let (connection, id, at) = done??;
                free.push(connection);
                sent.push((id, at));
                progress.inc(1);
            }
            else => break,
        }
    }
    progress.finish_and_clear();
    Ok(sent)
}

/// The planned instants, each as it comes. On a thread: its sleep is exact to some 50 µs,
/// the timers of the runtime to a millisecond.
fn planned(jobs: u64) -> mpsc::UnboundedReceiver<Timestamp> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let (begun, begun_at) = (Instant::now() + INTERVAL, now() + Span::from_micros(INTERVAL.as_micros() as i64));
        for place in 0..jobs {
            let after = INTERVAL * place as u32;
            std::thread::sleep((begun + after).saturating_duration_since(Instant::now()));
            let at = begun_at + Span::from_micros(after.as_micros() as i64);
            if sender.send(at).is_err() {
                return;
            }
        }
    });
    receiver
}
