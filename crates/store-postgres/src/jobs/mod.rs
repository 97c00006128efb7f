//! Submitting jobs, and reading them for people.

mod group;
mod list;
mod record;
mod submit;

use std::sync::PoisonError;

use async_trait::async_trait;
use punctual_core::{JobId, JobKey, NamespaceId, Timestamp};
use punctual_store::{
    DueWindow, Filter, FinishedJob, HotJob, IdempotencyKey, JobPages, JobReads, JobRecord, LateOutcome, Page, Position,
    RerunRecord, Result, StoreError, Submission, Submit, Submitted, UNREADABLE_NAMED_MAX,
};
use tokio_postgres::types::ToSql;

use crate::codec::{self, Uuid};
use crate::{PostgresStore, sql};

pub(crate) use group::{insert_remembered, store_within};
pub(crate) use submit::{Submitter, Submitting};

#[async_trait]
impl Submit for PostgresStore {
    async fn submit(&self, submission: Submission) -> Result<Submitted> {
        self.shared.submitter.submit(submission).await
    }

    async fn idempotent_answer(
        &self,
        key: IdempotencyKey,
        fingerprint: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<Submitted>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let answered = group::answered_before(&conn, &[(&key, &fingerprint, now)]).await?;
        conn.done();
        Ok(answered.into_iter().next().flatten())
    }
}

#[async_trait]
impl JobReads for PostgresStore {
    async fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let record = record::find(&conn, id).await?;
        conn.done();
        Ok(record)
    }

    async fn namespace_of_job(&self, id: JobId) -> Result<Option<NamespaceId>> {
        self.open()?;
        let key = JobKey::original(id);
        let conn = self.shared.people_reads.take().await?;
        let place: [&(dyn ToSql + Sync); 3] =
            [&codec::shard_number(key.shard()), &key.due_at.as_micros(), &Uuid::from(id)];
        let rows = conn.query(sql!("namespace_of_job"), &place).await?;
        conn.done();
        Ok(rows.first().map(|row| codec::namespace(row, 0)).transpose()?)
    }

    async fn reruns(&self, id: JobId) -> Result<Vec<RerunRecord>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let reruns = record::reruns(&conn, id).await?;
        conn.done();
        Ok(reruns)
    }

    async fn late_outcomes(&self, id: JobId, limit: usize) -> Result<Vec<LateOutcome>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let outcomes = record::late_outcomes(&conn, id, limit).await?;
        conn.done();
        Ok(outcomes)
    }

    async fn hot_jobs(&self, keys: Vec<JobKey>) -> Result<Vec<HotJob>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let jobs = record::hot_at(&conn, &keys).await?;
        conn.done();
        Ok(jobs)
    }

    async fn finished_jobs(&self, ids: Vec<JobId>) -> Result<Vec<FinishedJob>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let jobs = record::finished_among(&conn, &ids).await?;
        conn.done();
        Ok(jobs)
    }

    async fn given_back(
        &self,
        namespace: Option<NamespaceId>,
        after: Option<JobKey>,
        until: Timestamp,
        limit: usize,
    ) -> Result<Page<HotJob, JobKey>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let (page, unreadable) = list::given_back(&conn, namespace, after, until, limit).await?;
        conn.done();
        self.report_jobs(unreadable);
        Ok(page)
    }

    async fn list_jobs(&self, filter: Filter, position: Position) -> Result<JobPages> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let (pages, unreadable) = list::jobs(&conn, self.shared.shard_count, &filter, position).await?;
        conn.done();
        self.report_jobs(unreadable);
        Ok(pages)
    }

    async fn list_due(&self, window: DueWindow, limit: usize) -> Result<Page<HotJob, JobKey>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let (page, unreadable) = list::due(&conn, self.shared.shard_count, window, limit).await?;
        conn.done();
        self.report_jobs(unreadable);
        Ok(page)
    }
}

impl PostgresStore {
    /// Once for each: a list is read again and again.
    fn report_jobs(&self, unreadable: Vec<list::Unreadable>) {
        let mut named = self.shared.unreadable_jobs.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, trouble) in unreadable {
            if named.len() < UNREADABLE_NAMED_MAX && named.insert(id) {
                let job = id.map_or_else(|| "unknown".to_owned(), |id| id.to_string());
                let error = StoreError::from(trouble);
                tracing::error!(job, %error, "a job cannot be read, and lists leave it out");
            }
        }
    }
}
