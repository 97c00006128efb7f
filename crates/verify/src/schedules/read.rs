//! Reads everything that the system says of its schedules, through REST.

use std::time::Duration;

use anyhow::Context;
use futures_util::{StreamExt, TryStreamExt, stream};
use punctual_api::{JobSummary, ListQuery, OccurrenceQuery, OccurrenceView, ScheduleChangeView, ScheduleView};
use punctual_client::Client;
use punctual_core::Timestamp;
use tokio::time::Instant;

use super::record::{Change, Row, ScheduledJob};
use crate::clients::patiently;

const AT_ONCE: usize = 4;
const PAGE: &str = "1000";
/// As many as a schedule shows. Whoever has more of them is not known well enough to be judged.
const CHANGES_SHOWN: usize = 20;

/// What a schedule says of itself.
pub(crate) struct ScheduleDump {
    pub(crate) id: String,
    pub(crate) created_us: i64,
    pub(crate) changes: Vec<Change>,
    pub(crate) rows: Vec<Row>,
}

/// Waits until no time waits for the run before it.
pub(crate) async fn wait_until_none_is_queued(client: &Client, names: &[String], limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    for name in names {
        let verdict = Some("queued".to_owned());
        let query = OccurrenceQuery { verdict, limit: Some("1".to_owned()), ..OccurrenceQuery::default() };
        while !matches!(client.occurrences(name, &query).await, Ok(list) if list.occurrences.is_empty()) {
            if Instant::now() > deadline {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }
    true
}

/// Reads these schedules, in the order of `names`.
pub(crate) async fn schedules(client: &Client, names: &[String]) -> anyhow::Result<Vec<ScheduleDump>> {
    stream::iter(names).map(|name| schedule(client, name)).buffered(AT_ONCE).try_collect().await
}

async fn schedule(client: &Client, name: &str) -> anyhow::Result<ScheduleDump> {
    let ScheduleView { id, created, changes, .. } =
        patiently(async || client.schedule(name).await).await.with_context(|| name.to_owned())?;
    anyhow::ensure!(changes.len() < CHANGES_SHOWN, "{name} was changed too often to be judged");
    let changes = changes.into_iter().rev().map(change).collect::<anyhow::Result<_>>()?;
    let mut rows = Vec::new();
    let mut cursor = None;
    loop {
        let (limit, order) = (Some(PAGE.to_owned()), Some("asc".to_owned()));
        let query = OccurrenceQuery { limit, order, cursor, ..OccurrenceQuery::default() };
        let page = patiently(async || client.occurrences(name, &query).await).await?;
        rows.extend(page.occurrences.into_iter().map(row));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok(ScheduleDump { id: id.to_string(), created_us: created.at.as_micros(), changes, rows })
}

fn change(change: ScheduleChangeView) -> anyhow::Result<Change> {
    let until = change.note.as_deref().filter(|_| change.kind == "skipped");
    let until = until.and_then(|note| note.strip_prefix("up to ")).map(Timestamp::parse).transpose()?;
    Ok(Change { at_us: change.at.as_micros(), kind: change.kind, until_us: until.map(Timestamp::as_micros) })
}

fn row(view: OccurrenceView) -> Row {
    Row {
        at_us: view.at.as_micros(),
        start_us: view.start_at.as_micros(),
        verdict: view.verdict,
        decided_us: view.decided_at.as_micros(),
        job: view.job.map(|job| job.to_string()),
        marks: view.marks,
        count: view.merged + 1,
    }
}

/// All jobs that schedules made.
pub(crate) async fn jobs(client: &Client) -> anyhow::Result<Vec<ScheduledJob>> {
    let mut summaries = Vec::new();
    let mut cursor = None;
    loop {
        let (limit, order) = (Some(PAGE.to_owned()), Some("asc".to_owned()));
        let query = ListQuery { limit, order, cursor, ..ListQuery::default() };
        let page = patiently(async || client.jobs(&query).await).await?;
        summaries.extend(page.jobs);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let jobs = stream::iter(summaries).map(|summary| job(client, summary)).buffered(AT_ONCE);
    jobs.try_filter_map(|job| std::future::ready(Ok(job))).try_collect().await
}

/// CallKind for in full only where that tells something: for ten thousands it would take minutes.
async fn job(client: &Client, summary: JobSummary) -> anyhow::Result<Option<ScheduledJob>> {
    let Some(source) = summary.schedule else { return Ok(None) };
    let mut job = ScheduledJob {
        id: summary.id.to_string(),
        schedule: source.id.to_string(),
        at_us: source.at.as_micros(),
        kind: source.kind,
        state: summary.state,
        submitted_us: summary.submitted_at.as_micros(),
        due_us: summary.id.due_at().as_micros(),
        finished_us: summary.finished_at.map(Timestamp::as_micros),
        attempts: summary.attempt_count,
        server: None,
        was_lost: false,
    };
    if job.kind == "replayed" || job.attempts > 1 || job.state == "lost" {
        let whole = patiently(async || client.job(summary.id).await).await?;
        job.server = whole.attempts.first().and_then(|attempt| attempt.server).map(|server| server.to_string());
        job.was_lost = whole.attempts.iter().any(|attempt| attempt.state == "worker_lost");
    }
    Ok(Some(job))
}
