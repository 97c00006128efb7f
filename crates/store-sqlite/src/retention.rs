//! Letting go of what is old. A row goes with everything that hangs on it.

use std::collections::HashSet;

use async_trait::async_trait;
use punctual_core::{JobId, NamespaceId, Timestamp};
use punctual_store::{Result, Retention, tasks_used_since};
use rusqlite::{Connection, params};

use crate::writer::Failure;
use crate::{SqliteStore, codec, sql};

/// Of the small tables, in one call. They grow slower than this removes.
const SMALL_ROWS_MAX: i64 = 20_000;

/// Jobs that were due before everything that is kept. Reading so many takes some milliseconds.
const OVERDUE_MAX: i64 = 10_000;

#[async_trait]
impl Retention for SqliteStore {
    async fn prune(&self, before: Timestamp, now: Timestamp, limit: usize) -> Result<usize> {
        let shard_count = self.shared.shard_count;
        self.write(limit, move |db| {
            let removed = prune(&db.conn, before, now, limit)?;
            let seen_before = tasks_used_since(before).as_micros();
            db.conn.prepare_cached(sql!("prune_workers"))?.execute(params![seen_before, SMALL_ROWS_MAX])?;
            if removed < limit && prune_tasks(&db.conn, before, shard_count)? > 0 {
                db.known_tasks.clear();
            }
            Ok(removed)
        })
        .await
    }

    async fn prune_jobs_of(&self, namespace: NamespaceId, before: Timestamp, limit: usize) -> Result<usize> {
        self.write(limit, move |db| {
            let first_kept = JobId::first_at(before).to_bytes();
            let (before, most) = (before.as_micros(), limit as i64);
            let due = params![first_kept, before, most, namespace.0];
            let mut old = ids(&db.conn, sql!("prunable_jobs_of_namespace"), due)?;
            remove(&db.conn, &old)?;
            let rest = limit - old.len();
            if rest > 0 {
                let early = params![before, rest as i64, namespace.0];
                let early = ids(&db.conn, sql!("prunable_early_jobs_of_namespace"), early)?;
                remove(&db.conn, &early)?;
                old.extend(early);
            }
            Ok(old.len())
        })
        .await
    }
}

/// Answers how many went.
fn prune_tasks(conn: &Connection, before: Timestamp, shard_count: u16) -> std::result::Result<usize, Failure> {
    let mut unused: Vec<i64> = conn
        .prepare_cached(sql!("unused_tasks"))?
        .query_map(params![tasks_used_since(before).as_micros(), SMALL_ROWS_MAX], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    if unused.is_empty() {
        return Ok(0);
    }
    // Every hot job of such a task is due before `before`; see `tasks_used_since`.
    let mut needed: HashSet<i64> = HashSet::new();
    let mut examined = 0;
    let mut statement = conn.prepare_cached(sql!("tasks_of_overdue_jobs"))?;
    for shard in 0..shard_count {
        let tasks =
            statement.query_map(params![shard, before.as_micros(), OVERDUE_MAX - examined], |row| row.get(0))?;
        for task in tasks {
            needed.insert(task?);
            examined += 1;
        }
        // Whoever has so many jobs that are so late has other worries than old tasks.
        if examined >= OVERDUE_MAX {
            return Ok(0);
        }
    }
    unused.retain(|task| !needed.contains(task));
    let mut statement = conn.prepare_cached(sql!("prune_task"))?;
    for task in &unused {
        statement.execute([task])?;
    }
    Ok(unused.len())
}

fn prune(conn: &Connection, before: Timestamp, now: Timestamp, limit: usize) -> std::result::Result<usize, Failure> {
    let mut old = ids(
        conn,
        sql!("prunable_jobs"),
        params![JobId::first_at(before).to_bytes(), before.as_micros(), limit as i64],
    )?;
    remove(conn, &old)?;
    if old.len() < limit {
        let rest = (limit - old.len()) as i64;
        let early = ids(conn, sql!("prunable_early_jobs"), params![before.as_micros(), rest])?;
        remove(conn, &early)?;
        old.extend(early);
    }
    conn.prepare_cached(sql!("prune_stale_outcomes_before"))?.execute(params![before.as_micros(), SMALL_ROWS_MAX])?;
    conn.prepare_cached(sql!("prune_idempotency"))?.execute(params![now.as_micros(), SMALL_ROWS_MAX])?;
    conn.prepare_cached(sql!("prune_namespaces"))?.execute(params![before.as_micros(), SMALL_ROWS_MAX])?;
    let records = [
        sql!("prune_occurrences"),
        sql!("prune_schedule_changes"),
        sql!("prune_deliveries"),
        sql!("prune_ailing"),
        // Runs first: a backfill goes when it has none left.
        sql!("prune_backfill_runs"),
        sql!("prune_backfills"),
        // Outputs first: they are found by their runs.
        sql!("prune_run_outputs"),
        sql!("prune_runs"),
        sql!("prune_batches"),
    ];
    let mut is_over = true;
    for text in records {
        let gone = conn.prepare_cached(text)?.execute(params![before.as_micros(), SMALL_ROWS_MAX])?;
        is_over &= (gone as i64) < SMALL_ROWS_MAX;
    }
    // They may grow faster than history, as a ledger does where most times are skipped: then the caller has to come
    // again.
    Ok(if is_over { old.len() } else { limit })
}

fn ids(conn: &Connection, text: &str, params: impl rusqlite::Params) -> rusqlite::Result<Vec<JobId>> {
    let mut statement = conn.prepare_cached(text)?;
    statement.query_map(params, |row| codec::job_id(row, 0))?.collect()
}

fn remove(conn: &Connection, jobs: &[JobId]) -> rusqlite::Result<()> {
    for text in [
        sql!("drop_logs_of_job"),
        sql!("prune_history"),
        sql!("prune_attempt"),
        sql!("prune_log"),
        sql!("prune_stale_outcome"),
        sql!("prune_rerun"),
        sql!("prune_job_actions"),
        sql!("forget_cancel_request"),
    ] {
        let mut statement = conn.prepare_cached(text)?;
        for job in jobs {
            statement.execute([job.to_bytes()])?;
        }
    }
    Ok(())
}
