//! Runs `punctual bench`. It reads the WAL and its processes' CPU itself, but prints no marks; the
//! other counters are read all the time, and those of the right moments picked afterwards.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::Ours;
use crate::catalogue::{Pace, Store, Workload};
use crate::driver::Running;
use crate::record::Record;
use crate::round::{Field, Ground, Sample, with_counters};

/// Reading the counters takes milliseconds from what is measured, and nobody reads those of other systems
/// while they work. Only the drain needs to know them at an instant of its own.
fn sample_every(workload: Workload) -> Duration {
    match workload {
        Workload::Drain => Duration::from_millis(50),
        Workload::SubmitSingle | Workload::SubmitBulk | Workload::Pickup | Workload::Precision => {
            Duration::from_secs(1)
        }
    }
}

pub(crate) fn run(field: &Field, ground: &Ground, workload: Workload) -> anyhow::Result<Vec<Record>> {
    let mut command = Command::new(&field.punctual);
    command.args(["bench", workload.name(), "--output", "json"]);
    match field.sizes.jobs(workload, Pace::Usual) {
        Some(jobs) => command.args(["--jobs", &jobs.to_string()]),
        None if field.sizes.quick => command.arg("--quick"),
        None => &mut command,
    };
    if field.ours == Ours::Postgres {
        command.arg("--set").arg(format!("database={}", ground.url));
    }
    let mut running = Running::spawn(&mut command)?;
    let pid = running.pid();
    let stop = AtomicBool::new(false);
    let (records, samples) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| samples(field, ground, pid, sample_every(workload), &stop));
        let records = figures(&mut running);
        stop.store(true, Ordering::Relaxed);
        (records, sampler.join().expect("the sampler does not panic"))
    });
    let (records, samples) = (records?, samples?);
    let rss_mib = samples.iter().map(|sample| sample.clients.rss_mib).fold(0.0, f64::max);
    // Its server and worker are ended when all is measured; cleaning up comes after.
    let end = samples.iter().rev().find(|sample| sample.clients.rss_mib > rss_mib / 2.0).copied();
    let total: u64 = records.iter().map(Record::jobs).sum();
    let records = records.into_iter().map(|record| {
        let ends = match (workload, end) {
            // The measured part is the last of the run.
            (Workload::Drain, Some(end)) => {
                let seconds = Duration::from_secs_f64(record.number("seconds").unwrap_or_default());
                end.at.checked_sub(seconds).and_then(|begin| at(&samples, begin)).zip(Some(end))
            }
            // Several figures are printed together; a job costs what it costs in all of them.
            (Workload::SubmitSingle | Workload::SubmitBulk, _) => samples.first().copied().zip(samples.last().copied()),
            // Reading the outcomes back costs more than the jobs did.
            _ => None,
        };
        let jobs = if workload == Workload::Drain { record.jobs() } else { total };
        let record = counted(field, record, jobs, ends).with("clients_rss_mib", rss_mib);
        record.with("settings", "server and worker in processes of their own, full history")
    });
    Ok(records.collect())
}

/// What was read around the run, where the bench itself does not say it.
fn counted(field: &Field, record: Record, jobs: u64, ends: Option<(Sample, Sample)>) -> Record {
    let own_cpu = record.0.get("cpu_us_per_job").cloned().unwrap_or_default();
    let Some((begin, end)) = ends else { return record.with("clients_cpu_us_per_job", own_cpu) };
    let read = with_counters(Record::default().with("jobs", jobs), Store::Postgres, begin, end).0;
    let wanted: &[&str] = match field.ours {
        Ours::Postgres => &["store_cpu_us_per_job", "clients_cpu_us_per_job", "commits_per_job", "wal_bytes_per_job"],
        // Nothing of the embedded store is in PostgreSQL; its cost is in Punctual's own processes.
        Ours::Embedded | Ours::None => &["clients_cpu_us_per_job"],
    };
    let is_own = record.0.contains_key("wal_bytes_per_job");
    let wanted = |name: &str| wanted.contains(&name) && !(is_own && name == "wal_bytes_per_job");
    let read = read.into_iter().filter(|(name, _)| wanted(name));
    read.fold(record, |record, (name, value)| record.with(&name, value))
}

fn figures(running: &mut Running) -> anyhow::Result<Vec<Record>> {
    let mut figures = Vec::new();
    while let Some(line) = running.line()? {
        if line.starts_with('{') {
            figures.push(Record::parse(&line)?);
        }
    }
    Ok(figures)
}

fn samples(
    field: &Field,
    ground: &Ground,
    pid: u32,
    every: Duration,
    stop: &AtomicBool,
) -> anyhow::Result<Vec<Sample>> {
    let mut samples = Vec::new();
    loop {
        samples.push(field.sample(ground, pid)?);
        if stop.load(Ordering::Relaxed) {
            // The process is gone, and with it what it used.
            if let [.., last_but_one, last] = samples.as_mut_slice() {
                last.clients = last_but_one.clients;
            }
            return Ok(samples);
        }
        // In steps, so that the end is not waited for.
        let next = Instant::now() + every;
        while Instant::now() < next && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50).min(every));
        }
    }
}

/// The counters at an instant, between the samples around it.
fn at(samples: &[Sample], instant: Instant) -> Option<Sample> {
    let after = samples.partition_point(|sample| sample.at <= instant);
    let (Some(before), Some(after)) = (samples.get(after.wrapping_sub(1)), samples.get(after)) else {
        return samples.last().copied();
    };
    let part = (instant - before.at).as_secs_f64() / (after.at - before.at).as_secs_f64().max(1e-9);
    let between = |from: u64, to: u64| from + (to.saturating_sub(from) as f64 * part) as u64;
    let mut sample = *before;
    sample.at = instant;
    sample.postgres.wal_bytes = between(before.postgres.wal_bytes, after.postgres.wal_bytes);
    sample.postgres.commits = between(before.postgres.commits, after.postgres.commits);
    sample.store.cpu_us = between(before.store.cpu_us, after.store.cpu_us);
    sample.clients.cpu_us = between(before.clients.cpu_us, after.clients.cpu_us);
    Some(sample)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Tree;
    use crate::psql::Counters;

    #[test]
    fn counters_between_two_samples_are_interpolated() {
        let begun = Instant::now();
        let sample = |ms: u64, wal_bytes| Sample {
            at: begun + Duration::from_millis(ms),
            postgres: Counters { wal_bytes, commits: 0 },
            store: Tree::default(),
            clients: Tree::default(),
        };
        let samples = [sample(0, 0), sample(100, 1000), sample(200, 1000)];
        let wal_at = |ms| at(&samples, begun + Duration::from_millis(ms)).unwrap().postgres.wal_bytes;
        assert_eq!([wal_at(0), wal_at(50), wal_at(150), wal_at(900)], [0, 500, 1000, 1000]);
        assert!(at(&[], begun).is_none());
    }
}
