//! The audit log.

use async_trait::async_trait;
use punctual_store::{
    AUDIT_ROWS_MAX, Audit, AuditAppended, AuditBatch, AuditEnds, AuditPlace, AuditRow, Order, Result,
};
use rusqlite::{Connection, Row, params};

use crate::{SqliteStore, codec, sql};

#[async_trait]
impl Audit for SqliteStore {
    async fn audit_ends(&self) -> Result<AuditEnds> {
        self.shared.people_reads.read(|conn| Ok(ends(conn)?)).await
    }

    async fn append_audit(&self, batch: AuditBatch) -> Result<AuditAppended> {
        let AuditBatch { after, rows, signature } = batch;
        self.write(rows.len() + 1, move |db| {
            let Some(last) = rows.last() else { return Ok(AuditAppended::Done) };
            let moved = db.conn.prepare_cached(sql!("move_audit_head"))?.execute(params![
                after.seq as i64,
                after.hash,
                last.seq as i64,
                last.hash,
                signature
            ])?;
            if moved == 0 {
                return Ok(AuditAppended::Behind(ends(&db.conn)?));
            }
            let mut statement = db.conn.prepare_cached(sql!("insert_audit"))?;
            for row in &rows {
                statement.execute(params![row.seq as i64, row.at.as_micros(), row.line, row.hash])?;
            }
            Ok(AuditAppended::Done)
        })
        .await
    }

    async fn audit_rows(&self, from: Option<u64>, order: Order, limit: usize) -> Result<Vec<AuditRow>> {
        let limit = limit.min(AUDIT_ROWS_MAX) as i64;
        let read = move |conn: &Connection| {
            let (mut statement, from) = match order {
                Order::Ascending => (conn.prepare_cached(sql!("audit_rows"))?, from.unwrap_or(0) as i64),
                Order::Descending => {
                    let from = from.map_or(i64::MAX, |from| from as i64);
                    (conn.prepare_cached(sql!("audit_rows_backwards"))?, from)
                }
            };
            let rows = statement.query_map(params![from, limit], read_row)?;
            Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
        };
        self.shared.people_reads.read(read).await
    }

    async fn trim_audit(&self, base: AuditPlace) -> Result<usize> {
        self.write(1, move |db| {
            let moved =
                db.conn.prepare_cached(sql!("move_audit_base"))?.execute(params![base.seq as i64, base.hash])?;
            if moved == 0 {
                return Ok(0);
            }
            Ok(db.conn.prepare_cached(sql!("drop_audit"))?.execute([base.seq as i64])?)
        })
        .await
    }
}

fn ends(conn: &Connection) -> rusqlite::Result<AuditEnds> {
    conn.prepare_cached(sql!("audit_ends"))?.query_row([], |row| {
        let place =
            |column| Ok::<_, rusqlite::Error>(AuditPlace { seq: number(row, column)?, hash: row.get(column + 1)? });
        Ok(AuditEnds { base: place(0)?, head: place(2)?, signature: row.get(4)? })
    })
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<AuditRow> {
    Ok(AuditRow { seq: number(row, 0)?, at: codec::time(row, 1)?, line: row.get(2)?, hash: row.get(3)? })
}

fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)?.max(0) as u64)
}
