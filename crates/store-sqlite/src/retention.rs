//! Letting go of what is old. A row goes with everything that hangs on it.

use async_trait::async_trait;
use punctual_core::{JobId, Timestamp};
use punctual_store::{Result, Retention};
use rusqlite::{Connection, params};

use crate::writer::Failure;
use crate::{SqliteStore, codec, sql};

/// Of the small tables, in one call. They grow slower than this removes.
const SMALL_ROWS_MAX: i64 = 20_000;

#[async_trait]
impl Retention for SqliteStore {
    async fn prune(&self, before: Timestamp, now: Timestamp, limit: usize) -> Result<usize> {
        self.write(limit, move |db| prune(&db.conn, before, now, limit)).await
    }
}

fn prune(conn: &Connection, before: Timestamp, now: Timestamp, limit: usize) -> std::result::Result<usize, Failure> {
    let mut old = ids(
        conn,
        sql!("prunable_jobs"),
        params![JobId::first_at(before).to_bytes(), before.as_micros(), limit as i64],
    )?;
    remove(conn, &old)?;
    if old.len() < limit {
        let rest = (limit - old.len()) as i64;
        let early = ids(conn, sql!("prunable_early_jobs"), params![before.as_micros(), rest])?;
        remove(conn, &early)?;
        old.extend(early);
    }
    conn.prepare_cached(sql!("prune_stale_outcomes_before"))?.execute(params![before.as_micros(), SMALL_ROWS_MAX])?;
    conn.prepare_cached(sql!("prune_idempotency"))?.execute(params![now.as_micros(), SMALL_ROWS_MAX])?;
    Ok(old.len())
}

fn ids(conn: &Connection, text: &str, params: impl rusqlite::Params) -> rusqlite::Result<Vec<JobId>> {
    let mut statement = conn.prepare_cached(text)?;
    statement.query_map(params, |row| codec::job_id(row, 0))?.collect()
}

fn remove(conn: &Connection, jobs: &[JobId]) -> rusqlite::Result<()> {
    for text in [
        sql!("prune_history"),
        sql!("prune_attempt"),
        sql!("prune_log"),
        sql!("prune_stale_outcome"),
        sql!("forget_cancel_request"),
    ] {
        let mut statement = conn.prepare_cached(text)?;
        for job in jobs {
            statement.execute([job.to_bytes()])?;
        }
    }
    Ok(())
}
