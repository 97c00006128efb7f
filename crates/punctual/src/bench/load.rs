//! Submits jobs in bulk, and reads back what they returned.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context;
use futures_util::future::try_join_all;
use indicatif::ProgressBar;
use punctual_api::{BulkSubmitted, Job, limits};
use punctual_core::random::SplitMix64;
use punctual_core::{JobId, JobState, Span, Timestamp};

use super::arena::Arena;
use super::wire::Connection;

/// When the jobs of a load are due.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Due {
    Now,
    /// All at once.
    At(Timestamp),
    /// One after the other.
    Spaced {
        from: Timestamp,
        step: Span,
    },
    /// Anywhere in a stretch of time.
    Scattered {
        from: Timestamp,
        over: Span,
    },
}

impl Due {
    /// The due time of job `place`; `None` for now.
    pub(crate) fn of(self, place: u64, chance: &mut SplitMix64) -> Option<Timestamp> {
        match self {
            Self::Now => None,
            Self::At(at) => Some(at),
            Self::Spaced { from, step } => Some(from + Span::from_micros(step.as_micros() * place as i64)),
            Self::Scattered { from, over } => {
                Some(from + Span::from_micros(chance.below(over.as_micros().unsigned_abs()) as i64))
            }
        }
    }
}

pub(crate) fn job_json(text: &mut String, task: &str, due: Option<Timestamp>) {
    let _ = match due {
        Some(due) => write!(text, r#"{{"task":"{task}","run_at":"{due}"}}"#),
        None => write!(text, r#"{{"task":"{task}"}}"#),
    };
}

pub(crate) fn bulk_json(task: &str, dues: impl Iterator<Item = Option<Timestamp>>) -> String {
    let mut text = String::from(r#"{"jobs":["#);
    for (place, due) in dues.enumerate() {
        if place > 0 {
            text.push(',');
        }
        job_json(&mut text, task, due);
    }
    text.push_str("]}");
    text
}

/// Connections that submit at the same time: one waits for its commit while the next is read.
pub(crate) const BULK_CLIENTS: u64 = 4;

/// Submits `jobs` jobs, `batch` to a request.
pub(crate) async fn bulk(
    arena: &Arena,
    task: &'static str,
    jobs: u64,
    batch: u64,
    due: Due,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    debug_assert!(batch <= limits::BULK_JOBS_MAX as u64);
    let batches: Vec<_> = (0..jobs).step_by(batch as usize).map(|first| first..(first + batch).min(jobs)).collect();
    let batches = std::sync::Mutex::new(batches.into_iter());
    let client = async |seed: u64| -> anyhow::Result<()> {
        // Every server gets its part: it keeps what it is given to the shards it owns.
        let mut connection = arena.connect(seed as usize).await?;
        let mut chance = SplitMix64::new(seed);
        loop {
            let next = batches.lock().expect("no client panics").next();
            let Some(places) = next else {
                return Ok(());
            };
            let len = places.end - places.start;
            let body = bulk_json(task, places.map(|place| due.of(place, &mut chance)));
            connection.post("/v1/jobs/bulk", &body).await?;
            bar.inc(len);
        }
    };
    try_join_all((0..BULK_CLIENTS).map(client)).await?;
    Ok(())
}

/// Submits jobs due at `dues` and returns their ids in the same order.
pub(crate) async fn submit_at(arena: &Arena, task: &str, dues: &[Timestamp]) -> anyhow::Result<Vec<JobId>> {
    let mut connections = arena.connect_all().await?;
    let servers = connections.len();
    let mut ids = Vec::with_capacity(dues.len());
    for (place, batch) in dues.chunks(1000).enumerate() {
        let connection = &mut connections[place % servers];
        let body = bulk_json(task, batch.iter().copied().map(Some));
        let submitted: BulkSubmitted = serde_json::from_slice(connection.post("/v1/jobs/bulk", &body).await?)?;
        ids.extend(submitted.ids);
    }
    Ok(ids)
}

const READERS: usize = 8;

/// How long a single job may take before the run is called broken.
const FINISH_LIMIT: Duration = Duration::from_secs(60);

/// The workers' clocks, in microseconds, at which jobs of the task [`super::arena::CLOCK`] started.
pub(crate) async fn started_us(arena: &Arena, ids: &[JobId]) -> anyhow::Result<Vec<i64>> {
    let reader = async |part: &[JobId]| -> anyhow::Result<Vec<i64>> {
        let mut connection = arena.connect(0).await?;
        let mut started = Vec::with_capacity(part.len());
        for &id in part {
            started.push(read_one(&mut connection, id).await?);
        }
        Ok(started)
    };
    let parts = try_join_all(ids.chunks(ids.len().div_ceil(READERS).max(1)).map(reader)).await?;
    Ok(parts.concat())
}

async fn read_one(connection: &mut Connection, id: JobId) -> anyhow::Result<i64> {
    let path = format!("/v1/jobs/{id}?wait={}s", FINISH_LIMIT.as_secs());
    let job: Job = serde_json::from_slice(connection.get(&path).await?)?;
    anyhow::ensure!(job.state == JobState::Succeeded.as_str(), "{id} is {}: {}", job.state, job.explanation);
    let output = job.output.as_ref().map(|output| output.get().trim_matches('"'));
    output.and_then(|text| text.parse().ok()).with_context(|| format!("{id} returned no time: {output:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_api::BulkRequest;

    #[test]
    fn what_is_written_by_hand_is_what_the_interface_reads() {
        let at = Timestamp::parse("2030-01-01T00:00:00Z").unwrap();
        let text = bulk_json("t", [None, Some(at)].into_iter());
        let request: BulkRequest = serde_json::from_str(&text).unwrap();
        let read: Vec<_> = request.jobs.iter().map(|job| (job.task.as_deref(), job.run_at)).collect();
        assert_eq!(read, [(Some("t"), None), (Some("t"), Some(at))]);
    }

    #[test]
    fn due_times_are_where_they_were_asked_to_be() {
        let from = Timestamp::parse("2030-01-01T00:00:00Z").unwrap();
        let mut chance = SplitMix64::new(7);
        let spaced = Due::Spaced { from, step: Span::from_millis(1) };
        assert_eq!(spaced.of(1500, &mut chance), Some(from + Span::from_millis(1500)));
        assert_eq!(Due::Now.of(1, &mut chance), None);
        let scattered = Due::Scattered { from, over: Span::from_secs(1) };
        for place in 0..1000 {
            let at = scattered.of(place, &mut chance).unwrap();
            assert!(from <= at && at < from + Span::from_secs(1));
        }
    }
}
