//! precision: a thousand jobs due in each second, submitted well ahead. Start minus due,
//! by the worker's clock; an early start fails the run.

use std::time::Duration;

use anyhow::bail;
use punctual_core::random::SplitMix64;
use punctual_core::{Span, Timestamp};

use super::arena::{Arena, CLOCK};
use super::figure::{Figure, Latencies};
use super::load;
use super::{Options, bar};
use crate::clock::now;

const PER_SECOND: u64 = 1000;

/// How long before the first of them is due all must be accepted.
const AHEAD: Span = Span::from_secs(10);

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let mut arena = Arena::start(options).await?;
    arena.start_worker()?;
    arena.worker_connected().await?;
    let figure = in_arena(&arena, "precision", options).await?;
    arena.stop().await?;
    Ok(vec![figure])
}

pub(crate) async fn in_arena(arena: &Arena, name: &str, options: &Options) -> anyhow::Result<Figure> {
    let seconds = if options.quick { 3 } else { 10 };
    let jobs = options.jobs_or(seconds * PER_SECOND);
    // Time to submit them, by a rate that any store does.
    let first = now() + AHEAD + Span::from_secs(1 + (jobs / 5000) as i64);
    let dues = due_times(first, jobs);
    let ids = load::submit_at(arena, CLOCK, &dues).await?;
    if now() + AHEAD > first {
        bail!("submitting {jobs} jobs took too long for them to be due {AHEAD} later");
    }
    let progress = bar(name, jobs);
    tokio::time::sleep(first.since(now()).to_std()).await;
    let mark = arena.mark().await?;
    let last = *dues.last().unwrap_or(&first);
    while now() < last {
        let due = dues.partition_point(|due| *due <= now());
        progress.set_position(due as u64);
        tokio::time::sleep(last.since(now()).to_std().min(Duration::from_millis(200))).await;
    }
    let elapsed = mark.elapsed();
    progress.finish_and_clear();
    // Before the outcomes are read back, which costs the server more than the jobs did.
    let mut figure = arena.figure(name, &mark, elapsed, jobs).await?;
    let started = load::started_us(arena, &ids).await?;
    // How fast they came due is a given, not a result.
    figure.per_second = None;
    let (latencies, early) = lateness(&started, &dues);
    figure.early = Some(early);
    Ok(figure.with_latencies(&latencies).with("due_per_second", PER_SECOND as f64))
}

/// Evenly spread, each at a random microsecond of its millisecond.
fn due_times(first: Timestamp, jobs: u64) -> Vec<Timestamp> {
    let mut chance = SplitMix64::new(first.as_micros().unsigned_abs());
    let step = 1_000_000 / PER_SECOND as i64;
    (0..jobs as i64)
        .map(|place| first + Span::from_micros(place * step + chance.below(step.unsigned_abs()) as i64))
        .collect()
}

fn lateness(started_us: &[i64], dues: &[Timestamp]) -> (Latencies, u64) {
    let mut latencies = Latencies::new();
    let mut early = 0;
    for (started, due) in started_us.iter().zip(dues) {
        let late = started - due.as_micros();
        early += u64::from(late < 0);
        latencies.record_us(late.max(0).unsigned_abs());
    }
    (latencies, early)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_due_in_order_and_evenly() {
        let first = Timestamp::parse("2030-01-01T00:00:00Z").unwrap();
        let dues = due_times(first, 3000);
        assert!(dues.is_sorted());
        for (place, due) in dues.iter().enumerate() {
            let offset = due.since(first).as_micros() - place as i64 * 1000;
            assert!((0..1000).contains(&offset), "{offset}");
        }
    }

    #[test]
    fn a_start_before_its_time_is_counted() {
        let due = Timestamp::parse("2030-01-01T00:00:00Z").unwrap();
        let (_, early) = lateness(&[due.as_micros() - 1, due.as_micros(), due.as_micros() + 1], &[due; 3]);
        assert_eq!(early, 1);
    }
}
