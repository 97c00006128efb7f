//! What the system says in the end.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use punctual_api::{Job, ListQuery};
use punctual_client::{Client, ClientError};
use punctual_core::{JobId, Timestamp};
use tokio::time::Instant;

use crate::history::{FinalAttempt, FinalJob};

const AT_ONCE: usize = 16;
/// A server that was just healed may need a moment.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(250);

/// Waits until nothing is scheduled or running, or the time is over; the checker will say
/// what has not ended.
pub(crate) async fn wait_until_all_ended(clients: &[Client], limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    let query = ListQuery { state: Some("scheduled,running".to_owned()), ..ListQuery::default() };
    let mut asked = 0;
    while Instant::now() < deadline {
        asked += 1;
        let client = &clients[asked % clients.len()];
        let listed = tokio::time::timeout(Duration::from_secs(10), client.first_jobs(&query, 1)).await;
        if let Ok(Ok(listed)) = listed
            && listed.list.jobs.is_empty()
            && listed.list.next_cursor.is_none()
        {
            return true;
        }
        tokio::time::sleep(PAUSE).await;
    }
    false
}

/// All jobs of our handler with all their attempts, by one server.
pub(crate) async fn dump(client: &Client) -> anyhow::Result<Vec<FinalJob>> {
    let mut ids: Vec<JobId> = Vec::new();
    let mut cursor = None;
    loop {
        let query = ListQuery {
            kind: Some("handler".to_owned()),
            limit: Some("1000".to_owned()),
            order: Some("asc".to_owned()),
            cursor,
            ..ListQuery::default()
        };
        let page = patiently(async || client.jobs(&query).await).await?;
        ids.extend(page.jobs.into_iter().map(|job| job.id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let jobs = stream::iter(ids).map(|id| patiently(async move || client.job(id).await));
    jobs.buffered(AT_ONCE).map_ok(final_job).try_collect().await
}

pub(crate) async fn patiently<T>(mut ask: impl AsyncFnMut() -> Result<T, ClientError>) -> anyhow::Result<T> {
    let mut tries = 0;
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) if tries == TRIES || !error.may_pass() => return Err(error.into()),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
        tries += 1;
    }
}

fn final_job(job: Job) -> FinalJob {
    let us = Timestamp::as_micros;
    let attempts = job.attempts.into_iter().map(|attempt| FinalAttempt {
        attempt: attempt.attempt,
        state: attempt.state,
        worker: attempt.worker.map(|worker| worker.to_string()).unwrap_or_default(),
        server: attempt.server.map(|server| server.to_string()).unwrap_or_default(),
        started_us: us(attempt.started_at),
        finished_us: attempt.finished_at.map(us),
    });
    FinalJob {
        id: job.id.to_string(),
        key: job.tracing_id.unwrap_or_default(),
        state: job.state,
        submitted_us: us(job.submitted_at),
        due_us: us(job.due_at),
        finished_us: job.finished_at.map(us),
        attempts: attempts.collect(),
    }
}

/// What the servers have counted since they started, together.
pub(crate) async fn counted(clients: &[Client]) -> anyhow::Result<BTreeMap<String, u64>> {
    let mut counted = BTreeMap::new();
    for client in clients {
        let stats = client.stats().await?;
        let figures = [
            ("submitted", stats.submitted),
            ("succeeded", stats.succeeded),
            ("failed", stats.failed),
            ("cancelled", stats.cancelled),
            ("deleted", stats.deleted),
            ("lost", stats.lost),
            ("quarantined", stats.quarantined),
        ];
        for (name, figure) in figures {
            *counted.entry(name.to_owned()).or_default() += figure;
        }
    }
    Ok(counted)
}
