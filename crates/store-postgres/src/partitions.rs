//! The partitions of history and of the ledger of occurrences: each covers a stretch of finish times, or of
//! planned times, is made before it is needed and dropped when all in it is old.
//!
//! What finishes does so now. Planned times may be of long ago, when many are replayed: those far from now
//! share large partitions, so that a hundred years make a hundred.
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

/// Who writes a row holds the lock of its table for milliseconds. Whoever waits longer than
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    History,
    Occurrence,
}

impl Table {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::History => "history",
            Self::Occurrence => "occurrence",
        }
    }

    /// What a partition has besides what it gets from its table.
    fn own_index(self, name: &str) -> String {
        match self {
            Self::History => format!("CREATE UNIQUE INDEX {name}_id ON {name} (id);"),
            // The key of the table is that of its partitions.
            Self::Occurrence => String::new(),
        }
    }
}

/// Planned times that are further from now than so many steps share large partitions.
const NEAR_STEPS: i64 = 32;
const STEPS_OF_FAR: i64 = 365;

/// What a new partition may cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Room {
    step: i64,
    from: i64,
    to: i64,
}

pub(crate) struct Partitions {
    pub(crate) table: Table,
    step: i64,
    known: Mutex<Vec<Partition>>,
    is_making_ahead: AtomicBool,
}

impl Partitions {
    pub(crate) fn new(table: Table, step: Span) -> Self {
        let step = step.as_micros().max(1);
        Self { table, step, known: Mutex::default(), is_making_ahead: AtomicBool::new(false) }
    }

    fn room(&self, at: i64, now: i64) -> Room {
        let (step, near) = (self.step, self.step.saturating_mul(NEAR_STEPS));
        let whole = now - now.rem_euclid(step);
        let (first_near, last_near) = (whole.saturating_sub(near), whole.saturating_add(near));
        let far = step.saturating_mul(STEPS_OF_FAR);
        match self.table {
            Table::Occurrence if at < first_near => Room { step: far, from: i64::MIN, to: first_near },
            Table::Occurrence if at >= last_near => Room { step: far, from: last_near, to: i64::MAX },
            Table::History | Table::Occurrence => Room { step, from: i64::MIN, to: i64::MAX },
        }
    }

    /// The next planned times are those after now, whatever is replayed.
    fn is_made_ahead(&self, at: i64, now: i64) -> bool {
        match self.table {
            Table::History => true,
            Table::Occurrence => at >= now && self.room(at, now).step == self.step,
        }
    }

    fn has(&self, at: i64) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().any(|part| part.from <= at && at < part.to)
    }

    /// Before rows with these times are written. Also makes the next one, in the
    /// background, so that nobody has to wait for it.
    pub(crate) async fn prepare(
        self: &Arc<Self>,
        maintenance: &Arc<Pool>,
        now: Timestamp,
        times: impl Iterator<Item = Timestamp>,
    ) -> Result<()> {
        let mut last = None;
        for time in times {
            let time = time.as_micros();
            if last == Some(time) || self.has(time) {
                last = Some(time);
                continue;
            }
            self.ensure(maintenance, time, now).await?;
            last = Some(time);
        }
        if let Some(next) = last.map(|last| last.saturating_add(self.step))
            && self.is_made_ahead(next, now.as_micros())
            && !self.has(next)
            && !self.is_making_ahead.swap(true, Ordering::Relaxed)
        {
            let (partitions, maintenance) = (self.clone(), maintenance.clone());
            tokio::spawn(async move {
                if let Err(error) = partitions.ensure(&maintenance, next, now).await {
                    let table = partitions.table.name();
                    tracing::warn!(%error, table, "the next partition could not be made ahead");
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

    pub(crate) async fn ensure(&self, maintenance: &Pool, at: i64, now: Timestamp) -> Result<()> {
        let conn = maintenance.take().await?;
        // Another server may have made it; then there is nothing to lock.
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = list(&conn, self.table).await?;
        if !self.has(at) {
            let made = self.make(&conn, at, now).await;
            if made.is_err() {
                conn.run("ROLLBACK").await?;
            }
            made?;
        }
        conn.done();
        Ok(())
    }

    async fn make(&self, conn: &Conn, at: i64, now: Timestamp) -> Done<()> {
        lock(conn).await?;
        let mut parts = list(conn, self.table).await?;
        if !parts.iter().any(|part| part.from <= at && at < part.to) {
            let table = self.table.name();
            let (from, to) = between(&parts, at, self.room(at, now.as_micros()));
            let name = format!("{table}_{from}");
            let index = self.table.own_index(&name);
            conn.run(&format!(
                "CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING STORAGE);
                 {index}
                 ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({from}) TO ({to})"
            ))
            .await?;
            parts.push(Partition { name, from, to });
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
pub(crate) async fn list(conn: &Conn, table: Table) -> Done<Vec<Partition>> {
    let rows = conn.query(sql!("partitions"), &[&table.name()]).await?;
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

/// Whole steps, as far as there is room and those that are there leave some: the step may have been another.
fn between(parts: &[Partition], at: i64, room: Room) -> (i64, i64) {
    let whole = at - at.rem_euclid(room.step);
    let before = parts.iter().map(|part| part.to).filter(|to| *to <= at).max();
    let after = parts.iter().map(|part| part.from).filter(|from| *from > at).min();
    let from = whole.max(room.from).max(before.unwrap_or(i64::MIN));
    let to = whole.saturating_add(room.step).min(room.to).min(after.unwrap_or(i64::MAX));
    (from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_covers_a_whole_step_or_what_is_left_of_it() {
        let part = |from, to| Partition { name: format!("history_{from}"), from, to };
        let room = |step| Room { step, from: i64::MIN, to: i64::MAX };
        assert_eq!(between(&[], 25, room(10)), (20, 30));
        assert_eq!(between(&[part(0, 23), part(28, 90)], 25, room(10)), (23, 28));
        assert_eq!(between(&[part(0, 23)], 25, room(100)), (23, 100));
        assert_eq!(between(&[part(30, 40)], 25, room(10)), (20, 30));
    }

    #[test]
    fn planned_times_far_from_now_share_large_partitions() {
        let day = 86_400_000_000;
        let now = 20_000 * day;
        let days = |table, at: i64| {
            let partitions = Partitions::new(table, Span::from_secs(86_400));
            let (from, to) = between(&[], at * day + 1, partitions.room(at * day + 1, now + 7));
            (from / day, to / day)
        };
        assert_eq!(days(Table::Occurrence, 20_000), (20_000, 20_001));
        assert_eq!(days(Table::Occurrence, 20_000 - 32), (19_968, 19_969));
        assert_eq!(days(Table::Occurrence, 20_000 + 31), (20_031, 20_032));
        // Those before and after have a year, or what is left of it.
        assert_eq!(days(Table::Occurrence, 20_000 - 33), (54 * 365, 19_968));
        assert_eq!(days(Table::Occurrence, 20_000 + 32), (20_032, 55 * 365));
        assert_eq!(days(Table::Occurrence, 3), (0, 365));
        let last = punctual_core::Timestamp::MAX.as_micros() / day;
        assert_eq!(days(Table::Occurrence, last), (last / 365 * 365, last / 365 * 365 + 365));
        assert_eq!(days(Table::History, 3), (3, 4), "nothing finished long ago");
    }

    #[test]
    fn bounds_are_read_as_postgresql_writes_them() {
        assert_eq!(read_bounds("FOR VALUES FROM ('17') TO ('42')"), Some((17, 42)));
        assert_eq!(read_bounds("DEFAULT"), None);
        assert_eq!(read_bounds("FOR VALUES FROM (MINVALUE) TO ('42')"), None);
    }
}
