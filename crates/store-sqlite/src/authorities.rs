//! The authorities that issue the cluster's certificates.

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_store::{Authorities, AuthorityRow, Result};
use rusqlite::{Connection, Row, params};

use crate::writer::Failure;
use crate::{SqliteStore, codec, sql};

#[async_trait]
impl Authorities for SqliteStore {
    async fn authorities(&self) -> Result<Vec<AuthorityRow>> {
        self.shared.people_reads.read(all_authorities).await
    }

    async fn add_authority(&self, row: AuthorityRow, retire_others: Timestamp) -> Result<bool> {
        self.write(2, move |db| {
            let added = db.conn.prepare_cached(sql!("add_authority"))?.execute(params![
                row.generation,
                row.certificate,
                row.sealed_key,
                row.created_at.as_micros(),
                row.retired_at.map(Timestamp::as_micros),
            ])?;
            if added == 1 {
                let retire = params![row.generation, retire_others.as_micros()];
                db.conn.prepare_cached(sql!("retire_authorities"))?.execute(retire)?;
            }
            Ok(added == 1)
        })
        .await
    }
}

pub(crate) fn all_authorities(conn: &Connection) -> std::result::Result<Vec<AuthorityRow>, Failure> {
    let mut statement = conn.prepare_cached(sql!("authorities"))?;
    Ok(statement.query_map([], read_authority)?.collect::<rusqlite::Result<_>>()?)
}

fn read_authority(row: &Row<'_>) -> rusqlite::Result<AuthorityRow> {
    Ok(AuthorityRow {
        generation: row.get(0)?,
        certificate: row.get(1)?,
        sealed_key: row.get(2)?,
        created_at: codec::time(row, 3)?,
        retired_at: codec::or_none(row, 4, codec::time)?,
    })
}
