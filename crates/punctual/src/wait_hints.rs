//! Says why jobs that somebody waits for have not started: whoever waits in silence does not know what to do.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use punctual_api::{Job, Warning};
use punctual_client::Client;
use punctual_core::{JobId, JobState};

use crate::clock::now;
use crate::output::{Output, note};

/// Most jobs start within milliseconds, and there is nothing to tell of them.
const FIRST_AFTER: Duration = Duration::from_millis(700);
const EVERY: Duration = Duration::from_secs(3);
/// How many jobs are asked about; if there are more, some stand for all.
const JOBS_MAX: usize = 10;

/// Whether somebody knows already when a job is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DueTime {
    Told,
    Untold,
}

/// Prints what is accepted and will probably not work.
pub(crate) fn warn(warnings: &[Warning]) {
    for warning in warnings {
        note(&format!("warning: {}", warning.detail));
    }
}

/// Tells each reason once, but for those of `warnings`. Goes on until it is dropped.
pub(crate) async fn tell_why_they_wait(
    client: &Client,
    ids: &[JobId],
    warnings: &[Warning],
    due: DueTime,
    out: &Output,
) -> Infallible {
    let mut waiting: Vec<JobId> = ids.iter().copied().take(JOBS_MAX).collect();
    let mut told: HashMap<JobId, String> = HashMap::new();
    tokio::time::sleep(FIRST_AFTER).await;
    loop {
        for id in waiting.clone() {
            let Ok(job) = client.job(id).await else { continue };
            if JobState::parse(&job.state).is_some_and(JobState::is_final) {
                waiting.retain(|waits| *waits != id);
                continue;
            }
            let Some(why) = why(&job, due, out).filter(|why| told.get(&id) != Some(why)) else { continue };
            if warnings.iter().all(|warning| warning.detail != why) {
                note(&format!("{id} waits: {why}"));
            }
            told.insert(id, why);
        }
        if waiting.is_empty() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn why(job: &Job, due: DueTime, out: &Output) -> Option<String> {
    if let Some(reason) = &job.waiting_for {
        return Some(out.zone.localize(reason));
    }
    let is_ahead = job.state == JobState::Scheduled.as_str() && job.due_at > now();
    (is_ahead && due == DueTime::Untold).then(|| format!("it is due at {}", out.zone.show(job.due_at)))
}
