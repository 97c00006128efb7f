//! Lets go of old occurrences, and of what was done to schedules long ago. What is queued is not decided
//! yet, and stays however old it is.

use punctual_core::Timestamp;
use tokio_postgres::error::SqlState;

use crate::connection::Conn;
use crate::partitions::{self, Partition, Partitions};
use crate::retention::{FEW_ROWS, SMALL_ROWS_MAX, count, drop_empty};
use crate::sql;
use crate::trouble::Trouble;

type Done<T> = std::result::Result<T, Trouble>;

const QUEUED: &str = "verdict = 2";

/// A partition with many rows goes as a whole, when the last of them is old. The rows of others
/// go one by one, so many in one call.
pub(crate) async fn prune_ledger(conn: &Conn, partitions: &Partitions, before: Timestamp) -> Done<()> {
    let mut rest = SMALL_ROWS_MAX;
    for part in partitions::list(conn, partitions.table).await? {
        if part.from >= before.as_micros() {
            break;
        }
        let is_large = count(conn, &part, FEW_ROWS).await? > FEW_ROWS;
        let is_old = part.to <= before.as_micros();
        let is_dropped = is_large && is_old && drop_decided(conn, partitions, &part).await?;
        if is_dropped || (is_large && !is_old) {
            continue;
        }
        rest -= prune_rows(conn, &part, before, rest).await?;
    }
    conn.execute(sql!("prune_schedule_changes"), &[&before.as_micros(), &SMALL_ROWS_MAX]).await?;
    drop_empty(conn, partitions, before).await
}

/// Whether nothing else is to be done about it now.
async fn drop_decided(conn: &Conn, partitions: &Partitions, part: &Partition) -> Done<bool> {
    if has_queued(conn, part).await? {
        return Ok(false);
    }
    match drop_under_lock(conn, partitions, part).await {
        // The table is busy; the next call finds it as it is.
        Err(trouble) if trouble.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            conn.run("ROLLBACK").await?;
            Ok(true)
        }
        dropped => dropped,
    }
}

async fn drop_under_lock(conn: &Conn, partitions: &Partitions, part: &Partition) -> Done<bool> {
    partitions::lock(conn).await?;
    partitions::hold_off(conn, part).await?;
    // Somebody may have written to it since.
    if has_queued(conn, part).await? {
        conn.run("ROLLBACK").await?;
        return Ok(false);
    }
    partitions.drop(conn, part).await?;
    Ok(true)
}

async fn has_queued(conn: &Conn, part: &Partition) -> Done<bool> {
    let text = format!("SELECT EXISTS (SELECT 1 FROM {} WHERE {QUEUED})", part.name);
    let rows = conn.within_limit(conn.client.query(&text, &[])).await?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}

/// Answers how many went.
async fn prune_rows(conn: &Conn, part: &Partition, before: Timestamp, most: i64) -> Done<i64> {
    let (name, before) = (&part.name, before.as_micros());
    let text = format!(
        "DELETE FROM {name} WHERE ctid = ANY (
             ARRAY (SELECT ctid FROM {name} WHERE at < {before} AND NOT {QUEUED} LIMIT {most})
         ) AND NOT {QUEUED}"
    );
    let removed = conn.within_limit(conn.client.execute(&text, &[])).await?;
    Ok(i64::try_from(removed).unwrap_or(most))
}
