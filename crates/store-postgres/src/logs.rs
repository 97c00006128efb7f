//! What attempts print.

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use punctual_core::{AttemptNo, JobId};
use punctual_store::{ChunkMarks, LogChunk, LogPiece, Logs, Result, StoreError, without_overlap};

use crate::codec::{self, Uuid, attempt_number};
use crate::{PostgresStore, sql};

/// Chunks that are read at once. They may be large, and most readers want the first few.
const CHUNKS_READ: i64 = 16;

#[async_trait]
impl Logs for PostgresStore {
    async fn append_logs(&self, chunks: Vec<LogChunk>) -> Result<()> {
        self.open()?;
        for chunk in &chunks {
            offset(chunk.offset.saturating_add(chunk.bytes.len() as u64))?;
        }
        let chunks = without_overlap(chunks);
        if chunks.is_empty() {
            return Ok(());
        }
        let jobs: Vec<Uuid> = chunks.iter().map(|chunk| chunk.job.into()).collect();
        let begins = chunks.iter().map(|chunk| offset(chunk.offset)).collect::<Result<Vec<i64>>>()?;
        let attempts: Vec<i32> = chunks.iter().map(|chunk| attempt_number(chunk.attempt)).collect();
        let bytes: Vec<&[u8]> = chunks.iter().map(|chunk| &chunk.bytes[..]).collect();
        let marks: Vec<Option<&[u8]>> =
            chunks.iter().map(|chunk| (!chunk.marks.is_empty()).then_some(&chunk.marks[..])).collect();
        let conn = self.shared.logs.conn().await?;
        conn.execute(sql!("append_logs"), &[&jobs, &begins, &attempts, &bytes, &marks]).await?;
        Ok(())
    }

    async fn read_log(&self, job: JobId, attempt: AttemptNo, from: u64, limit: usize) -> Result<LogPiece> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let mut bytes = BytesMut::new();
        let mut next_offset = from;
        // No log reaches beyond the largest offset there is, so none is read there.
        let mut read_from = i64::try_from(from).unwrap_or(i64::MAX);
        'pages: loop {
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                [&Uuid::from(job), &attempt_number(attempt), &read_from, &CHUNKS_READ];
            let rows = conn.query(sql!("read_log"), &params).await?;
            for row in &rows {
                let begin = codec::value::<i64>(row, 0)?.unsigned_abs();
                let chunk: &[u8] = codec::value(row, 1)?;
                // What was read before, of a chunk in which the offset lies.
                let skip = usize::try_from(next_offset.saturating_sub(begin)).unwrap_or(usize::MAX);
                let Some(rest) = chunk.get(skip..).filter(|rest| !rest.is_empty()) else { continue };
                if !bytes.is_empty() && bytes.len().saturating_add(rest.len()) > limit {
                    break 'pages;
                }
                bytes.extend_from_slice(rest);
                next_offset = begin + chunk.len() as u64;
            }
            // The next page begins with the last chunk of this one, which is skipped as read.
            match rows.last() {
                Some(last) if rows.len() as i64 == CHUNKS_READ => read_from = codec::value(last, 0)?,
                _ => break,
            }
        }
        conn.done();
        Ok(LogPiece { bytes: bytes.freeze(), next_offset })
    }

    async fn log_marks(&self, job: JobId, attempt: AttemptNo, from: u64, to: u64) -> Result<Vec<ChunkMarks>> {
        self.open()?;
        let [from, to] = [from, to].map(|place| i64::try_from(place).unwrap_or(i64::MAX));
        let conn = self.shared.people_reads.take().await?;
        let rows = conn.query(sql!("log_marks"), &[&Uuid::from(job), &attempt_number(attempt), &from, &to]).await?;
        conn.done();
        let read = |row: &tokio_postgres::Row| -> codec::Read<ChunkMarks> {
            Ok(ChunkMarks {
                offset: codec::value::<i64>(row, 0)?.unsigned_abs(),
                len: u64::from(codec::value::<i32>(row, 1)?.unsigned_abs()),
                marks: Bytes::copy_from_slice(codec::value::<&[u8]>(row, 2)?),
            })
        };
        Ok(rows.iter().map(read).collect::<codec::Read<Vec<_>>>()?)
    }

    async fn log_end(&self, job: JobId, attempt: AttemptNo) -> Result<u64> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let row = conn.query_opt(sql!("log_end"), &[&Uuid::from(job), &attempt_number(attempt)]).await?;
        conn.done();
        Ok(row.map(|row| codec::value::<i64>(&row, 0)).transpose()?.map_or(0, i64::unsigned_abs))
    }
}

/// PostgreSQL's integers have a sign.
fn offset(offset: u64) -> Result<i64> {
    i64::try_from(offset).map_err(|_| StoreError::Inconsistent(format!("no log is {offset} bytes long")))
}
