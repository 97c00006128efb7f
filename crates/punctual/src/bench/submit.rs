//! submit-single and submit-bulk: how fast jobs are accepted, each acknowledged after
//! its commit. Closed loop: each client sends its next request when it has its answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use punctual_core::Span;
use punctual_core::random::SplitMix64;
use tokio::task::JoinSet;

use super::arena::{Arena, NOOP};
use super::figure::{Figure, Latencies};
use super::load::{self, BULK_CLIENTS, Due};
use super::{Options, bar};
use crate::clock::now;

/// Far enough that nothing runs while submissions are measured.
const FAR: Span = Span::from_secs(365 * 86_400);

const CLIENTS: [u32; 3] = [1, 16, 64];

pub(crate) async fn single(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let seconds = if options.quick { 1 } else { 5 };
    let mut figures = Vec::new();
    for clients in CLIENTS {
        let mut arena = Arena::start(options).await?;
        let due = if options.due_now {
            arena.start_worker()?;
            arena.worker_connected().await?;
            Due::Now
        } else {
            Due::Spaced { from: now() + FAR, step: Span::from_millis(1) }
        };
        figures.push(closed_loop(&arena, clients, due, Duration::from_secs(seconds), options.jobs).await?);
        arena.stop().await?;
    }
    Ok(figures)
}

async fn closed_loop(
    arena: &Arena,
    clients: u32,
    due: Due,
    time: Duration,
    jobs_max: Option<u64>,
) -> anyhow::Result<Figure> {
    let name = format!("submit-single/{clients}");
    let progress = bar(&name, 0);
    progress.tick();
    let mut connections = Vec::new();
    for place in 0..clients {
        connections.push(arena.connect(place as usize).await?);
    }
    let mark = arena.mark().await?;
    let deadline = Instant::now() + time;
    let next = std::sync::Arc::new(AtomicU64::new(0));
    let mut running = JoinSet::new();
    for mut connection in connections {
        let next = next.clone();
        running.spawn(async move {
            let mut latencies = Latencies::new();
            let mut chance = SplitMix64::new(0);
            let mut body = String::new();
            let mut done = 0;
            while Instant::now() < deadline {
                let place = next.fetch_add(1, Ordering::Relaxed);
                if jobs_max.is_some_and(|max| place >= max) {
                    break;
                }
                body.clear();
                load::job_json(&mut body, NOOP, due.of(place, &mut chance));
                let begun = Instant::now();
                connection.post("/v1/jobs", &body).await?;
                latencies.record_us(begun.elapsed().as_micros() as u64);
                done += 1;
            }
            anyhow::Ok((latencies, done))
        });
    }
    let mut latencies = Latencies::new();
    let mut jobs = 0;
    while let Some(client) = running.join_next().await {
        let (part, done) = client??;
        latencies.add(&part);
        jobs += done;
    }
    let elapsed = mark.elapsed();
    progress.finish_and_clear();
    let figure = arena.figure(&name, &mark, elapsed, jobs).await?;
    arena.audit_submitted(&mark, jobs).await?;
    Ok(figure.with_latencies(&latencies).with("clients", f64::from(clients)))
}

pub(crate) async fn bulk(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let jobs = options.jobs_or(if options.quick { 50_000 } else { 400_000 });
    let mut figures = Vec::new();
    for batch in [1000, 10_000] {
        let arena = Arena::start(options).await?;
        let name = format!("submit-bulk/{batch}");
        let progress = bar(&name, jobs);
        let mark = arena.mark().await?;
        let due = Due::Spaced { from: now() + FAR, step: Span::from_millis(1) };
        load::bulk(&arena, NOOP, jobs, batch, due, &progress).await?;
        let elapsed = mark.elapsed();
        progress.finish_and_clear();
        let figure = arena.figure(&name, &mark, elapsed, jobs).await?;
        arena.audit_submitted(&mark, jobs).await?;
        figures.push(figure.with("batch", batch as f64).with("clients", BULK_CLIENTS as f64));
        arena.stop().await?;
    }
    Ok(figures)
}
