//! The five workloads. Times are taken here; counters of the machine by the caller, at marks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::bail;
use tokio::task::JoinSet;

use crate::args::{Options, Workload};
use crate::figure::{Figure, mark};
use crate::{Job, System, log};

const BATCH: u32 = 1000;
/// The same number of clients as in `punctual bench`.
const BULK_CLIENTS: u32 = 4;
const PICKUP_INTERVAL: Duration = Duration::from_millis(20);
const DUE_PER_SECOND: u32 = 1000;
/// How long before the first job is due all jobs must be submitted.
const AHEAD: Duration = Duration::from_secs(10);
/// A run without a start or a completion for this long has stalled.
const STALL_LIMIT: Duration = Duration::from_secs(60);

pub(crate) async fn run<P: System>(options: &Options) -> anyhow::Result<()> {
    let system = Arc::new(P::open(&options.url, options.workload).await?);
    match options.workload {
        Workload::Drain => drain(&system, options).await,
        Workload::SubmitSingle => submit_single(&system, options).await,
        Workload::SubmitBulk => submit_bulk(&system, options).await,
        Workload::Pickup => pickup(&system, options).await,
        Workload::Precision => precision(&system, options).await,
    }
}

async fn drain<P: System>(system: &Arc<P>, options: &Options) -> anyhow::Result<()> {
    load(system, options.jobs, |_| None).await?;
    mark(options, "loaded");
    mark(options, "begin");
    let begun = Instant::now();
    system.work().await?;
    until_finished(system, options.jobs).await?;
    let seconds = begun.elapsed().as_secs_f64();
    mark(options, "end");
    let jobs = u64::from(options.jobs);
    let figure = Figure::new("drain", P::settings(options.workload), jobs, seconds);
    figure.with_rate(jobs, seconds).with_audit(log::audit()).print();
    Ok(())
}

async fn submit_single<P: System>(system: &Arc<P>, options: &Options) -> anyhow::Result<()> {
    let next = Arc::new(AtomicU32::new(0));
    for &clients in &options.clients {
        let before = system.unfinished().await?;
        mark(options, "begin");
        let begun = Instant::now();
        let deadline = begun + Duration::from_secs_f64(options.seconds);
        let mut running = JoinSet::new();
        for _ in 0..clients {
            let (system, next) = (system.clone(), next.clone());
            running.spawn(async move {
                let mut latencies = Vec::new();
                while Instant::now() < deadline {
                    let sent = Instant::now();
                    system.submit(Job { place: next.fetch_add(1, Ordering::Relaxed), due: None }).await?;
                    latencies.push(sent.elapsed().as_micros() as u64);
                }
                anyhow::Ok(latencies)
            });
        }
        let mut latencies = Vec::new();
        while let Some(client) = running.join_next().await {
            latencies.extend(client??);
        }
        let seconds = begun.elapsed().as_secs_f64();
        mark(options, "end");
        let jobs = latencies.len() as u64;
        let stored = system.unfinished().await? - before;
        let figure = Figure::new(&format!("submit-single/{clients}"), P::settings(options.workload), jobs, seconds);
        let figure = figure.with_rate(jobs, seconds).with_latencies(latencies).with("clients", clients);
        figure.with("lost", jobs.saturating_sub(stored)).with("twice", stored.saturating_sub(jobs)).print();
    }
    Ok(())
}

async fn submit_bulk<P: System>(system: &Arc<P>, options: &Options) -> anyhow::Result<()> {
    mark(options, "begin");
    let begun = Instant::now();
    load(system, options.jobs, |_| None).await?;
    let seconds = begun.elapsed().as_secs_f64();
    mark(options, "end");
    let jobs = u64::from(options.jobs);
    let stored = system.unfinished().await?;
    let figure = Figure::new(&format!("submit-bulk/{BATCH}"), P::settings(options.workload), jobs, seconds);
    let figure = figure.with_rate(jobs, seconds).with("clients", BULK_CLIENTS).with("batch", BATCH);
    figure.with("lost", jobs.saturating_sub(stored)).with("twice", stored.saturating_sub(jobs)).print();
    Ok(())
}

/// Open loop: each job is submitted at its planned instant, even if earlier submissions are not answered yet.
async fn pickup<P: System>(system: &Arc<P>, options: &Options) -> anyhow::Result<()> {
    system.work().await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    mark(options, "begin");
    let begun = Instant::now();
    let mut under_way = JoinSet::new();
    for place in 0..options.jobs {
        tokio::time::sleep_until((begun + PICKUP_INTERVAL * place).into()).await;
        let system = system.clone();
        under_way.spawn(async move {
            let sent_us = log::us(SystemTime::now());
            system.submit(Job { place, due: None }).await?;
            anyhow::Ok((place, sent_us))
        });
    }
    let mut sent = Vec::new();
    while let Some(submitted) = under_way.join_next().await {
        sent.push(submitted??);
    }
    until_finished(system, options.jobs).await?;
    let seconds = begun.elapsed().as_secs_f64();
    mark(options, "end");
    let started = log::at_us();
    let latencies = sent.iter().map(|&(place, sent_us)| started[place as usize].saturating_sub(sent_us)).collect();
    let figure = Figure::new("pickup", P::settings(options.workload), u64::from(options.jobs), seconds);
    figure.with_latencies(latencies).with_audit(log::audit()).print();
    Ok(())
}

async fn precision<P: System>(system: &Arc<P>, options: &Options) -> anyhow::Result<()> {
    system.work().await?;
    let first = SystemTime::now() + AHEAD + Duration::from_secs(3 + u64::from(options.jobs / 5000));
    let due = |place: u32| first + Duration::from_secs(1) * place / DUE_PER_SECOND;
    load(system, options.jobs, |place| Some(due(place))).await?;
    if SystemTime::now() + AHEAD > first {
        bail!("submitting took too long for the jobs to be due {AHEAD:?} later");
    }
    tokio::time::sleep(first.duration_since(SystemTime::now()).unwrap_or_default()).await;
    mark(options, "begin");
    let begun = Instant::now();
    until_finished(system, options.jobs).await?;
    let seconds = begun.elapsed().as_secs_f64();
    mark(options, "end");
    let pairs: Vec<_> = (0..).map(|place| log::us(due(place))).zip(log::at_us()).collect();
    let early = pairs.iter().filter(|(due, started)| started < due).count();
    let earliest_us = pairs.iter().map(|(due, started)| due.saturating_sub(*started)).max().unwrap_or_default();
    let latencies = pairs.iter().map(|(due, started)| started.saturating_sub(*due)).collect();
    let figure = Figure::new("precision", P::settings(options.workload), u64::from(options.jobs), seconds);
    let figure = figure.with_latencies(latencies).with_audit(log::audit());
    figure.with("early", early).with("earliest_ms", earliest_us as f64 / 1000.0).print();
    Ok(())
}

/// Submits `jobs` jobs, [`BATCH`] to a request.
async fn load<P: System>(system: &Arc<P>, jobs: u32, due: impl Fn(u32) -> Option<SystemTime>) -> anyhow::Result<()> {
    let all: Vec<_> = (0..jobs).map(|place| Job { place, due: due(place) }).collect();
    let all: Arc<[Job]> = all.into();
    let next = Arc::new(AtomicU32::new(0));
    let mut running = JoinSet::new();
    for _ in 0..BULK_CLIENTS {
        let (system, all, next) = (system.clone(), all.clone(), next.clone());
        running.spawn(async move {
            while let Some(batch) = all.chunks(BATCH as usize).nth(next.fetch_add(1, Ordering::Relaxed) as usize) {
                system.submit_bulk(batch).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(client) = running.join_next().await {
        client??;
    }
    Ok(())
}

/// Waits for the handlers in memory, and only then asks the store, so as not to disturb it.
async fn until_finished<P: System>(system: &Arc<P>, jobs: u32) -> anyhow::Result<()> {
    let mut last = (0, Instant::now());
    loop {
        let total = log::total();
        if total >= u64::from(jobs) && system.unfinished().await? == 0 {
            return Ok(());
        }
        if total > last.0 {
            last = (total, Instant::now());
        } else if last.1.elapsed() > STALL_LIMIT {
            bail!("stalled: {total} of {jobs} jobs started, {} unfinished", system.unfinished().await?);
        }
        tokio::time::sleep(Duration::from_millis(if total >= u64::from(jobs) { 5 } else { 2 })).await;
    }
}
