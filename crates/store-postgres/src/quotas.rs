//! What quotas of namespaces are compared with.

use async_trait::async_trait;
use punctual_core::namespace::NamespaceId;
use punctual_core::{Span, Timestamp};
use punctual_store::{Counted, QuotaUse, RATE_BURST, Result, Spent};

use crate::codec::{self, namespace_number};
use crate::connection::Conn;
use crate::trouble::Trouble;
use crate::{PostgresStore, sql};

type Done<T> = std::result::Result<T, Trouble>;

#[async_trait]
impl QuotaUse for PostgresStore {
    async fn used(&self, namespace: NamespaceId, what: Counted, most: u64) -> Result<u64> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let used = used(&conn, namespace, what, most).await?;
        conn.done();
        Ok(used)
    }

    async fn spend(&self, namespace: NamespaceId, cost: Span, now: Timestamp) -> Result<Spent> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let spent = spend(&conn, namespace, cost, now).await?;
        conn.done();
        Ok(spent)
    }
}

async fn used(conn: &Conn, namespace: NamespaceId, what: Counted, most: u64) -> Done<u64> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let number = namespace_number(namespace);
    let row = match what {
        Counted::Jobs if namespace.is_default() => conn.query_opt(sql!("count_jobs_of_default"), &[&most]).await?,
        Counted::Jobs => conn.query_opt(sql!("count_jobs_of_namespace"), &[&number, &most]).await?,
        Counted::Schedules => conn.query_opt(sql!("count_schedules"), &[&number]).await?,
        Counted::LogBytes if namespace.is_default() => return Ok(0),
        Counted::LogBytes => conn.query_opt(sql!("log_bytes"), &[&number]).await?,
        Counted::ArtifactBytes => conn.query_opt(sql!("artifact_bytes"), &[&number]).await?,
    };
    let row = row.ok_or_else(|| Trouble::inconsistent("a row was expected"))?;
    Ok(codec::value::<i64>(&row, 0)?.unsigned_abs())
}

async fn spend(conn: &Conn, namespace: NamespaceId, cost: Span, now: Timestamp) -> Done<Spent> {
    let number = namespace_number(namespace);
    let (cost, now, burst) = (cost.as_micros(), now.as_micros(), RATE_BURST.as_micros());
    if conn.query_opt(sql!("spend"), &[&number, &cost, &now, &burst]).await?.is_some() {
        return Ok(Spent::Done);
    }
    let row = conn.query_opt(sql!("paid_until"), &[&number]).await?;
    let row = row.ok_or_else(|| Trouble::inconsistent("a row was expected"))?;
    // It may spend again one microsecond after it is exactly the burst ahead.
    Ok(Spent::Wait(Span::from_micros((codec::value::<i64>(&row, 0)? - burst - now + 1).max(1))))
}
