//! drain: jobs that do nothing are waiting; then the worker starts. Measured from the
//! moment its process is spawned to the last durable completion, as the server counts
//! them after the commit.

use std::time::{Duration, Instant};

use anyhow::bail;
use punctual_api::Stats;
use punctual_core::Span;

use super::arena::{Arena, NOOP, sum};
use super::figure::Figure;
use super::load::{self, Due};
use super::wire::Connection;
use super::{Options, bar};
use crate::clock::now;

const POLL: Duration = Duration::from_millis(5);

/// No completion for so long: something is broken.
const STALL_LIMIT: Duration = Duration::from_secs(60);

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let mut arena = Arena::start(options).await?;
    let figure = in_arena(&mut arena, "drain", options.jobs_or(if options.quick { 20_000 } else { 200_000 })).await?;
    arena.stop().await?;
    Ok(vec![figure])
}

pub(crate) async fn in_arena(arena: &mut Arena, name: &str, jobs: u64) -> anyhow::Result<Figure> {
    // A server that has a worker already would begin at once: let all be due together,
    // later. Bulk loading is taken to reach a rate that any store does.
    let due_at = now() + Span::from_secs(10 + (jobs / 10_000) as i64);
    let due = if arena.is_own() { Due::Now } else { Due::At(due_at) };
    let loading = bar(&format!("{name}: loading"), jobs);
    let before = arena.stats().await?;
    load::bulk(arena, NOOP, jobs, 1000, due, &loading).await?;
    loading.finish_and_clear();

    if !arena.is_own() {
        let left = due_at.since(now());
        if left == Span::ZERO {
            bail!("loading took longer than planned; try fewer jobs with --jobs");
        }
        tokio::time::sleep(left.to_std()).await;
    }
    with_worker(arena, name, &before, jobs).await
}

/// Drains what waits: `jobs` jobs that were not there `before`, and what follows from them.
pub(crate) async fn with_worker(arena: &mut Arena, name: &str, before: &Stats, jobs: u64) -> anyhow::Result<Figure> {
    let mut polls = arena.connect_all().await?;
    let mark = arena.mark().await?;
    arena.start_worker()?;
    let (connected, done) = until_done(arena, &mut polls, before.succeeded + jobs, jobs, name).await?;
    let elapsed = mark.elapsed();
    let figure = arena.figure(name, &mark, elapsed, jobs).await?;
    audit(arena, before, jobs).await?;
    // Without the start of the process, for peers whose workers are counted from inside.
    let working = done.duration_since(connected).as_secs_f64();
    Ok(figure.with("per_second_once_connected", jobs as f64 / working.max(1e-3)))
}

/// None lost, none twice.
async fn audit(arena: &Arena, before: &Stats, jobs: u64) -> anyhow::Result<()> {
    let after = arena.stats().await?;
    let started = after.started - before.started;
    let odd = (after.failed + after.lost + after.retried) - (before.failed + before.lost + before.retried);
    // A server of someone else may have other jobs, too.
    if arena.is_own() && (started != jobs || odd > 0) {
        bail!("{jobs} jobs had {started} starts, and {odd} failed, were lost or tried again");
    }
    Ok(())
}

/// When a worker was connected first, and when the last job was done.
async fn until_done(
    arena: &Arena,
    polls: &mut [Connection],
    target: u64,
    jobs: u64,
    name: &str,
) -> anyhow::Result<(Instant, Instant)> {
    let progress = bar(name, jobs);
    let mut connected = None;
    let mut last = (0, Instant::now());
    loop {
        let mut all: Vec<Stats> = Vec::with_capacity(polls.len());
        for connection in polls.iter_mut() {
            all.push(serde_json::from_slice(connection.get("/v1/stats").await?)?);
        }
        let stats = sum(&all);
        if stats.workers > 0 {
            connected.get_or_insert_with(Instant::now);
        }
        if stats.succeeded >= target {
            progress.finish_and_clear();
            let done = Instant::now();
            return Ok((connected.unwrap_or(done), done));
        }
        progress.set_position((stats.succeeded + jobs).saturating_sub(target));
        if stats.succeeded > last.0 {
            last = (stats.succeeded, Instant::now());
        } else if last.1.elapsed() > STALL_LIMIT {
            bail!(
                "nothing was completed for {STALL_LIMIT:?}, {} jobs are missing: {stats:?}{}",
                target - stats.succeeded,
                arena.last_words("worker")
            );
        }
        tokio::time::sleep(POLL).await;
    }
}
