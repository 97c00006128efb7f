//! What attempts print.

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use punctual_core::{AttemptNo, JobId};
use punctual_store::{ChunkMarks, LogChunk, LogPiece, Logs, Result};
use rusqlite::{OptionalExtension, params};

use crate::writer::Failure;
use crate::{SqliteStore, sql};

#[async_trait]
impl Logs for SqliteStore {
    async fn append_logs(&self, chunks: Vec<LogChunk>) -> Result<()> {
        self.write(chunks.len(), move |db| {
            for chunk in &chunks {
                offset(chunk.offset.saturating_add(chunk.bytes.len() as u64))?;
            }
            let mut end_before = db.conn.prepare_cached(sql!("log_end_before"))?;
            let mut append = db.conn.prepare_cached(sql!("append_log"))?;
            for chunk in &chunks {
                let (job, attempt) = (chunk.job.to_bytes(), chunk.attempt.0);
                let mut end = |before: i64| {
                    let end = end_before.query_row(params![job, attempt, before], |row| row.get::<_, i64>(0));
                    Ok::<u64, Failure>(end.optional()?.map_or(0, i64::unsigned_abs))
                };
                let mut begin = chunk.offset;
                // Where there is something already, only what lies beyond the end is new.
                if end(offset(chunk.offset + chunk.bytes.len() as u64)?)? > begin {
                    begin = begin.max(end(i64::MAX)?);
                }
                let skip = usize::try_from(begin - chunk.offset).unwrap_or(usize::MAX);
                let Some(rest) = chunk.bytes.get(skip..).filter(|rest| !rest.is_empty()) else { continue };
                // They count from the begin of the chunk.
                let marks = (skip == 0 && !chunk.marks.is_empty()).then_some(&chunk.marks[..]);
                append.execute(params![job, attempt, offset(begin)?, rest, marks])?;
            }
            Ok(())
        })
        .await
    }

    async fn read_log(&self, job: JobId, attempt: AttemptNo, from: u64, limit: usize) -> Result<LogPiece> {
        self.shared
            .people_reads
            .read(move |conn| {
                let mut statement = conn.prepare_cached(sql!("read_log"))?;
                // No log reaches beyond the largest offset there is, so none is read there.
                let from_at_most = i64::try_from(from).unwrap_or(i64::MAX);
                let mut rows = statement.query(params![job.to_bytes(), attempt.0, from_at_most])?;
                let mut bytes = BytesMut::new();
                let mut next_offset = from;
                while let Some(row) = rows.next()? {
                    let begin = row.get::<_, i64>(0)?.unsigned_abs();
                    let chunk = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
                    // What was read before, of a chunk in which the offset lies.
                    let skip = usize::try_from(next_offset.saturating_sub(begin)).unwrap_or(usize::MAX);
                    let Some(rest) = chunk.get(skip..).filter(|rest| !rest.is_empty()) else { continue };
                    if !bytes.is_empty() && bytes.len() + rest.len() > limit {
                        break;
                    }
                    bytes.extend_from_slice(rest);
                    next_offset = begin + chunk.len() as u64;
                }
                Ok(LogPiece { bytes: bytes.freeze(), next_offset })
            })
            .await
    }

    async fn log_marks(&self, job: JobId, attempt: AttemptNo, from: u64, to: u64) -> Result<Vec<ChunkMarks>> {
        self.shared
            .people_reads
            .read(move |conn| {
                let mut statement = conn.prepare_cached(sql!("log_marks"))?;
                let [from, to] = [from, to].map(|place| i64::try_from(place).unwrap_or(i64::MAX));
                let mut rows = statement.query(params![job.to_bytes(), attempt.0, from, to])?;
                let mut found = Vec::new();
                while let Some(row) = rows.next()? {
                    let marks = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
                    found.push(ChunkMarks {
                        offset: row.get::<_, i64>(0)?.unsigned_abs(),
                        len: row.get::<_, i64>(1)?.unsigned_abs(),
                        marks: Bytes::copy_from_slice(marks),
                    });
                }
                Ok(found)
            })
            .await
    }

    async fn log_end(&self, job: JobId, attempt: AttemptNo) -> Result<u64> {
        self.shared
            .people_reads
            .read(move |conn| {
                let mut statement = conn.prepare_cached(sql!("log_end"))?;
                let end = statement.query_row(params![job.to_bytes(), attempt.0], |row| row.get::<_, i64>(0));
                Ok(end.optional()?.map_or(0, i64::unsigned_abs))
            })
            .await
    }
}

/// SQLite's integers have a sign.
fn offset(offset: u64) -> std::result::Result<i64, Failure> {
    i64::try_from(offset).map_err(|_| Failure::inconsistent(format!("no log is {offset} bytes long")))
}
