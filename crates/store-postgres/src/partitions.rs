//! The partitions of history: each covers a stretch of finish times, is made before it is
//! needed and dropped when all in it is old.
//!
//! Who makes or drops one holds the lock of a row of `meta`. Making one holds nobody up:
//! the table is made apart and then attached.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use punctual_core::{Span, Timestamp};
use punctual_store::Result;

use crate::connection::Conn;
use crate::link::Pool;
use crate::sql;
use crate::trouble::Trouble;

type Done<T> = std::result::Result<T, Trouble>;

/// Who writes a row of `history` holds its lock for milliseconds. Whoever waits longer than
/// this for all of them would hold up those that come next.
const DROP_WAIT_MS: u32 = 200;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) name: String,
    /// Inclusive, in microseconds.
    pub(crate) from: i64,
    /// Exclusive.
    pub(crate) to: i64,
}

pub(crate) struct Partitions {
    step: i64,
    known: Mutex<Vec<Partition>>,
    is_making_ahead: AtomicBool,
}

impl Partitions {
    pub(crate) fn new(step: Span) -> Self {
        Self { step: step.as_micros().max(1), known: Mutex::default(), is_making_ahead: AtomicBool::new(false) }
    }

    fn has(&self, at: i64) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().any(|part| part.from <= at && at < part.to)
    }

    /// Before rows with these finish times are written. Also makes the next one, in the
    /// background, so that nobody has to wait for it.
    pub(crate) async fn prepare(
        self: &Arc<Self>,
        maintenance: &Arc<Pool>,
        times: impl Iterator<Item = Timestamp>,
    ) -> Result<()> {
        let mut last = None;
        for time in times {
            let time = time.as_micros();
            if last == Some(time) || self.has(time) {
                last = Some(time);
                continue;
            }
            self.ensure(maintenance, time).await?;
            last = Some(time);
        }
        if let Some(next) = last.map(|last| last.saturating_add(self.step))
            && !self.has(next)
            && !self.is_making_ahead.swap(true, Ordering::Relaxed)
        {
            let (partitions, maintenance) = (self.clone(), maintenance.clone());
            tokio::spawn(async move {
                if let Err(error) = partitions.ensure(&maintenance, next).await {
                    tracing::warn!(%error, "the next partition of history could not be made ahead");
                }
                partitions.is_making_ahead.store(false, Ordering::Relaxed);
            });
        }
        Ok(())
    }

    /// What is remembered turned out to be wrong.
    pub(crate) fn forget(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) async fn ensure(&self, maintenance: &Pool, at: i64) -> Result<()> {
        let conn = maintenance.take().await?;
        // Another server may have made it; then there is nothing to lock.
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = list(&conn).await?;
        if !self.has(at) {
            let made = self.make(&conn, at).await;
            if made.is_err() {
                conn.run("ROLLBACK").await?;
            }
            made?;
        }
        conn.done();
        Ok(())
    }

    async fn make(&self, conn: &Conn, at: i64) -> Done<()> {
        lock(conn).await?;
        let mut parts = list(conn).await?;
        if !parts.iter().any(|part| part.from <= at && at < part.to) {
            let new = between(&parts, at, self.step);
            let Partition { name, from, to } = &new;
            conn.run(&format!(
                "CREATE TABLE {name} (LIKE history INCLUDING DEFAULTS INCLUDING STORAGE);
                 CREATE UNIQUE INDEX {name}_id ON {name} (id);
                 ALTER TABLE history ATTACH PARTITION {name} FOR VALUES FROM ({from}) TO ({to})"
            ))
            .await?;
            parts.push(new);
        }
        conn.run("COMMIT").await?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = parts;
        Ok(())
    }

    /// In the transaction that `lock` began; ends it.
    pub(crate) async fn drop(&self, conn: &Conn, part: &Partition) -> Done<()> {
        self.forget();
        conn.run(&format!("SET LOCAL lock_timeout = {DROP_WAIT_MS}; DROP TABLE {}; COMMIT", part.name)).await
    }
}

/// In the transaction that `lock` began: nobody writes to the partition until it ends.
pub(crate) async fn hold_off(conn: &Conn, part: &Partition) -> Done<()> {
    let name = &part.name;
    conn.run(&format!("SET LOCAL lock_timeout = {DROP_WAIT_MS}; LOCK TABLE {name} IN EXCLUSIVE MODE")).await
}

/// Begins a transaction in which nobody else makes or drops partitions.
pub(crate) async fn lock(conn: &Conn) -> Done<()> {
    conn.run("BEGIN; SELECT 1 FROM meta WHERE key = 'history' FOR UPDATE").await
}

/// Oldest first.
pub(crate) async fn list(conn: &Conn) -> Done<Vec<Partition>> {
    let rows = conn.query(sql!("partitions"), &[]).await?;
    let mut parts = rows
        .iter()
        .map(|row| {
            let (name, bounds): (String, String) = (row.get(0), row.get(1));
            let (from, to) = read_bounds(&bounds)
                .ok_or_else(|| Trouble::inconsistent(format!("the partition {name} has the bounds {bounds}")))?;
            Ok(Partition { name, from, to })
        })
        .collect::<Done<Vec<_>>>()?;
    parts.sort_by_key(|part| part.from);
    Ok(parts)
}

/// `FOR VALUES FROM ('1763251200000000') TO ('1763337600000000')`
fn read_bounds(text: &str) -> Option<(i64, i64)> {
    let mut numbers = text.split('\'').skip(1).step_by(2);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Whole steps, as far as those that are there leave room: the step may have been another.
fn between(parts: &[Partition], at: i64, step: i64) -> Partition {
    let whole = at - at.rem_euclid(step);
    let before = parts.iter().map(|part| part.to).filter(|to| *to <= at).max();
    let after = parts.iter().map(|part| part.from).filter(|from| *from > at).min();
    let from = before.map_or(whole, |before| whole.max(before));
    let to = after.map_or(whole.saturating_add(step), |after| whole.saturating_add(step).min(after));
    Partition { name: format!("history_{from}"), from, to }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_covers_a_whole_step_or_what_is_left_of_it() {
        let part = |from, to| Partition { name: format!("history_{from}"), from, to };
        assert_eq!(between(&[], 25, 10), part(20, 30));
        assert_eq!(between(&[part(0, 23), part(28, 90)], 25, 10), part(23, 28));
        assert_eq!(between(&[part(0, 23)], 25, 100), part(23, 100));
        assert_eq!(between(&[part(30, 40)], 25, 10), part(20, 30));
    }

    #[test]
    fn bounds_are_read_as_postgresql_writes_them() {
        assert_eq!(read_bounds("FOR VALUES FROM ('17') TO ('42')"), Some((17, 42)));
        assert_eq!(read_bounds("DEFAULT"), None);
        assert_eq!(read_bounds("FOR VALUES FROM (MINVALUE) TO ('42')"), None);
    }
}
