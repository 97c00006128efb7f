//! Submitting jobs, and reading them for people.

mod list;
mod record;
mod submit;

use std::sync::PoisonError;

use async_trait::async_trait;
use punctual_core::{JobId, JobKey, NamespaceId, Timestamp};
use punctual_store::{
    DueWindow, Filter, FinishedJob, HotJob, IdempotencyKey, JobPages, JobReads, JobRecord, LateOutcome, Page, Position,
    RerunRecord, Result, Submission, Submit, Submitted, UNREADABLE_NAMED_MAX,
};
use rusqlite::{Connection, params};

use crate::{SqliteStore, codec, sql};

pub(crate) use submit::store_jobs;

#[async_trait]
impl Submit for SqliteStore {
    async fn submit(&self, submission: Submission) -> Result<Submitted> {
        let shard_count = self.shared.shard_count;
        self.write(submission.jobs.len(), move |db| submit::run(db, &submission, shard_count)).await
    }

    async fn idempotent_answer(
        &self,
        key: IdempotencyKey,
        fingerprint: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<Submitted>> {
        self.shared.people_reads.read(move |conn| submit::answered_before(conn, &key, &fingerprint, now)).await
    }
}

#[async_trait]
impl JobReads for SqliteStore {
    async fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        self.shared.people_reads.read(move |conn| record::find(conn, id)).await
    }

    async fn namespace_of_job(&self, id: JobId) -> Result<Option<NamespaceId>> {
        let find = move |conn: &Connection| {
            let key = JobKey::original(id);
            let mut statement = conn.prepare_cached(sql!("namespace_of_job"))?;
            let mut rows = statement.query(params![key.shard().0, key.due_at.as_micros(), id.to_bytes()])?;
            let mut found = None;
            while let Some(row) = rows.next()? {
                found = Some(codec::namespace(row, 0)?);
            }
            Ok(found)
        };
        self.shared.people_reads.read(find).await
    }

    async fn reruns(&self, id: JobId) -> Result<Vec<RerunRecord>> {
        self.shared.people_reads.read(move |conn| record::reruns(conn, id)).await
    }

    async fn late_outcomes(&self, id: JobId, limit: usize) -> Result<Vec<LateOutcome>> {
        self.shared.people_reads.read(move |conn| record::late_outcomes(conn, id, limit)).await
    }

    async fn hot_jobs(&self, keys: Vec<JobKey>) -> Result<Vec<HotJob>> {
        self.shared.people_reads.read(move |conn| record::hot_at(conn, &keys)).await
    }

    async fn finished_jobs(&self, ids: Vec<JobId>) -> Result<Vec<FinishedJob>> {
        self.shared.people_reads.read(move |conn| record::finished_among(conn, &ids)).await
    }

    async fn list_jobs(&self, filter: Filter, position: Position) -> Result<JobPages> {
        let shard_count = self.shared.shard_count;
        let read = move |conn: &Connection| list::jobs(conn, shard_count, &filter, position);
        let (pages, unreadable) = self.shared.people_reads.read(read).await?;
        self.report_jobs(unreadable);
        Ok(pages)
    }

    async fn list_due(&self, window: DueWindow, limit: usize) -> Result<Page<HotJob, JobKey>> {
        let shard_count = self.shared.shard_count;
        let read = move |conn: &Connection| list::due(conn, shard_count, window, limit);
        let (page, unreadable) = self.shared.people_reads.read(read).await?;
        self.report_jobs(unreadable);
        Ok(page)
    }

    async fn given_back(
        &self,
        namespace: Option<NamespaceId>,
        after: Option<JobKey>,
        until: Timestamp,
        limit: usize,
    ) -> Result<Page<HotJob, JobKey>> {
        let read = move |conn: &Connection| list::given_back(conn, namespace, after, until, limit);
        let (page, unreadable) = self.shared.people_reads.read(read).await?;
        self.report_jobs(unreadable);
        Ok(page)
    }
}

impl SqliteStore {
    /// Once for each: a list is read again and again.
    fn report_jobs(&self, unreadable: Vec<list::Unreadable>) {
        let mut named = self.shared.unreadable_jobs.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, error) in unreadable {
            if named.len() < UNREADABLE_NAMED_MAX && named.insert(id) {
                let job = id.map_or_else(|| "unknown".to_owned(), |id| id.to_string());
                tracing::error!(job, %error, "a job cannot be read, and lists leave it out");
            }
        }
    }
}
