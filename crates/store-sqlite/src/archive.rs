//! Moving logs out of the store.

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::attempt::ArchivedLog;
use punctual_core::{AttemptNo, JobId};
use punctual_store::{Archived, Archiving, Assembly, EndedLog, KeptLog, LogArchive, Result, WholeLog};
use rusqlite::{Connection, OptionalExtension, params};

use crate::writer::Failure;
use crate::{SqliteStore, codec, sql};

#[async_trait]
impl LogArchive for SqliteStore {
    async fn kept_logs(&self, after: Option<(JobId, AttemptNo)>, limit: usize) -> Result<Vec<KeptLog>> {
        self.shared
            .people_reads
            .read(move |conn| {
                let mut next = conn.prepare_cached(sql!("next_log"))?;
                let mut place = after;
                let mut found = Vec::new();
                while found.len() < limit {
                    let (job, attempt) = place.map_or((Vec::new(), 0), |(job, no)| (job.to_bytes().to_vec(), no.0));
                    let read = |row: &rusqlite::Row<'_>| Ok((codec::job_id(row, 0)?, AttemptNo(row.get(1)?)));
                    let Some((job, attempt)) = next.query_row(params![job, attempt], read).optional()? else { break };
                    found.push(KeptLog { job, attempt, ended: ended(conn, job, attempt)? });
                    place = Some((job, attempt));
                }
                Ok(found)
            })
            .await
    }

    async fn assemble_log(&self, job: JobId, attempt: AttemptNo, base: Bytes, limit: usize) -> Result<WholeLog> {
        self.shared
            .people_reads
            .read(move |conn| {
                let mut assembly = Assembly::new(&base, limit);
                let mut statement = conn.prepare_cached(sql!("log_pieces"))?;
                let mut rows = statement.query(params![job.to_bytes(), attempt.0])?;
                while let Some(row) = rows.next()? {
                    let piece = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
                    assembly.add(row.get::<_, i64>(0)?.unsigned_abs(), piece);
                }
                Ok(assembly.whole())
            })
            .await
    }

    async fn archive_logs(&self, logs: Vec<Archiving>) -> Result<Vec<Archived>> {
        self.write(logs.len(), move |db| logs.iter().map(|log| archive(&db.conn, log)).collect()).await
    }

    async fn archived_log(&self, job: JobId, attempt: AttemptNo) -> Result<Option<ArchivedLog>> {
        let ended = self.shared.people_reads.read(move |conn| ended(conn, job, attempt)).await?;
        Ok(ended.and_then(|ended| ended.archived))
    }

    async fn forget_pieces(&self, job: JobId) -> Result<()> {
        self.write(1, move |db| {
            db.conn.prepare_cached(sql!("prune_log"))?.execute([job.to_bytes()])?;
            Ok(())
        })
        .await
    }

    async fn dropped_logs(&self, limit: usize) -> Result<Vec<String>> {
        self.shared
            .people_reads
            .read(move |conn| {
                let mut statement = conn.prepare_cached(sql!("dropped_logs"))?;
                let paths = statement.query_map([limit as i64], |row| row.get(0))?;
                Ok(paths.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    async fn forget_dropped_logs(&self, paths: Vec<String>) -> Result<()> {
        self.write(paths.len(), move |db| {
            let mut statement = db.conn.prepare_cached(sql!("forget_dropped_log"))?;
            for path in &paths {
                statement.execute([path])?;
            }
            Ok(())
        })
        .await
    }
}

fn ended(conn: &Connection, job: JobId, attempt: AttemptNo) -> std::result::Result<Option<EndedLog>, Failure> {
    let mut statement = conn.prepare_cached(sql!("ended_log"))?;
    let ended = statement.query_row(params![job.to_bytes(), attempt.0], |row| {
        Ok(EndedLog { finished_at: codec::time(row, 0)?, archived: codec::archived_log(row, 1)? })
    });
    Ok(ended.optional()?)
}

/// Counts before it changes anything, because the writer's transaction goes on in any case.
fn archive(conn: &Connection, log: &Archiving) -> std::result::Result<Archived, Failure> {
    let (job, attempt) = (log.job.to_bytes(), log.attempt.0);
    let end = i64::try_from(log.log.bytes).map_err(|_| Failure::inconsistent("no log is so long".to_owned()))?;
    let pieces: i64 =
        conn.prepare_cached(sql!("count_log_pieces"))?.query_row(params![job, attempt, end], |row| row.get(0))?;
    if pieces.unsigned_abs() != log.pieces {
        return Ok(Archived::Changed);
    }
    let record = params![job, attempt, log.log.path, end, log.replaces];
    let of_attempt = params![job, attempt, log.log.path, end, log.replaces, log.namespace.or_none()];
    let recorded = conn.prepare_cached(sql!("archive_log_of_attempt"))?.execute(of_attempt)? == 1
        || conn.prepare_cached(sql!("archive_log_of_job"))?.execute(record)? == 1;
    if !recorded {
        return Ok(Archived::Changed);
    }
    conn.prepare_cached(sql!("remove_log_pieces"))?.execute(params![job, attempt, end])?;
    if let Some(replaced) = log.replaces.as_ref().filter(|replaced| **replaced != log.log.path) {
        conn.prepare_cached(sql!("drop_log"))?.execute([replaced])?;
    }
    Ok(Archived::Done)
}
