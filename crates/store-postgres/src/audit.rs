//! The audit log.

use async_trait::async_trait;
use punctual_store::{
    AUDIT_ROWS_MAX, Audit, AuditAppended, AuditBatch, AuditEnds, AuditPlace, AuditRow, Order, Result, StoreError,
};
use tokio_postgres::Row;

use crate::codec::{self, Read};
use crate::{PostgresStore, sql};

#[async_trait]
impl Audit for PostgresStore {
    async fn audit_ends(&self) -> Result<AuditEnds> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let row = conn.query_opt(sql!("audit_ends"), &[]).await?;
        conn.done();
        found(row)
    }

    async fn append_audit(&self, batch: AuditBatch) -> Result<AuditAppended> {
        self.open()?;
        let AuditBatch { after, rows, signature } = batch;
        let Some(last) = rows.last() else { return Ok(AuditAppended::Done) };
        let seqs: Vec<i64> = rows.iter().map(|row| row.seq as i64).collect();
        let ats: Vec<i64> = rows.iter().map(|row| row.at.as_micros()).collect();
        let lines: Vec<&str> = rows.iter().map(|row| row.line.as_str()).collect();
        let hashes: Vec<&[u8]> = rows.iter().map(|row| &row.hash[..]).collect();
        let conn = self.shared.maintenance.take().await?;
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 9] = [
            &(after.seq as i64),
            &&after.hash[..],
            &(last.seq as i64),
            &&last.hash[..],
            &signature,
            &seqs,
            &ats,
            &lines,
            &hashes,
        ];
        let written = conn.execute(sql!("append_audit"), &params).await?;
        if written > 0 {
            conn.done();
            return Ok(AuditAppended::Done);
        }
        let row = conn.query_opt(sql!("audit_ends"), &[]).await?;
        conn.done();
        Ok(AuditAppended::Behind(found(row)?))
    }

    async fn audit_rows(&self, from: Option<u64>, order: Order, limit: usize) -> Result<Vec<AuditRow>> {
        self.open()?;
        let limit = limit.min(AUDIT_ROWS_MAX) as i64;
        let (query, from) = match order {
            Order::Ascending => (sql!("audit_rows"), from.unwrap_or(0) as i64),
            Order::Descending => (sql!("audit_rows_backwards"), from.map_or(i64::MAX, |from| from as i64)),
        };
        let conn = self.shared.people_reads.take().await?;
        let rows = conn.query(query, &[&from, &limit]).await?;
        conn.done();
        Ok(rows.iter().map(read_row).collect::<Read<_>>()?)
    }

    async fn trim_audit(&self, base: AuditPlace) -> Result<usize> {
        self.open()?;
        let conn = self.shared.maintenance.take().await?;
        let gone = conn.execute(sql!("trim_audit"), &[&(base.seq as i64), &&base.hash[..]]).await?;
        conn.done();
        Ok(gone as usize)
    }
}

fn found(row: Option<Row>) -> Result<AuditEnds> {
    let row = row.ok_or_else(|| StoreError::Inconsistent("the row of the ends of the audit log is gone".to_owned()))?;
    Ok(read_ends(&row)?)
}

fn read_ends(row: &Row) -> Read<AuditEnds> {
    let place = |column| {
        Ok::<_, crate::trouble::Trouble>(AuditPlace { seq: number(row, column)?, hash: hash(row, column + 1)? })
    };
    Ok(AuditEnds { base: place(0)?, head: place(2)?, signature: codec::value(row, 4)? })
}

fn read_row(row: &Row) -> Read<AuditRow> {
    Ok(AuditRow { seq: number(row, 0)?, at: codec::time(row, 1)?, line: codec::value(row, 2)?, hash: hash(row, 3)? })
}

fn number(row: &Row, column: usize) -> Read<u64> {
    Ok(codec::value::<i64>(row, column)?.max(0) as u64)
}

fn hash(row: &Row, column: usize) -> Read<[u8; 32]> {
    codec::value::<&[u8]>(row, column)?.try_into().map_err(|_| codec::unreadable(row, column, "a hash has 32 bytes"))
}
