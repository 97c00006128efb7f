//! Backfills and their runs.

mod row;
mod write;

use async_trait::async_trait;
use punctual_core::{BackfillId, NamespaceId, ScheduleId, Timestamp};
use punctual_store::{BackfillRow, BackfillRun, BackfillStep, Backfilled, Backfills, Result, Stepped};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use crate::writer::Failure;
use crate::{SqliteStore, sql};

/// Sorts after every id.
const AFTER_ALL_IDS: [u8; 16] = [0xff; 16];

#[async_trait]
impl Backfills for SqliteStore {
    async fn add_backfill(&self, row: BackfillRow) -> Result<bool> {
        self.write(1, move |db| write::add(&db.conn, &row)).await
    }

    async fn backfill(&self, id: BackfillId) -> Result<Option<BackfillRow>> {
        self.shared.people_reads.read(move |conn| one(conn, id)).await
    }

    async fn list_backfills(
        &self,
        namespace: NamespaceId,
        schedule: Option<ScheduleId>,
        before: Option<BackfillId>,
        limit: usize,
    ) -> Result<Vec<BackfillRow>> {
        let before = before.map_or(AFTER_ALL_IDS, BackfillId::to_bytes);
        let limit = limit as i64;
        let list = move |conn: &Connection| match schedule {
            Some(schedule) => {
                let wanted = params![before, limit, schedule.to_bytes(), namespace.0];
                rows(conn, sql!("list_backfills_of_schedule"), wanted, row::read_backfill)
            }
            None => rows(conn, sql!("list_backfills"), params![before, limit, namespace.0], row::read_backfill),
        };
        self.shared.people_reads.read(list).await
    }

    async fn running_backfills(&self) -> Result<Vec<BackfillRow>> {
        self.shared.owner_reads.read(|conn| rows(conn, sql!("running_backfills"), [], row::read_backfill)).await
    }

    async fn step_backfill(&self, step: BackfillStep) -> Result<Stepped> {
        let shard_count = self.shared.shard_count;
        let rows = 2 * step.made.len() + step.ended.len() + 1;
        self.write(rows, move |db| write::step(db, step, shard_count)).await
    }

    async fn open_runs(&self, id: BackfillId, limit: usize) -> Result<Vec<BackfillRun>> {
        let open = move |conn: &Connection| {
            let wanted = params![id.to_bytes(), limit as i64];
            rows(conn, sql!("open_backfill_runs"), wanted, row::read_run)
        };
        self.shared.owner_reads.read(open).await
    }

    async fn backfill_runs(&self, id: BackfillId, after: Option<Timestamp>, limit: usize) -> Result<Vec<BackfillRun>> {
        let page = move |conn: &Connection| {
            // Before every time.
            let after = after.map_or(-1, Timestamp::as_micros);
            rows(conn, sql!("backfill_runs"), params![id.to_bytes(), after, limit as i64], row::read_run)
        };
        self.shared.people_reads.read(page).await
    }

    async fn backfilled(
        &self,
        schedule: ScheduleId,
        from: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Backfilled>> {
        let range = move |conn: &Connection| {
            let wanted = params![schedule.to_bytes(), from.as_micros(), until.as_micros(), limit as i64];
            rows(conn, sql!("backfilled"), wanted, row::read_backfilled)
        };
        self.shared.people_reads.read(range).await
    }
}

fn one(conn: &Connection, id: BackfillId) -> std::result::Result<Option<BackfillRow>, Failure> {
    Ok(conn.prepare_cached(sql!("backfill"))?.query_row([id.to_bytes()], row::read_backfill).optional()?)
}

fn rows<T>(
    conn: &Connection,
    text: &str,
    wanted: impl Params,
    read: fn(&Row<'_>) -> rusqlite::Result<T>,
) -> std::result::Result<Vec<T>, Failure> {
    let mut statement = conn.prepare_cached(text)?;
    let rows = statement.query_map(wanted, read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}
