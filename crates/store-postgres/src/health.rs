//! What an operator should know of a database before servers use it. Changes nothing.

use punctual_core::Timestamp;
use punctual_store::{Result, StoreError};

use crate::connection::Class;
use crate::link::Origin;
use crate::sql;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Such as `15.18`.
    pub version: String,
    /// 15 for `15.18`.
    pub major: u32,
    pub fsync: bool,
    /// `off` loses what was acknowledged.
    pub synchronous_commit: String,
    /// The user may make tables in its schema.
    pub may_create: bool,
    /// The database's clock.
    pub now: Timestamp,
    pub connections_max: u32,
    /// Which standbys a commit waits for; empty for none.
    pub synchronous_standby_names: String,
    /// Standbys that are connected now.
    pub standbys: u32,
}

pub async fn health(url: &str) -> Result<Health> {
    let conn = Origin::new(url)?.open(Class::Maintenance).await?;
    let row = conn.query_opt(sql!("health"), &[]).await?;
    let row = row.ok_or_else(|| StoreError::Unavailable("PostgreSQL does not describe itself".to_owned()))?;
    let number: i32 = row.get(1);
    let connections_max: i32 = row.get(6);
    Ok(Health {
        version: row.get(0),
        major: number.unsigned_abs() / 10_000,
        fsync: row.get(2),
        synchronous_commit: row.get(3),
        may_create: row.get(4),
        now: Timestamp::saturating_from_micros(row.get(5)),
        connections_max: connections_max.unsigned_abs(),
        synchronous_standby_names: row.get(7),
        standbys: u32::try_from(row.get::<_, i64>(8)).unwrap_or(u32::MAX),
    })
}
