//! The authorities that issue the cluster's certificates.

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_store::{Authorities, AuthorityRow, Result};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::codec::{self, Read};
use crate::{PostgresStore, sql};

#[async_trait]
impl Authorities for PostgresStore {
    async fn authorities(&self) -> Result<Vec<AuthorityRow>> {
        self.open()?;
        let rows = self.shared.leases.conn().await?.query(sql!("authorities"), &[]).await?;
        Ok(rows.iter().map(read_authority).collect::<Read<_>>()?)
    }

    async fn add_authority(&self, row: AuthorityRow, retire_others: Timestamp) -> Result<bool> {
        self.open()?;
        let conn = self.shared.leases.conn().await?;
        let params: [&(dyn ToSql + Sync); 6] = [
            &(row.generation as i32),
            &row.certificate,
            &row.sealed_key,
            &row.created_at.as_micros(),
            &row.retired_at.map(Timestamp::as_micros),
            &retire_others.as_micros(),
        ];
        let answer = conn.query_opt(sql!("add_authority"), &params).await?;
        let added = answer.map(|row| codec::value::<i64>(&row, 0)).transpose()?;
        Ok(added == Some(1))
    }
}

pub(crate) fn read_authority(row: &Row) -> Read<AuthorityRow> {
    Ok(AuthorityRow {
        generation: codec::value::<i32>(row, 0)? as u32,
        certificate: codec::value(row, 1)?,
        sealed_key: codec::value(row, 2)?,
        created_at: codec::time(row, 3)?,
        retired_at: codec::time_or_none(row, 4)?,
    })
}
