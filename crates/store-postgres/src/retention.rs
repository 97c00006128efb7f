//! Letting go of what is old. Full partitions of history are dropped; what is left goes row
//! by row. A job goes with everything that hangs on it. The ledger of schedules is in schedules/prune.rs, what was told
//! in notices.rs, and past backfills in backfills.rs.

use std::collections::HashSet;

use async_trait::async_trait;
use punctual_core::{JobId, NamespaceId, Timestamp};
use punctual_store::{Result, Retention, tasks_used_since};
use tokio_postgres::error::SqlState;

use crate::codec::{self, Read, Uuid};
use crate::connection::Conn;
use crate::partitions::{self, Partition, Partitions};
use crate::schedules::prune_ledger;
use crate::trouble::Trouble;
use crate::{PostgresStore, backfills, batches, notices, sql, workflows};

type Done<T> = std::result::Result<T, Trouble>;

/// A partition with more rows than this is dropped whole. Fewer are removed one by one, up to
/// the limit, as quickly as they are counted.
pub(crate) const FEW_ROWS: i64 = 50_000;

/// Of the small tables, in one call. They grow slower than this removes.
pub(crate) const SMALL_ROWS_MAX: i64 = 20_000;
/// Each is looked up in every partition.
const TASKS_MAX: i64 = 2_000;
/// Jobs of one shard that were due before everything that is kept.
const OVERDUE_MAX: i64 = 1_000;

#[async_trait]
impl Retention for PostgresStore {
    async fn prune(&self, before: Timestamp, now: Timestamp, limit: usize) -> Result<usize> {
        self.open()?;
        let conn = self.shared.maintenance.take().await?;
        let pruned = self.prune_all(&conn, before, now, limit).await;
        if pruned.is_err() {
            conn.run("ROLLBACK").await?;
        }
        conn.done();
        Ok(pruned?)
    }

    async fn prune_jobs_of(&self, namespace: NamespaceId, before: Timestamp, limit: usize) -> Result<usize> {
        self.open()?;
        let conn = self.shared.maintenance.take().await?;
        let pruned = prune_rows(&conn, before, limit, Some(namespace)).await;
        if pruned.is_err() {
            conn.run("ROLLBACK").await?;
        }
        conn.done();
        Ok(pruned?)
    }
}

impl PostgresStore {
    async fn prune_all(&self, conn: &Conn, before: Timestamp, now: Timestamp, limit: usize) -> Done<usize> {
        let partitions = &self.shared.memory.partitions;
        let mut removed = drop_large(conn, partitions, before).await?;
        if removed == 0 {
            removed = prune_rows(conn, before, limit, None).await?;
        }
        conn.execute(sql!("prune_stale_outcomes_before"), &[&before.as_micros(), &SMALL_ROWS_MAX]).await?;
        conn.execute(sql!("prune_idempotency"), &[&now.as_micros(), &SMALL_ROWS_MAX]).await?;
        conn.execute(sql!("prune_namespaces"), &[&before.as_micros()]).await?;
        prune_ledger(conn, &self.shared.memory.occurrence_partitions, before).await?;
        let mut rest = notices::prune(conn, before).await?;
        rest |= backfills::prune(conn, before).await?;
        rest |= workflows::prune(conn, before).await?;
        rest |= batches::prune(conn, before).await?;
        if removed < limit {
            drop_empty(conn, partitions, before).await?;
            if prune_tasks(conn, before, self.shared.shard_count).await? > 0 {
                self.shared.memory.tasks.clear();
            }
            let used_since = tasks_used_since(before).as_micros();
            conn.execute(sql!("prune_workers"), &[&used_since, &SMALL_ROWS_MAX]).await?;
            if conn.execute(sql!("prune_nodes"), &[&used_since, &SMALL_ROWS_MAX]).await? > 0 {
                self.shared.memory.nodes.clear();
            }
        }
        // There is more of the others, so that there is another call.
        Ok(if rest { removed.max(limit) } else { removed })
    }
}

/// Drops the oldest partition that has many rows, all of them old. The answer is about how many.
async fn drop_large(conn: &Conn, partitions: &Partitions, before: Timestamp) -> Done<usize> {
    for part in old_partitions(conn, partitions, before).await? {
        let rows = count(conn, &part, FEW_ROWS).await?;
        if rows <= FEW_ROWS {
            continue;
        }
        partitions::lock(conn).await?;
        // Before the attempts go that name them.
        conn.run(&format!(
            "INSERT INTO dropped_log (path)
             SELECT log_path FROM {part} WHERE log_path IS NOT NULL
             UNION ALL
             SELECT attempt.log_path FROM attempt JOIN {part} AS old ON attempt.job = old.id
             WHERE attempt.log_path IS NOT NULL
             ON CONFLICT DO NOTHING",
            part = part.name
        ))
        .await?;
        for table in ["attempt", "log", "stale_outcome", "cancel_request", "rerun"] {
            conn.run(&format!("DELETE FROM {table} USING {} AS old WHERE {table}.job = old.id", part.name)).await?;
        }
        let estimate = estimate(conn, &part).await?.max(rows);
        partitions.drop(conn, &part).await?;
        return Ok(usize::try_from(estimate).unwrap_or(usize::MAX));
    }
    Ok(0)
}

/// Partitions all of whose rows are from before, oldest first.
async fn old_partitions(conn: &Conn, partitions: &Partitions, before: Timestamp) -> Done<Vec<Partition>> {
    let mut parts = partitions::list(conn, partitions.table).await?;
    parts.retain(|part| part.to <= before.as_micros());
    Ok(parts)
}

/// Up to one more than `most`.
pub(crate) async fn count(conn: &Conn, part: &Partition, most: i64) -> Done<i64> {
    let text = format!("SELECT count(*) FROM (SELECT 1 FROM {} LIMIT {}) AS counted", part.name, most + 1);
    let rows = conn.within_limit(conn.client.query(&text, &[])).await?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}

async fn estimate(conn: &Conn, part: &Partition) -> Done<i64> {
    let text = "SELECT reltuples::bigint FROM pg_class WHERE oid = $1::text::regclass";
    Ok(conn.query_opt(text, &[&part.name]).await?.map_or(0, |row| row.get(0)))
}

pub(crate) async fn drop_empty(conn: &Conn, partitions: &Partitions, before: Timestamp) -> Done<()> {
    for part in old_partitions(conn, partitions, before).await? {
        if count(conn, &part, 0).await? > 0 {
            continue;
        }
        match drop_if_empty(conn, partitions, &part).await {
            // The table is busy; it costs nothing to leave it for another time.
            Err(trouble) if trouble.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => conn.run("ROLLBACK").await?,
            dropped => dropped?,
        }
    }
    Ok(())
}

async fn drop_if_empty(conn: &Conn, partitions: &Partitions, part: &Partition) -> Done<()> {
    partitions::lock(conn).await?;
    partitions::hold_off(conn, part).await?;
    // Somebody may have written to it since.
    if count(conn, part, 0).await? > 0 {
        return conn.run("ROLLBACK").await;
    }
    partitions.drop(conn, part).await
}

/// Of one namespace, or of all.
async fn prune_rows(conn: &Conn, before: Timestamp, limit: usize, namespace: Option<NamespaceId>) -> Done<usize> {
    let first_kept = Uuid::from(JobId::first_at(before));
    let before = before.as_micros();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let number = namespace.map(codec::namespace_number);
    conn.run("BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off").await?;
    let due = match &number {
        Some(number) => conn.query(sql!("prunable_jobs_of_namespace"), &[&first_kept, &before, &limit, number]).await?,
        None => conn.query(sql!("prunable_jobs"), &[&first_kept, &before, &limit]).await?,
    };
    let mut old = ids(&due)?;
    let rest = limit - old.len() as i64;
    if rest > 0 {
        let early = match &number {
            Some(number) => {
                conn.query(sql!("prunable_early_jobs_of_namespace"), &[&first_kept, &before, &rest, number]).await?
            }
            None => conn.query(sql!("prunable_early_jobs"), &[&first_kept, &before, &rest]).await?,
        };
        old.extend(ids(&early)?);
    }
    if !old.is_empty() {
        for text in [
            sql!("prune_history"),
            sql!("prune_attempts"),
            sql!("prune_logs"),
            sql!("prune_stale_outcomes"),
            sql!("prune_reruns"),
            sql!("prune_job_actions"),
            sql!("forget_cancel_requests"),
        ] {
            conn.execute(text, &[&old]).await?;
        }
    }
    conn.run("COMMIT").await?;
    Ok(old.len())
}

fn ids(rows: &[tokio_postgres::Row]) -> Read<Vec<Uuid>> {
    rows.iter().map(|row| codec::value(row, 0)).collect()
}

/// Answers how many went.
async fn prune_tasks(conn: &Conn, before: Timestamp, shard_count: u16) -> Done<usize> {
    conn.run("BEGIN; SET LOCAL enable_seqscan = off").await?;
    let rows = conn.query(sql!("unused_tasks"), &[&tasks_used_since(before).as_micros(), &TASKS_MAX]).await?;
    let mut unused = rows.iter().map(|row| codec::value(row, 0)).collect::<Read<Vec<i64>>>()?;
    if !unused.is_empty() {
        // Every hot job of such a task is due before `before`; see `tasks_used_since`.
        let overdue = conn
            .query(sql!("tasks_of_overdue_jobs"), &[&i32::from(shard_count), &before.as_micros(), &OVERDUE_MAX])
            .await?;
        let needed = overdue.iter().map(|row| codec::value(row, 0)).collect::<Read<HashSet<i64>>>()?;
        // Whoever has so many jobs that are so late has other worries than old tasks.
        if overdue.len() as i64 >= OVERDUE_MAX {
            unused.clear();
        }
        unused.retain(|task| !needed.contains(task));
        if !unused.is_empty() {
            conn.execute(sql!("prune_tasks"), &[&unused]).await?;
        }
    }
    conn.run("COMMIT").await?;
    Ok(unused.len())
}
