//! Moving logs out of the store.

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::attempt::ArchivedLog;
use punctual_core::{AttemptNo, JobId};
use punctual_store::{Archived, Archiving, Assembly, EndedLog, KeptLog, LogArchive, Result, StoreError, WholeLog};
use tokio_postgres::types::ToSql;

use crate::codec::{self, Read, Uuid, attempt_number, namespace_or_none};
use crate::{PostgresStore, sql};

/// Pieces that are read at once: at most some megabytes.
const PIECES_READ: i64 = 64;

#[async_trait]
impl LogArchive for PostgresStore {
    async fn kept_logs(&self, after: Option<(JobId, AttemptNo)>, limit: usize) -> Result<Vec<KeptLog>> {
        self.open()?;
        let (job, attempt) = after.map_or((Uuid([0; 16]), 0), |(job, no)| (job.into(), attempt_number(no)));
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let conn = self.shared.people_reads.take().await?;
        let rows = conn.query(sql!("kept_logs"), &[&job, &attempt, &limit]).await?;
        conn.done();
        let read = |row: &tokio_postgres::Row| -> Read<KeptLog> {
            let ended = match codec::value::<Option<i64>>(row, 2)? {
                Some(_) => Some(EndedLog { finished_at: codec::time(row, 2)?, archived: codec::archived_log(row, 3)? }),
                None => None,
            };
            Ok(KeptLog { job: codec::job_id(row, 0)?, attempt: attempt_no(row, 1)?, ended })
        };
        Ok(rows.iter().map(read).collect::<Read<Vec<_>>>()?)
    }

    async fn assemble_log(&self, job: JobId, attempt: AttemptNo, base: Bytes, limit: usize) -> Result<WholeLog> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let mut assembly = Assembly::new(&base, limit);
        let mut after = -1_i64;
        loop {
            let params: [&(dyn ToSql + Sync); 4] = [&Uuid::from(job), &attempt_number(attempt), &after, &PIECES_READ];
            let rows = conn.query(sql!("log_pieces"), &params).await?;
            for row in &rows {
                after = codec::value(row, 0)?;
                assembly.add(after.unsigned_abs(), codec::value(row, 1)?);
            }
            if (rows.len() as i64) < PIECES_READ {
                break;
            }
        }
        conn.done();
        Ok(assembly.whole())
    }

    async fn archive_logs(&self, logs: Vec<Archiving>) -> Result<Vec<Archived>> {
        self.open()?;
        if logs.is_empty() {
            return Ok(Vec::new());
        }
        let jobs: Vec<Uuid> = logs.iter().map(|log| log.job.into()).collect();
        let attempts: Vec<i32> = logs.iter().map(|log| attempt_number(log.attempt)).collect();
        let paths: Vec<&str> = logs.iter().map(|log| &log.log.path[..]).collect();
        let bytes = logs.iter().map(|log| number(log.log.bytes)).collect::<Result<Vec<i64>>>()?;
        let replaces: Vec<Option<&str>> = logs.iter().map(|log| log.replaces.as_deref()).collect();
        let pieces = logs.iter().map(|log| number(log.pieces)).collect::<Result<Vec<i64>>>()?;
        let namespaces: Vec<Option<i32>> = logs.iter().map(|log| namespace_or_none(log.namespace)).collect();
        let conn = self.shared.logs.conn().await?;
        let params: [&(dyn ToSql + Sync); 7] = [&jobs, &attempts, &paths, &bytes, &replaces, &pieces, &namespaces];
        let rows = conn.query(sql!("archive_logs"), &params).await?;
        let done = rows
            .iter()
            .map(|row| Ok((codec::job_id(row, 0)?, attempt_no(row, 1)?)))
            .collect::<Read<Vec<(JobId, AttemptNo)>>>()?;
        let became = |log: &Archiving| match done.contains(&(log.job, log.attempt)) {
            true => Archived::Done,
            false => Archived::Changed,
        };
        Ok(logs.iter().map(became).collect())
    }

    async fn archived_log(&self, job: JobId, attempt: AttemptNo) -> Result<Option<ArchivedLog>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let row = conn.query_opt(sql!("archived_log"), &[&Uuid::from(job), &attempt_number(attempt)]).await?;
        conn.done();
        Ok(row.map(|row| codec::archived_log(&row, 0)).transpose()?.flatten())
    }

    async fn forget_pieces(&self, job: JobId) -> Result<()> {
        self.open()?;
        let conn = self.shared.logs.conn().await?;
        conn.execute(sql!("prune_logs"), &[&vec![Uuid::from(job)]]).await?;
        Ok(())
    }

    async fn dropped_logs(&self, limit: usize) -> Result<Vec<String>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let rows = conn.query(sql!("dropped_logs"), &[&i64::try_from(limit).unwrap_or(i64::MAX)]).await?;
        conn.done();
        Ok(rows.iter().map(|row| codec::value(row, 0)).collect::<Read<Vec<String>>>()?)
    }

    async fn forget_dropped_logs(&self, paths: Vec<String>) -> Result<()> {
        self.open()?;
        let conn = self.shared.logs.conn().await?;
        conn.execute(sql!("forget_dropped_logs"), &[&paths]).await?;
        Ok(())
    }
}

fn attempt_no(row: &tokio_postgres::Row, column: usize) -> Read<AttemptNo> {
    Ok(AttemptNo(codec::value::<i32>(row, column)? as u32))
}

/// PostgreSQL's integers have a sign.
fn number(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| StoreError::Inconsistent(format!("no log has {value} of anything")))
}
