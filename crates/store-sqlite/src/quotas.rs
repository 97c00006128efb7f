//! What quotas of namespaces are compared with.

use async_trait::async_trait;
use punctual_core::namespace::NamespaceId;
use punctual_core::{Span, Timestamp};
use punctual_store::{Counted, QuotaUse, RATE_BURST, Result, Spent};
use rusqlite::{Connection, params};

use crate::writer::Failure;
use crate::{SqliteStore, artifacts, sql};

type Done<T> = std::result::Result<T, Failure>;

#[async_trait]
impl QuotaUse for SqliteStore {
    async fn used(&self, namespace: NamespaceId, what: Counted, most: u64) -> Result<u64> {
        self.shared.people_reads.read(move |conn| used(conn, namespace, what, most)).await
    }

    async fn spend(&self, namespace: NamespaceId, cost: Span, now: Timestamp) -> Result<Spent> {
        self.write(1, move |db| spend(&db.conn, namespace, cost, now)).await
    }
}

fn used(conn: &Connection, namespace: NamespaceId, what: Counted, most: u64) -> Done<u64> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let count: i64 = match (what, namespace.or_none()) {
        (Counted::Jobs, Some(number)) => {
            conn.prepare_cached(sql!("count_jobs_of_namespace"))?.query_row(params![number, most], |row| row.get(0))?
        }
        (Counted::Jobs, None) => {
            conn.prepare_cached(sql!("count_jobs_of_default"))?.query_row([most], |row| row.get(0))?
        }
        (Counted::Schedules, _) => {
            conn.prepare_cached(sql!("count_schedules"))?.query_row([namespace.0], |row| row.get(0))?
        }
        (Counted::LogBytes, Some(number)) => {
            conn.prepare_cached(sql!("log_bytes"))?.query_row([number], |row| row.get(0))?
        }
        (Counted::LogBytes, None) => 0,
        (Counted::ArtifactBytes, _) => return artifacts::bytes_of(conn, namespace),
    };
    Ok(count.unsigned_abs())
}

fn spend(conn: &Connection, namespace: NamespaceId, cost: Span, now: Timestamp) -> Done<Spent> {
    let (cost, now) = (cost.as_micros(), now.as_micros());
    let burst = RATE_BURST.as_micros();
    let changed = conn.prepare_cached(sql!("spend"))?.execute(params![namespace.0, cost, now, burst])?;
    if changed == 1 {
        return Ok(Spent::Done);
    }
    let paid: i64 = conn.prepare_cached(sql!("paid_until"))?.query_row([namespace.0], |row| row.get(0))?;
    // It may spend again one microsecond after it is exactly the burst ahead.
    Ok(Spent::Wait(Span::from_micros(paid - burst - now + 1)))
}
