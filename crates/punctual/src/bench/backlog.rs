//! backlog: drain and precision with many far-future jobs waiting, against an empty
//! server; the server's memory; and how long it takes to start again after a kill.

use std::time::Duration;

use punctual_core::Span;

use super::arena::{Arena, NOOP};
use super::figure::Figure;
use super::load::{self, Due};
use super::{Options, bar, drain, precision};
use crate::clock::now;

/// Beyond any look-ahead, over a year as schedules are.
const FROM: Span = Span::from_secs(30 * 86_400);
const OVER: Span = Span::from_secs(365 * 86_400);

pub(crate) async fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let waiting = options.jobs_or(if options.quick { 100_000 } else { 1_000_000 });
    let drained = if options.quick { 20_000 } else { 200_000 };
    // `--jobs` is the backlog's size here, not that of the runs against it.
    let options = &Options { jobs: None, ..options.clone() };

    let mut arena = Arena::start(options).await?;
    let empty_drain = drain::in_arena(&mut arena, "backlog/empty-drain", drained).await?;
    let empty_precision = precision::in_arena(&arena, "backlog/empty-precision", options).await?;
    arena.stop().await?;

    let mut arena = Arena::start(options).await?;
    let load = fill(&arena, waiting).await?;
    if let Some(database) = &arena.database {
        database.settle().await;
    }
    let full_drain = drain::in_arena(&mut arena, "backlog/drain", drained).await?;
    let full_precision = precision::in_arena(&arena, "backlog/precision", options).await?;
    let drain_ratio = ratio(full_drain.per_second, empty_drain.per_second);
    let precision_ratio = ratio(full_precision.p99_ms, empty_precision.p99_ms);
    let restart = restart(&mut arena, waiting).await?;
    arena.stop().await?;

    let full_drain = full_drain.with("waiting", waiting as f64).with("ratio_to_empty", drain_ratio);
    let full_precision = full_precision.with("waiting", waiting as f64).with("p99_ratio_to_empty", precision_ratio);
    let mut figures = vec![empty_drain, empty_precision, load, full_drain, full_precision];
    figures.extend(restart);
    Ok(figures)
}

async fn fill(arena: &Arena, waiting: u64) -> anyhow::Result<Figure> {
    let progress = bar("backlog: loading", waiting);
    let mark = arena.mark().await?;
    let due = Due::Scattered { from: now() + FROM, over: OVER };
    load::bulk(arena, NOOP, waiting, 10_000, due, &progress).await?;
    progress.finish_and_clear();
    arena.figure("backlog/load", &mark, mark.elapsed(), waiting).await
}

/// From the spawn of the process to its first `200` of `/readyz`.
async fn restart(arena: &mut Arena, waiting: u64) -> anyhow::Result<Option<Figure>> {
    let Some(took) = arena.restart_server().await? else {
        return Ok(None);
    };
    let mark = arena.mark().await?;
    let mut figure = arena.figure("backlog/restart", &mark, took, 0).await?;
    figure.per_second = None;
    figure.steal_percent = None;
    Ok(Some(figure.with("waiting", waiting as f64).with("start_ms", millis(took))))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn ratio(full: Option<f64>, empty: Option<f64>) -> f64 {
    match (full, empty) {
        (Some(full), Some(empty)) if empty > 0.0 => full / empty,
        _ => f64::NAN,
    }
}
