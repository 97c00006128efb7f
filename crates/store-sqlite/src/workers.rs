//! Workers that were seen.

use async_trait::async_trait;
use punctual_core::{Timestamp, WorkerId};
use punctual_store::{Result, SeenWorker, SeenWorkers};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{SqliteStore, codec, sql};

#[async_trait]
impl SeenWorkers for SqliteStore {
    async fn keep_workers(&self, workers: Vec<SeenWorker>) -> Result<()> {
        self.write(workers.len(), move |db| {
            let mut statement = db.conn.prepare_cached(sql!("keep_worker"))?;
            for worker in &workers {
                statement.execute(params![
                    worker.id.to_bytes(),
                    worker.name,
                    worker.host,
                    worker.version,
                    worker.first_seen_at.as_micros(),
                    worker.last_seen_at.as_micros(),
                    worker.left_at.map(Timestamp::as_micros),
                ])?;
            }
            Ok(())
        })
        .await
    }

    async fn workers_by_id(&self, ids: Vec<WorkerId>) -> Result<Vec<SeenWorker>> {
        let read = move |conn: &Connection| {
            let mut statement = conn.prepare_cached(sql!("worker_by_id"))?;
            let mut workers = Vec::with_capacity(ids.len());
            for id in &ids {
                workers.extend(statement.query_row([id.to_bytes()], read_worker).optional()?);
            }
            Ok(workers)
        };
        self.shared.people_reads.read(read).await
    }

    async fn workers_since(&self, since: Timestamp, limit: usize) -> Result<Vec<SeenWorker>> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let read = move |conn: &Connection| {
            let mut statement = conn.prepare_cached(sql!("workers_since"))?;
            let workers = statement.query_map(params![since.as_micros(), limit], read_worker)?;
            Ok(workers.collect::<rusqlite::Result<Vec<_>>>()?)
        };
        self.shared.people_reads.read(read).await
    }
}

fn read_worker(row: &Row<'_>) -> rusqlite::Result<SeenWorker> {
    Ok(SeenWorker {
        id: codec::worker_id(row, 0)?,
        name: row.get(1)?,
        host: row.get(2)?,
        version: row.get(3)?,
        first_seen_at: codec::time(row, 4)?,
        last_seen_at: codec::time(row, 5)?,
        left_at: row.get::<_, Option<i64>>(6)?.map(Timestamp::saturating_from_micros),
    })
}
